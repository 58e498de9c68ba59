//! Choice of the store for a service that detects it at its start (`packagevariants.md` 6.1).

use groundwork_bus::Backoff;
use groundwork_controller::Objects;
use groundwork_packages::porch::Porch;
use groundwork_telemetry::Telemetry;

/// Reports whether a Porch server serves packages. This is checked once, because a service cannot
/// change its store while it runs. A registered API server that does not answer may be Porch, so
/// the check waits for it, as for the Kubernetes API server. Returns false when the process ends.
pub(in crate::packages) async fn is_chosen(objects: &Objects, telemetry: &Telemetry) -> bool {
    let ready = telemetry.health.condition("package-store");
    let end = telemetry.shutdown.token();
    let porch = Porch::new(objects.client().clone());
    let mut failures = 0;
    loop {
        // This service serves the same API, and may find its own registration after a restart.
        let served = tokio::select! {
            served = porch.is_of_others() => served,
            () = end.cancelled() => return false,
        };
        match served {
            Ok(is_served) => {
                match is_served {
                    true => tracing::info!(
                        "a Porch server serves package revisions: it stores the packages, and --package-store has no \
                         effect"
                    ),
                    false => tracing::info!(
                        "no Porch server serves package revisions: packages are stored in git (--package-store)"
                    ),
                }
                ready.ready();
                return is_served;
            }
            Err(error) => {
                ready.not_ready(format!(
                    "cannot find out which server serves package revisions: {}",
                    error.text
                ));
            }
        }
        let pause = Backoff::SERVER.pause(failures);
        failures = failures.saturating_add(1);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = end.cancelled() => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use groundwork_controller::Metrics;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a client of an API server that gives these answers in order, and no answer after
    /// them.
    fn objects(answers: Vec<(u16, Value)>, telemetry: &Telemetry) -> Objects {
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            assert_eq!(request.uri().path(), "/apis/porch.kpt.dev/v1alpha1");
            let answer = answers.lock().unwrap().pop_front();
            async move {
                let (status, answer) = answer.ok_or_else(|| std::io::Error::other("connection reset"))?;
                let answer = Body::from(answer.to_string().into_bytes());
                http::Response::builder().status(status).body(answer).map_err(std::io::Error::other)
            }
        });
        Objects::new(Client::new(service, "default"), "tests", Metrics::new(&telemetry.metrics, "variant"))
    }

    fn served(names: &[&str]) -> (u16, Value) {
        let resources: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        (200, json!({"resources": resources}))
    }

    /// Groundwork's own kind does not count, an unreachable server is waited for, and the end of
    /// the process ends the wait (`packagevariants.md` 6.1).
    #[tokio::test(start_paused = true)]
    async fn the_store_follows_from_what_is_served() {
        let away = || (503, json!({"message": "the server is currently unable to handle the request"}));
        let nobody = (404, json!({"message": "not found"}));
        for (answers, expected) in [
            (vec![served(&["packagerevisions", "packagerevisionresources"])], true),
            (vec![served(&["packagerevisions", "packagerevisions/status"])], false),
            (vec![nobody], false),
            (
                vec![(
                    200,
                    json!({"resources": [{"name": "packagerevisionresources", "categories": ["groundwork"]}]}),
                )],
                false,
            ),
            (vec![away(), away(), served(&["packagerevisionresources"])], true),
        ] {
            let telemetry = Telemetry::silent("variant");
            assert_eq!(is_chosen(&objects(answers, &telemetry), &telemetry).await, expected);
        }
        let telemetry = Telemetry::silent("variant");
        let objects = objects(Vec::new(), &telemetry);
        let waiting = is_chosen(&objects, &telemetry);
        let stopping = async {
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            telemetry.shutdown.request();
        };
        let (is_chosen, ()) = tokio::join!(waiting, stopping);
        assert!(!is_chosen);
    }
}
