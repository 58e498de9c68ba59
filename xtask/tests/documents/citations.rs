//! Tests that citations such as "`installations.md` 7.6", "`packagevariants.md` 2.11, 5.6" or a
//! bare number in parentheses name existing sections.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::chapters::{self, Chapter, number_of, show};
use crate::comments::{self, Block, Prose};
use crate::workspace;

/// Target of a citation.
#[derive(Debug, PartialEq, Eq, Clone)]
enum Cited {
    /// Document, with `.md`.
    Document(String),
    Section(Vec<u32>),
    /// Rule by its letters and number, such as `E7`, in the document named last.
    Rule(String),
}

/// Place in which a citation is looked up.
#[derive(Debug, PartialEq, Eq, Clone)]
enum Source {
    Document(String),
    /// "section 4.8": the chapter of the crate.
    Crate,
    /// A bare number in parentheses: the only chapter that the file names.
    File,
}

/// Citation and its position in the text.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Citation {
    at: usize,
    source: Source,
    cited: Cited,
}

/// Word or punctuation mark, with its position.
type Token<'a> = (usize, &'a str);

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '*' | '%');
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(first) = text[rest..].chars().next() {
        let end = text[rest..].find(|c| !is_word(c)).map_or(text.len(), |length| rest + length);
        let word = text[rest..end].trim_end_matches('.');
        let length = if word.is_empty() { first.len_utf8() } else { word.len() };
        // Back-ticks around the name of a document make no difference.
        if !first.is_whitespace() && first != '`' {
            found.push((rest, &text[rest..rest + length]));
        }
        rest += length;
    }
    found
}

/// Words for a place within a section.
const PLACES: &[&str] = &[
    "check", "checks", "form", "forms", "item", "items", "phase", "row", "rows", "rule", "rules", "step",
    "steps", "write", "writes",
];
const JOINTS: &[&str] = &[",", ";", "and", "or", "to"];

/// Reads citations from the tokens of one block.
struct Reader<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    next: usize,
    /// Names of chapters that count without `.md` after the word "chapter".
    names: &'a [&'a str],
    found: Vec<Citation>,
}

fn citations(text: &str, names: &[&str]) -> Vec<Citation> {
    let mut reader = Reader { text, tokens: tokens(text), next: 0, names, found: Vec::new() };
    while reader.next < reader.tokens.len() {
        reader.read();
    }
    reader.found
}

