//! Components as folders, packed for the command and inlined into requests for calls.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use groundwork_tests::files_below;
use groundwork_yaml as yaml;
use serde_json::{Value, json};
use tempfile::TempDir;

const DESCRIPTOR: &str = "component-descriptor.yaml";
/// Default folder of a source's blueprint.
const BLUEPRINT: &str = "blueprint";

/// Name and version of a component.
pub(super) type Version = (String, String);

struct Source {
    version: Version,
    /// Descriptor as in an archive, with accesses in place of inputs.
    descriptor: Value,
    /// Source folders of the resources, by resource name.
    folders: HashMap<String, PathBuf>,
}

#[derive(Default)]
pub(super) struct Sources {
    sources: Vec<Source>,
    /// Input folders of `component pack`.
    pub(super) folders: Vec<PathBuf>,
    /// Temporary folders, deleted with this value.
    written: Vec<TempDir>,
}

impl Sources {
    /// Adds a folder with a descriptor and the content of its resources.
    pub(super) fn add(&mut self, folder: &Path) -> Result<()> {
        let mut descriptor: Value = yaml::from_str(&fs::read_to_string(folder.join(DESCRIPTOR))?)?;
        let mut folders = HashMap::new();
        for resource in descriptor["component"]["resources"].as_array_mut().into_iter().flatten() {
            if resource.get("access").is_some() {
                continue;
            }
            let members = resource.as_object_mut().context("a resource")?;
            let input = members.remove("input").unwrap_or_default();
            let name = members["name"].as_str().unwrap_or_default().to_owned();
            folders.insert(name, folder.join(input["path"].as_str().unwrap_or(BLUEPRINT)));
            resource["access"] = json!({"type": "localBlob", "localReference": "unread"});
        }
        self.sources.push(Source { version: version_of(&descriptor), descriptor, folders });
        self.folders.push(folder.to_owned());
        Ok(())
    }

    /// Adds a temporary folder.
    ///
    /// `fill` writes the content and returns the descriptor.
    pub(super) fn write(&mut self, fill: impl FnOnce(&Path) -> Result<Value>) -> Result<()> {
        let folder = TempDir::new()?;
        let descriptor = fill(folder.path())?;
        fs::write(folder.path().join(DESCRIPTOR), descriptor.to_string())?;
        self.add(folder.path())?;
        self.written.push(folder);
        Ok(())
    }

    /// Returns the descriptor, with the descriptors of all its references in their labels
    /// (`components.md` 4.4).
    pub(super) fn inline(&self, version: &Version) -> Option<Value> {
        let mut descriptor = self.find(version)?.descriptor.clone();
        for reference in descriptor["component"]["componentReferences"].as_array_mut().into_iter().flatten() {
            let text = |member: &str| reference[member].as_str().unwrap_or_default().to_owned();
            let nested = self.inline(&(text("componentName"), text("version")));
            let mut labels = reference["labels"].as_array().cloned().unwrap_or_default();
            labels.extend(nested.map(
                |nested| json!({"name": "landscaper.gardener.cloud/component-descriptor", "value": nested}),
            ));
            reference["labels"] = labels.into();
        }
        Some(descriptor)
    }

    /// Returns the files of a resource by their paths in its folder.
    pub(super) fn files(&self, version: &Version, resource: &str) -> Result<HashMap<String, Vec<u8>>> {
        let Some(folder) = self.find(version).and_then(|source| source.folders.get(resource)) else {
            return Ok(HashMap::new());
        };
        let file = |path: PathBuf| Ok((path.strip_prefix(folder)?.display().to_string(), fs::read(&path)?));
        files_below(folder)?.into_iter().map(file).collect()
    }

    fn find(&self, version: &Version) -> Option<&Source> {
        self.sources.iter().find(|source| source.version == *version)
    }
}

/// Returns name and version of a descriptor.
pub(super) fn version_of(descriptor: &Value) -> Version {
    let text = |member: &str| descriptor["component"][member].as_str().unwrap_or_default().to_owned();
    (text("name"), text("version"))
}
