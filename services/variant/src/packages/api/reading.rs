//! Lists of revisions, and packages.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::metadata::label;
use groundwork_apiserver::{Answer, Kind, Refusal, Request, Selector, Served};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Api;
use super::kinds::PACKAGES;

impl Api {
    /// Lists revisions.
    pub(super) async fn list(&self, kind: &Kind, request: &Request) -> Result<Answer, Refusal> {
        let selector = kind.selector(request)?;
        let log = self.log(&request.namespace, &request.options).await?;
        let (items, version) = log.list(&request.namespace, &selector);
        Ok(Answer::List { items, version })
    }

    /// Lists the packages that have revisions.
    pub(super) async fn list_packages(&self, kind: &Kind, request: &Request) -> Result<Answer, Refusal> {
        let selector = kind.selector(request)?;
        let (packages, version) = self.packages(request).await?;
        let is_selected = |package: &&Arc<Served>| selector.matches(&package.labels, &package.fields);
        let items = packages.iter().filter(is_selected).cloned().collect();
        Ok(Answer::List { items, version })
    }

    /// Returns one package.
    pub(super) async fn package(&self, request: &Request) -> Result<Answer, Refusal> {
        let (packages, _) = self.packages(request).await?;
        let found = packages.iter().find(|package| package.name == request.name);
        let found =
            found.ok_or_else(|| Refusal::not_found(&format!("{PACKAGES}.porch.kpt.dev"), &request.name))?;
        let object =
            serde_json::from_slice(&found.json).map_err(|error| Refusal::internal(&error.to_string()))?;
        Ok(Answer::Object(object))
    }

    async fn packages(&self, request: &Request) -> Result<(Vec<Arc<Served>>, u64), Refusal> {
        let log = self.log(&request.namespace, &request.options).await?;
        let (revisions, version) = log.list(&request.namespace, &Selector::default());
        Ok((packages(&revisions, version), version))
    }
}

/// Returns the packages of revisions, each with the number of its latest one.
fn packages(revisions: &[Arc<Served>], version: u64) -> Vec<Arc<Served>> {
    let mut found = BTreeMap::<(&str, &str, &str), i64>::new();
    for revision in revisions {
        let field = |path: &str| revision.fields.get(path).map(String::as_str).unwrap_or_default();
        let package = (revision.namespace.as_str(), field("spec.repository"), field("spec.packageName"));
        let latest = found.entry(package).or_default();
        if revision.labels.get(label::LATEST_REVISION).is_some_and(|value| value == "true") {
            *latest = field("spec.revision").parse().unwrap_or_default();
        }
    }
    let served = found.into_iter().map(|((namespace, repository, package), latest)| {
        let name = format!("{repository}.{}", package.replace('/', "."));
        let hash = Sha256::digest(format!("{namespace}/{name}"));
        let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let uid = [&hash[..8], &hash[8..12], &hash[12..16], &hash[16..20], &hash[20..]].join("-");
        let object: Value = json!({
            "kind": "PorchPackage", "apiVersion": "porch.kpt.dev/v1alpha1",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version.to_string(),
                "creationTimestamp": null},
            "spec": {"packageName": package, "repository": repository},
            "status": {"latestRevision": latest},
        });
        let fields = [
            ("metadata.name", name.as_str()),
            ("metadata.namespace", namespace),
            ("spec.packageName", package),
            ("spec.repository", repository),
        ];
        Arc::new(Served {
            namespace: namespace.to_owned(),
            name: name.clone(),
            version,
            labels: BTreeMap::new(),
            fields: fields.into_iter().map(|(path, value)| (path.to_owned(), value.to_owned())).collect(),
            json: object.to_string().into_bytes().into(),
        })
    });
    served.collect()
}

#[cfg(test)]
mod tests {
    use groundwork_api::PackageRevision;

    use super::super::kinds::of_revision;
    use super::*;

    #[test]
    fn packages_of_revisions() {
        let revision = |package: &str, number: i64, is_latest: bool| {
            let labels = if is_latest { json!({label::LATEST_REVISION: "true"}) } else { json!({}) };
            let object: PackageRevision = serde_json::from_value(json!({
                "metadata": {"name": format!("edge.{package}.v{number}"), "namespace": "fleet", "labels": labels},
                "spec": {"repository": "edge", "packageName": package, "revision": number, "workspaceName": format!("v{number}")},
            }))
            .unwrap();
            Arc::new(of_revision(&object, 5).unwrap())
        };
        let found =
            packages(&[revision("a/b", 1, false), revision("a/b", 2, true), revision("c", 0, false)], 9);
        let found: Vec<Value> =
            found.iter().map(|package| serde_json::from_slice(&package.json).unwrap()).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[0]["metadata"]["name"], &found[0]["status"]["latestRevision"]),
            (&json!("edge.a.b"), &json!(2))
        );
        assert_eq!(
            (&found[1]["spec"]["packageName"], &found[1]["status"]["latestRevision"]),
            (&json!("c"), &json!(0))
        );
    }
}
