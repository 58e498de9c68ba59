//! Former rule of the queue that lost deletions. A test proves that the model finds this bug.

use std::sync::Arc;

use async_trait::async_trait;
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_controller::{Handler, Key, ReconcileError, ReconcileRequest, Reconciled};
use jiff::Timestamp;

use super::cluster::Cluster;
use crate::SERVICE;

/// Handler that gets no deletion whose version the renderer wrote itself. The queue once treated
/// such a version as known.
pub(super) struct OldRule {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) cluster: Cluster,
}

#[async_trait]
impl Handler for OldRule {
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let is_known = matches!(change, Change::Deleted(last) if self.cluster.has_written(SERVICE, &last.resource_version));
        if is_known { Vec::new() } else { self.handler.keys(object, change, index) }
    }

    fn observe(&self, object: &ObjectId, change: &Change) {
        self.handler.observe(object, change);
    }

    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        self.handler.sees_to(object, snapshot)
    }

    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        self.handler.schedule(object, snapshot, is_initial_sync)
    }

    fn forget_observed(&self, kinds: &[Kind]) {
        self.handler.forget_observed(kinds);
    }

    fn reset(&self) {
        self.handler.reset();
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        self.handler.reconcile(request).await
    }
}
