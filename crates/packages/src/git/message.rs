//! Commit messages: a line for people, and annotations for programs (`packagevariants.md` 6.4).

use groundwork_api::Task;
use serde::{Deserialize, Serialize};

const KPT: &str = "kpt:";
const GROUNDWORK: &str = "groundwork:";

/// Annotation about a package, in the format that Porch reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Annotation {
    /// Full path of the package.
    pub package: String,
    pub workspace_name: String,
    /// `0` until the revision is approved.
    pub revision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
}

/// Annotation that only Groundwork writes, and other programs ignore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extension {
    /// Owner of the revision, so that it survives the loss of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Upstream to which a draft was updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Updated>,
    /// True for the changes of a variant that the store pushes together with the result of a task,
    /// unlike those that people save later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub made: bool,
}

/// Owner object of a package revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// Update of a draft in place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Updated {
    /// Refs of the upstream before and after the update.
    pub from: String,
    pub to: String,
    pub strategy: String,
}

/// Complete commit message.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Message {
    pub headline: String,
    pub annotations: Vec<Annotation>,
    pub extension: Option<Extension>,
}

impl Message {
    /// Parses a message. Lines with invalid JSON are skipped, since any user may write them.
    pub(crate) fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let headline = lines.next().unwrap_or_default().trim().to_owned();
        let mut message = Self { headline, ..Self::default() };
        for line in text.lines().map(str::trim_start) {
            if let Some(json) = line.strip_prefix(KPT) {
                message.annotations.extend(serde_json::from_str::<Annotation>(json));
            } else if let Some(json) = line.strip_prefix(GROUNDWORK) {
                message.extension = serde_json::from_str(json).ok().or(message.extension);
            }
        }
        message
    }

    /// Returns the text of the message.
    pub(crate) fn text(&self) -> String {
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        let mut text = format!("{}\n", self.headline);
        for (index, annotation) in self.annotations.iter().enumerate() {
            let blank = if index == 0 { "\n" } else { "" };
            text.push_str(&format!("{blank}{KPT}{}\n", json(serde_json::to_string(annotation))));
        }
        if let Some(extension) = &self.extension {
            text.push_str(&format!("{GROUNDWORK}{}\n", json(serde_json::to_string(extension))));
        }
        text
    }

    /// Returns the annotation of one package.
    pub(crate) fn of(&self, path: &str) -> Option<&Annotation> {
        self.annotations.iter().find(|found| found.package == path)
    }
}

/// Reports whether a task creates a revision, instead of changing one.
pub(crate) fn is_creation(task: &Task) -> bool {
    matches!(task.type_.as_str(), "init" | "clone" | "edit" | "upgrade")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The example in `packagevariants.md` 6.4.
    #[test]
    fn round_trip() {
        let task = json!({"type": "clone", "clone": {"upstreamRef": {"upstreamRef": {"name": "catalog.net.coredns.v4-ws"}}}});
        let message = Message {
            headline: "Creating new revision by cloning".into(),
            annotations: vec![Annotation {
                package: "dns".into(),
                workspace_name: "packagevariant-1".into(),
                revision: "0".into(),
                task: Some(serde_json::from_value(task).unwrap()),
            }],
            extension: Some(Extension {
                owner: Some(Owner {
                    kind: "PackageVariant".into(),
                    namespace: "fleet".into(),
                    name: "edge7-dns".into(),
                }),
                updated: None,
                made: false,
            }),
        };
        let text = message.text();
        assert_eq!(
            text,
            "Creating new revision by cloning\n\n\
             kpt:{\"package\":\"dns\",\"workspaceName\":\"packagevariant-1\",\"revision\":\"0\",\"task\":{\"type\":\"clone\",\
             \"clone\":{\"upstreamRef\":{\"upstreamRef\":{\"name\":\"catalog.net.coredns.v4-ws\"}}}}}\n\
             groundwork:{\"owner\":{\"kind\":\"PackageVariant\",\"namespace\":\"fleet\",\"name\":\"edge7-dns\"}}\n"
        );
        assert_eq!(Message::read(&text), message);
    }

    #[test]
    fn lines_that_are_no_json_are_passed_over() {
        let message = Message::read(
            "Hello\n\n\n  kpt:{\"package\":\"a\",\"revision\":\"3\"}\nkpt:{\ngroundwork:5\nother",
        );
        assert_eq!(message.headline, "Hello");
        assert_eq!(message.of("a").map(|found| found.revision.as_str()), Some("3"));
        assert_eq!(message.of("b"), None);
        assert_eq!(message.extension, None);
    }
}
