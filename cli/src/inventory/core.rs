//! Secrets and ConfigMaps, reduced to their entries.

use groundwork_lifecycle::Entries;
use groundwork_yaml::{Content, Entry, Step};

use crate::diagnostic::Diagnostic;
use crate::input::Document;

/// Returns the entries of a Secret. `stringData` wins over `data`, as in a cluster.
pub(crate) fn secret(document: &Document, diagnostics: &mut Vec<Diagnostic>) -> Entries {
    let mut entries = base64_entries(document, "data", diagnostics);
    entries.extend(text_entries(document, "stringData", diagnostics));
    entries
}

pub(crate) fn config_map(document: &Document, diagnostics: &mut Vec<Diagnostic>) -> Entries {
    let mut entries = text_entries(document, "data", diagnostics);
    entries.extend(base64_entries(document, "binaryData", diagnostics));
    entries
}

fn text_entries(document: &Document, field: &str, diagnostics: &mut Vec<Diagnostic>) -> Entries {
    entries(document, field, diagnostics, |text| Some(text.as_bytes().to_vec()))
}

fn base64_entries(document: &Document, field: &str, diagnostics: &mut Vec<Diagnostic>) -> Entries {
    entries(document, field, diagnostics, |text| {
        let compact: String = text.split_whitespace().collect();
        data_encoding::BASE64.decode(compact.as_bytes()).ok()
    })
}

fn entries(
    document: &Document,
    field: &str,
    diagnostics: &mut Vec<Diagnostic>,
    decode: impl Fn(&str) -> Option<Vec<u8>>,
) -> Entries {
    let mut found = Entries::new();
    for Entry { key, value, .. } in members(document, field, diagnostics) {
        let bytes = match value.as_str() {
            Some(text) => decode(text).ok_or("is not base64"),
            None => Err("is not a string; quote numbers and booleans"),
        };
        match bytes {
            Ok(bytes) => {
                found.insert(key.clone(), bytes);
            }
            Err(problem) => {
                let position = document.node.locate([Step::Key(field), Step::Key(key)]);
                let message = format!("{}: {field}.{key} {problem}", document.title());
                diagnostics.push(Diagnostic::error(message).at(&document.source, position));
            }
        }
    }
    found
}

fn members<'a>(document: &'a Document, field: &str, diagnostics: &mut Vec<Diagnostic>) -> &'a [Entry] {
    let Some(node) = document.node.get(field) else { return &[] };
    match &node.content {
        Content::Mapping(entries) => entries,
        Content::Null => &[],
        _ => {
            let message = format!("{}: {field} must be a map", document.title());
            diagnostics.push(Diagnostic::error(message).at(&document.source, node.position));
            &[]
        }
    }
}
