//! Reads the chapters of `docs/reference` and their sections.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Chapter: its text, and the title of each numbered section.
pub(crate) struct Chapter {
    pub(crate) text: String,
    sections: BTreeMap<Vec<u32>, String>,
}

/// Reads all chapters by name, without `.md`. The index of the folder is not a chapter.
pub(crate) fn read(workspace: &Path) -> Result<BTreeMap<String, Chapter>> {
    let folder = workspace.join("docs/reference");
    let mut chapters = BTreeMap::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "md") && name != "README" {
            let text = fs::read_to_string(&path)?;
            chapters.insert(name.clone(), Chapter::new(text).with_context(|| format!("chapter {name}"))?);
        }
    }
    Ok(chapters)
}

impl Chapter {
    /// Parses a chapter. Returns an error if two sections have the same number.
    pub(crate) fn new(text: String) -> Result<Chapter> {
        let mut sections = BTreeMap::new();
        let mut fenced = false;
        for line in text.lines() {
            fenced ^= line.trim_start().starts_with("```");
            let title = line.trim_start_matches('#');
            let Some((number, title)) = title.strip_prefix(' ').and_then(|title| title.split_once(' '))
            else {
                continue;
            };
            let Some(number) = number_of(number.strip_suffix('.').unwrap_or(number)) else { continue };
            if !fenced && line.starts_with("##") {
                let shown = show(&number);
                ensure!(sections.insert(number, title.to_owned()).is_none(), "two sections {shown}");
            }
        }
        Ok(Chapter { text, sections })
    }

    pub(crate) fn has(&self, number: &[u32]) -> bool {
        self.sections.contains_key(number)
    }

    /// Reports whether the text has a rule such as `E7` or `V12` as a word of its own.
    pub(crate) fn names(&self, rule: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric();
        self.text.match_indices(rule).any(|(at, _)| {
            !self.text[..at].ends_with(is_part) && !self.text[at + rule.len()..].starts_with(is_part)
        })
    }

    /// Returns the sections beside and above one that does not exist.
    pub(crate) fn near(&self, number: &[u32]) -> String {
        let mut parent = &number[..number.len().saturating_sub(1)];
        loop {
            let beside = |other: &[u32]| other.starts_with(parent) && other.len() == parent.len() + 1;
            let found = self.sections.iter().filter(|(other, _)| beside(other));
            let found: Vec<String> = found.map(|(other, title)| format!("{} {title}", show(other))).collect();
            if !found.is_empty() || parent.is_empty() {
                return found.join(", ");
            }
            parent = &parent[..parent.len() - 1];
        }
    }
}

/// Parses `4.8` into numbers; `None` for any other text.
pub(crate) fn number_of(text: &str) -> Option<Vec<u32>> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').map(|part| if is_number(part) { part.parse().ok() } else { None }).collect()
}

pub(crate) fn show(number: &[u32]) -> String {
    number.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[test]
fn sections_are_numbered_headings_outside_of_examples() -> Result<()> {
    let text =
        "# Title\n## 1. One\n### 1.2 Two\n```yaml\n## 3 comment\n```\n##### 1.2.1 `x` [O]\n## Notes\nE7: no.";
    let chapter = Chapter::new(text.to_owned())?;
    for (number, exists) in [("1", true), ("1.2", true), ("1.2.1", true), ("3", false), ("1.3", false)] {
        assert_eq!(chapter.has(&number_of(number).unwrap_or_default()), exists, "{number}");
    }
    assert_eq!(chapter.near(&[1, 9]), "1.2 Two");
    assert_eq!(chapter.near(&[7, 1, 4]), "1 One");
    assert!(chapter.names("E7") && !chapter.names("E"));
    assert!(Chapter::new("## 1 a\n## 1. b".to_owned()).is_err());
    assert_eq!(number_of("1.x"), None);
    Ok(())
}
