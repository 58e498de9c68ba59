//! Objects of a release's manifest (`helm.md` 9.1).

use groundwork_apply::{
    ApplyError, Cluster, MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE, Reference, ResourceKind, set_metadata,
};
use groundwork_helm::documents;
use serde_json::{Value, json};

const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// An object of a manifest, with the cluster's kind for it.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) reference: Reference,
    pub(super) kind: ResourceKind,
    pub(super) manifest: Value,
}

/// A release, by the annotations on its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) namespace: String,
}

/// Treatment of kinds that the cluster does not know.
#[derive(Debug)]
pub(super) enum Unknown {
    /// An object of an unknown kind is an error.
    IsError,
    /// An object of an unknown kind is left out: a kind in an old manifest may no longer exist
    /// (`helm.md` 9.6, R16).
    IsSkipped,
}

/// Parses the documents of a manifest into objects. Lists are replaced by their entries.
pub(super) fn parse(manifest: &str) -> Result<Vec<Value>, ApplyError> {
    let mut objects = Vec::new();
    for document in documents(manifest) {
        let value = groundwork_yaml::from_str(document).map_err(|_| {
            ApplyError::Configuration(
                "unable to build kubernetes objects from release manifest: a document of the manifest is not valid \
                 YAML".to_owned(),
            )
        })?;
        flatten(value, &mut objects);
    }
    Ok(objects)
}

fn flatten(value: Value, objects: &mut Vec<Value>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Null => {}
        Value::Object(mut members) if is_list && members.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = members.remove("items") {
                for item in items {
                    flatten(item, objects);
                }
            }
        }
        other => objects.push(other),
    }
}

/// Returns the objects of a manifest with their kinds. An object of a namespaced kind gets the
/// namespace of the release if it names none.
pub(super) async fn objects(
    cluster: &Cluster,
    manifest: &str,
    namespace: &str,
    unknown: Unknown,
) -> Result<Vec<Object>, ApplyError> {
    let unable =
        |problem: String| format!("unable to build kubernetes objects from release manifest: {problem}");
    let mut objects = Vec::new();
    for mut manifest in parse(manifest)? {
        let reference = Reference::of(&manifest);
        let missing = [("apiVersion", &reference.api_version), ("kind", &reference.kind)];
        let missing: Vec<String> = missing
            .iter()
            .filter(|(_, text)| text.is_empty())
            .map(|(name, _)| format!("{name} not set"))
            .collect();
        if !missing.is_empty() {
            return Err(ApplyError::Configuration(unable(format!(
                "error validating \"\": error validating data: [{}]",
                missing.join(", ")
            ))));
        }
        let Some(kind) = cluster.kind(&reference.api_version, &reference.kind).await? else {
            match unknown {
                Unknown::IsSkipped => continue,
                Unknown::IsError => {
                    let (api_version, kind) = (&reference.api_version, &reference.kind);
                    // Retried, because another item may install the definition.
                    return Err(ApplyError::Retry(unable(format!(
                        "resource mapping not found for name: {:?} namespace: {:?} from \"\": no matches for kind {kind:?} in \
                         version {api_version:?}\nensure CRDs are installed first",
                        reference.name,
                        reference.namespace.as_deref().unwrap_or_default(),
                    ))));
                }
            }
        };
        if kind.is_namespaced && reference.namespace.is_none() && manifest["metadata"].is_object() {
            manifest["metadata"]["namespace"] = json!(namespace);
        }
        let reference = Reference::of(&manifest);
        let name = &manifest["metadata"]["name"];
        if !name.is_string() && !name.is_null() {
            return Err(ApplyError::Configuration(unable(format!(
                "metadata.name of an object of kind {} must be a text: put it in quotes",
                reference.kind
            ))));
        }
        if reference.name.is_empty() {
            return Err(ApplyError::Configuration(format!(
                "could not get information about the resource {} \"\" in namespace {namespace:?}: resource name may not be empty",
                reference.kind
            )));
        }
        objects.push(Object { reference, kind, manifest });
    }
    Ok(objects)
}

impl Owner {
    /// Sets the annotations of the release on an object.
    pub(super) fn stamp(&self, object: &mut Value) {
        set_metadata(object, "labels", MANAGED_BY, "Helm");
        set_metadata(object, "annotations", RELEASE_NAME, &self.name);
        set_metadata(object, "annotations", RELEASE_NAMESPACE, &self.namespace);
    }

    /// Returns the reason why an existing object does not belong to this release; `None` if it
    /// does.
    pub(super) fn problem(&self, live: &Value) -> Option<String> {
        let mut problems = Vec::new();
        let mut check =
            |what: &str, field: &str, key: &str, wanted: &str| match live["metadata"][field][key].as_str() {
                Some(found) if found == wanted => {}
                Some(found) => problems.push(format!(
                    "{what} validation error: key {key:?} must equal {wanted:?}: current value is {found:?}"
                )),
                None => problems
                    .push(format!("{what} validation error: missing key {key:?}: must be set to {wanted:?}")),
            };
        check("label", "labels", MANAGED_BY, "Helm");
        check("annotation", "annotations", RELEASE_NAME, &self.name);
        check("annotation", "annotations", RELEASE_NAMESPACE, &self.namespace);
        (!problems.is_empty()).then(|| format!("invalid ownership metadata; {}", problems.join("; ")))
    }
}

/// Reports whether an object's annotation keeps it when its release is uninstalled.
pub(super) fn is_kept(live: &Value) -> bool {
    let policy = live["metadata"]["annotations"][RESOURCE_POLICY].as_str().unwrap_or_default();
    policy.trim().eq_ignore_ascii_case("keep")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_empty_documents_left_out() {
        let text = "---\n# Source: a\nkind: A\n---\n# nothing\n---\nkind: List\nitems: [{kind: B}, {kind: CList, items: [{kind: D}]}]\n";
        let kinds: Vec<_> = parse(text).unwrap().into_iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "D"]);
        assert!(parse("a: [").is_err());
    }

    #[test]
    fn whose_an_object_is() {
        let owner = Owner { name: "r2".into(), namespace: "t1".into() };
        let mut object = json!({"metadata": {"annotations": {RELEASE_NAME: "r1"}}});
        assert_eq!(
            owner.problem(&object).unwrap(),
            "invalid ownership metadata; label validation error: missing key \"app.kubernetes.io/managed-by\": must be set to \
             \"Helm\"; annotation validation error: key \"meta.helm.sh/release-name\" must equal \"r2\": current value is \"r1\"; \
             annotation validation error: missing key \"meta.helm.sh/release-namespace\": must be set to \"t1\""
        );
        owner.stamp(&mut object);
        assert_eq!(owner.problem(&object), None);
    }

    #[test]
    fn policies() {
        for (policy, expected) in [(" Keep ", true), ("keep", true), ("other", false), ("", false)] {
            assert_eq!(is_kept(&json!({"metadata": {"annotations": {RESOURCE_POLICY: policy}}})), expected);
        }
    }
}
