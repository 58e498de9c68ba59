//! A set with all objects that it depends on, taken from files or from a request.

use std::collections::BTreeMap;

use groundwork_api::{
    Kind as _, ObjectMeta, PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet,
    PackageVariantSpec, Repository,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::attributes::Attributes;
use crate::children::{Action, plan};
use crate::expand::{ExpandError, Inputs, Objects, Unavailable, expand};
use crate::preview::{SetPreview, preview};

/// Inputs for the expansion of a set without a cluster. Files and calls use the same type, so they
/// give the same result.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// Namespace of the set.
    namespace: String,
    repositories: Vec<Attributes>,
    revisions: Vec<PackageRevision>,
    revision_sets: Vec<PackageRevisionSet>,
    others: BTreeMap<(String, String), Result<Vec<Attributes>, Unavailable>>,
}

/// Name of a variant, and its spec.
pub type NamedSpec = (String, PackageVariantSpec);

/// Expansion of a set that has no variants yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Expanded<V> {
    pub variants: Vec<V>,
    /// Number of selected repositories or objects of each target.
    pub target_counts: Vec<usize>,
    /// Failures of single targets, in a set that isolates its targets.
    pub failures: Vec<ExpandError>,
}

/// Reason why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("apiVersion, kind or metadata.name is missing")]
    Incomplete,
    /// A member has the wrong type; the text contains its path.
    #[error("{0}")]
    Form(String),
}

