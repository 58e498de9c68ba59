//! Upgrades: of drafts by a save of their files, and of published revisions by the creation of a
//! draft (`packagevariants.md` 6.6, 6.14).

use groundwork_api::metadata::annotation;
use groundwork_api::{PackageRevisionRef, ResourceExt as _, RevisionRecord, UpgradeTask};
use groundwork_apiserver::{Answer, Refusal};
use groundwork_krm::{MergeError, Strategy};
use groundwork_packages::git::{Original, Store, StoreError, Update};

use super::files::{json, rendered, resources};
use super::{Api, refusals};
use crate::packages::revision::{repository_key, revision_key};

/// Upgrade of a revision, before the store is asked.
pub(super) struct Upgrading {
    pub(super) upstream: String,
    /// Revision that the local one is based on; `None` if the store finds it.
    pub(super) original: Option<String>,
    strategy: Strategy,
}

/// Reason why a task is no upgrade.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpgradingError {
    #[error("newUpstreamRef.name must be given")]
    NoUpstream,
    #[error("strategy: {0}")]
    Strategy(#[from] MergeError),
}

impl Upgrading {
    /// Reads an upgrade from an annotation.
    pub(super) fn of_text(task: &str) -> Result<Self, Refusal> {
        let wrong = |error: String| {
            Refusal::bad_request(format!("metadata.annotations[{}]: {error}", annotation::UPGRADE))
        };
        let task: UpgradeTask = serde_json::from_str(task).map_err(|error| wrong(error.to_string()))?;
        Self::of(&task).map_err(|error| wrong(error.to_string()))
    }

    pub(super) fn of(task: &UpgradeTask) -> Result<Self, UpgradingError> {
        let strategy = match task.strategy.as_deref().unwrap_or_default() {
            "" => Strategy::ResourceMerge,
            given => given.parse()?,
        };
        let upstream = named(&task.new_upstream_ref).ok_or(UpgradingError::NoUpstream)?;
        Ok(Self { upstream, original: named(&task.old_upstream_ref), strategy })
    }

    /// Returns the update of a revision. The calls to the store block.
    pub(super) fn update(self, store: &Store, namespace: &str, local: &str) -> Result<Update, StoreError> {
        let original = match self.original {
            Some(name) => Original::Revision(name),
            None => store.original_of(namespace, local)?,
        };
        Ok(Update { original, upstream: self.upstream, strategy: self.strategy })
    }
}

/// Returns the name in a reference, if it has one.
pub(super) fn named(found: &Option<PackageRevisionRef>) -> Option<String> {
    found.as_ref().map(|found| found.name.clone()).filter(|name| !name.is_empty())
}

impl Api {
    /// Returns the files that a revision would have after an upgrade. A failed rendering is in the
    /// status, since the caller may go on to change the files.
    pub(super) async fn preview_upgrade(
        &self,
        record: &RevisionRecord,
        upgrading: Upgrading,
    ) -> Result<Answer, Refusal> {
        let (namespace, name) = (record.namespace().unwrap_or_default(), record.name_any());
        let known = self.known(&namespace, &upgrading.upstream).await;
        known.map_err(|error| refused(&error, &name))?;
        let key = repository_key(&revision_key(&namespace, &name));
        let preview = {
            let name = name.clone();
            move |store: &Store| {
                let update = upgrading.update(store, &namespace, &name)?;
                store.preview_update(&namespace, &name, &update)
            }
        };
        let preview = self.store()?.run(&key, preview).await;
        let (content, status) = preview.map_err(|error| refused(&error, &name))?;
        let mut resources = resources(record, content);
        resources.status = Some(rendered(status));
        Ok(Answer::Object(json(&resources)?))
    }
}

/// Returns the refusal of an upgrade. Everything that another content would not mend is a fault of
/// the request.
pub(super) fn refused(error: &StoreError, name: &str) -> Refusal {
    match error {
        StoreError::Merge(_) | StoreError::NotFound(_) => {
            Refusal::invalid("", name, Vec::new()).saying(error.to_string())
        }
        error => refusals::of_store(error, name),
    }
}
