//! What this version does not do yet: one table for the command, the calls and the cluster. The sentence of the README comes from it.

use groundwork_api::DeployItemTemplate;

/// Something that people can write and that has no effect yet.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    /// As the README calls it.
    pub topic: &'static str,
    /// Field, and whose it is.
    pub field: &'static str,
    is_used: fn(&Written<'_>) -> bool,
}

/// What was written, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) items: &'a [DeployItemTemplate],
}

/// Everything that people can write and that is not built.
pub const GAPS: &[Gap] = &[Gap {
    topic: "reactions of deploy items to vanished clusters",
    field: "onDelete of a deploy item",
    is_used: |written| written.items.iter().any(|item| item.on_delete.is_some()),
}];

/// Topics that are refused where they are met, by whatever meets them.
const FURTHER_TOPICS: &[&str] =
    &["commands for packages on a Porch server", "package functions in containers"];

/// All topics, each once, in the order of the tables.
pub fn topics() -> Vec<&'static str> {
    let mut topics: Vec<&str> = Vec::new();
    for topic in GAPS.iter().map(|gap| gap.topic).chain(FURTHER_TOPICS.iter().copied()) {
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    topics
}

impl Gap {
    /// What people are told.
    pub fn message(&self) -> String {
        format!("{}: without effect, this version does not have {} yet", self.field, self.topic)
    }
}

/// What is left out of what was written.
pub(crate) fn left_out(written: &Written<'_>) -> Vec<String> {
    GAPS.iter().filter(|gap| (gap.is_used)(written)).map(Gap::message).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row is met by something that people can write.
    #[test]
    fn every_gap_is_told() {
        let item: DeployItemTemplate =
            serde_json::from_value(json!({"name": "a", "type": "t", "onDelete": {}})).unwrap();
        let written = Written { items: std::slice::from_ref(&item) };
        assert_eq!(left_out(&written).len(), GAPS.len());
        let written = Written { items: &[] };
        assert_eq!(left_out(&written), Vec::<String>::new());
    }

    /// The README says the same.
    #[test]
    fn the_readme_names_every_topic() {
        let readme = include_str!("../../../README.md").split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = format!("Not built yet: {}.", topics().join("; "));
        assert!(readme.contains(&sentence), "README.md lacks: {sentence}");
    }
}
