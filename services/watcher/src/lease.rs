//! Leader election with a Lease. Every write carries the resourceVersion, so two replicas cannot
//! both take the Lease in the same state.
//!
//! The election does not compare clocks of machines. A holder counts as gone when its Lease has not
//! changed for the Lease's duration on the observer's own clock. The holder itself stops after two
//! thirds of that time without a renewal.
//!
//! The crate kube-lease-manager was considered and rejected: it clears an expired Lease with a
//! patch without a resourceVersion, compares the clocks of machines, and continues to lead when it
//! cannot renew.

use std::time::Duration;

use clap::Args;
use groundwork_controller::ApiError;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::leadership::Leadership;
use crate::status::{Role, SharedStatus};

/// Leader election among replicas.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArguments {
    /// Let only one of several replicas publish; needed when there are several
    #[arg(long, env = "GROUNDWORK_LEADER_ELECTION")]
    pub leader_election: bool,

    /// Namespace of the Lease [default: the namespace of the pod, or of the kubeconfig's context]
    #[arg(long, env = "GROUNDWORK_LEASE_NAMESPACE", value_name = "NAME")]
    pub lease_namespace: Option<String>,

    /// Name of the Lease
    #[arg(long, env = "GROUNDWORK_LEASE_NAME", value_name = "NAME", default_value = LEASE)]
    pub lease_name: String,

    /// Replace a leader that has not renewed the Lease for this time
    #[arg(
        long, env = "GROUNDWORK_LEASE_SECONDS", value_name = "SECONDS", default_value_t = SECONDS,
        value_parser = clap::value_parser!(u32).range(2..=3600)
    )]
    pub lease_seconds: u32,
}

const LEASE: &str = "groundwork-watcher";
const SECONDS: u32 = 15;

impl Default for LeaseArguments {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

/// The election of this replica, and its knowledge of the Lease.
pub(crate) struct Election {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// Lease as `namespace/name`, for the log.
    lease: String,
    /// Holder identity that this process writes into the Lease, unique for each process.
    identity: String,
    /// Duration of the Lease without a renewal, in seconds.
    seconds: u32,
    status: SharedStatus,
    /// Last Lease seen with another holder, and the time when that state was first seen.
    observed: Option<(Lease, Instant)>,
    /// The Lease as this replica last wrote it.
    held: Option<Lease>,
}

/// Outcome of an attempt to take the Lease.
enum Attempt {
    Acquired(Box<Lease>),
    /// Another replica holds the Lease, or has taken it first.
    HeldByAnother,
    Failed(ApiError),
}

impl Election {
    /// Creates the election; `None` for a single replica without one.
    pub(crate) fn new(client: Client, arguments: &LeaseArguments, status: SharedStatus) -> Option<Self> {
        if !arguments.leader_election {
            return None;
        }
        let namespace = arguments.lease_namespace.clone();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let host = std::env::var("HOSTNAME").unwrap_or_default();
        Some(Self {
            api: Api::namespaced(client, &namespace),
            lease: format!("{namespace}/{}", arguments.lease_name),
            namespace,
            name: arguments.lease_name.clone(),
            identity: format!("{host}_{}", Uuid::new_v4()),
            seconds: arguments.lease_seconds,
            status,
            observed: None,
            held: None,
        })
    }

