//! The newest spec wins, whichever replica is late: a draft is written only while the variant asks for what it was made from.

use groundwork_api::{PackageVariant, ResourceExt as _};
use groundwork_controller::{Objects, ReconcileError};

use super::downstream::Failure;

/// Lets a write pass if the variant asks for the same as when it was read.
///
/// A write replaces what the store held when the draft was read, and that was before this look. So whoever works on a newer spec has either
/// written since, and the store refuses this write, or has read the draft later, and replaces it.
pub(super) async fn ensure_newest(variant: &PackageVariant, objects: &Objects) -> Result<(), Failure> {
    let namespace = variant.namespace().unwrap_or_default();
    let present = objects.get::<PackageVariant>(&namespace, &variant.name_any()).await?;
    let is_same = |present: &PackageVariant| {
        present.metadata.uid == variant.metadata.uid
            && present.metadata.generation == variant.metadata.generation
    };
    if present.as_ref().is_some_and(is_same) {
        return Ok(());
    }
    let message = "the package variant asks for something else by now".to_owned();
    Err(Failure::Retry(ReconcileError { message, is_conflict: true }))
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
        for (present, may_write) in [
            (Some(variant("u", 2)), true),
            (Some(variant("u", 3)), false),
            (Some(variant("another", 2)), false),
            (None, false),
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
        }
    }
}
