//! Sorting of rendered files into documents: splitting, heads, hooks, order (`helm.md` 7).

use std::borrow::Cow;
use std::collections::BTreeMap;

use groundwork_go::text::is_space;
use groundwork_yaml::heads;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::decode::{Record, Shape, decode_over};
use crate::error::RenderError;

mod order;
mod split;

pub use order::{INSTALL_ORDER, UNINSTALL_ORDER, compare_for_uninstall};
pub use split::documents;

const HOOK: &str = "helm.sh/hook";
const MOST_DOCUMENTS: usize = 10_000;
const LARGEST_DOCUMENT: usize = 3 << 20;

/// A document of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Path of the template, beginning with the name of the root chart.
    pub file: String,
    pub content: String,
    /// Kind of the object; empty if the document has none.
    pub kind: String,
}

/// A document that is applied at an event of the release (`helm.md` 7.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    pub name: String,
    pub kind: String,
    pub file: String,
    pub content: String,
    pub events: Vec<Cow<'static, str>>,
    pub weight: i64,
    /// Policies as written. The list stays empty if the document names none: readers apply the
    /// default policy.
    pub delete_policies: Vec<String>,
    pub output_log_policies: Vec<String>,
}

/// Documents in the order of their installation.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub(crate) documents: Vec<Document>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) warnings: Vec<String>,
}

/// The members of a document that the sorting needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: String,
    metadata: Option<HeadMetadata>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HeadMetadata {
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

static HEAD_METADATA: Record = Record {
    qualified: "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }",
    name: "",
    field_type: "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }",
    fields: &[("name", Shape::Text), ("annotations", Shape::TextMap)],
};

static HEAD: Record = Record {
    qualified: "releaseutil.SimpleHead",
    name: "SimpleHead",
    field_type: "releaseutil.SimpleHead",
    fields: &[
        ("apiVersion", Shape::Text),
        ("kind", Shape::Text),
        ("metadata", Shape::Record(&HEAD_METADATA)),
    ],
};

/// Splits rendered files into documents, in the order of their paths.
pub(crate) fn sort(files: &BTreeMap<String, String>) -> Result<Sorted, RenderError> {
    let mut sorted = Sorted::default();
    let mut count = 0;
    for (file, content) in files {
        let name = file.rsplit('/').next().unwrap_or(file);
        if name.starts_with('_') || content.chars().all(is_space) {
            continue;
        }
        for content in split::documents(content) {
            count += 1;
            if count > MOST_DOCUMENTS {
                return Err(RenderError::TooManyDocuments(MOST_DOCUMENTS));
            }
            if content.len() > LARGEST_DOCUMENT {
                return Err(RenderError::LargeDocument { file: file.clone(), limit: LARGEST_DOCUMENT });
            }
            sorted.take(file, content)?;
        }
    }
    sorted.documents.sort_by(|a, b| order::compare(&a.kind, &b.kind));
    sorted.hooks.sort_by(|a, b| order::compare(&a.kind, &b.kind));
    Ok(sorted)
}

impl Sorted {
    fn take(&mut self, file: &str, content: &str) -> Result<(), RenderError> {
        let head =
            head(content).map_err(|message| RenderError::Manifest { file: file.to_owned(), message })?;
        let metadata = head.metadata.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let Some(events) = annotations.get(HOOK) else {
            let (file, content) = (file.to_owned(), content.to_owned());
            self.documents.push(Document { file, content, kind: head.kind });
            return Ok(());
        };
        match hook_events(events) {
            Ok(events) => self.hooks.push(Hook {
                name: metadata.name,
                kind: head.kind,
                file: file.to_owned(),
                content: content.to_owned(),
                events,
                weight: annotations.get("helm.sh/hook-weight").map_or(0, |weight| integer(weight)),
                delete_policies: words(annotations.get("helm.sh/hook-delete-policy")),
                output_log_policies: words(annotations.get("helm.sh/hook-output-log-policy")),
            }),
            Err(word) => self.warnings.push(format!("{file}: skipping unknown hook: {word:?}")),
        }
        Ok(())
    }
}

fn head(content: &str) -> Result<Head, String> {
    // A fast path: of most documents only the head has to be read.
    let is_of_head = |key: &str| HEAD.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(key));
    let skimmed = heads::members(content, is_of_head);
    if let Some(head) = skimmed.as_deref().and_then(usual_head) {
        return Ok(head);
    }
    let mut members = Map::new();
    decode_over(&mut members, skimmed.as_deref().unwrap_or(content).as_bytes(), &HEAD)?;
    // The decoder has fitted the members to their types, so the conversion cannot fail.
    Ok(serde_json::from_value(members.into()).unwrap_or_default())
}

