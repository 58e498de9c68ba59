//! Tests that the worked examples of the chapter on spiff are the files that `crates/spiff` tests
//! with.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::workspace;

/// Returns the examples of a chapter: a line that begins with `**E24**`, then the next block of
/// YAML.
fn examples(chapter: &str) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut rest = chapter;
    while let Some((_, after)) = rest.split_once("\n**E") {
        let (number, after) = after.split_once("**").context("a number without end")?;
        let (_, after) =
            after.split_once("\n```yaml\n").with_context(|| format!("E{number} has no block"))?;
        let (block, after) = after.split_once("```").with_context(|| format!("E{number} has no end"))?;
        found.insert(format!("e{number}.yaml"), block.to_owned());
        rest = after;
    }
    Ok(found)
}

#[test]
fn the_examples_of_the_chapter_on_spiff_are_what_is_tested() -> Result<()> {
    let chapter = fs::read_to_string(workspace().join("docs/reference/spiff.md"))?;
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(workspace().join("crates/spiff/tests/examples"))? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?);
    }
    let examples = examples(&chapter)?;
    let names = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&examples), names(&files));
    for (name, text) in &examples {
        assert_eq!(Some(text), files.get(name), "spiff.md and crates/spiff/tests/examples/{name} differ");
    }
    Ok(())
}

#[test]
fn examples_are_found_by_their_numbers() -> Result<()> {
    let chapter = "text\n**E01** – one\n```yaml\na: 1\n```\n\n**E02**\nmore\n```yaml\n```\n";
    let found = examples(chapter)?;
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [("e01.yaml".to_owned(), "a: 1\n".to_owned()), ("e02.yaml".to_owned(), String::new())]
    );
    assert!(examples("\n**E03** and no block").is_err());
    Ok(())
}
