//! Installations of every shape, each with one value that reaches one object.

use anyhow::Result;
use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_api::{DataObject, Installation, Target};
use serde_json::{Value, json};

/// Group and version of the objects of users.
const API_VERSION: &str = "landscaper.gardener.cloud/v1alpha1";
/// The import of the Target.
const CLUSTER: &str = "cluster";

/// The way in which the object of a unit is brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Manifest,
    /// A manifest item of a nested Installation, which exports to its parent.
    Nested,
    Release,
    /// A chart without a release.
    Chart,
}

const SHAPES: [Shape; 4] = [Shape::Manifest, Shape::Nested, Shape::Release, Shape::Chart];

/// The name of the Installation, of its value and of its object.
pub(crate) fn name(unit: usize) -> String {
    format!("unit-{unit:03}")
}

/// A value as it is written.
pub(crate) fn text(value: u32) -> String {
    format!("v{value}")
}

/// The Target that all units share.
pub(crate) fn target(namespace: &str, kubeconfig: &str) -> Result<Target> {
    Ok(serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": "Target", "metadata": {"name": CLUSTER, "namespace": namespace},
        "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": kubeconfig}},
    }))?)
}

/// The value of a unit, which its user gives.
pub(crate) fn value(namespace: &str, unit: usize, value: u32) -> Result<DataObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": "DataObject", "metadata": {"name": name(unit), "namespace": namespace},
        "data": text(value),
    }))?)
}

/// The Installation of a unit.
///
/// # Errors
/// When its chart cannot be packed.
pub(crate) fn installation(namespace: &str, unit: usize) -> Result<Installation> {
    let name = name(unit);
    let blueprint = blueprint(SHAPES[unit % SHAPES.len()], namespace, &name)?;
    Ok(serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": "Installation",
        "metadata": {"name": name, "namespace": namespace,
            "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
            "imports": {
                "data": [{"name": "value", "dataRef": name}],
                "targets": [{"name": CLUSTER, "target": CLUSTER}],
            },
        },
    }))?)
}

fn blueprint(shape: Shape, namespace: &str, name: &str) -> Result<Value> {
    let imports = json!([
        {"name": "value", "type": "data", "schema": {"type": "string"}},
        {"name": CLUSTER, "type": "target", "targetType": "landscaper.gardener.cloud/kubernetes-cluster"},
    ]);
    let mut blueprint = json!({"apiVersion": API_VERSION, "kind": "Blueprint", "imports": imports});
    if shape == Shape::Nested {
        let leaf = self::blueprint(Shape::Manifest, namespace, name)?;
        blueprint["subinstallations"] = json!([{
            "apiVersion": API_VERSION, "kind": "InstallationTemplate", "name": "leaf",
            "blueprint": {"filesystem": {"blueprint.yaml": leaf.to_string()}},
            "imports": {
                "data": [{"name": "value", "dataRef": "value"}],
                "targets": [{"name": CLUSTER, "target": CLUSTER}],
            },
        }]);
        return Ok(blueprint);
    }
    let (item_type, config) = item(shape, namespace, name)?;
    let items = json!({"deployItems": [
        {"name": "object", "type": item_type, "target": {"import": CLUSTER}, "config": config},
        {"name": "beside", "type": "landscaper.gardener.cloud/mock", "config": {
            "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration"}},
    ]});
    blueprint["deployExecutions"] =
        json!([{"name": "default", "type": "GoTemplate", "template": items.to_string()}]);
    Ok(blueprint)
}

fn item(shape: Shape, namespace: &str, name: &str) -> Result<(&'static str, Value)> {
    if matches!(shape, Shape::Manifest | Shape::Nested) {
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
