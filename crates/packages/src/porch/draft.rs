//! Request bodies of new drafts (`packagevariants.md` 6.13).

use std::collections::BTreeMap;

use groundwork_api::{OwnerReference, PackageRevision, Task};
use serde_json::{Value, json};

/// Draft to create. The server chooses its name, and takes the labels, gates and annotations of the
/// package from its Kptfile.
#[derive(Debug, Clone, Default)]
pub struct NewDraft {
    pub namespace: String,
    /// Name of the Repository object.
    pub repository: String,
    /// Path of the package in the repository.
    pub package: String,
    pub workspace: String,
    /// Task that makes the draft.
    pub task: Task,
    /// Owner of the draft, without `blockOwnerDeletion`, which would need rights to the owner's
    /// finalizers.
    pub owner: Option<OwnerReference>,
    /// Labels of the PackageRevision.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the PackageRevision.
    pub annotations: BTreeMap<String, String>,
}

impl NewDraft {
    /// Returns the request body, which has no name and no resourceVersion, and neither
    /// `packageMetadata` nor `readinessGates`.
    ///
    /// # Errors
    /// The task cannot be written as JSON.
    pub fn body(&self) -> Result<Value, serde_json::Error> {
        use groundwork_api::Kind as _;
        let mut metadata = json!({"namespace": self.namespace});
        for (member, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !map.is_empty() {
                metadata[member] = json!(map);
            }
        }
        if let Some(owner) = &self.owner {
            metadata["ownerReferences"] = json!([owner]);
        }
        Ok(json!({
            "apiVersion": PackageRevision::API_VERSION,
            "kind": PackageRevision::KIND,
            "metadata": metadata,
            "spec": {
                "repository": self.repository,
                "packageName": self.package,
                "workspaceName": self.workspace,
                "lifecycle": "Draft",
                "tasks": [serde_json::to_value(&self.task)?],
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(task: &Value) -> Value {
        let pairs = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let draft = NewDraft {
            namespace: "fleet".to_owned(),
            repository: "edge-7".to_owned(),
            package: "dns".to_owned(),
            workspace: "packagevariant-2".to_owned(),
            task: serde_json::from_value(task.clone()).unwrap(),
            owner: Some(OwnerReference {
                api_version: "config.porch.kpt.dev/v1alpha1".to_owned(),
                kind: "PackageVariant".to_owned(),
                name: "edge7-dns".to_owned(),
                uid: "0d1e".to_owned(),
                controller: Some(true),
                block_owner_deletion: None,
            }),
            labels: pairs("tier", "edge"),
            annotations: pairs("groundwork/unfinished", "true"),
        };
        draft.body().unwrap()
    }

    /// The bodies have exactly the members of `packagevariants.md` 6.13.
    #[test]
    fn bodies_of_every_task() {
        let name = |name: &str| json!({"name": name});
        for task in [
            json!({"type": "clone", "clone": {"upstreamRef": {"upstreamRef": name("catalog.net.coredns.v4-ws")}}}),
            json!({"type": "edit", "edit": {"sourceRef": name("edge-7.dns.packagevariant-1")}}),
            json!({"type": "upgrade", "upgrade": {
                "oldUpstreamRef": name("catalog.net.coredns.v4-ws"),
                "newUpstreamRef": name("catalog.net.coredns.v5-ws"),
                "localPackageRevisionRef": name("edge-7.dns.packagevariant-1"),
                "strategy": "resource-merge",
            }}),
        ] {
            let expected = json!({
                "apiVersion": "porch.kpt.dev/v1alpha1",
                "kind": "PackageRevision",
                "metadata": {
                    "namespace": "fleet",
                    "labels": {"tier": "edge"},
                    "annotations": {"groundwork/unfinished": "true"},
                    "ownerReferences": [{
                        "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant", "name": "edge7-dns",
                        "uid": "0d1e", "controller": true,
                    }],
                },
                "spec": {
                    "repository": "edge-7",
                    "packageName": "dns",
                    "workspaceName": "packagevariant-2",
                    "lifecycle": "Draft",
                    "tasks": [task],
                },
            });
            assert_eq!(body(&task), expected);
        }
    }

    #[test]
    fn what_is_not_given_is_not_sent() {
        let draft = NewDraft { namespace: "fleet".to_owned(), ..NewDraft::default() };
        assert_eq!(draft.body().unwrap()["metadata"], json!({"namespace": "fleet"}));
    }
}