/// Returns the head of a plain document without annotations, if its members have their usual forms:
/// words, and a block of metadata. Only its kind matters then.
fn usual_head(text: &str) -> Option<Head> {
    let is_word = |value: &str| {
        value.starts_with(|c: char| c.is_ascii_uppercase())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_version = |value: &str| {
        value.starts_with(|c: char| c.is_ascii_lowercase())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'-'))
            && value.contains(|c: char| c.is_ascii_digit())
    };
    let mut kind = None;
    let mut awaits_block = false;
    for line in text.lines() {
        let content = line.trim_start_matches(' ');
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if content.len() < line.len() {
            let (key, value) = content.split_once(':')?;
            let key = key.trim_matches('"');
            let is_name = key.eq_ignore_ascii_case("name");
            if key.eq_ignore_ascii_case("annotations") || key.starts_with('-') {
                return None;
            }
            if is_name && !value.trim_start().starts_with(|c: char| c.is_ascii_alphanumeric() || c == '"') {
                return None;
            }
            awaits_block = false;
            continue;
        }
        if std::mem::take(&mut awaits_block) {
            return None;
        }
        match content.trim_end().split_once(':')? {
            ("apiVersion", value) if is_version(value.trim_start()) => {}
            // Shorter words may be YAML's `True`, `Null` and the like, which are not texts.
            ("kind", value)
                if kind.is_none() && is_word(value.trim_start()) && value.trim_start().len() > 5 =>
            {
                kind = Some(value.trim_start().to_owned());
            }
            ("kind", value) if kind.is_none() && matches!(value.trim_start(), "Job" | "Pod" | "Role") => {
                kind = Some(value.trim_start().to_owned());
            }
            ("metadata", "") => awaits_block = true,
            _ => return None,
        }
    }
    (!awaits_block).then(|| Head { kind: kind.unwrap_or_default(), metadata: None })
}

/// Returns the events of a hook, or the first word that is not an event.
fn hook_events(text: &str) -> Result<Vec<Cow<'static, str>>, String> {
    const EVENTS: [&str; 9] = [
        "pre-install",
        "post-install",
        "pre-upgrade",
        "post-upgrade",
        "pre-delete",
        "post-delete",
        "pre-rollback",
        "post-rollback",
        "test",
    ];
    let event = |word: &str| {
        let word = word.trim_matches(is_space).to_lowercase();
        let known = if word == "test-success" { "test" } else { &word };
        EVENTS.into_iter().find(|event| *event == known).map(Cow::Borrowed).ok_or(word)
    };
    text.split(',').map(event).collect()
}

/// Reads an integer as Go's `Atoi`; any other text is 0.
fn integer(text: &str) -> i64 {
    text.parse().unwrap_or(0)
}

fn words(list: Option<&String>) -> Vec<String> {
    list.map_or_else(Vec::new, |list| {
        list.split(',').map(|word| word.trim_matches(is_space).to_lowercase()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case: the fast path gives the result of the full one, or no result.
    #[test]
    fn usual_heads() {
        let check = |text: &str, expected: Option<&str>| {
            let got = usual_head(text);
            assert_eq!(got.as_ref().map(|head| head.kind.as_str()), expected, "{text}");
            if let Some(got) = got {
                let mut members = Map::new();
                decode_over(&mut members, text.as_bytes(), &HEAD).expect("it is a head");
                let whole: Head = serde_json::from_value(members.into()).expect("it was fitted");
                assert_eq!(whole.kind, got.kind, "{text}");
                assert!(whole.metadata.unwrap_or_default().annotations.is_none(), "{text}");
            }
        };
        check(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n  labels:\n    a: b\n",
            Some("Deployment"),
        );
        check("kind: Pod\n", Some("Pod"));
        check("", Some(""));
        check("metadata:\n  labels:\n    \"k/x\": 'v'\n\n  # c\n", Some(""));
        for text in [
            "kind: True\n",
            "kind: [a]\n",
            "kind: Deployment\nkind: Service\n",
            "Kind: Deployment\n",
            "kind: Deployment\nmetadata:\n",
            "metadata:\n- a\n",
            "metadata:\n  - a: b\n",
            "metadata: {name: x}\n",
            "metadata:\n  name:\n    a: b\n",
            "metadata:\n  Annotations:\n    a: b\n",
            "metadata:\n  \"annotations\":\n    a: b\n",
            "apiVersion: 1.0\n",
        ] {
            check(text, None);
        }
    }
}