    /// Returns a Lease for the check of a cluster's webhooks. It is never stored.
    pub(crate) fn probe(&self) -> Lease {
        let name = Some("groundwork-look".to_owned());
        let metadata = ObjectMeta { name, namespace: Some(self.namespace.clone()), ..ObjectMeta::default() };
        Lease { metadata, ..Lease::default() }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Returns the interval at which the Lease is read and renewed.
    fn period(&self) -> Duration {
        self.duration() / 6
    }

    /// Returns the end of the leadership after a renewal. It counts from the time of the request,
    /// not of the answer, and is before the end of the Lease, so no other replica leads yet.
    fn leadership_end(&self, requested: Instant) -> Instant {
        requested + self.duration() * 2 / 3
    }

    /// Waits until this replica leads.
    pub(crate) async fn acquire(&mut self) -> Leadership {
        loop {
            let requested = Instant::now();
            match timeout(self.duration(), self.attempt()).await {
                Ok(Attempt::Acquired(lease)) => {
                    tracing::info!(lease = self.lease, identity = self.identity, "this replica leads");
                    (self.held, self.observed) = (Some(*lease), None);
                    return Leadership::until(self.leadership_end(requested));
                }
                Ok(Attempt::HeldByAnother) => self.stand_by(None),
                Ok(Attempt::Failed(error)) => self.stand_by(Some(error.to_string())),
                Err(_) => self.stand_by(Some(format!("no answer about the Lease {}", self.lease))),
            }
            sleep(self.period()).await;
        }
    }

    fn stand_by(&self, problem: Option<String>) {
        let is_new = self.status.read(|status| status.role != Role::Standby || status.problem != problem);
        if is_new {
            if let Some(problem) = &problem {
                tracing::warn!(problem, "cannot read or take the Lease; trying again");
            }
            self.status.update(|status| (status.role, status.problem) = (Role::Standby, problem));
        }
    }

    /// Converts the error of a request to `verb` the Lease.
    fn api_error(&self, verb: &'static str, error: &kube::Error) -> ApiError {
        let resource = format!("leases.coordination.k8s.io in namespace {}", self.namespace);
        ApiError::new(error, verb, &format!("leases {}", self.lease), &resource)
    }

    async fn attempt(&mut self) -> Attempt {
        let lease = match self.api.get_opt(&self.name).await {
            Ok(lease) => lease,
            Err(error) => return Attempt::Failed(self.api_error("get", &error)),
        };
        let (verb, answer) = match lease {
            None => {
                ("create", self.api.create(&PostParams::default(), &self.held_by_us(Lease::default())).await)
            }
            Some(lease) => {
                if !self.is_free(&lease) {
                    return Attempt::HeldByAnother;
                }
                let ours = self.held_by_us(lease);
                ("update", self.api.replace(&self.name, &PostParams::default(), &ours).await)
            }
        };
        match answer {
            Ok(lease) => Attempt::Acquired(Box::new(lease)),
            // Another replica wrote the Lease between our read and write.
            Err(kube::Error::Api(status)) if status.code == 409 => Attempt::HeldByAnother,
            Err(error) => Attempt::Failed(self.api_error(verb, &error)),
        }
    }

    /// Reports whether the Lease has no other holder, or its holder has not renewed it for its
    /// duration.
    fn is_free(&mut self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let limit = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let limit = limit.map_or(self.duration(), Duration::from_secs);
        match &self.observed {
            Some((observed, since)) if observed == lease => since.elapsed() >= limit,
            _ => {
                self.observed = Some((lease.clone(), Instant::now()));
                false
            }
        }
    }

    /// Returns the Lease with this replica as its holder.
    fn held_by_us(&self, lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let old = lease.spec.unwrap_or_default();
        let is_ours = old.holder_identity.as_deref() == Some(self.identity.as_str());
        let spec = LeaseSpec {
            acquire_time: if is_ours { old.acquire_time } else { Some(now.clone()) },
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.seconds).ok(),
            lease_transitions: Some(old.lease_transitions.unwrap_or_default() + i32::from(!is_ours)),
            renew_time: Some(now),
            ..LeaseSpec::default()
        };
        let name = Some(self.name.clone());
        Lease { metadata: ObjectMeta { name, ..lease.metadata }, spec: Some(spec) }
    }

    /// Renews the Lease, and returns when this replica no longer leads.
    pub(crate) async fn renew(&mut self, leadership: &Leadership) {
        while let Some(lease) = self.held.take() {
            if leadership.has_ended() {
                tracing::warn!(
                    lease = self.lease,
                    "the Lease was not renewed in time: this replica no longer leads"
                );
                return;
            }
            sleep(self.period()).await;
            let requested = Instant::now();
            let ours = self.held_by_us(lease.clone());
            match timeout(self.period(), self.api.replace(&self.name, &PostParams::default(), &ours)).await {
                Ok(Ok(renewed)) => {
                    // After a freeze of the process the Lease may still be ours. `extend` does not
                    // revive a leadership that has ended, since decisions from before the freeze
                    // are out of date.
                    leadership.extend(self.leadership_end(requested));
                    self.held = Some(renewed);
                }
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    self.held = self.read_again(leadership).await;
                    if self.held.is_none() {
                        tracing::warn!(
                            lease = self.lease,
                            "another replica took the Lease: this replica no longer leads"
                        );
                    }
                }
                Ok(Err(error)) => {
                    let error = self.api_error("update", &error);
                    tracing::warn!(problem = %error, "cannot renew the Lease; trying again");
                    self.held = Some(lease);
                }
                Err(_) => self.held = Some(lease),
            }
        }
    }

    /// Reads the Lease, and returns it if this replica still holds it. A conflict may only mean
    /// that an answer was lost or that a user changed a label.
    async fn read_again(&self, leadership: &Leadership) -> Option<Lease> {
        loop {
            match timeout(self.period(), self.api.get_opt(&self.name)).await {
                Ok(Ok(lease)) => {
                    let holder = |lease: &Lease| lease.spec.clone().and_then(|spec| spec.holder_identity);
                    return lease.filter(|lease| holder(lease).as_ref() == Some(&self.identity));
                }
                Ok(Err(_)) | Err(_) if leadership.has_ended() => return None,
                Ok(Err(_)) | Err(_) => sleep(self.period()).await,
            }
        }
    }

    /// Releases the Lease, so that another replica need not wait.
    pub(crate) async fn release(&mut self) {
        let Ok(Some(mut lease)) =
            timeout(self.period(), self.api.get_opt(&self.name)).await.unwrap_or(Ok(None))
        else {
            return;
        };
        let Some(spec) = &mut lease.spec else { return };
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return;
        }
        (spec.holder_identity, spec.lease_duration_seconds) = (Some(String::new()), Some(1));
        // If this fails, the Lease expires.
        let _ = timeout(self.period(), self.api.replace(&self.name, &PostParams::default(), &lease)).await;
    }
}
