//! Marks of a chart item on its objects, and the items that may inherit them.

use groundwork_api::ResourceExt as _;
use groundwork_apply::{HELM_ITEM, Owner as ItemOwner, ReleaseName};
use groundwork_deploy::Round;
use serde_json::Value;

use super::objects::Owner;
use super::status::releases;
use crate::siblings::Siblings;

/// Returns the marks that an item puts on its objects: those of a release, or those of an item
/// without one.
pub(super) fn item_owner(round: &Round<'_>, release: Option<&Owner>) -> ItemOwner {
    let text = |release: &Value, member: &str| release[member].as_str().unwrap_or_default().to_owned();
    let kept = releases(round.item);
    let kept = kept
        .iter()
        .map(|release| ReleaseName { namespace: text(release, "namespace"), name: text(release, "name") });
    let own = release.map(|own| ReleaseName { namespace: own.namespace.clone(), name: own.name.clone() });
    ItemOwner {
        label: HELM_ITEM,
        item: round.item.name_any(),
        releases: own.into_iter().chain(kept).collect(),
        keeps_release: release.is_some(),
    }
}

pub(super) fn siblings<'a>(round: &'a Round<'a>) -> Siblings<'a> {
    Siblings { round, giver: item_owner(round, None).giver() }
}
