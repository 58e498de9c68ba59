//! Owner of an object, by its marks: the labels and annotations that deployers write on it
//! (`installations.md` 7.9, ownership).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::object::{Reference, difference, label, set_metadata};

/// Label on objects of manifest items, with the name of the item as its value.
pub const MANIFEST_ITEM: &str = "manifest.deployer.landscaper.gardener.cloud/deployitem";
/// Label on objects of helm items that keep no release.
pub const HELM_ITEM: &str = "helm.deployer.landscaper.gardener.cloud/deployitem";
/// Marks of releases, as Helm writes them.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Labels of items.
const ITEM_LABELS: [&str; 2] = [MANIFEST_ITEM, HELM_ITEM];
/// Annotations of releases.
const RELEASE_ANNOTATIONS: [&str; 2] = [RELEASE_NAME, RELEASE_NAMESPACE];

/// A release by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseName {
    pub namespace: String,
    pub name: String,
}

/// The item that applies objects, with its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Key of the label with the name of the item.
    pub label: &'static str,
    pub item: String,
    /// Releases that the item keeps, or has kept.
    pub releases: Vec<ReleaseName>,
    /// True if the item marks objects as a Helm release does. Otherwise its next write removes the
    /// marks of a release that the item has kept before.
    pub keeps_release: bool,
}

/// Ownership of a live object from the point of view of one owner, by the marks on the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    Own,
    /// The object has no deployer's mark.
    Nobodys,
    Another(Marked),
}

/// Mark of another owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marked {
    Item { label: &'static str, name: String },
    Release(ReleaseName),
}

impl std::fmt::Display for Marked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Item { name, .. } => write!(f, "the item {name}"),
            Self::Release(ReleaseName { namespace, name }) => write!(f, "the release {namespace}/{name}"),
        }
    }
}

/// An item that has given an object up, by the marks that it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Giver {
    pub label: String,
    pub item: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<ReleaseName>,
}

impl Giver {
    pub(crate) fn has(&self, mark: &Marked) -> bool {
        match mark {
            Marked::Item { label, name } => self.label == *label && self.item == *name,
            Marked::Release(release) => self.releases.contains(release),
        }
    }
}

impl Owner {
    /// Returns the prefix of the deployer's label, `manifest` or `helm`.
    pub(crate) fn deployer(&self) -> &'static str {
        self.label.split('.').next().unwrap_or_default()
    }

    /// Returns the item as a giver, for objects that it hands over.
    pub fn giver(&self) -> Giver {
        Giver { label: self.label.to_owned(), item: self.item.clone(), releases: self.releases.clone() }
    }

    /// Returns the label selector for objects of the item (`key=value`), if this object carries the
    /// label.
    pub(crate) fn selector(&self, live: &Value) -> Option<String> {
        self.is_labelled(live).then(|| format!("{}={}", self.label, self.item))
    }

    /// Reports whether an object carries the label of the item.
    pub fn is_labelled(&self, live: &Value) -> bool {
        label(live, self.label) == Some(&self.item)
    }

    /// Reads the marks of a live object. A mark of another owner counts more than an own mark
    /// beside it, because an owner that takes an object over may leave the earlier mark.
    pub fn whose(&self, live: &Value) -> Whose {
        if let Some(other) = self.others(live, &self.releases).into_iter().next() {
            return Whose::Another(other);
        }
        let is_own = self.is_labelled(live) || release_of(live).is_some();
        if is_own { Whose::Own } else { Whose::Nobodys }
    }

    /// Returns marks that are neither the item's nor those of these releases.
    fn others(&self, live: &Value, releases: &[ReleaseName]) -> Vec<Marked> {
        let items = ITEM_LABELS.into_iter().filter_map(|key| Some((key, label(live, key)?)));
        let items = items.filter(|(key, name)| *key != self.label || *name != self.item);
        let items = items.map(|(label, name)| Marked::Item { label, name: name.to_owned() });
        let release = release_of(live).filter(|release| !releases.contains(release));
        items.chain(release.map(Marked::Release)).collect()
    }

    /// Removes the marks of others from an object that is about to become the item's. Marks in the
    /// manifest itself stay.
    pub(crate) fn claim(&self, wanted: &mut Value, manifest: &Value) {
        let kept = if self.keeps_release { &self.releases[..] } else { &[] };
        for other in self.others(wanted, kept) {
            for (field, key) in places(&other) {
                let is_given = manifest["metadata"][field].get(key).is_some();
                if let (false, Some(Value::Object(members))) =
                    (is_given, wanted.pointer_mut(&format!("/metadata/{field}")))
                {
                    members.remove(key);
                }
            }
        }
    }

    /// Returns the merge patch that removes the marks of others from a live object; `None` if it
    /// has only marks of the manifest.
    pub fn claim_patch(&self, live: &Value, manifest: &Value) -> Option<Value> {
        let mut wanted = live.clone();
        self.claim(&mut wanted, manifest);
        (wanted != *live).then(|| difference(live, &wanted))
    }

    /// Returns the merge patch that makes an own object the heir's.
    pub(crate) fn hand_over_patch(&self, heir: &Heir) -> Value {
        let mut patch = json!({});
        for key in ITEM_LABELS {
            patch["metadata"]["labels"][key] = Value::Null;
        }
        if !self.releases.is_empty() {
            for (field, key) in places_of_releases() {
                patch["metadata"][field][key] = Value::Null;
            }
        }
        set_metadata(&mut patch, "labels", heir.label, &heir.item);
        patch
    }
}

