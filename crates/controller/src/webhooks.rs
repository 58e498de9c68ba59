//! Look at the start of a service for admission webhooks that refuse its writes because no server
//! answers for them, such as those that Landscaper leaves behind.

use std::time::Duration;

use groundwork_telemetry::Health;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio_util::sync::CancellationToken;

use crate::cause::webhook_away;
use crate::objects::Stored;

/// Pause between two looks while a webhook does not answer.
const PAUSE: Duration = Duration::from_secs(10);
/// Namespace of the object in a service that works on all namespaces. Every cluster has it.
const NAMESPACE: &str = "default";

/// Looks in the background whether the cluster accepts an object: the API server checks the
/// creation of `probe`, and does not carry it out. While a webhook does not answer, the process is
/// not ready and says why.
pub fn look_for_webhooks<K>(
    client: &Client,
    namespaces: &[String],
    probe: K,
    health: &Health,
    end: CancellationToken,
) where
    K: Stored + 'static,
{
    let namespace = namespaces.first().map_or(NAMESPACE, String::as_str);
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    // The service starts ready: until the answer, nothing speaks against it.
    let condition = health.condition("webhooks");
    condition.ready();
    tokio::spawn(end.run_until_cancelled_owned(async move {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let mut is_told = false;
        loop {
            let problem = match api.create(&parameters, &probe).await {
                Err(kube::Error::Api(status)) => webhook_away(&status.message),
                // Other answers show nothing about webhooks. A server that is away is told
                // elsewhere.
                Ok(_) | Err(_) => None,
            };
            let Some(problem) = problem else {
                condition.ready();
                return;
            };
            let text = format!(
                "{problem}; if it is left over from Landscaper, \"groundwork migrate check\" names the command that \
                 removes it"
            );
            if !is_told {
                tracing::error!(problem = text, "a webhook refuses the writes of this service");
                is_told = true;
            }
            condition.not_ready(text);
            tokio::time::sleep(PAUSE).await;
        }
    }));
}
