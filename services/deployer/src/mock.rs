//! The mock deployer: touches no cluster and reports the phase, status and exports that the item's
//! configuration gives (`installations.md` 7.8).

use async_trait::async_trait;
use groundwork_api::{AnyJson, DeployItem};
use groundwork_deploy::{Deployer, Failure, Removal as Removed, Round, RoundOutcome, Step, Warning};
use groundwork_lifecycle::OperationError;
use groundwork_lifecycle::deployer::{invalid_configuration, missing_configuration};
use groundwork_lifecycle::machine::Phase;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Type of mock items.
pub(crate) use groundwork_lifecycle::deployer::MOCK_TYPE as TYPE;
const API_VERSION: &str = "mock.deployer.landscaper.gardener.cloud/v1alpha1";
const KIND: &str = "ProviderConfiguration";

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    api_version: String,
    kind: String,
    phase: Option<String>,
    initial_phase: Option<String>,
    provider_status: Option<Value>,
    export: Option<Map<String, Value>>,
    delete_phase: Option<String>,
    /// Members that this deployer does not know.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// Deployer of mock items.
#[derive(Debug)]
pub(crate) struct MockDeployer;

#[async_trait]
impl Deployer for MockDeployer {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    /// Returns false: an item whose configuration keeps it in a phase stays there for ever.
    fn has_timeout(&self) -> bool {
        false
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let plan = install(round.item)?;
        let warnings = match plan.without_effect.as_slice() {
            [] => Vec::new(),
            members => {
                let members = members.join(", ");
                let message = format!("the mock deployer ignores {members} of spec.config");
                vec![Warning { reason: "ConfigurationWithoutEffect", message }]
            }
        };
        let outcome = RoundOutcome::Phase(plan.phase);
        Ok(Step { outcome, provider_status: plan.provider_status, exports: plan.export, warnings })
    }

    async fn delete(&self, round: &Round<'_>) -> Result<Removed, Failure> {
        Ok(match remove(round.item) {
            Removal::Done => Removed::Done,
            Removal::Stay(phase) => Removed::Phase(phase),
        })
    }
}

/// Result of a job of an item.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    /// Phase to report; `None` keeps the current one.
    phase: Option<String>,
    provider_status: Option<AnyJson>,
    export: Option<Map<String, Value>>,
    /// Members of the configuration that have no effect.
    without_effect: Vec<String>,
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Removal {
    Done,
    /// The item stays in this phase.
    Stay(String),
}

/// Returns the result for an item that is not being deleted.
///
/// # Errors
///
/// The configuration cannot be used. The message names the problem and no value.
fn install(item: &DeployItem) -> Result<Plan, OperationError> {
    let configuration = configuration(item)?;
    let current = item.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let is_first = current.is_empty() || current == Phase::Init.as_str();
    let phase = match (configuration.phase, configuration.initial_phase) {
        (Some(phase), _) => Some(phase),
        (None, Some(initial)) => is_first.then_some(initial),
        (None, None) => Some(Phase::Succeeded.into()),
    };
    Ok(Plan {
        phase,
        provider_status: configuration.provider_status.map(AnyJson::from),
        export: configuration.export,
        without_effect: configuration.unknown.into_iter().map(|(member, _)| member).collect(),
    })
}

/// Returns the result for an item that is being deleted. An unreadable configuration does not block
/// the deletion.
fn remove(item: &DeployItem) -> Removal {
    match configuration(item).ok().and_then(|configuration| configuration.delete_phase) {
        None => Removal::Done,
        Some(phase) => Removal::Stay(phase),
    }
}

