//! Exports that come from the values of a chart (`helm.md` 10.5).

use groundwork_apply::{Export, nested, one};
use groundwork_helm::{Capabilities, values};
use groundwork_lifecycle::{OperationError, Reason};
use serde_json::{Map, Value, json};

use super::configuration::Configuration;
use super::work::Described;

/// Exports that name no object, those from manifests first.
pub(super) fn of(configuration: &Configuration) -> Vec<&Export> {
    let all = configuration.exports_from_manifests.iter().chain(&configuration.exports.exports);
    all.filter(|export| export.from_resource.is_none()).collect()
}

/// Their values, before anything is deployed.
///
/// # Errors
///
/// A path leads nowhere, which no further try would change (R25).
pub(super) fn read(
    configuration: &Configuration,
    tree: &Described,
    capabilities: &Capabilities,
) -> Result<Map<String, Value>, OperationError> {
    let root = json!({
        "Values": tree.values,
        "Release": {"Name": configuration.name, "Namespace": configuration.namespace, "Service": "Helm"},
        "Chart": {
            "Name": tree.name, "Version": tree.version,
            "AppVersion": tree.app_version,
        },
        "Capabilities": {
            "KubeVersion": {
                "Version": capabilities.kube_version.version, "Major": capabilities.kube_version.major,
                "Minor": capabilities.kube_version.minor,
            },
        },
    });
    let mut exports = Map::new();
    for export in of(configuration) {
        let failed =
            |message: String| OperationError::new("Reconcile", Reason::ConstructExportFromValues, message);
        let found = one(&root, &export.json_path).map_err(|error| failed(error.to_string()))?;
        let path = &export.json_path;
        let found = found.ok_or_else(|| failed(format!("the export {}: {path} is not found", export.key)))?;
        // The values of releases are floats, which nobody sees in what Go writes.
        if let Value::Object(value) = nested(&export.key, values::without_fractions(found)) {
            values::overlay(&mut exports, value);
        }
    }
    Ok(exports)
}
