//! The owner of a release (`helm.md` 10.4): the item that installed or upgraded it last, or that
//! adopted it with `adopt: true`.

use groundwork_api::{DeployItem, ResourceExt as _};
use groundwork_apply::Reference;
use groundwork_deploy::Round;
use groundwork_lifecycle::{OperationError, Reason};
use serde_json::Value;

use super::history::{History, Stored};
use super::objects::{Owner, parse};
use super::status::{has_own_record, known, releases};

/// Field manager of the records that Landscaper's deployer writes.
const LANDSCAPER: &str = "helm-deployer-controller";

/// Owner of a release, from the view of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Own,
    /// Another item, which exists, as `NAMESPACE/NAME`.
    OfItem(String),
    /// Another item, which has been deleted and has left the release.
    Orphan,
    /// A person or a program that is not a deployer.
    Foreign,
}

/// Returns the owner of a release by its last record; `None` if the release has no record.
///
/// # Errors
///
/// The home cluster does not answer.
pub(super) async fn claim(
    round: &Round<'_>,
    history: &History<'_>,
    release: &Owner,
) -> Result<Option<Claim>, OperationError> {
    let Some(last) = history.last() else { return Ok(None) };
    let (uid, name) = last.item();
    let is_known = is_in_status(round.item, release);
    if uid.is_empty() {
        let is_own = is_known || is_of_landscaper(round.item, last, release);
        return Ok(Some(if is_own { Claim::Own } else { Claim::Foreign }));
    }
    if round.item.uid().as_deref() == Some(uid) {
        return Ok(Some(Claim::Own));
    }
    if let Some((namespace, item)) = name.split_once('/') {
        let found = round.objects.get::<DeployItem>(namespace, item).await.map_err(|error| {
            OperationError::transient("RealHelmDeployer.Deploy", Reason::InstallRelease, error.to_string())
        })?;
        if found.is_some_and(|found| found.uid().as_deref() == Some(uid)) {
            return Ok(Some(Claim::OfItem(name.to_owned())));
        }
    }
    // An item that was deleted and created anew has another UID. Its job found the release up to
    // date and wrote no record, but the status names the release.
    Ok(Some(if is_known { Claim::Own } else { Claim::Orphan }))
}

/// Reports whether the status of an item names the release as its own.
fn is_in_status(item: &DeployItem, release: &Owner) -> bool {
    let is_it = |known: &Value| {
        known["name"] == release.name.as_str() && known["namespace"] == release.namespace.as_str()
    };
    releases(item).iter().any(is_it)
}

/// Reports whether Landscaper made the release for the item. Landscaper writes the owner neither
/// into the record nor into the status. But its status lists workloads of the release, and its
/// records carry its field manager.
fn is_of_landscaper(item: &DeployItem, last: &Stored, release: &Owner) -> bool {
    let has_status = item.status.as_ref().is_some_and(|status| status.provider_status.get().is_some());
    if !has_status || has_own_record(item) {
        return false;
    }
    let managed = known(item);
    last.has_manager(LANDSCAPER)
        || objects_of(last, release)
            .iter()
            .any(|object| managed.iter().any(|one| one.resource.is_same(object)))
}

fn objects_of(last: &Stored, release: &Owner) -> Vec<Reference> {
    let parsed = parse(last.record.manifest()).unwrap_or_default();
    let references = parsed.iter().map(Reference::of);
    references
        .map(|reference| Reference {
            namespace: reference.namespace.or_else(|| Some(release.namespace.clone())),
            ..reference
        })
        .collect()
}

/// Returns the error for a release of others, which only `adopt: true` takes over.
pub(super) fn refusal(release: &Owner) -> OperationError {
    let Owner { name, namespace } = release;
    let message = format!(
        "release {name} already exists in namespace {namespace}, but this item has neither installed nor upgraded it: \
         give the item another release name, or set adopt: true in its configuration to take the release over, which \
         is then upgraded and uninstalled with the item"
    );
    OperationError::new("RealHelmDeployer.Deploy", Reason::InstallRelease, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(status: &Value) -> DeployItem {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "ns"}, "spec": {"type": "t"}, "status": {"providerStatus": status},
        }))
        .unwrap()
    }

    #[test]
    fn what_a_status_says() {
        let release = Owner { name: "web".to_owned(), namespace: "shop".to_owned() };
        let listed = |namespace: &str| {
            item(&json!({"releases": [{"name": "web", "namespace": namespace, "current": false}]}))
        };
        assert!(is_in_status(&listed("shop"), &release));
        assert!(!is_in_status(&listed("other"), &release) && !is_in_status(&item(&json!({})), &release));
    }
}
