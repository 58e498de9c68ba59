//! Prose of the repository: comments of sources, and documents.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Consecutive lines of prose, joined by line feeds.
pub(crate) struct Block {
    /// Number of the first line, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// File with its prose. The path is relative to the workspace.
pub(crate) struct Prose {
    pub(crate) path: PathBuf,
    pub(crate) blocks: Vec<Block>,
}

/// Reads the prose of every file of the repository.
pub(crate) fn read(workspace: &Path) -> Result<Vec<Prose>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(workspace.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if let Some(marks) = marks(&path) {
                let text = fs::read_to_string(workspace.join(&path))
                    .with_context(|| format!("cannot read {}", path.display()))?;
                found.push(Prose { path, blocks: blocks(&text, marks) });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Returns the mark of comments in a file; empty if the whole file is prose, `None` if the file is
/// not read.
fn marks(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "rs" | "proto" | "go" => Some("//"),
        "yaml" | "yml" | "toml" | "tsv" | "sh" => Some("#"),
        "md" => Some(""),
        _ => None,
    }
}

fn blocks(text: &str, marks: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let prose = prose(line, marks).filter(|prose| !prose.is_empty());
        match (prose, blocks.last_mut()) {
            (Some(prose), Some(block)) if goes_on => {
                block.text.push('\n');
                block.text.push_str(prose);
            }
            (Some(prose), _) => blocks.push(Block { line: index + 1, text: prose.to_owned() }),
            (None, _) => {}
        }
        goes_on = prose.is_some();
    }
    blocks
}

/// Returns the prose of one line, without the mark of a comment.
fn prose<'a>(line: &'a str, marks: &str) -> Option<&'a str> {
    if marks.is_empty() {
        return Some(line.trim());
    }
    let begins = |at: &usize| *at == 0 || line[..*at].ends_with(char::is_whitespace);
    let at = line.match_indices(marks).map(|(at, _)| at).find(begins)?;
    Some(line[at..].trim_start_matches(['/', '#', '!']).trim())
}

#[test]
fn comments_on_lines_that_follow_one_another_are_one_block() {
    let text =
        "//! One (`a.md`\n//! 4.2).\n\nuse x; // two\nlet a = \"http://b\";\n/// three\n///\n/// four\n";
    let found: Vec<_> = blocks(text, "//").into_iter().map(|block| (block.line, block.text)).collect();
    let expected = [(1, "One (`a.md`\n4.2)."), (4, "two"), (6, "three"), (8, "four")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(blocks("a: b # c\n# d\n", "#").len(), 1);
    assert_eq!(blocks("# Title\n\ntext\ntext\n", "").len(), 2);
}
