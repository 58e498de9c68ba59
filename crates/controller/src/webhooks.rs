//! Check at the start of a service for admission webhooks that refuse its writes because no server
//! answers for them, such as those that Landscaper leaves behind.

use std::time::Duration;

use futures::future::BoxFuture;
use groundwork_telemetry::Health;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cause::webhook_away;
use crate::objects::Stored;

/// Pause between two checks while a webhook does not answer.
const PAUSE: Duration = Duration::from_secs(10);
/// Namespace of new objects in a service that works on all namespaces. Every cluster has it.
const NAMESPACE: &str = "default";

/// Write of a service that the API server checks, and does not carry out.
pub struct Probe(Write);

type Write = Box<dyn Fn(Client, Option<String>) -> BoxFuture<'static, Result<(), kube::Error>> + Send + Sync>;

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

impl Probe {
    /// Creates an object, in its own namespace or in one of the service.
    pub fn creation<K: Stored + 'static>(object: K) -> Self {
        Self(Box::new(move |client, namespace| {
            let object = object.clone();
            let namespace = object.namespace().or(namespace);
            let api = Api::<K>::namespaced(client, namespace.as_deref().unwrap_or(NAMESPACE));
            let parameters = PostParams { dry_run: true, ..PostParams::default() };
            Box::pin(async move { api.create(&parameters, &object).await.map(drop) })
        }))
    }

    /// Changes an existing object, for a service that may create none. Without any object it does
    /// nothing.
    pub fn change<K: Stored + 'static>() -> Self {
        Self(Box::new(|client, namespace| {
            Box::pin(async move {
                let all: Api<K> = match &namespace {
                    Some(namespace) => Api::namespaced(client.clone(), namespace),
                    None => Api::all(client.clone()),
                };
                let first = all.list_metadata(&ListParams::default().limit(1)).await?.items;
                let Some(first) = first.first() else { return Ok(()) };
                let own: Api<K> = Api::namespaced(client, &first.namespace().unwrap_or_default());
                let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
                own.patch_metadata(&first.name_any(), &parameters, &Patch::Merge(json!({}))).await.map(drop)
            })
        }))
    }
}

/// Checks in the background whether the cluster accepts the writes of a service. While a webhook
/// does not answer, the process is not ready and says why.
pub fn look_for_webhooks(
    client: &Client,
    namespaces: &[String],
    probes: Vec<Probe>,
    health: &Health,
    end: CancellationToken,
) {
    let (client, namespace) = (client.clone(), namespaces.first().cloned());
    // The service starts ready, because no problem is known before the answer.
    let condition = health.condition("webhooks");
    condition.ready();
    tokio::spawn(end.run_until_cancelled_owned(async move {
        let mut is_told = false;
        loop {
            let Some(problem) = first_problem(&probes, &client, namespace.as_ref()).await else {
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

/// Returns the first webhook that does not answer.
async fn first_problem(probes: &[Probe], client: &Client, namespace: Option<&String>) -> Option<String> {
    for Probe(write) in probes {
        // Other answers say nothing about webhooks. An unreachable server is reported elsewhere.
        if let Err(kube::Error::Api(status)) = write(client.clone(), namespace.cloned()).await
            && let Some(problem) = webhook_away(&status.message)
        {
            return Some(problem);
        }
    }
    None
}
