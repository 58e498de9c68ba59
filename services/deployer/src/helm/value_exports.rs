//! Exports that come from the values of a chart (`helm.md` 10.5).

use groundwork_apply::{Export, nested, one};
use groundwork_helm::{Capabilities, values};
use groundwork_lifecycle::{OperationError, Reason};
use serde_json::{Map, Value, json};

use super::configuration::Configuration;
use super::work::Described;

/// Returns the exports that name no object. Those of `exportsFromManifests` come first.
pub(super) fn of(configuration: &Configuration) -> Vec<&Export> {
    let all = configuration.exports_from_manifests.iter().chain(&configuration.exports.exports);
    all.filter(|export| export.from_resource.is_none()).collect()
}

/// Reads the exports before anything is deployed.
///
/// # Errors
///
/// A path is not found, which no retry would change (`helm.md` 10.7, R25).
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
        // In release mode all numbers are floats. Go prints a whole float without a fraction, so
        // exports do the same.
        if let Value::Object(value) = nested(&export.key, values::without_fractions(found)) {
            values::overlay(&mut exports, value);
        }
    }
    Ok(exports)
}
