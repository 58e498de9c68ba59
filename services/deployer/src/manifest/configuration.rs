//! Configuration of manifest items, in both versions.

use groundwork_apply::{
    DeletionGroup, Drift, Exports, Manifest, ReadinessChecks, UpdateStrategy, null_is_default, problems,
    target_names,
};
use groundwork_deploy::Warning;
use groundwork_lifecycle::OperationError;
use groundwork_lifecycle::deployer::invalid_configuration;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) const API_VERSION: &str = "manifest.deployer.landscaper.gardener.cloud/v1alpha2";
const OLD_API_VERSION: &str = "manifest.deployer.landscaper.gardener.cloud/v1alpha1";
const KIND: &str = "ProviderConfiguration";

/// Configuration of a manifest item.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Configuration {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) update_strategy: UpdateStrategy,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) manifests: Vec<Manifest>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) readiness_checks: ReadinessChecks,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) exports: Exports,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) deletion_groups: Vec<DeletionGroup>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) deletion_groups_during_update: Vec<DeletionGroup>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) drift: Drift,
    /// Members that the deployer does not know.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl Configuration {
    pub(super) fn parse(config: &Value) -> Result<Self, OperationError> {
        let version = config["apiVersion"].as_str().unwrap_or_default();
        if ![API_VERSION, OLD_API_VERSION].contains(&version) || config["kind"] != KIND {
            let text = format!("spec.config must be of kind {KIND} in {API_VERSION} or {OLD_API_VERSION}");
            return Err(invalid_configuration(text));
        }
        let mut config = config.clone();
        if version == OLD_API_VERSION {
            convert(&mut config);
        }
        let mut configuration: Self = serde_json::from_value(config).map_err(|error| {
            invalid_configuration(format!(
                "spec.config is not a valid {KIND}: {}",
                crate::configuration::problem(&error)
            ))
        })?;
        for member in ["apiVersion", "kind"] {
            configuration.unknown.remove(member);
        }
        let mut problems = problems(
            &configuration.readiness_checks,
            &configuration.exports.exports,
            &[
                ("deletionGroups", &configuration.deletion_groups),
                ("deletionGroupsDuringUpdate", &configuration.deletion_groups_during_update),
            ],
        );
        problems.extend(configuration.drift.problems());
        if !problems.is_empty() {
            return Err(invalid_configuration(format!("spec.config: {}", problems.join("; "))));
        }
        for groups in [&mut configuration.deletion_groups, &mut configuration.deletion_groups_during_update] {
            if groups.is_empty() {
                *groups = DeletionGroup::defaults();
            }
        }
        Ok(configuration)
    }

    /// Returns the names of the other Targets that the configuration uses.
    pub(super) fn target_names(&self) -> Vec<&str> {
        let groups = self.deletion_groups.iter().chain(&self.deletion_groups_during_update);
        target_names(&self.readiness_checks, &self.exports.exports, groups)
    }

    /// Returns warnings about members without effect.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let mut members: Vec<String> = self.unknown.keys().cloned().collect();
        for (index, manifest) in self.manifests.iter().enumerate() {
            members.extend(manifest.unknown.keys().map(|member| format!("manifests[{index}].{member}")));
        }
        let skipped = self.exports.exports.iter().filter(|export| export.from_resource.is_none());
        members.extend(skipped.map(|export| format!("the export {}, which has no fromResource", export.key)));
        if members.is_empty() {
            return Vec::new();
        }
        let message = format!("the manifest deployer ignores {} of spec.config", members.join(", "));
        vec![Warning { reason: "ConfigurationWithoutEffect", message }]
    }
}

/// Converts the old version, which lists bare manifests.
fn convert(config: &mut Value) {
    if let Some(Value::Array(manifests)) = config.get_mut("manifests") {
        for manifest in manifests {
            *manifest = json!({"policy": "manage", "manifest": manifest.take()});
        }
    }
}

/// Returns the manifests of a configuration in either version.
///
/// # Errors
///
/// The configuration is not one of this deployer.
pub(crate) fn manifests(config: &Value) -> Result<Vec<Manifest>, OperationError> {
    Configuration::parse(config).map(|configuration| configuration.manifests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(members: Value) -> Result<Configuration, OperationError> {
        let mut config = json!({"apiVersion": API_VERSION, "kind": KIND});
        if let (Value::Object(config), Value::Object(members)) = (&mut config, members) {
            config.extend(members);
        }
        Configuration::parse(&config)
    }

    #[test]
    fn versions() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let old = Configuration::parse(
            &json!({"apiVersion": OLD_API_VERSION, "kind": KIND, "manifests": [object]}),
        )
        .unwrap();
        let new = configuration(json!({"manifests": [{"policy": "manage", "manifest": object}]})).unwrap();
        assert_eq!(old, new);
        assert_eq!((new.deletion_groups.len(), new.update_strategy), (3, UpdateStrategy::Update));
        assert!(Configuration::parse(&json!({"apiVersion": "v1", "kind": KIND})).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_without_values() {
        for (members, part) in [
            (json!({"updateStrategy": "canary"}), "a word is unknown"),
            (json!({"manifests": "canary"}), "expected a sequence"),
            (json!({"manifests": [{"policy": "manage"}]}), "`manifest` is missing"),
            (json!({"exports": {"exports": [{"key": "a..b", "jsonPath": "."}]}}), "exports.exports[0].key"),
            (
                json!({"exports": {"exports": [{"key": "a", "jsonPath": "[canary"}]}}),
                "exports.exports[0].jsonPath",
            ),
            (json!({"readinessChecks": {"custom": [{"name": "a"}]}}), "resourceSelector or labelSelector"),
            (json!({"deletionGroups": [{}]}), "deletionGroups[0]: exactly one"),
        ] {
            let error = configuration(members.clone()).unwrap_err();
            assert_eq!(error.reason.as_str(), "ProviderConfigurationInvalid");
            assert!(
                error.message.contains(part) && !error.message.contains("canary"),
                "{members}: {}",
                error.message
            );
        }
    }

    /// Members without effect lead to a warning.
    #[test]
    fn what_has_no_effect_is_told() {
        let manifest = json!({"manifest": {}, "polizy": "keep"});
        let found = configuration(json!({"manifests": [manifest], "continuousReconcile": {"every": "1h"},
            "exports": {"exports": [{"key": "a", "jsonPath": ".b"}]}}));
        let message = found.unwrap().warnings().remove(0).message;
        for part in ["continuousReconcile", "manifests[0].polizy", "the export a, which has no fromResource"]
        {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(configuration(json!({})).unwrap().warnings(), Vec::new());
    }
}