fn configuration(item: &DeployItem) -> Result<Configuration, OperationError> {
    let config = item.spec.config.get().ok_or_else(missing_configuration)?;
    let configuration: Configuration = serde_json::from_value(config.clone()).map_err(|error| {
        invalid_configuration(format!(
            "spec.config is not a valid {KIND}: {}",
            crate::configuration::problem(&error)
        ))
    })?;
    for (member, written, wanted) in
        [("apiVersion", &configuration.api_version, API_VERSION), ("kind", &configuration.kind, KIND)]
    {
        if written != wanted {
            return Err(invalid_configuration(format!("spec.config.{member} must be {wanted}")));
        }
    }
    for (member, phase, allowed) in [
        ("phase", &configuration.phase, &PHASES[..]),
        ("initialPhase", &configuration.initial_phase, &PHASES[..]),
        ("deletePhase", &configuration.delete_phase, &DELETE_PHASES[..]),
    ] {
        if phase.as_deref().is_some_and(|phase| !allowed.contains(&phase)) {
            let message = format!("spec.config.{member} must be one of {}", allowed.join(", "));
            return Err(invalid_configuration(message));
        }
    }
    // The CRD declares the provider status as an embedded object, for which the API server requires
    // both members.
    let is_object = |status: &Value| status["apiVersion"].is_string() && status["kind"].is_string();
    if configuration.provider_status.as_ref().is_some_and(|status| !is_object(status)) {
        return Err(invalid_configuration(
            "spec.config.providerStatus must be an object with apiVersion and kind",
        ));
    }
    Ok(configuration)
}

const PHASES: [&str; 8] = [
    Phase::Init.as_str(),
    Phase::Progressing.as_str(),
    Phase::Completing.as_str(),
    Phase::Succeeded.as_str(),
    Phase::Failed.as_str(),
    Phase::InitDelete.as_str(),
    Phase::Deleting.as_str(),
    Phase::DeleteFailed.as_str(),
];

/// Phases that `deletePhase` may give: the deletion fails or takes its time.
const DELETE_PHASES: [&str; 2] = [Phase::DeleteFailed.as_str(), Phase::Deleting.as_str()];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(config: &Value, phase: &str) -> DeployItem {
        let mut config = config.clone();
        if let Some(members) = config.as_object_mut() {
            members.entry("apiVersion").or_insert(json!(API_VERSION));
            members.entry("kind").or_insert(json!(KIND));
        }
        let spec = json!({"type": TYPE, "config": config});
        serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
    }

    fn phase_of(config: &Value, current: &str) -> Option<String> {
        install(&item(config, current)).unwrap().phase
    }

    #[test]
    fn phases() {
        let succeeded = Some("Succeeded".to_owned());
        assert_eq!(phase_of(&json!({}), "Init"), succeeded);
        assert_eq!(phase_of(&json!({"phase": "Failed"}), "Init"), Some("Failed".into()));
        assert_eq!(phase_of(&json!({"phase": "Succeeded", "initialPhase": "Failed"}), "Init"), succeeded);
        assert_eq!(phase_of(&json!({"initialPhase": "Progressing"}), "Init"), Some("Progressing".into()));
        assert_eq!(phase_of(&json!({"initialPhase": "Progressing"}), "Progressing"), None);
    }

    /// Unknown members lead to a warning.
    #[test]
    fn unknown_members_are_named() {
        let config = json!({"phase": "Succeeded", "continuousReconcile": {"every": "1h"}, "pahse": "Failed"});
        assert_eq!(install(&item(&config, "Init")).unwrap().without_effect, ["continuousReconcile", "pahse"]);
        assert_eq!(install(&item(&json!({}), "Init")).unwrap().without_effect, Vec::<String>::new());
    }

    #[test]
    fn bad_configurations_are_named_without_their_values() {
        let message = |config: &Value| {
            let error = install(&item(config, "Init")).unwrap_err();
            (error.reason.to_string(), error.message)
        };
        assert_eq!(message(&Value::Null).0, "ProviderConfigurationMissing");
        let secret = json!("hunter2");
        for (config, part) in [
            (secret.clone(), "expected"),
            (json!({"kind": "hunter2"}), "spec.config.kind must be"),
            (json!({"phase": "hunter2"}), "spec.config.phase must be one of"),
            (json!({"export": "hunter2"}), "expected a map"),
            (json!({"providerStatus": {"kind": "hunter2"}}), "with apiVersion and kind"),
            (json!({"deletePhase": "Succeeded"}), "must be one of DeleteFailed, Deleting"),
        ] {
            let (reason, message) = message(&config);
            assert_eq!(reason, "ProviderConfigurationInvalid");
            assert!(message.contains(part) && !message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn removals() {
        assert_eq!(remove(&item(&json!({"phase": "Failed"}), "InitDelete")), Removal::Done);
        assert_eq!(
            remove(&item(&json!({"deletePhase": "DeleteFailed"}), "")),
            Removal::Stay("DeleteFailed".into())
        );
        assert_eq!(remove(&item(&json!("broken"), "")), Removal::Done);
    }
}