/// The item that an object is handed over to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heir {
    pub label: &'static str,
    pub item: String,
}

/// Returns the release that the annotations of an object name.
pub fn release_of(live: &Value) -> Option<ReleaseName> {
    let annotation = |key: &str| live["metadata"]["annotations"][key].as_str();
    let [name, namespace] = RELEASE_ANNOTATIONS.map(annotation);
    if name.is_none() && namespace.is_none() {
        return None;
    }
    Some(ReleaseName {
        namespace: namespace.unwrap_or_default().to_owned(),
        name: name.unwrap_or_default().to_owned(),
    })
}

/// Returns the labels and annotations that a mark consists of, each with its field in the metadata.
fn places(mark: &Marked) -> Vec<(&'static str, &'static str)> {
    match mark {
        Marked::Item { label, .. } => vec![("labels", label)],
        Marked::Release(_) => places_of_releases().into(),
    }
}

fn places_of_releases() -> [(&'static str, &'static str); 3] {
    [("labels", MANAGED_BY), ("annotations", RELEASE_NAME), ("annotations", RELEASE_NAMESPACE)]
}

/// Returns the message that an object was left to its new owner.
pub(crate) fn left_to(reference: &Reference, other: &Marked) -> String {
    let kind = if matches!(other, Marked::Item { .. }) { "item" } else { "release" };
    format!("{reference} belongs to another {kind} and was left: {other} manages it now")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        let releases = vec![ReleaseName { namespace: "shop".into(), name: "web".into() }];
        Owner { label: HELM_ITEM, item: "one".into(), releases, keeps_release: true }
    }

    fn members(pairs: &[(&str, &str)]) -> serde_json::Map<String, Value> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
    }

    fn object(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Value {
        json!({"metadata": {"labels": members(labels), "annotations": members(annotations)}})
    }

    #[test]
    fn marks() {
        let other = |label, name: &str| Whose::Another(Marked::Item { label, name: name.into() });
        let release = |namespace: &str, name: &str| {
            Whose::Another(Marked::Release(ReleaseName { namespace: namespace.into(), name: name.into() }))
        };
        let of_web = [(RELEASE_NAME, "web"), (RELEASE_NAMESPACE, "shop")];
        for (object, expected) in [
            (object(&[], &[]), Whose::Nobodys),
            (object(&[(HELM_ITEM, "one")], &[]), Whose::Own),
            (object(&[(HELM_ITEM, "two")], &[]), other(HELM_ITEM, "two")),
            (object(&[(MANIFEST_ITEM, "one")], &[]), other(MANIFEST_ITEM, "one")),
            (object(&[(MANAGED_BY, "Helm")], &of_web), Whose::Own),
            (object(&[], &[(RELEASE_NAME, "web"), (RELEASE_NAMESPACE, "else")]), release("else", "web")),
            // The mark of the earlier owner is still there.
            (object(&[(HELM_ITEM, "one"), (MANIFEST_ITEM, "m")], &[]), other(MANIFEST_ITEM, "m")),
        ] {
            assert_eq!(owner().whose(&object), expected, "{object}");
        }
    }

    #[test]
    fn marks_of_others_go_unless_the_manifest_has_them() {
        let live = object(&[(MANIFEST_ITEM, "m"), ("a", "b"), (HELM_ITEM, "one")], &[(RELEASE_NAME, "else")]);
        let mut wanted = live.clone();
        owner().claim(&mut wanted, &json!({}));
        assert_eq!(wanted, object(&[("a", "b"), (HELM_ITEM, "one")], &[]));
        let mut wanted = live.clone();
        owner().claim(&mut wanted, &object(&[], &[(RELEASE_NAME, "else")]));
        assert_eq!(wanted, object(&[("a", "b"), (HELM_ITEM, "one")], &[(RELEASE_NAME, "else")]));
        assert_eq!(owner().claim_patch(&wanted, &wanted), None);
        // The item no longer keeps its earlier release.
        let former = Owner { keeps_release: false, ..owner() };
        let of_web = object(&[(HELM_ITEM, "one")], &[(RELEASE_NAME, "web"), (RELEASE_NAMESPACE, "shop")]);
        assert_eq!((owner().claim_patch(&of_web, &json!({})), former.whose(&of_web)), (None, Whose::Own));
        assert!(former.claim_patch(&of_web, &json!({})).is_some());
        let patch = owner().claim_patch(&live, &json!({})).unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"labels": {MANIFEST_ITEM: null}, "annotations": {RELEASE_NAME: null}}})
        );
    }

    #[test]
    fn an_object_is_handed_over_with_one_mark() {
        let heir = Heir { label: MANIFEST_ITEM, item: "two".into() };
        let patch = owner().hand_over_patch(&heir);
        assert_eq!(patch["metadata"]["labels"][MANIFEST_ITEM], "two");
        assert!(patch["metadata"]["labels"][HELM_ITEM].is_null());
        assert!(patch["metadata"]["annotations"][RELEASE_NAME].is_null());
        let plain = Owner { releases: Vec::new(), keeps_release: false, ..owner() };
        assert_eq!(plain.hand_over_patch(&heir)["metadata"].get("annotations"), None);
    }
}