impl<'a> Reader<'a> {
    fn token(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| token.1)
    }

    fn read(&mut self) {
        let (at, token) = self.tokens[self.next];
        let document = token
            .strip_suffix(".md")
            .filter(|name| !name.is_empty())
            .map_or_else(|| self.plain_name(token), Some);
        if let Some(name) = document {
            let document = format!("{}.md", name.rsplit('/').next().unwrap_or(name));
            let source = Source::Document(document.clone());
            self.add(at, &source, Cited::Document(document));
            self.next += 1;
            self.next +=
                usize::from(self.token(self.next) == "," && is_section_word(self.token(self.next + 1)));
            self.next += usize::from(is_section_word(self.token(self.next)));
            self.list(&source);
        } else if is_section_word(token) {
            self.next += 1;
            let (from, next) = (self.found.len(), self.next);
            self.list(&Source::Crate);
            // "section 4 of" refers to another document.
            if self.next > next && self.token(self.next) == "of" {
                self.found.truncate(from);
            }
        } else if token == "(" && self.may_be_bare(at) {
            self.next += 1;
            let from = self.found.len();
            self.list(&Source::File);
            if self.token(self.next) != ")" {
                self.found.truncate(from);
            }
        } else {
            self.next += 1;
        }
    }

    /// Reports whether the parenthesis at a token may have only sections in it. Calls such as
    /// `f(…)`, and numbers in back-ticks, do not count.
    fn may_be_bare(&self, at: usize) -> bool {
        let is_call = self.text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '`');
        let is_number = self.text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
        !is_call && is_number && self.token(self.next + 1).contains('.')
    }

    /// Returns the chapter in "chapter gotemplate, section 1" or "(blueprints, section 5.2)".
    fn plain_name(&self, token: &'a str) -> Option<&'a str> {
        let is_cited = self.next > 0 && self.token(self.next - 1) == "chapter"
            || self.token(self.next + 1) == "," && is_section_word(self.token(self.next + 2));
        self.names.contains(&token).then_some(token).filter(|_| is_cited)
    }

    /// Reads a list of sections, each possibly with a place within it.
    fn list(&mut self, source: &Source) {
        let mut is_first = true;
        loop {
            let joint = usize::from(!is_first && JOINTS.contains(&self.token(self.next)));
            let joint = joint + usize::from(joint > 0 && is_section_word(self.token(self.next + joint)));
            let Some(&(at, token)) = self.tokens.get(self.next + joint) else { return };
            let is_letter = token.len() == 1 && token.bytes().all(|byte| byte.is_ascii_lowercase());
            if let Some(number) = number_of(token).filter(|_| is_first || joint > 0) {
                self.add(at, source, Cited::Section(number));
            } else if is_rule(token) && matches!(source, Source::Document(_)) && joint > 0 {
                self.add(at, source, Cited::Rule(token.to_owned()));
            } else if !is_first && PLACES.contains(&token) {
                self.next += joint + 1;
                self.places();
                continue;
            } else if is_first || joint > 0 || !is_letter {
                return;
            }
            self.next += joint + 1;
            is_first = false;
        }
    }

    /// Reads what follows a word such as "steps": numbers without a point, or one word.
    fn places(&mut self) {
        let is_place = |token: &str| number_of(token).is_some_and(|number| number.len() == 1);
        self.next += usize::from(self.token(self.next).starts_with(char::is_alphanumeric));
        while JOINTS.contains(&self.token(self.next)) && is_place(self.token(self.next + 1)) {
            self.next += 2;
        }
    }

    fn add(&mut self, at: usize, source: &Source, cited: Cited) {
        self.found.push(Citation { at, source: source.clone(), cited });
    }
}

fn is_section_word(token: &str) -> bool {
    matches!(token, "section" | "sections" | "Section" | "Sections")
}

fn is_rule(token: &str) -> bool {
    let digits = token.trim_start_matches(|c: char| c.is_ascii_uppercase());
    (1..=2).contains(&(token.len() - digits.len()))
        && number_of(digits).is_some_and(|number| number.len() == 1)
}

/// Documents and chapters in which citations are looked up.
struct Library {
    chapters: BTreeMap<String, Chapter>,
    /// Names of all documents of the repository.
    documents: BTreeSet<String>,
    /// Chapter of each folder of sources: the only one that its `lib.rs` names.
    subjects: BTreeMap<String, String>,
}

impl Library {
    fn read(workspace: &Path, files: &[Prose]) -> Result<Library> {
        let chapters = chapters::read(workspace)?;
        let name = |file: &Prose| file.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_document = |file: &&Prose| file.path.extension().is_some_and(|extension| extension == "md");
        let documents = files.iter().filter(is_document).filter_map(name).collect();
        let mut library = Library { chapters, documents, subjects: BTreeMap::new() };
        for file in files.iter().filter(|file| file.path.ends_with("src/lib.rs")) {
            if let (Some(folder), Some(subject)) = (file.path.parent(), library.only_chapter(file)) {
                library.subjects.insert(folder.display().to_string(), subject);
            }
        }
        Ok(library)
    }

    fn citations(&self, block: &Block) -> Vec<Citation> {
        let names: Vec<&str> = self.chapters.keys().map(String::as_str).collect();
        citations(&block.text, &names)
    }

    fn named(&self, file: &Prose) -> BTreeSet<String> {
        let cited = file.blocks.iter().flat_map(|block| self.citations(block));
        cited.filter_map(|citation| self.chapter_name(&citation)).collect()
    }

