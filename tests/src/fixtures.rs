//! Manifests from other projects.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use groundwork_testkit::fixture;
use serde_json::Value;

use crate::cluster::installed_crds;
use crate::manifests::{Manifest, documents, files_below};

/// Manifests of our kinds, and files that may contain more of them.
#[derive(Clone, Debug, Default)]
pub struct Fixtures {
    pub manifests: Vec<Manifest>,
    /// Files with an object of our kinds in a form that is not YAML.
    pub unreadable: Vec<PathBuf>,
}

/// Reads the manifests in the folder of fixtures. `None` if the folder does not exist: then a note
/// is printed.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn fixtures() -> Result<Option<Fixtures>> {
    let Some(folder) = fixture("") else {
        return Ok(None);
    };
    let mut found = Fixtures::default();
    for file in files_below(&folder)? {
        let name = file.to_string_lossy();
        let is_template = name.ends_with(".tpl");
        if ![".yaml", ".yml", ".json"].iter().any(|end| name.trim_end_matches(".tpl").ends_with(end)) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let text = if is_template { fill(&text) } else { text };
        match documents(&text) {
            Ok(documents) => {
                let manifests = documents
                    .into_iter()
                    .map(|document| Manifest { file: file.clone(), document: as_new(document) });
                found.manifests.extend(manifests.filter(|manifest| manifest.plural().is_some()));
            }
            Err(_) if is_ours(&text) => found.unreadable.push(file),
            Err(_) => {}
        }
    }
    Ok(Some(found))
}

/// Reports whether a text that is not YAML contains an object of our kinds.
fn is_ours(text: &str) -> bool {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("kind: ")).map(str::trim);
    kinds.into_iter().any(|kind| installed_crds().iter().any(|crd| crd.spec.names.kind == kind))
}

/// Removes the fields that only a cluster sets. Some manifests are dumps of a cluster, with owners
/// that do not exist here.
fn as_new(mut document: Value) -> Value {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| ["name", "generateName", "labels", "annotations"].contains(&name.as_str()));
    }
    document
}

/// Replaces the variables of a shell template, `${name}`, by words that are valid everywhere. A
/// variable that is a line of its own stands for indented lines, so its word gets an indentation.
fn fill(text: &str) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((variable, rest)) = part.split_once('}') else {
            filled.push_str("${");
            filled.push_str(part);
            continue;
        };
        if filled.ends_with('\n') && (rest.is_empty() || rest.starts_with('\n')) {
            filled.push_str("          ");
        }
        filled.push_str(&variable.to_lowercase().replace('_', "-"));
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_words() {
        assert_eq!(fill("a: ${SOME_name}-x\n${config}\n"), "a: some-name-x\n          config\n");
        assert_eq!(fill("no variable: $x ${y"), "no variable: $x ${y");
    }
}
