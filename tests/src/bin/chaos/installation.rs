//! Installations of a unit, in every shape. Each one passes one value to one deployed object.

use anyhow::Result;
use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_api::{DataObject, Installation, Target};
use serde_json::{Value, json};

use crate::unit;

/// Group and version of the users' objects.
const API_VERSION: &str = "landscaper.gardener.cloud/v1alpha1";
/// Name of the Target import.
const CLUSTER: &str = "cluster";
/// Name of the export through which an Installation passes the value to its sibling.
const PASSED_ON: &str = "passed-on";

/// Way in which a unit deploys its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Manifest,
    /// Two nested Installations. One exports the value and the other imports it.
    Nested,
    Release,
    /// Chart without a Helm release.
    Chart,
    /// Two roots. One exports the value and the other imports it.
    Pair,
}

const SHAPES: [Shape; 5] = [Shape::Manifest, Shape::Nested, Shape::Release, Shape::Chart, Shape::Pair];

/// Returns the common name of the value, of the deployed object, and of the Installation that
/// imports the value.
pub(crate) fn name(unit: usize) -> String {
    format!("unit-{unit:03}")
}

/// Returns the names of the unit's roots.
pub(crate) fn roots(unit: usize) -> Vec<String> {
    let name = name(unit);
    match shape(unit) {
        Shape::Pair => vec![passed_on(&name), name],
        _ => vec![name],
    }
}

fn shape(unit: usize) -> Shape {
    SHAPES[unit % SHAPES.len()]
}

/// Returns the name of a pair's second root, which is also the name of the value that this root
/// imports.
fn passed_on(name: &str) -> String {
    format!("{name}-on")
}

/// Returns the Target that all units share.
pub(crate) fn target(namespace: &str, kubeconfig: &str) -> Result<Target> {
    Ok(serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": "Target", "metadata": {"name": CLUSTER, "namespace": namespace},
        "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": kubeconfig}},
    }))?)
}

/// Returns the DataObject with the unit's value, as the user writes it.
pub(crate) fn value(namespace: &str, unit: usize, value: u32) -> Result<DataObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": "DataObject", "metadata": {"name": name(unit), "namespace": namespace},
        "data": unit::text(value),
    }))?)
}

/// Returns the roots of a unit.
///
/// # Errors
/// Fails if the chart cannot be packed.
pub(crate) fn installations(namespace: &str, unit: usize) -> Result<Vec<Installation>> {
    let name = name(unit);
    let root = |root: &str, blueprint: &Value, value: &str, exports: &Value| -> Result<Installation> {
        let installation = json!({
            "apiVersion": API_VERSION, "kind": "Installation",
            "metadata": {"name": root, "namespace": namespace,
                "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
            "spec": {
                "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
                "imports": imports(value),
                "exports": {"data": exports},
            },
        });
        Ok(serde_json::from_value(installation)?)
    };
    let blueprint = blueprint(shape(unit), namespace, &name)?;
    if shape(unit) != Shape::Pair {
        return Ok(vec![root(&name, &blueprint, &name, &json!([]))?]);
    }
    let (next, sink) = (passed_on(&name), self::blueprint(Shape::Manifest, namespace, &name)?);
    let exports = json!([{"name": PASSED_ON, "dataRef": next}]);
    Ok(vec![root(&name, &blueprint, &name, &exports)?, root(&next, &sink, &next, &json!([]))?])
}

fn imports(value: &str) -> Value {
    json!({"data": [{"name": "value", "dataRef": value}], "targets": [{"name": CLUSTER, "target": CLUSTER}]})
}

fn blueprint(shape: Shape, namespace: &str, name: &str) -> Result<Value> {
    let text = json!({"type": "string"});
    let imports = json!([
        {"name": "value", "type": "data", "schema": text},
        {"name": CLUSTER, "type": "target", "targetType": "landscaper.gardener.cloud/kubernetes-cluster"},
    ]);
    let mut blueprint = json!({"apiVersion": API_VERSION, "kind": "Blueprint", "imports": imports});
    let items = match shape {
        Shape::Nested => {
            let source = self::blueprint(Shape::Pair, namespace, name)?;
            let sink = self::blueprint(Shape::Manifest, namespace, name)?;
            let exports = json!([{"name": PASSED_ON, "dataRef": PASSED_ON}]);
            blueprint["subinstallations"] = json!([
                nested("source", &source, "value", &exports),
                nested("sink", &sink, PASSED_ON, &json!([])),
            ]);
            return Ok(blueprint);
        }
        Shape::Pair => {
            blueprint["exports"] = json!([{"name": PASSED_ON, "type": "data", "schema": text}]);
            let template = "exports:\n  passed-on: {{ .values.deployitems.beside.value }}\n";
            blueprint["exportExecutions"] =
                json!([{"name": "default", "type": "GoTemplate", "template": template}]);
            json!([mock(&json!({"value": "{{ .imports.value }}"}))])
        }
        Shape::Manifest | Shape::Release | Shape::Chart => {
            let (item_type, config) = item(shape, namespace, name)?;
            let item =
                json!({"name": "object", "type": item_type, "target": {"import": CLUSTER}, "config": config});
            json!([item, mock(&json!({}))])
        }
    };
    let template = json!({"deployItems": items}).to_string();
    blueprint["deployExecutions"] = json!([{"name": "default", "type": "GoTemplate", "template": template}]);
    Ok(blueprint)
}

fn nested(name: &str, blueprint: &Value, value: &str, exports: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "InstallationTemplate", "name": name,
        "blueprint": {"filesystem": {"blueprint.yaml": blueprint.to_string()}},
        "imports": imports(value),
        "exports": {"data": exports},
    })
}

fn mock(export: &Value) -> Value {
    json!({"name": "beside", "type": "landscaper.gardener.cloud/mock", "config": {
        "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "export": export}})
}

fn item(shape: Shape, namespace: &str, name: &str) -> Result<(&'static str, Value)> {
    if shape == Shape::Manifest {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace}, "data": {"value": "{{ .imports.value }}"}});
        let config = json!({
            "apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
            "manifests": [{"policy": "manage", "manifest": object}],
        });
        return Ok(("landscaper.gardener.cloud/kubernetes-manifest", config));
    }
    let config = json!({
        "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "name": name, "namespace": namespace, "chart": {"archive": {"raw": chart()?}},
        "helmDeployment": shape == Shape::Release, "values": {"value": "{{ .imports.value }}"},
    });
    Ok(("landscaper.gardener.cloud/helm", config))
}

fn chart() -> Result<String> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n\
                  data: {value: \"{{ .Values.value }}\"}\n";
    for (path, text) in
        [("Chart.yaml", "apiVersion: v2\nname: unit\nversion: 0.1.0\n"), ("templates/object.yaml", object)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("unit/{path}"), text.as_bytes())?;
    }
    Ok(BASE64.encode(&builder.into_inner()?.finish()?))
}