    fn chapter_name(&self, citation: &Citation) -> Option<String> {
        let Cited::Document(document) = &citation.cited else { return None };
        let name = document.strip_suffix(".md")?;
        self.chapters.contains_key(name).then(|| name.to_owned())
    }

    fn only_chapter(&self, file: &Prose) -> Option<String> {
        let mut named = self.named(file);
        named.pop_first().filter(|_| named.is_empty())
    }

    /// Returns the chapters that citations without a name mean: that of the crate, and that of the
    /// file.
    fn subjects(&self, file: &Prose) -> [Option<String>; 2] {
        if file.path.starts_with("docs/reference") {
            let own = file.path.file_stem().map(|name| name.to_string_lossy().into_owned());
            return [own.clone(), own];
        }
        if file.path.extension().is_some_and(|extension| extension == "md") {
            return [None, None];
        }
        let of = |folder: &Path| self.subjects.get(&folder.display().to_string()).cloned();
        let of_crate = file.path.ancestors().find_map(of);
        let of_file = if self.named(file).is_empty() { of_crate.clone() } else { self.only_chapter(file) };
        [of_crate.or_else(|| of_file.clone()), of_file]
    }

    /// Returns the errors in the citations of a file, and the number of citations.
    fn check(&self, file: &Prose) -> (Vec<String>, usize) {
        let [of_crate, of_file] = self.subjects(file);
        let mut wrong = Vec::new();
        let mut count = 0;
        for block in &file.blocks {
            for citation in self.citations(block) {
                let name = match &citation.source {
                    Source::Document(document) => document.strip_suffix(".md"),
                    Source::Crate => of_crate.as_deref(),
                    Source::File => of_file.as_deref(),
                };
                let chapter = name.and_then(|name| self.chapters.get(name));
                count += usize::from(chapter.is_some());
                let Some(problem) = self.problem(&citation, name.zip(chapter)) else { continue };
                let line = block.line + block.text[..citation.at].matches('\n').count();
                wrong.push(format!("{}:{line}: {problem}", file.path.display()));
            }
        }
        (wrong, count)
    }

    fn problem(&self, citation: &Citation, chapter: Option<(&str, &Chapter)>) -> Option<String> {
        match (&citation.cited, chapter) {
            (Cited::Document(document), _) if !self.documents.contains(document) => {
                Some(format!("there is no document `{document}`"))
            }
            (Cited::Section(number), Some((name, chapter))) if !chapter.has(number) => {
                let (number, near) = (show(number), chapter.near(number));
                Some(format!("`{name}.md` has no section {number}; near it are {near}"))
            }
            (Cited::Rule(rule), Some((name, chapter))) if !chapter.names(rule) => {
                Some(format!("`{name}.md` does not have {rule}"))
            }
            _ => None,
        }
    }
}

#[test]
fn every_citation_names_a_section_that_exists() -> Result<()> {
    let files = comments::read(workspace())?;
    let library = Library::read(workspace(), &files)?;
    let mut wrong = Vec::new();
    let mut count = BTreeMap::from([("comments", 0), ("documents", 0)]);
    for file in &files {
        let (problems, looked_up) = library.check(file);
        wrong.extend(problems);
        let kind = if file.path.extension().is_some_and(|extension| extension == "md") {
            "documents"
        } else {
            "comments"
        };
        *count.entry(kind).or_default() += looked_up;
    }
    assert!(wrong.is_empty(), "{} citations lead nowhere:\n{}", wrong.len(), wrong.join("\n"));
    // Lower bounds on the counts, to notice if the reader no longer finds citations.
    assert!(count["comments"] > 800 && count["documents"] > 350, "{count:?}");
    Ok(())
}

/// Formats each citation as its source and target.
fn shown(text: &str) -> String {
    let line = |citation: Citation| {
        let document = match citation.source {
            Source::Document(name) => name,
            Source::Crate => "crate".to_owned(),
            Source::File => "file".to_owned(),
        };
        match citation.cited {
            Cited::Document(name) => format!("{name}:"),
            Cited::Section(number) => format!("{document} {}", show(&number)),
            Cited::Rule(rule) => format!("{document} {rule}"),
        }
    };
    citations(text, &["blueprints", "gotemplate"]).into_iter().map(line).collect::<Vec<_>>().join(" | ")
}

