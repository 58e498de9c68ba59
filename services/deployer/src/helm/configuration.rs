//! Configuration of helm items (`installations.md` 7.10, `helm.md` 10.1).

use groundwork_apply::{
    DeletionGroup, Drift, Export, Exports, ReadinessChecks, ReadinessRules, UpdateStrategy, null_is_default,
    problems, target_names,
};
use groundwork_helm::check_release_name;
use groundwork_lifecycle::OperationError;
use groundwork_lifecycle::deployer::invalid_configuration;
use serde::Deserialize;
use serde_json::{Map, Value};

pub(super) const API_VERSION: &str = "helm.deployer.landscaper.gardener.cloud/v1alpha1";
const KIND: &str = "ProviderConfiguration";

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Configuration {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) chart: ChartSource,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) namespace: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) create_namespace: bool,
    /// Takes over a release of this name that the item did not make.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) adopt: bool,
    #[serde(default)]
    pub(super) values: Value,
    #[serde(default)]
    pub(super) helm_deployment: Option<bool>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) helm_deployment_config: DeploymentConfig,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) update_strategy: UpdateStrategy,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) readiness_checks: ReadinessChecks,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) exports: Exports,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) exports_from_manifests: Vec<Export>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) deletion_groups: Vec<DeletionGroup>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) deletion_groups_during_update: Vec<DeletionGroup>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) drift: Drift,
    /// Members that the deployer does not know.
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

/// Source of a chart (`helm.md` 1). If several are given, the first one counts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChartSource {
    #[serde(default)]
    pub(super) archive: Option<Archive>,
    #[serde(default, rename = "ref")]
    pub(super) reference: Option<String>,
    #[serde(default)]
    pub(super) helm_chart_repo: Option<ChartRepository>,
    #[serde(default)]
    pub(super) from_resource: Option<Value>,
    #[serde(default)]
    pub(super) resource_ref: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Archive {
    #[serde(default)]
    pub(super) raw: Option<String>,
    #[serde(default)]
    pub(super) remote: Option<Remote>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Remote {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) url: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChartRepository {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) helm_chart_repo_url: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) helm_chart_name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) helm_chart_version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct DeploymentConfig {
    #[serde(default, deserialize_with = "null_is_default")]
    install: Map<String, Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    upgrade: Map<String, Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    uninstall: Map<String, Value>,
}

/// Options of one operation in release mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OperationOptions {
    pub(super) atomic: bool,
    pub(super) force: bool,
    pub(super) skip_schema: bool,
    pub(super) take_ownership: bool,
    pub(super) wait: bool,
    pub(super) timeout: Option<std::time::Duration>,
}

const OF_INSTALL: [&str; 6] = ["atomic", "force", "skipSchemaValidation", "takeOwnership", "timeout", "wait"];
const OF_UNINSTALL: [&str; 2] = ["timeout", "wait"];

impl DeploymentConfig {
    pub(super) fn install(&self) -> OperationOptions {
        options(&self.install)
    }

    pub(super) fn upgrade(&self) -> OperationOptions {
        options(&self.upgrade)
    }

    pub(super) fn uninstall(&self) -> OperationOptions {
        options(&self.uninstall)
    }

    fn problems(&self) -> Vec<String> {
        let parts = [
            ("install", &self.install, &OF_INSTALL[..]),
            ("upgrade", &self.upgrade, &OF_INSTALL[..]),
            ("uninstall", &self.uninstall, &OF_UNINSTALL[..]),
        ];
        let of = |(part, members, supported): &(&str, &Map<String, Value>, &[&str])| {
            let mut problems = Vec::new();
            for (name, value) in *members {
                let path = format!("helmDeploymentConfig.{part}");
                if !supported.contains(&name.as_str()) {
                    problems.push(format!(
                        "{path}: Unsupported value: {name:?}: supported values: {}",
                        supported.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
                    ));
                } else if name == "timeout" && duration(value).is_none() {
                    problems.push(format!("{path}.timeout: must be a duration such as 5m"));
                } else if name != "timeout" && !value.is_boolean() {
                    problems.push(format!("{path}.{name}: must be true or false"));
                }
            }
            problems
        };
        parts.iter().flat_map(of).collect()
    }
}

fn duration(value: &Value) -> Option<std::time::Duration> {
    value.as_str()?.parse::<groundwork_api::Duration>().ok()?.to_std()
}

fn options(members: &Map<String, Value>) -> OperationOptions {
    let is = |name: &str| members.get(name).and_then(Value::as_bool).unwrap_or_default();
    OperationOptions {
        atomic: is("atomic"),
        force: is("force"),
        skip_schema: is("skipSchemaValidation"),
        take_ownership: is("takeOwnership"),
        // `atomic` implies `wait`: a rollback needs to know that the operation failed.
        wait: is("wait") || is("atomic"),
        timeout: members.get("timeout").and_then(duration).filter(|timeout| !timeout.is_zero()),
    }
}

