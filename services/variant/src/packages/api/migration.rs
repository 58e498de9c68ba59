//! Package revisions of an earlier version, which kept them as custom resources of Porch's kind
//! (`packagevariants.md` 6.14).
//!
//! Their definition has to go, since it and this API would serve the same kind. Deleting it deletes
//! the resources, so each is copied to a record first, and loses the finalizer by which a service
//! of the earlier version would delete its package from git.

use std::time::Duration;

use groundwork_api::{Kind as _, PackageRevision, ResourceExt as _, RevisionRecord};
use groundwork_controller::{ApiError, Metadata, Objects};
use groundwork_telemetry::{Condition, innermost_cause};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use crate::packages::records::with_metadata;

const DEFINITION: &str = "packagerevisions.porch.kpt.dev";
/// Finalizer of the earlier version.
const FINALIZER: &str = "groundwork/package-store";
/// Time in which a running service of the earlier version makes a deleted resource anew: it reads
/// each repository once a minute.
const QUIET: Duration = Duration::from_secs(75);
/// Pause before the next attempt after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Copies the package revisions of an earlier version, and removes their definition. Tries again
/// until it succeeds.
pub(super) async fn migrate(objects: &Objects, ready: &Condition) {
    loop {
        match step(objects, ready).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(problem) => ready.not_ready(problem),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Does one attempt, and reports whether nothing is left to do.
async fn step(objects: &Objects, ready: &Condition) -> Result<bool, String> {
    let client = objects.client().clone();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let failed =
        |what: &str, error: &kube::Error| format!("cannot {what} {DEFINITION}: {}", innermost_cause(error));
    let found = definitions.get_opt(DEFINITION).await.map_err(|error| failed("get", &error))?;
    let Some(found) = found else { return Ok(true) };
    if let Some(other) = found.spec.versions.iter().find(|version| version.name != PackageRevision::VERSION) {
        return Err(format!(
            "the definition {DEFINITION} has the version {} of another program: package revisions of one cluster have one server, so use \
             --porch without --package-store, or another cluster",
            other.name
        ));
    }
    let count = take_over(objects).await?;
    if count > 0 {
        tracing::info!(count, "package revisions of an earlier version were copied to records");
        ready.not_ready(format!(
            "{count} package revisions of an earlier version were copied; the definition {DEFINITION} is removed in {} s if no service \
             of that version makes them anew",
            QUIET.as_secs()
        ));
        tokio::time::sleep(QUIET).await;
        return match remaining(objects).await? {
            0 => Ok(false),
            left => Err(format!(
                "{left} package revisions were made anew by a variant service of an earlier version: stop it, and this service goes on"
            )),
        };
    }
    match definitions.delete(DEFINITION, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(failed("delete", &error)),
    }
    ready.not_ready(format!("the definition {DEFINITION} of an earlier version is being removed"));
    Ok(false)
}

async fn remaining(objects: &Objects) -> Result<usize, String> {
    let api = Api::<PackageRevision>::all(objects.client().clone());
    let listed = api.list(&ListParams::default().limit(100)).await;
    listed.map(|listed| listed.items.len()).map_err(|error| innermost_cause(&error))
}

/// Copies all package revisions and deletes them, and returns their number.
async fn take_over(objects: &Objects) -> Result<usize, String> {
    let api = Api::<PackageRevision>::all(objects.client().clone());
    let listed = api.list(&ListParams::default()).await.map_err(|error| innermost_cause(&error))?;
    let text = |error: ApiError| error.to_string();
    let count = listed.items.len();
    for revision in listed.items {
        let (namespace, name) = (revision.namespace().unwrap_or_default(), revision.name_any());
        match objects.create(&record(&revision)).await {
            Ok(_) | Err(ApiError::AlreadyExists(_)) => {}
            Err(error) => return Err(text(error)),
        }
        let change = Metadata {
            resource_version: revision.resource_version(),
            finalizers: Some(others(&revision)),
            ..Metadata::default()
        };
        if revision.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            objects.patch_metadata::<PackageRevision>(&namespace, &name, &change).await.map_err(text)?;
        }
        objects.delete::<PackageRevision>(&namespace, &name, None, None).await.map_err(text)?;
    }
    Ok(count)
}

/// Returns the record of a package revision. What git holds follows with the next sync.
fn record(revision: &PackageRevision) -> RevisionRecord {
    let mut record = RevisionRecord { spec: revision.spec.clone(), ..RevisionRecord::default() };
    record.metadata.name = revision.metadata.name.clone();
    record.metadata.namespace = revision.metadata.namespace.clone();
    let mut metadata = revision.metadata.clone();
    metadata.finalizers = Some(others(revision));
    with_metadata(&mut record, &metadata);
    record
}

fn others(revision: &PackageRevision) -> Vec<String> {
    revision.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_a_revision_is_lost() {
        let revision: PackageRevision = serde_json::from_value(json!({
            "metadata": {"name": "edge.dns.w", "namespace": "fleet", "labels": {"a": "b"}, "annotations": {"c": "d"},
                "finalizers": [FINALIZER, "example.org/keep"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]},
            "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "w", "lifecycle": "Proposed"},
        }))
        .unwrap();
        let record = record(&revision);
        let attributes = &record.attributes;
        assert_eq!(
            (attributes.labels.get("a"), attributes.annotations.get("c")),
            (Some(&"b".to_owned()), Some(&"d".to_owned()))
        );
        assert_eq!(attributes.finalizers.to_vec(), ["example.org/keep"]);
        assert_eq!(attributes.owner_references[0].uid, "u");
        assert_eq!(record.spec.lifecycle.as_deref(), Some("Proposed"));
    }
}
