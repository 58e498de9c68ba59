//! What rendered objects are compared with.

use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use super::cluster::Held;
use super::world::Uids;
use crate::diagnostic::Diagnostic;
use crate::ending::Ending;
use crate::inventory::Inventory;
use crate::output::read_folder;

/// A folder that `-o dir=PATH` wrote, or the cluster of the current kube context.
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

/// What was there before.
#[derive(Debug)]
pub(crate) enum Former {
    Folder(PathBuf),
    Cluster(Held),
}

impl Former {
    /// Reads what a cluster holds; a folder is read when it is needed.
    ///
    /// # Errors
    ///
    /// Why there is nothing to compare with, which has been said.
    pub(super) fn new(target: &DiffTarget, inventory: &Inventory) -> Result<Self, Ending> {
        match target {
            DiffTarget::Folder(path) => Ok(Self::Folder(path.clone())),
            DiffTarget::Cluster => of_cluster(inventory),
        }
    }

    /// UIDs of what is there, from which names of rendered objects are made.
    pub(super) fn uids(&self) -> Uids {
        match self {
            Self::Folder(_) => Uids::default(),
            Self::Cluster(held) => held.uids(),
        }
    }

    /// The objects that these are compared with.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub(crate) fn objects(&self, rendered: &[Value]) -> Result<Vec<Value>, Diagnostic> {
        match self {
            Self::Folder(path) => read_folder(path),
            Self::Cluster(held) => Ok(held.beside(rendered)),
        }
    }
}

fn of_cluster(inventory: &Inventory) -> Result<Former, Ending> {
    let namespaces = inventory.installations.keys().map(|(namespace, _)| namespace.clone()).collect();
    Held::read(&namespaces).map(Former::Cluster).map_err(|error| {
        crate::diagnostic::print(&[Diagnostic::error(error.to_string())]);
        Ending::Unusable
    })
}
