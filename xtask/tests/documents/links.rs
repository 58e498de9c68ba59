//! Tests that links of documents lead to existing files and headings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, ensure};

use crate::comments;
use crate::workspace;

/// Returns the targets of Markdown links in a text, without those in code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("    ") {
            continue;
        }
        // Every second part is between back-ticks.
        for prose in line.split('`').step_by(2) {
            let after = prose.split("](").skip(1);
            found.extend(after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target));
        }
    }
    found
}

/// Returns the anchors of headings: lower case, hyphens for blanks, without punctuation.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let name = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}

/// Returns a path without `..` parts.
fn resolved(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts
}

#[test]
fn every_link_leads_somewhere() -> Result<()> {
    let mut broken = Vec::new();
    for prose in comments::read(workspace())? {
        if prose.path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(workspace().join(&prose.path))?;
        for link in links(&text).into_iter().filter(|link| !link.contains(':')) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = prose.path.parent().unwrap_or(Path::new(""));
            let path = if file.is_empty() { prose.path.clone() } else { resolved(&folder.join(file)) };
            let path = workspace().join(path);
            let is_there = path.exists()
                && (anchor.is_empty()
                    || path.is_file() && anchors(&fs::read_to_string(&path)?).contains(anchor));
            if !is_there {
                broken.push(format!("{}: {link}", prose.path.display()));
            }
        }
    }
    ensure!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    Ok(())
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A `title`: 7.6, [OURS]\n[a](b.md#c), `[x](y)` ![p](q.png)\n```\n[n](o)\n```\n    [i](j)\n";
    assert_eq!(links(text), ["b.md#c", "q.png"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["a-title-76-ours"]);
}