impl Configuration {
    /// Parses the configuration of an item.
    ///
    /// # Errors
    ///
    /// All problems at once. The message quotes no value.
    pub(super) fn parse(config: &Value) -> Result<Self, OperationError> {
        if config["apiVersion"] != API_VERSION || config["kind"] != KIND {
            return Err(invalid_configuration(format!(
                "spec.config must be of kind {KIND} in {API_VERSION}"
            )));
        }
        let mut configuration: Self = serde_json::from_value(config.clone()).map_err(|error| {
            invalid_configuration(format!(
                "spec.config is not a valid {KIND}: {}",
                crate::configuration::problem(&error)
            ))
        })?;
        for member in ["apiVersion", "kind"] {
            configuration.unknown.remove(member);
        }
        let problems = configuration.problems();
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

    /// Reports whether the item is in release mode. Otherwise the chart is rendered and applied.
    pub(super) fn keeps_releases(&self) -> bool {
        self.helm_deployment.unwrap_or(true)
    }

    /// Returns the readiness rules of the item.
    pub(super) fn rules(&self) -> ReadinessRules {
        self.readiness_checks.rules.unwrap_or_default()
    }

    /// Returns all exports that read objects. `exportsFromManifests` come last (`helm.md` 10.5).
    pub(super) fn exports_from_resources(&self) -> Vec<Export> {
        self.exports.exports.iter().chain(&self.exports_from_manifests).cloned().collect()
    }

    /// Returns the names of the other Targets that the configuration uses.
    pub(super) fn target_names(&self) -> Vec<&str> {
        let exports = self.exports.exports.iter().chain(&self.exports_from_manifests);
        let groups = self.deletion_groups.iter().chain(&self.deletion_groups_during_update);
        target_names(&self.readiness_checks, exports, groups)
    }

    fn problems(&self) -> Vec<String> {
        let mut found = problems(
            &self.readiness_checks,
            &self.exports_from_resources(),
            &[
                ("deletionGroups", &self.deletion_groups),
                ("deletionGroupsDuringUpdate", &self.deletion_groups_during_update),
            ],
        );
        found.extend(self.drift.problems());
        found.extend(self.helm_deployment_config.problems());
        found.extend(self.chart.problem());
        for (member, text) in [("name", &self.name), ("namespace", &self.namespace)] {
            if text.is_empty() {
                found.push(format!("{member}: must not be empty"));
            }
        }
        if !self.name.is_empty() {
            found.extend(check_release_name(&self.name).err().map(|error| error.to_string()));
        }
        if !self.values.is_null() && !self.values.is_object() {
            found.push("values: must be an object".to_owned());
        }
        if matches!(self.update_strategy, UpdateStrategy::Merge | UpdateStrategy::MergeOverwrite) {
            found.push("updateStrategy: must be update or patch".to_owned());
        }
        let mut keys: Vec<&str> =
            self.exports_from_manifests.iter().map(|export| export.key.as_str()).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            found.push("exportsFromManifests: a key occurs twice".to_owned());
        }
        found
    }
}

impl ChartSource {
    fn problem(&self) -> Option<String> {
        let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if let Some(archive) = &self.archive {
            let has_none =
                !is_given(&archive.raw) && archive.remote.as_ref().is_none_or(|remote| remote.url.is_empty());
            return has_none.then(|| "chart.archive: no chart was provided".to_owned());
        }
        let has_one = is_given(&self.reference)
            || is_given(&self.resource_ref)
            || self.helm_chart_repo.is_some()
            || self.from_resource.as_ref().is_some_and(|value| !value.is_null());
        (!has_one).then(|| {
            "chart: Required value: must not be empty: either ref, fromResource, helmChartRepo or resourceRef must be set"
                .to_owned()
        })
    }

    /// Returns the number of sources given. More than one leads to a warning.
    pub(super) fn count(&self) -> usize {
        [
            self.archive.is_some(),
            self.reference.is_some(),
            self.helm_chart_repo.is_some(),
            self.from_resource.is_some(),
            self.resource_ref.is_some(),
        ]
        .into_iter()
        .filter(|is_given| *is_given)
        .count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(members: Value) -> Result<Configuration, OperationError> {
        let mut config = json!({"apiVersion": API_VERSION, "kind": KIND, "name": "web", "namespace": "shop",
            "chart": {"archive": {"raw": "H4sI"}}});
        if let (Value::Object(config), Value::Object(members)) = (&mut config, members) {
            config.extend(members);
        }
        Configuration::parse(&config)
    }

    #[test]
    fn defaults() {
        let configuration = parsed(json!({})).unwrap();
        assert!(configuration.keeps_releases() && configuration.deletion_groups.len() == 3);
        assert_eq!(configuration.helm_deployment_config.install(), OperationOptions::default());
        let with = parsed(
            json!({"helmDeployment": false, "helmDeploymentConfig": {"install": {"atomic": true, "timeout": "2m"}}}),
        );
        let with = with.unwrap();
        assert!(!with.keeps_releases());
        let install = with.helm_deployment_config.install();
        assert!(install.wait && install.timeout == Some(std::time::Duration::from_secs(120)));
    }

    #[test]
    fn all_that_is_wrong_is_told_without_values() {
        for (members, part) in [
            (json!({"name": "", "namespace": null}), "name: must not be empty; namespace: must not be empty"),
            (json!({"name": "Web"}), "invalid release name"),
            (json!({"values": ["canary"]}), "values: must be an object"),
            (json!({"chart": null}), "chart: Required value"),
            (json!({"chart": {"archive": {}}}), "no chart was provided"),
            (json!({"updateStrategy": "merge"}), "updateStrategy: must be update or patch"),
            (
                json!({"helmDeploymentConfig": {"install": {"canary": 1}}}),
                "helmDeploymentConfig.install: Unsupported value",
            ),
            (
                json!({"helmDeploymentConfig": {"uninstall": {"wait": "yes"}}}),
                "uninstall.wait: must be true or false",
            ),
            (
                json!({"helmDeploymentConfig": {"upgrade": {"timeout": "soon"}}}),
                "timeout: must be a duration",
            ),
            (
                json!({"exportsFromManifests": [{"key": "a", "jsonPath": ".b"}, {"key": "a", "jsonPath": ".c"}]}),
                "a key occurs twice",
            ),
        ] {
            let message = parsed(members.clone()).unwrap_err().message;
            assert!(message.contains(part), "{members}: {message}");
        }
    }
}
