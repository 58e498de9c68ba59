//! Guard that lets the newest spec win, even if a replica works on an older one: a draft is written
//! only while the variant still has the spec that the draft was made from.

use groundwork_api::{PackageVariant, ResourceExt as _};
use groundwork_controller::{Objects, ReconcileError};

use super::progress::Failure;

/// Allows a write if the variant has the same spec as when it was read.
///
/// A write replaces the version of the draft that was read before this check. A replica that works
/// on a newer spec has two cases. If it wrote since then, the store refuses this write. If it reads
/// the draft later, it replaces this write.
pub(super) async fn ensure_newest(variant: &PackageVariant, objects: &Objects) -> Result<(), Failure> {
    let present = present(variant, objects).await?;
    if present.is_some_and(|present| present.metadata.generation == variant.metadata.generation) {
        return Ok(());
    }
    Err(asks_otherwise())
}

/// Returns true if the variant still exists and is not being deleted.
pub(super) async fn is_wanted(variant: &PackageVariant, objects: &Objects) -> Result<bool, Failure> {
    let present = present(variant, objects).await?;
    Ok(present.is_some_and(|present| present.metadata.deletion_timestamp.is_none()))
}

/// Returns the error that makes the reconcile start again with the current spec.
pub(super) fn asks_otherwise() -> Failure {
    let message = "the package variant was changed in the meantime".to_owned();
    Failure::Retry(ReconcileError { message, is_conflict: true })
}

/// Reads the variant again from the API server.
async fn present(variant: &PackageVariant, objects: &Objects) -> Result<Option<PackageVariant>, Failure> {
    let namespace = variant.namespace().unwrap_or_default();
    let present = objects.get::<PackageVariant>(&namespace, &variant.name_any()).await?;
    Ok(present.filter(|present| present.metadata.uid == variant.metadata.uid))
}

#[cfg(test)]
mod tests {
    use groundwork_controller::Metrics;
    use groundwork_telemetry::Telemetry;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn variant(uid: &str, generation: i64) -> Value {
        json!({
            "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant",
            "metadata": {"name": "a", "namespace": "team", "uid": uid, "generation": generation}, "spec": {},
        })
    }

    #[tokio::test]
    async fn a_late_writer_finds_that_the_variant_asks_for_something_else() {
        let telemetry = Telemetry::silent("variant");
        let metrics = Metrics::new(&telemetry.metrics, "variant");
        let known: PackageVariant = serde_json::from_value(variant("u", 2)).unwrap();
        let mut going = variant("u", 3);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for (present, may_write, is_wanted_then) in [
            (Some(variant("u", 2)), true, true),
            (Some(variant("u", 3)), false, true),
            (Some(going), false, false),
            (Some(variant("another", 2)), false, false),
            (None, false, false),
        ] {
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let (status, answer) = match present.clone() {
                    Some(present) => (200, present),
                    None => {
                        (404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}))
                    }
                };
                let answer = Body::from(answer.to_string().into_bytes());
                async move { http::Response::builder().status(status).body(answer).map_err(std::io::Error::other) }
            });
            let objects = Objects::new(Client::new(service, "default"), "tests", metrics.clone());
            assert_eq!(ensure_newest(&known, &objects).await.is_ok(), may_write);
            assert_eq!(is_wanted(&known, &objects).await.unwrap(), is_wanted_then);
        }
    }
}
