//! What this version does not do yet: one table for the command, the calls and the cluster. The sentence of the README comes from it.

use groundwork_api::{Blueprint, Context, DeployItemTemplate, Installation};

use crate::error::OperationError;

/// Something that people can write and that has no effect yet.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    /// As the README calls it.
    pub topic: &'static str,
    /// Field, and whose it is.
    pub field: &'static str,
    pub effect: Effect,
    /// Whether it has its effect where no cluster is.
    works_offline: bool,
    is_used: fn(&Written<'_>) -> bool,
}

/// What becomes of somebody who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The job fails: going on would pass something for done that others rely on. Names the step that says so.
    Refused { operation: &'static str, reason: &'static str },
    /// It is left out, with a warning.
    LeftOut,
}

/// What was written, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) installation: &'a Installation,
    pub(crate) context: Option<&'a Context>,
    pub(crate) blueprint: Option<&'a Blueprint>,
    pub(crate) items: &'a [DeployItemTemplate],
    pub(crate) is_offline: bool,
}

impl Gap {
    fn is_met(&self, written: &Written<'_>) -> bool {
        !(self.works_offline && written.is_offline) && (self.is_used)(written)
    }
}

const EXPORTS: &str = "exports of installations in a cluster";
const NESTED: &str = "nested installations in a cluster";
const REGISTRIES: &str = "registries";

/// Everything that people can write and that is not built.
pub const GAPS: &[Gap] = &[
    Gap {
        topic: EXPORTS,
        field: "spec.exports",
        effect: Effect::Refused { operation: "handlePhaseInit", reason: "ConstructExports" },
        works_offline: true,
        is_used: |written| {
            let spec = &written.installation.spec;
            !spec.data_exports().is_empty() || !spec.target_exports().is_empty()
        },
    },
    Gap {
        topic: EXPORTS,
        field: "spec.exportDataMappings",
        effect: Effect::LeftOut,
        works_offline: true,
        is_used: |written| !written.installation.spec.export_data_mappings.is_empty(),
    },
    Gap {
        topic: EXPORTS,
        field: "exports of the blueprint",
        effect: Effect::LeftOut,
        works_offline: true,
        is_used: |written| written.blueprint.is_some_and(|blueprint| !blueprint.exports.is_empty()),
    },
    Gap {
        topic: EXPORTS,
        field: "exportExecutions of the blueprint",
        effect: Effect::LeftOut,
        works_offline: true,
        is_used: |written| written.blueprint.is_some_and(|blueprint| !blueprint.export_executions.is_empty()),
    },
    Gap {
        topic: NESTED,
        field: "spec.optimization",
        effect: Effect::LeftOut,
        works_offline: true,
        is_used: |written| written.installation.spec.optimization.is_some(),
    },
    Gap {
        topic: "automatic reconciles",
        field: "spec.automaticReconcile",
        effect: Effect::LeftOut,
        works_offline: false,
        is_used: |written| written.installation.spec.automatic_reconcile.is_some(),
    },
    Gap {
        topic: "signatures",
        field: "verificationSignatures of the context",
        effect: Effect::LeftOut,
        works_offline: false,
        is_used: |written| written.context.is_some_and(|context| !context.verification_signatures.is_empty()),
    },
    Gap {
        topic: REGISTRIES,
        field: "registryPullSecrets of the context",
        effect: Effect::LeftOut,
        works_offline: false,
        is_used: |written| written.context.is_some_and(|context| !context.registry_pull_secrets.is_empty()),
    },
    Gap {
        topic: REGISTRIES,
        field: "configurations of the context",
        effect: Effect::LeftOut,
        works_offline: false,
        is_used: |written| written.context.is_some_and(|context| !context.configurations.is_empty()),
    },
    Gap {
        topic: "deployers other than the mock one",
        field: "onDelete of a deploy item",
        effect: Effect::LeftOut,
        works_offline: false,
        is_used: |written| written.items.iter().any(|item| item.on_delete.is_some()),
    },
];

/// Topics that are refused where they are met, by whatever meets them.
const FURTHER_TOPICS: &[&str] = &[
    "state of executions in a cluster",
    "drafts of package revisions",
    "times and durations in expressions of sets",
];

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
        match self.effect {
            Effect::Refused { .. } => {
                format!(
                    "{}: this version does not have {}; remove it to go on without",
                    self.field, self.topic
                )
            }
            Effect::LeftOut => {
                format!("{}: without effect, this version does not have {} yet", self.field, self.topic)
            }
        }
    }
}

/// The gap that ends the job, if what was written needs one.
pub(crate) fn refusal(written: &Written<'_>) -> Option<OperationError> {
    GAPS.iter().filter(|gap| gap.is_met(written)).find_map(|gap| match gap.effect {
        Effect::Refused { operation, reason } => Some(OperationError::new(operation, reason, gap.message())),
        Effect::LeftOut => None,
    })
}

/// What is left out of what was written.
pub(crate) fn left_out(written: &Written<'_>) -> Vec<String> {
    let used = GAPS.iter().filter(|gap| gap.effect == Effect::LeftOut && gap.is_met(written));
    used.map(Gap::message).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row is met by something that people can write.
    #[test]
    fn every_gap_is_told() {
        let installation: Installation = serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {
                "blueprint": {},
                "exports": {"data": [{"name": "a", "dataRef": "a"}]},
                "exportDataMappings": {"a": "b"},
                "optimization": {"hasNoSiblingImports": true},
                "automaticReconcile": {"succeededReconcile": {}},
            },
        }))
        .unwrap();
        let context: Context = serde_json::from_value(json!({
            "metadata": {"name": "default"},
            "registryPullSecrets": [{"name": "a"}],
            "configurations": {"a": 1},
            "verificationSignatures": {"a": {}},
        }))
        .unwrap();
        let blueprint: Blueprint = serde_json::from_value(json!({
            "exports": [{"name": "a", "type": "data", "schema": {}}],
            "exportExecutions": [{"name": "a", "type": "GoTemplate", "template": ""}],
        }))
        .unwrap();
        let item: DeployItemTemplate =
            serde_json::from_value(json!({"name": "a", "type": "t", "onDelete": {}})).unwrap();
        let written = Written {
            installation: &installation,
            context: Some(&context),
            blueprint: Some(&blueprint),
            items: std::slice::from_ref(&item),
            is_offline: false,
        };
        assert!(refusal(&written).unwrap().message.starts_with("spec.exports: "));
        assert_eq!(left_out(&written).len() + 1, GAPS.len());
        let plain = Installation::default();
        let written =
            Written { installation: &plain, context: None, blueprint: None, items: &[], is_offline: false };
        assert_eq!((refusal(&written), left_out(&written)), (None, Vec::new()));
    }

    /// The README says the same.
    #[test]
    fn the_readme_names_every_topic() {
        let readme = include_str!("../../../README.md").split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = format!("Not built yet: {}.", topics().join("; "));
        assert!(readme.contains(&sentence), "README.md lacks: {sentence}");
    }
}
