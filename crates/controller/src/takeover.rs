//! Start check: a service does not start while the leader of the controller that it takes over from
//! is still active, because two controllers must not work on the same objects.

use std::time::Duration;

use clap::Args;
use groundwork_telemetry::{Condition, Health, innermost_cause};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

/// Pause before the leases are read again while the API server does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Duration of a lease that does not state one, in seconds.
const LEASE_SECONDS: i32 = 15;

/// A controller that Groundwork takes over from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginalController {
    /// Name of the controller for messages.
    pub name: &'static str,
    /// Names of its leader-election leases. Their namespace depends on the installation.
    pub leases: &'static [&'static str],
}

/// Landscaper, which works on Installations, Executions and DeployItems. Its released versions
/// elect no leader. So this is the name of its deployment, which installations that enabled leader
/// election are likely to use; `--original-lease` adds others.
pub const LANDSCAPER: OriginalController =
    OriginalController { name: "Landscaper", leases: &["landscaper-controller"] };
/// Porch's controllers, which work on PackageVariants and PackageVariantSets.
pub const PORCH: OriginalController =
    OriginalController { name: "Porch's controllers", leases: &["porch-operators.config.porch.kpt.dev"] };

/// Options about a controller that works on the same objects.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Migration")]
pub struct TakeoverArguments {
    /// Start although the leader lease of the controller that Groundwork takes over from is fresh
    #[arg(long, env = "GROUNDWORK_TAKEOVER")]
    pub takeover: bool,

    /// Further leases to look for, by name and in all namespaces, separated by commas; the accounts
    /// of k8s/base may see only the usual ones
    #[arg(
        long = "original-lease",
        env = "GROUNDWORK_ORIGINAL_LEASES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub original_leases: Vec<String>,
}

/// The other controller is still active.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} is running on the same objects: {holder} renewed its lease {lease} at {renewed}; stop it and wait until \
     the lease has expired, or start with --takeover (GROUNDWORK_TAKEOVER=true)"
)]
pub struct OriginalAtWorkError {
    pub name: &'static str,
    /// Namespace and name of the lease.
    pub lease: String,
    pub holder: String,
    pub renewed: Timestamp,
}

impl TakeoverArguments {
    /// Returns when the other controller certainly does not lead, or when `end` is cancelled. While
    /// the API server is away it waits and reports that through `health`.
    ///
    /// Services that work on some namespaces only skip the check, since their permissions do not
    /// cover the namespace of the leases.
    ///
    /// # Errors
    ///
    /// A lease of the other controller is fresh.
    pub async fn ensure_stopped(
        &self,
        original: OriginalController,
        namespaces: &[String],
        client: &Client,
        health: &Health,
        end: &CancellationToken,
    ) -> Result<(), OriginalAtWorkError> {
        if self.takeover || !namespaces.is_empty() {
            return Ok(());
        }
        let ready = health.condition("takeover");
        let names = original.leases.iter().copied().chain(self.original_leases.iter().map(String::as_str));
        for name in names {
            let leases = tokio::select! {
                leases = leases(client, name, &ready) => leases,
                () = end.cancelled() => return Ok(()),
            };
            let now = Timestamp::now();
            if let Some(found) = leases.iter().find_map(|lease| at_work(original, lease, now)) {
                return Err(found);
            }
        }
        ready.ready();
        Ok(())
    }
}

/// Returns the leases of the other controllers that are fresh, for checks from outside a service.
///
/// # Errors
///
/// The leases cannot be listed.
pub async fn originals_at_work(client: &Client) -> Result<Vec<OriginalAtWorkError>, kube::Error> {
    let now = Timestamp::now();
    let mut found = Vec::new();
    for original in [LANDSCAPER, PORCH] {
        for name in original.leases {
            let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
            let leases = Api::<Lease>::all(client.clone()).list(&parameters).await?;
            found.extend(leases.items.iter().filter_map(|lease| at_work(original, lease, now)));
        }
    }
    Ok(found)
}

/// Returns all leases of a name. If this service may not list leases, it returns none and logs
/// that.
async fn leases(client: &Client, name: &str, ready: &Condition) -> Vec<Lease> {
    let api = Api::<Lease>::all(client.clone());
    let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
    loop {
        let problem = match tokio::time::timeout(REQUEST_TIMEOUT, api.list(&parameters)).await {
            Ok(Ok(list)) => return list.items,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                tracing::warn!(
                    lease = name,
                    "this service may not list leases, so it cannot notice a running original controller"
                );
                return Vec::new();
            }
            Ok(Err(error)) => innermost_cause(&error),
            Err(_) => format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
        };
        ready.not_ready(format!("cannot look for the lease {name}: {problem}"));
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

fn at_work(original: OriginalController, lease: &Lease, now: Timestamp) -> Option<OriginalAtWorkError> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS).max(0));
    let is_fresh = now.duration_since(renewed) < SignedDuration::from_secs(duration);
    is_fresh.then(|| OriginalAtWorkError {
        name: original.name,
        lease: format!("{}/{}", lease.namespace().unwrap_or_default(), lease.name_any()),
        holder,
        renewed,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(spec: &serde_json::Value) -> Lease {
        let metadata = json!({"name": "porch-operators.config.porch.kpt.dev", "namespace": "porch-system"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_fresh_lease_is_told_from_one_that_has_run_out() {
        let now: Timestamp = "2026-05-01T12:00:20Z".parse().unwrap();
        for (spec, is_fresh) in [
            (
                json!({"holderIdentity": "a", "renewTime": "2026-05-01T12:00:10.000000Z", "leaseDurationSeconds": 15}),
                true,
            ),
            (
                json!({"holderIdentity": "a", "renewTime": "2026-05-01T12:00:05.000000Z", "leaseDurationSeconds": 15}),
                false,
            ),
            (json!({"holderIdentity": "a", "renewTime": "2026-05-01T12:00:10.000000Z"}), true),
            // The holder's clock is ahead of ours.
            (
                json!({"holderIdentity": "a", "renewTime": "2026-05-01T12:00:30.000000Z", "leaseDurationSeconds": 15}),
                true,
            ),
            // The holder has released the lease.
            (
                json!({"holderIdentity": "", "renewTime": "2026-05-01T12:00:19.000000Z", "leaseDurationSeconds": 1}),
                false,
            ),
            (json!({"holderIdentity": "a"}), false),
            (json!({}), false),
        ] {
            assert_eq!(at_work(PORCH, &lease(&spec), now).is_some(), is_fresh, "{spec}");
        }
    }

    #[test]
    fn the_message_says_who_and_what_to_do() {
        let now: Timestamp = "2026-05-01T12:00:20Z".parse().unwrap();
        let fresh = json!({"holderIdentity": "pod-1", "renewTime": "2026-05-01T12:00:10.000000Z"});
        let text = at_work(PORCH, &lease(&fresh), now).unwrap().to_string();
        for part in [
            "Porch's controllers",
            "pod-1",
            "porch-system/porch-operators.config.porch.kpt.dev",
            "--takeover",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