impl Bundle {
    /// Creates an empty bundle for the sets of a namespace.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// Adds an object that the set may select or look up. An object of another namespace is
    /// ignored; an object without a namespace counts as one of the set's.
    ///
    /// # Errors
    /// The value is not a Kubernetes object.
    pub fn add(&mut self, object: &Value) -> Result<(), ObjectError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let none = Value::Object(serde_json::Map::new());
        let metadata = object.get("metadata").unwrap_or(&none);
        // The parser's message is dropped: it would quote the value, which may be part of a Secret.
        let metadata = ObjectMeta::deserialize(metadata)
            .map_err(|_| ObjectError::Form("metadata is not valid".to_owned()))?;
        let mut seen = Attributes::from(&metadata);
        if api_version.is_empty() || kind.is_empty() || seen.name.is_empty() {
            return Err(ObjectError::Incomplete);
        }
        if seen.namespace.is_empty() {
            seen.namespace.clone_from(&self.namespace);
        }
        if seen.namespace != self.namespace {
            return Ok(());
        }
        if (api_version.as_str(), kind.as_str()) == (PackageRevision::API_VERSION, PackageRevision::KIND) {
            let mut revision = PackageRevision::deserialize(object)
                .map_err(|error| ObjectError::Form(format!("not a valid PackageRevision: {error}")))?;
            revision.metadata.namespace = Some(seen.namespace);
            self.revisions.push(revision);
        } else if (api_version.as_str(), kind.as_str()) == (Repository::API_VERSION, Repository::KIND) {
            self.repositories.push(seen);
        } else if (api_version.as_str(), kind.as_str())
            == (PackageRevisionSet::API_VERSION, PackageRevisionSet::KIND)
        {
            let set = PackageRevisionSet::deserialize(object)
                .map_err(|error| ObjectError::Form(format!("not a valid PackageRevisionSet: {error}")))?;
            self.revision_sets.push(set);
        } else if let Ok(objects) = self.others.entry((api_version, kind)).or_insert_with(|| Ok(Vec::new())) {
            objects.push(seen);
        }
        Ok(())
    }

    fn objects(&self) -> Objects<'_> {
        Objects { revision_sets: &self.revision_sets, repositories: &self.repositories, others: &self.others }
    }

    /// Records that objects of a kind cannot be listed. `why` is the message of the server.
    pub fn refuse(&mut self, api_version: &str, kind: &str, why: &str) {
        let kind = (api_version.to_owned(), kind.to_owned());
        self.others.insert(kind, Err(Unavailable(why.to_owned())));
    }

    /// Expands a set, in the order of targets and of the objects that they select
    /// (`packagevariants.md` 4.2). Each variant has the name that a new one gets. The upstream is
    /// always resolved.
    ///
    /// # Errors
    /// See [`ExpandError`].
    pub fn expand_in_order(&self, set: &PackageVariantSet) -> Result<Expanded<NamedSpec>, ExpandError> {
        let objects = self.objects();
        let expansion = expand(&Inputs { set, revisions: Some(&self.revisions), objects })?;
        let names = plan(set, &expansion, &[], |_| false)?.names;
        let named = |&at: &usize| Some((names.get(at)?.clone(), expansion.variants.get(at)?.spec.clone()));
        let variants = expansion.order.iter().filter_map(named).collect();
        Ok(Expanded { variants, target_counts: expansion.target_counts, failures: expansion.failures })
    }

    /// Computes the changes that sets would make to the present variants. Without any
    /// PackageRevision in the bundle, the upstream is not resolved.
    pub fn preview(&self, sets: &[PackageVariantSet], variants: &[PackageVariant]) -> Vec<SetPreview> {
        let objects = self.objects();
        let revisions = (!self.revisions.is_empty()).then_some(self.revisions.as_slice());
        preview(sets, objects, revisions, variants)
    }

    /// Expands a set that has no variants yet, in the order of repositories and packages. Without
    /// any PackageRevision in the bundle, the upstream is not resolved.
    ///
    /// # Errors
    /// See [`ExpandError`].
    pub fn expand(&self, set: &PackageVariantSet) -> Result<Expanded<PackageVariant>, ExpandError> {
        let expansion = expand(&Inputs {
            set,
            revisions: (!self.revisions.is_empty()).then_some(&self.revisions),
            objects: self.objects(),
        })?;
        let plan = plan(set, &expansion, &[], |_| false)?;
        let created = plan.actions.into_iter().filter_map(|action| match action {
            Action::Create(child) => Some(*child),
            Action::Adopt(_) | Action::Update(_) | Action::Delete(_) => None,
        });
        let (target_counts, failures) = (expansion.target_counts, expansion.failures);
        Ok(Expanded { variants: created.collect(), target_counts, failures })
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::ResourceExt as _;
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
        let mut object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {}});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    }

    /// V-173: an object with the same name in another namespace does not count.
    #[test]
    fn only_the_namespace_of_the_set_counts() {
        let set: PackageVariantSet = serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "fleet"},
            "spec": {
                "upstream": {"repo": "catalog", "package": "foo", "revision": "v1"},
                "targets": [{"repositorySelector": {}}, {"objectSelector": {"apiVersion": "v1", "kind": "ConfigMap"}}],
            },
        }))
        .unwrap();
        let mut bundle = Bundle::new("fleet");
        let repository = "config.porch.kpt.dev/v1alpha1";
        for object in [
            object(repository, "Repository", None, "a"),
            object(repository, "Repository", Some("fleet"), "b"),
            object(repository, "Repository", Some("elsewhere"), "c"),
            object("v1", "ConfigMap", Some("fleet"), "d"),
        ] {
            bundle.add(&object).unwrap();
        }
        let Expanded { variants, target_counts: counts, .. } = bundle.expand(&set).unwrap();
        let names: Vec<String> = variants.iter().map(groundwork_api::ResourceExt::name_any).collect();
        assert_eq!(
            (names, counts),
            (["s-a-foo", "s-b-foo", "s-d-foo"].map(str::to_owned).into(), vec![2, 1])
        );
        assert!(variants.iter().all(|variant| variant.namespace().as_deref() == Some("fleet")));

        bundle.add(&object("porch.kpt.dev/v1alpha1", "PackageRevision", None, "x")).unwrap();
        assert_eq!(bundle.expand(&set).unwrap_err().reason(), "UpstreamNotFound");
    }

    #[test]
    fn what_is_no_object() {
        let mut bundle = Bundle::default();
        assert_eq!(bundle.add(&json!({"kind": "A"})), Err(ObjectError::Incomplete));
        assert!(matches!(bundle.add(&json!({"metadata": {"labels": 5}})), Err(ObjectError::Form(_))));
    }
}
