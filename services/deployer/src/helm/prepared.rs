//! Data with which each round of a chart item starts, in both modes.

use std::sync::Arc;

use groundwork_api::{DeployItem, ResourceExt};
use groundwork_apply::{Cluster, OtherClusters};
use groundwork_deploy::{Round, Warning};
use groundwork_helm::{Capabilities, Release, values};
use groundwork_lifecycle::machine::Phase;
use serde_json::{Map, Value};

use super::configuration::Configuration;
use super::objects::Owner;
use super::render_only;
use super::rendering::Loaded;
use super::status::{is_named, releases};
use super::work::Input;

/// Data of a round: the item, its configuration, its clusters, and its chart.
pub(super) struct Prepared<'a> {
    pub(super) round: &'a Round<'a>,
    pub(super) configuration: Configuration,
    pub(super) cluster: Arc<Cluster>,
    pub(super) others: OtherClusters,
    pub(super) chart: Loaded,
    pub(super) capabilities: Capabilities,
    /// Values of the configuration. In release mode all numbers are floats, as in Helm.
    pub(super) values: Map<String, Value>,
    pub(super) exports: Map<String, Value>,
    pub(super) warnings: Vec<Warning>,
}

impl Prepared<'_> {
    pub(super) fn release(&self, revision: i64, is_upgrade: bool) -> Release {
        Release {
            name: self.configuration.name.clone(),
            namespace: self.configuration.namespace.clone(),
            revision,
            is_upgrade,
        }
    }

    pub(super) fn input(&self, release: Release) -> Input {
        Input {
            values: self.values.clone(),
            release,
            capabilities: self.capabilities.clone(),
            skip_schema: !self.configuration.keeps_releases(),
        }
    }

    pub(super) fn warn(&mut self, texts: impl IntoIterator<Item = String>) {
        let warnings = texts.into_iter().map(|message| Warning { reason: "ChartWarning", message });
        self.warnings.extend(warnings);
    }

    pub(super) async fn tell_adopted(&self, release: &Owner) {
        let Owner { name, namespace } = release;
        let text = format!(
            "release {name} in namespace {namespace}, which another client created, is taken over (adopt): it is \
             uninstalled with the item"
        );
        self.round.note("ReleaseAdopted", &text).await;
    }

    /// Merges the exports. Those read from objects override those from values.
    pub(super) fn all_exports(&self, from_resources: Map<String, Value>) -> Map<String, Value> {
        let mut all = self.exports.clone();
        values::overlay(&mut all, from_resources);
        all
    }
}

/// Reports whether a job has just begun. Only then an error names the next step: in later rounds,
/// the last error or the reason to wait says more.
pub(super) fn is_first(round: &Round<'_>) -> bool {
    let Some(status) = &round.item.status else { return true };
    let phase = status.phase.as_deref();
    let has_begun = [Phase::Init, Phase::InitDelete].iter().any(|first| phase == Some(first.as_str()));
    // A retry after a failed round still has the first phase, so the phase alone does not tell.
    has_begun && status.last_error.is_none()
}

pub(super) fn warnings(configuration: &Configuration, item: &DeployItem) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut tell = |message: String| warnings.push(Warning { reason: "ConfigurationWithoutEffect", message });
    if !configuration.unknown.is_empty() {
        let members: Vec<&str> = configuration.unknown.keys().map(String::as_str).collect();
        tell(format!("the helm deployer ignores {} of spec.config", members.join(", ")));
    }
    if configuration.chart.count() > 1 {
        tell("of several sources in spec.config.chart only the first counts: archive, ref, helmChartRepo, fromResource, resourceRef".to_owned());
    }
    if item.annotations().contains_key(render_only::OLD_RULES) {
        tell(format!("the annotation {} has no effect", render_only::OLD_RULES));
    }
    // This warning is reported once: the status of this round no longer marks the old release as
    // current.
    for release in releases(item).iter().filter(|release| release["current"] == true) {
        if !is_named(release, configuration) {
            let (namespace, name) = (&release["namespace"], &release["name"]);
            let message = format!(
                "the release {name} of the namespace {namespace} stays unchanged until the item is deleted"
            );
            warnings.push(Warning { reason: "HelmReleaseAbandoned", message });
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::configuration::API_VERSION;
    use super::*;

    /// Members that Landscaper's helm deployer reads and this one ignores lead to a warning. So
    /// does the annotation for Landscaper's old rules about dependencies.
    #[test]
    fn what_has_no_effect_is_told() {
        let item: DeployItem = serde_json::from_value(json!({
            "metadata": {"name": "web", "annotations": {render_only::OLD_RULES: "true"}}, "spec": {"type": "t"},
        }))
        .unwrap();
        let config = json!({
            "apiVersion": API_VERSION, "kind": "ProviderConfiguration", "name": "web", "namespace": "shop",
            "chart": {"ref": "registry.example.org/web:1.0.0", "resourceRef": "a"}, "continuousReconcile": {},
        });
        let texts: Vec<String> = warnings(&Configuration::parse(&config).unwrap(), &item)
            .into_iter()
            .map(|warning| warning.message)
            .collect();
        for part in ["continuousReconcile", "only the first counts", render_only::OLD_RULES] {
            assert!(texts.iter().any(|text| text.contains(part)), "{part}: {texts:?}");
        }
        assert_eq!(texts.len(), 3, "{texts:?}");
    }
}
