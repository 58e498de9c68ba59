//! Objects that the rendered ones are compared with.

mod cluster;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use super::folder;
use crate::diagnostic::Diagnostic;
use crate::ending::Ending;
use crate::inventory::{Inventory, Key};
use cluster::ClusterObjects;

/// Folder that `-o dir=PATH` wrote, or the cluster of the current kube context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiffTarget {
    Folder(PathBuf),
    Cluster,
}

impl FromStr for DiffTarget {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "cluster" { Self::Cluster } else { Self::Folder(text.into()) })
    }
}

/// UIDs of objects in a cluster, by namespace and name. Names of the objects below them derive from
/// these UIDs.
#[derive(Debug, Default)]
pub(crate) struct Uids {
    pub(crate) installations: BTreeMap<Key, String>,
    pub(crate) executions: BTreeMap<Key, String>,
}

/// Objects before the change.
#[derive(Debug)]
pub(crate) enum Baseline {
    Folder(PathBuf),
    Cluster(ClusterObjects),
}

impl Baseline {
    /// Reads the objects of a cluster. A folder is read later, by [`Baseline::objects`].
    ///
    /// # Errors
    ///
    /// The cluster cannot be read. The reason has been printed to standard error.
    pub(crate) fn new(target: &DiffTarget, inventory: &Inventory) -> Result<Self, Ending> {
        match target {
            DiffTarget::Folder(path) => Ok(Self::Folder(path.clone())),
            DiffTarget::Cluster => of_cluster(inventory),
        }
    }

    /// Returns the UIDs of existing objects, from which names of rendered objects derive.
    pub(crate) fn uids(&self) -> Uids {
        match self {
            Self::Folder(_) => Uids::default(),
            Self::Cluster(held) => held.uids(),
        }
    }

    /// Returns the objects that `rendered` is compared with.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub(crate) fn objects(&self, rendered: &[Value]) -> Result<Vec<Value>, Diagnostic> {
        match self {
            Self::Folder(path) => folder::read(path),
            Self::Cluster(held) => Ok(held.beside(rendered)),
        }
    }
}

fn of_cluster(inventory: &Inventory) -> Result<Baseline, Ending> {
    let namespaces = inventory.installations.keys().map(|(namespace, _)| namespace.clone()).collect();
    ClusterObjects::read(&namespaces).map(Baseline::Cluster).map_err(|error| {
        crate::diagnostic::print(&[Diagnostic::error(error.to_string())]);
        Ending::Unusable
    })
}
