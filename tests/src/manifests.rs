//! Objects in files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cluster::installed_crds;

/// Object of one of our kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// File that contains the object.
    pub file: PathBuf,
    /// Object as the file contains it.
    pub document: Value,
}

impl Manifest {
    /// Returns group and version, empty if the document has none.
    pub fn api_version(&self) -> &str {
        self.document["apiVersion"].as_str().unwrap_or_default()
    }

    /// Returns the kind of the object, empty if the document has none.
    pub fn kind(&self) -> &str {
        self.document["kind"].as_str().unwrap_or_default()
    }

    /// Returns `metadata.name`, empty if the document has none.
    pub fn name(&self) -> &str {
        self.document["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the name of the kind in URLs, or `None` if the kind is not ours.
    pub fn plural(&self) -> Option<&'static str> {
        let (group, version) = self.api_version().split_once('/')?;
        let ours = installed_crds().iter().map(|crd| &crd.spec);
        let mut ours = ours.filter(|spec| spec.group == group && spec.names.kind == self.kind());
        let served = ours.find(|spec| spec.versions.iter().any(|served| served.name == version))?;
        Some(&served.names.plural)
    }
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} in {}", self.kind(), self.name(), self.file.display())
    }
}

/// Returns the root folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Reads the objects of our kinds in the files of a folder of our own test data.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn manifests_in(folder: &str) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for file in files_below(&workspace().join("tests/data").join(folder))? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for document in documents(&text).with_context(|| format!("{} is not YAML", file.display()))? {
            manifests.push(Manifest { file: file.clone(), document });
        }
    }
    Ok(manifests)
}

/// Returns the files of a folder and its subfolders, sorted.
///
/// # Errors
/// Fails if a folder cannot be read.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// Parses the documents of a YAML text, without empty ones.
///
/// # Errors
/// Fails if the text is not YAML.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let nodes = groundwork_yaml::parse_all(text, groundwork_yaml::Options::default())?;
    Ok(nodes.iter().map(groundwork_yaml::Node::to_value).filter(|document| !document.is_null()).collect())
}
