//! Tests the rules for words that a machine can check (CONTRIBUTING, "Words"), as a ratchet: a room
//! may get better, never worse.
//!
//! `words.tsv` has the number of violations of each rule in each room. `GROUNDWORK_WORDS_RECORD=1`
//! writes the current numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::comments::{self, Block};
use crate::workspace;

const RECORD: &str = "xtask/tests/documents/words.tsv";
/// Maximum columns of a comment, since editors show code in windows of this width.
const COLUMNS: usize = 100;
/// First words of sentences without a subject, or with a subject that names no thing.
const OPENINGS: [&str; 16] = [
    "What", "Who", "Whom", "Whose", "Why", "How", "Where", "Whether", "That", "Of", "Nobody", "Nothing",
    "Somebody", "Whoever", "Whatever", "None",
];

/// Violations of each rule in a room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    openings: usize,
    bare_sections: usize,
    long_lines: usize,
}

impl Counts {
    const NAMES: [&str; 3] = ["openings", "bare sections", "long lines"];

    fn as_array(self) -> [usize; 3] {
        [self.openings, self.bare_sections, self.long_lines]
    }
}

/// Returns the room of a file: the folder of its package. All documents are one room.
fn room(path: &Path) -> String {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        [first @ ("crates" | "services"), name, ..] => format!("{first}/{name}"),
        [first @ ("cli" | "xtask" | "tests" | "proto"), ..] => first.to_owned(),
        _ => "elsewhere".to_owned(),
    }
}

/// Reports whether a text is a sentence; separators and directives have fewer words.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() >= 3
}

pub(crate) fn opens_badly(block: &Block) -> bool {
    let first: String = block.text.chars().take_while(|c| c.is_alphabetic()).collect();
    is_sentence(&block.text) && OPENINGS.contains(&first.as_str())
}

/// Counts section numbers in parentheses without their chapter.
pub(crate) fn bare_sections(text: &str) -> usize {
    let is_section = |inner: &str| {
        let parts: Vec<_> = inner.split('.').collect();
        parts.len() > 1
            && parts.iter().all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
    };
    let after = text.split('(').skip(1);
    after.filter_map(|rest| rest.split_once(')')).filter(|(inner, _)| is_section(inner)).count()
}

fn count(workspace: &Path) -> Result<BTreeMap<String, Counts>> {
    let mut rooms = BTreeMap::<String, Counts>::new();
    for prose in comments::read(workspace)? {
        if prose.path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let counts = rooms.entry(room(&prose.path)).or_default();
        counts.openings += prose.blocks.iter().filter(|block| opens_badly(block)).count();
        counts.bare_sections += prose.blocks.iter().map(|block| bare_sections(&block.text)).sum::<usize>();
        let source = fs::read_to_string(workspace.join(&prose.path))?;
        let is_long = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS;
        counts.long_lines += source.lines().filter(is_long).count();
    }
    Ok(rooms)
}

fn written(rooms: &BTreeMap<String, Counts>) -> String {
    let mut text = format!("room\t{}\n", Counts::NAMES.join("\t"));
    for (room, counts) in rooms {
        let [openings, sections, lines] = counts.as_array();
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{room}\t{openings}\t{sections}\t{lines}");
    }
    text
}

fn recorded(text: &str) -> Result<BTreeMap<String, Counts>> {
    let row = |line: &str| -> Result<(String, Counts)> {
        let mut parts = line.split('\t');
        let room = parts.next().unwrap_or_default().to_owned();
        let mut next = || -> Result<usize> { Ok(parts.next().context("a number is missing")?.parse()?) };
        Ok((room, Counts { openings: next()?, bare_sections: next()?, long_lines: next()? }))
    };
    text.lines().skip(1).map(|line| row(line).with_context(|| format!("{RECORD}: {line}"))).collect()
}

#[test]
fn no_room_gets_worse() -> Result<()> {
    let found = count(workspace())?;
    let path = workspace().join(RECORD);
    if std::env::var_os("GROUNDWORK_WORDS_RECORD").is_some() {
        fs::write(&path, written(&found))?;
    }
    let allowed = recorded(&fs::read_to_string(&path)?)?;
    let mut rises = Vec::new();
    let none = Counts::default();
    for (room, found) in &found {
        let allowed = allowed.get(room).unwrap_or(&none);
        for ((name, found), allowed) in Counts::NAMES.iter().zip(found.as_array()).zip(allowed.as_array()) {
            if found > allowed {
                rises.push(format!("{room}: {found} {name}, and {allowed} are allowed"));
            }
        }
    }
    ensure!(
        rises.is_empty(),
        "{}\nReword what is new as CONTRIBUTING.md says. GROUNDWORK_WORDS_RECORD=1 writes down what got better.",
        rises.join("\n")
    );
    Ok(())
}

#[test]
fn rules_are_found_in_comments() {
    let block = |text: &str| Block { line: 1, text: text.to_owned() };
    assert!(opens_badly(&block("What a caller may get.")));
    assert!(!opens_badly(&block("Permission that a caller needs.")));
    assert!(!opens_badly(&block("What next?")));
    assert!(!opens_badly(&block("Whatsoever is longer than the word.")));
    assert_eq!(bare_sections("as it stands (5.4), and (installations.md 7.6) or (12.3.1)"), 2);
    assert_eq!(bare_sections("(1), (a.b) and (5."), 0);
    let rooms = [("crates/a".to_owned(), Counts { openings: 1, bare_sections: 2, long_lines: 3 })].into();
    assert_eq!(recorded(&written(&rooms)).unwrap(), rooms);
}
