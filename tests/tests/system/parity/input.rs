//! Input of a rendering: objects as in a cluster, the components that they use, and the exports of
//! items.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use groundwork_tests::{System, documents};
use serde_json::{Value, json};

use super::sources::{Sources, Version};

/// Component repository in the Contexts.
pub(super) const REPOSITORY: &str = "example.org/components";

/// Kinds that a call accepts.
const KINDS: [&str; 7] =
    ["Installation", "Context", "ComponentVersionOverwrites", "DataObject", "Target", "Secret", "ConfigMap"];

#[derive(Default)]
pub(super) struct Input {
    pub(super) objects: Vec<Value>,
    pub(super) sources: Sources,
    /// Component that Installations use after overwrites, if it differs from the one that they
    /// name.
    pub(super) used: Option<Version>,
    /// Exports of items that do not configure them, by the name of the item or by its path.
    pub(super) exports: Value,
}

impl Input {
    pub(super) fn new(objects: Vec<Value>) -> Self {
        Self { objects, exports: json!({}), ..Self::default() }
    }

    pub(super) fn namespaces(&self) -> BTreeSet<&str> {
        self.objects.iter().filter_map(namespace).collect()
    }

    /// Returns the objects of a namespace except Installations, with the default Context that a
    /// cluster creates in each namespace.
    pub(super) fn others(&self, of: &str) -> Vec<Value> {
        let others = self.objects.iter().filter(|object| namespace(object) == Some(of));
        let mut others: Vec<Value> =
            others.filter(|object| object["kind"] != "Installation").cloned().collect();
        let is_default =
            |object: &&Value| object["kind"] == "Context" && object["metadata"]["name"] == "default";
        if !others.iter().any(|object| is_default(&object)) {
            others.push(json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context",
                "metadata": {"name": "default", "namespace": of},
            }));
        }
        others
    }

    /// Returns the Installations of a namespace, each after those whose exports it imports.
    pub(super) fn roots(&self, of: &str) -> Vec<Value> {
        let is_one = |object: &&Value| object["kind"] == "Installation" && namespace(object) == Some(of);
        let mut left: Vec<Value> = self.objects.iter().filter(is_one).cloned().collect();
        let mut sorted = Vec::new();
        while !left.is_empty() {
            let waits = |installation: &Value| {
                let imports = references(installation, "imports");
                left.iter().any(|other| !references(other, "exports").is_disjoint(&imports))
            };
            let next = left.iter().position(|installation| !waits(installation)).unwrap_or_default();
            sorted.push(left.remove(next));
        }
        sorted
    }

    /// Writes the objects into a folder, and the components into an archive beside them, in the
    /// forms that the command reads.
    pub(super) fn write(&self, system: &System, folder: &Path) -> Result<()> {
        let documents: Vec<String> = self.objects.iter().map(Value::to_string).collect();
        fs::write(folder.join("objects.yaml"), documents.join("\n---\n"))?;
        if self.sources.folders.is_empty() {
            return Ok(());
        }
        let context = json!({"type": "ociRegistry", "baseUrl": REPOSITORY});
        let map = json!({"repositories": [{"context": context, "directory": "components"}]});
        fs::write(folder.join("repositories.yaml"), map.to_string())?;
        let output = Command::new(system.binary("groundwork")?)
            .args(["component", "pack"])
            .args(&self.sources.folders)
            .arg("--to")
            .arg(folder.join("components"))
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

fn namespace(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

/// Returns the names of the DataObjects that an Installation imports or exports.
pub(super) fn references(installation: &Value, direction: &str) -> BTreeSet<String> {
    let data = installation["spec"][direction]["data"].as_array().into_iter().flatten();
    data.filter_map(|entry| entry["dataRef"].as_str().map(str::to_owned)).collect()
}

/// Reads the objects in the files of a folder that a call accepts, with `change` applied to each
/// text.
pub(super) fn objects_in(folder: &Path, change: impl Fn(String) -> String) -> Result<Vec<Value>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    let mut objects = Vec::new();
    for file in files.iter().map(fs::DirEntry::path) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".yaml") && !name.ends_with(".yaml.tpl") {
            continue;
        }
        let text = change(fs::read_to_string(&file)?);
        objects.extend(documents(&text).with_context(|| file.display().to_string())?);
    }
    objects.retain(|object| KINDS.iter().any(|kind| object["kind"] == *kind));
    Ok(objects)
}