#[test]
fn citations_are_read_in_all_their_forms() {
    let table = [
        ("(`a.md` 7.6).", "a.md: | a.md 7.6"),
        ("a.md 1.1, rules 5 to 7 and 9).", "a.md: | a.md 1.1"),
        ("`a.md` 2.11, 5.6", "a.md: | a.md 2.11 | a.md 5.6"),
        ("`a.md`\n4.2, 5.1 step 6, 7.1", "a.md: | a.md 4.2 | a.md 5.1 | a.md 7.1"),
        ("`a.md` 5.1 to 5.3 say", "a.md: | a.md 5.1 | a.md 5.3"),
        ("a.md 1.6 and 1.7, b.md 1.5", "a.md: | a.md 1.6 | a.md 1.7 | b.md: | b.md 1.5"),
        ("`a.md` 2.2 phase `Init`, `b.md` 4", "a.md: | a.md 2.2 | b.md: | b.md 4"),
        ("`a.md` 8, E7, E16: all", "a.md: | a.md 8 | a.md E7 | a.md E16"),
        ("`a.md` 11, item 10: 3 levels", "a.md: | a.md 11"),
        ("`a.md` 2.4 f, 2.6", "a.md: | a.md 2.4 | a.md 2.6"),
        ("`a.md` 6.7 form 2 and 6.8", "a.md: | a.md 6.7 | a.md 6.8"),
        ("`a.md`, sections 3 and 4.5", "a.md: | a.md 3 | a.md 4.5"),
        ("`a.md` section 0, steps 3, 4 and 7).", "a.md: | a.md 0"),
        ("[a](docs/x/a.md) is short. 3.1 is", "a.md:"),
        ("chapter gotemplate, section 1", "gotemplate.md: | gotemplate.md 1"),
        ("(blueprints, section 5.2): 1.5", "blueprints.md: | blueprints.md 5.2"),
        ("of blueprints, and section 2", "crate 2"),
        ("stubs (3.3, step 2) and (2.5, 13)", "file 3.3 | file 2.5 | file 13"),
        ("(section 1.3, rule 3)", "crate 1.3"),
        ("sections 12.1, 12.3 and 12.13", "crate 12.1 | crate 12.3 | crate 12.13"),
        ("section 4 of RFC 3339, (1.5 times), (v1.2), (e.g. 1.2), f(1.5), (`1.5`), a `.md`", ""),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_wrong_citation_is_told_with_its_line_and_what_there_is() -> Result<()> {
    let chapter = "## 1 One\n### 1.1 Two\n### 1.2 Three\n| E1 |".to_owned();
    let chapters = BTreeMap::from([("a".to_owned(), Chapter::new(chapter)?)]);
    let library =
        Library { chapters, documents: BTreeSet::from(["a.md".to_owned()]), subjects: BTreeMap::new() };
    let text = "`a.md` 1.1\nand 1.7, E1, E2;\n`b.md` 3, (1.9)".to_owned();
    let file = Prose { path: "x.rs".into(), blocks: vec![Block { line: 5, text }] };
    let (wrong, count) = library.check(&file);
    let expected = [
        "x.rs:6: `a.md` has no section 1.7; near it are 1.1 Two, 1.2 Three",
        "x.rs:6: `a.md` does not have E2",
        "x.rs:7: there is no document `b.md`",
        "x.rs:7: `a.md` has no section 1.9; near it are 1.1 Two, 1.2 Three",
    ];
    assert_eq!(wrong, expected);
    assert_eq!(count, 6, "a document that exists, three sections, two rules");
    let first = library.citations(&file.blocks[0]).into_iter().next().context("nothing was read")?;
    assert_eq!(library.chapter_name(&first).as_deref(), Some("a"));
    Ok(())
}
