//! Inputs that all parts of a round share: clusters, the objects seen so far, and the time that is
//! left.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::ApplyError;
use crate::object::Reference;

/// Clusters of other Targets, by the names of the Targets.
pub type OtherClusters = BTreeMap<String, Arc<Cluster>>;

/// Time by which an item has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadline(pub Option<Timestamp>);

impl Deadline {
    /// Checks that there is still time for a step.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Timeout`] with the name of the step.
    pub fn check(self, step: &str) -> Result<(), ApplyError> {
        match self.0 {
            Some(at) if Timestamp::now() >= at => Err(ApplyError::Timeout(step.to_owned())),
            _ => Ok(()),
        }
    }
}

/// Objects that a round has seen.
pub type Seen = HashMap<Reference, Value>;

/// Returns the cluster of a named Target, or the item's own.
pub(crate) fn cluster_of<'a>(
    own: &'a Cluster,
    others: &'a OtherClusters,
    target_name: Option<&str>,
) -> Result<&'a Cluster, ApplyError> {
    let Some(name) = target_name else { return Ok(own) };
    let missing = || ApplyError::Configuration(format!("the target {name} does not exist"));
    others.get(name).map(|cluster| &**cluster).ok_or_else(missing)
}
