//! Implementation of the gRPC contract `groundwork.watcher.v1`.

use std::time::Duration;

use groundwork_api::kubernetes::{is_dns_label, is_dns_subdomain};
use groundwork_bus::{Bus, Interest, Kind};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_proto::status::{self, Violation, reasons};
use groundwork_proto::watcher::v1::watcher_server::Watcher;
use groundwork_proto::watcher::v1::{
    EnsureWatchRequest, EnsureWatchResponse, GetStreamStatusRequest, GetStreamStatusResponse,
    Kind as WireKind, ReplayRequest, ReplayResponse, WatchStatus,
};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::commands::{Command, LeaderCommands};
use crate::interests::Admission;
use crate::publication::Replay;
use crate::scopes::{self, Scope, WatchScopes};
use crate::status::{SharedStatus, WatchState, WatcherStatus};

/// Limits for the lifetime of an interest, in seconds.
const MIN_TTL_SECONDS: i64 = 10;
const MAX_TTL_SECONDS: i64 = 24 * 3600;
/// Time that a call waits for the state of a new watch, before it answers without.
const FIRST_STATE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for the leader to store an interest.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

fn not_leader() -> Status {
    status::unavailable(reasons::NOT_LEADER, "another replica of the watcher leads: ask that one")
}

/// The gRPC service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) bus: Bus,
    pub(crate) status: SharedStatus,
    pub(crate) scopes: WatchScopes,
    pub(crate) commands: LeaderCommands,
}

#[tonic::async_trait]
impl Watcher for Service {
    async fn ensure_watch(
        &self,
        request: Request<EnsureWatchRequest>,
    ) -> Result<Response<EnsureWatchResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let (mut interest, api_version) = interest(&request)?;
        let attributes = attributes(&interest.kind, interest.namespace.as_deref(), None);
        let user = self.access.authorise_to("watch", &metadata, &[attributes]).await?;
        interest.holder = holder(&interest.holder, &user.name);
        let (kind, namespace) = (interest.kind.clone(), interest.namespace.clone());
        let expires = (interest.expires > Timestamp::now()).then_some(interest.expires);
        let (answer, admission) = oneshot::channel();
        let leader = self.leader()?;
        let command = Command::StoreInterest { interest, api_version, answer };
        leader.send(command).await.map_err(|_| not_leader())?;
        match timeout(STORE_TIMEOUT, admission).await {
            Ok(Ok(Admission::Accepted | Admission::Unnecessary)) => {}
            Ok(Ok(Admission::TooMany(full))) => {
                let text = format!(
                    "too many interests: {full}; end some with a ttl of 0, or wait until they expire"
                );
                return Err(status::exhausted(reasons::TOO_MANY_INTERESTS, text));
            }
            // The leader ended before it could answer.
            Ok(Err(_)) => return Err(not_leader()),
            Err(_) => {
                let text = "the interest cannot be stored now: the watcher cannot reach the stream";
                return Err(status::unavailable(reasons::BUS_UNAVAILABLE, text));
            }
        }
        let (synced, problem) = self.first_state(&kind, namespace.as_deref()).await;
        let expires = expires.map(wire_time);
        Ok(Response::new(EnsureWatchResponse { expires, synced, problem }))
    }

    async fn get_stream_status(
        &self,
        request: Request<GetStreamStatusRequest>,
    ) -> Result<Response<GetStreamStatusResponse>, Status> {
        let (metadata, _, _) = request.into_parts();
        self.access.authenticate(&metadata).await?;
        self.leader()?;
        let stream = self
            .bus
            .status()
            .await
            .map_err(|error| status::unavailable(reasons::BUS_UNAVAILABLE, error.to_string()))?;
        let status = self.status.read(WatcherStatus::clone);
        let mut watches = Vec::new();
        for (scope, watch) in &status.watches {
            let attributes = attributes(&scope.kind, scope.namespace.as_deref(), None);
            match self.access.authorise(&metadata, &[attributes]).await {
                Ok(_) => watches.push(watch_status(scope, watch, &status, &self.scopes)),
                // Leave out kinds that the caller may not see.
                Err(denied) if denied.code() == tonic::Code::PermissionDenied => {}
                Err(other) => return Err(other),
            }
        }
        Ok(Response::new(GetStreamStatusResponse {
            messages: stream.messages,
            bytes: stream.bytes,
            first_sequence: stream.first_sequence,
            last_sequence: stream.last_sequence,
            created: Some(wire_time(stream.created_at)),
            cluster_uid: status.cluster_uid,
            watches,
        }))
    }

    async fn replay(&self, request: Request<ReplayRequest>) -> Result<Response<ReplayResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let some = |text: String| (!text.is_empty()).then_some(text);
        let (namespace, name) = (some(request.namespace), some(request.name));
        let kind = request.kind.map(|kind| kind_of(&kind.group, &kind.plural, "kind.")).transpose();
        let kind = kind.map_err(|violations| invalid(violations, "the request names no kind"))?;
        if kind.is_none() && name.is_some() {
            let violation = Violation::new("kind", "must be given when a name is");
            return Err(invalid(vec![violation], "a name needs its kind"));
        }
        let watched: Vec<Kind> = self.status.read(|status| {
            let kinds = status.watches.keys().map(|scope| &scope.kind);
            let mut kinds: Vec<Kind> =
                kinds.filter(|watched| kind.as_ref().is_none_or(|kind| kind == *watched)).cloned().collect();
            kinds.dedup();
            kinds
        });
        let asked: Vec<&Kind> = kind.as_ref().map_or_else(|| watched.iter().collect(), |kind| vec![kind]);
        let attributes: Vec<ResourceAttributes<'_>> =
            asked.iter().map(|kind| attributes(kind, namespace.as_deref(), name.as_deref())).collect();
        self.access.authorise_to("watch", &metadata, &attributes).await?;
        let leader = self.leader()?;
        if watched.is_empty() {
            let text = "the kind is not watched: register an interest with EnsureWatch first";
            return Err(status::failed_precondition(reasons::KIND_NOT_WATCHED, text));
        }
        // `publication.rs` sends once for each record; the watches drop the senders at the end.
        let (published, mut receiver) = mpsc::unbounded_channel();
        let replay = Replay { id: Uuid::new_v4().simple().to_string().into(), published };
        let replay_id = replay.id.to_string();
        let command = Command::Replay { kind, namespace, name, replay };
        leader.send(command).await.map_err(|_| not_leader())?;
        let mut count = 0;
        while receiver.recv().await.is_some() {
            count += 1;
        }
        Ok(Response::new(ReplayResponse { replay_id, published: count }))
    }
}

impl Service {
    /// Returns the sender for commands to the leader.
    fn leader(&self) -> Result<mpsc::Sender<Command>, Status> {
        self.commands.sender().ok_or_else(not_leader)
    }

    /// Returns whether the watches of a kind are synced, and their problem if they are not. Waits a
    /// moment for a watch that has just begun.
    async fn first_state(&self, kind: &Kind, namespace: Option<&str>) -> (bool, String) {
        let mut changes = self.status.subscribe();
        let state = async {
            loop {
                let (synced, problem) =
                    self.status.read(|status| state_of(kind, namespace, status, &self.scopes));
                if synced || !problem.is_empty() || changes.changed().await.is_err() {
                    return (synced, problem);
                }
            }
        };
        timeout(FIRST_STATE_TIMEOUT, state).await.unwrap_or_default()
    }
}

/// Returns whether the watches for a kind in a namespace are synced, and their problem; empty if
/// there is none.
fn state_of(
    kind: &Kind,
    namespace: Option<&str>,
    status: &WatcherStatus,
    scopes: &WatchScopes,
) -> (bool, String) {
    let everywhere = Scope { kind: kind.clone(), namespace: None };
    let shown_by = match status.watches.contains_key(&everywhere) {
        true => vec![everywhere],
        false => scopes.scopes_of(kind, namespace),
    };
    if shown_by.is_empty() {
        let problem = format!(
            "the watcher works only on the namespaces {}",
            scopes.namespaces().unwrap_or_default().join(", ")
        );
        return (false, problem);
    }
    let watches: Vec<_> = shown_by.iter().map(|scope| status.watches.get(scope)).collect();
    let synced = watches.iter().all(|watch| watch.is_some_and(|watch| watch.is_synced));
    let problem = watches.iter().find_map(|watch| watch.as_ref().and_then(|watch| watch.problem.clone()));
    (synced, problem.unwrap_or_default())
}

fn watch_status(
    scope: &Scope,
    watch: &WatchState,
    status: &WatcherStatus,
    scopes: &WatchScopes,
) -> WatchStatus {
    let holders = status.interests.iter().filter(|interest| {
        scopes::built_in(&scope.kind).is_none()
            && interest.kind == scope.kind
            && (scope.namespace.is_none()
                || scopes.scopes_of(&interest.kind, interest.namespace.as_deref()).contains(scope))
    });
    let mut holders: Vec<String> = holders.map(|interest| interest.holder.clone()).collect();
    holders.sort();
    holders.dedup();
    WatchStatus {
        kind: Some(WireKind { group: scope.kind.group().to_owned(), plural: scope.kind.plural().to_owned() }),
        namespace: scope.namespace.clone().unwrap_or_default(),
        synced: watch.is_synced,
        resource_version: watch.resource_version.clone(),
        objects: watch.objects,
        holders,
        problem: watch.problem.clone().unwrap_or_default(),
    }
}

fn attributes<'a>(
    kind: &'a Kind,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
) -> ResourceAttributes<'a> {
    ResourceAttributes { group: kind.group(), resource: kind.plural(), namespace, name }
}

fn invalid(violations: Vec<Violation>, message: &str) -> Status {
    status::invalid(reasons::INVALID_REQUEST, message, violations)
}

/// Returns the holder of an interest. An interest belongs to the user who asked for it: another
/// user cannot renew or end it by using the same name. The user begins after the first `@`, because
/// a name in a request cannot contain one.
fn holder(name: &str, user: &str) -> String {
    format!("{name}@{user}")
}

/// Returns the interest of a request, and the API version in which the objects are read.
fn interest(request: &EnsureWatchRequest) -> Result<(Interest, String), Status> {
    let mut violations = Vec::new();
    let kind = kind_of(&request.group, &request.plural, "").map_err(|wrong| violations.extend(wrong));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    for (field, text) in [("version", &request.version), ("holder", &request.holder)] {
        if text.is_empty() || text.len() > 63 || !text.bytes().all(is_plain) {
            let rule = "must be given: at most 63 letters, digits, \"-\", \".\" and \"_\"";
            violations.push(Violation::new(field, rule));
        }
    }
    if !(request.namespace.is_empty() || is_dns_label(&request.namespace)) {
        violations.push(Violation::new("namespace", "must be the name of a namespace, or empty"));
    }
    let ttl = request.ttl.map_or(-1, |ttl| ttl.seconds);
    if ttl != 0 && !(MIN_TTL_SECONDS..=MAX_TTL_SECONDS).contains(&ttl) {
        violations.push(Violation::new(
            "ttl",
            format!("must be 0, or {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds"),
        ));
    }
    match kind {
        Ok(kind) if violations.is_empty() => {
            let interest = Interest {
                kind,
                namespace: (!request.namespace.is_empty()).then(|| request.namespace.clone()),
                holder: request.holder.clone(),
                expires: Timestamp::now() + Duration::from_secs(ttl.unsigned_abs()),
            };
            Ok((interest, request.version.clone()))
        }
        _ => Err(invalid(violations, "the request does not name what to watch")),
    }
}

fn kind_of(group: &str, plural: &str, prefix: &str) -> Result<Kind, Vec<Violation>> {
    let mut violations = Vec::new();
    if !is_dns_label(plural) {
        let text = "must be the plural of a kind: lower case letters, digits and dashes";
        violations.push(Violation::new(format!("{prefix}plural"), text));
    }
    if !(group.is_empty() || is_dns_subdomain(group)) {
        violations.push(Violation::new(format!("{prefix}group"), "must be an API group, or empty"));
    }
    if violations.is_empty() { Ok(Kind::new(group, plural)) } else { Err(violations) }
}

fn wire_time(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> EnsureWatchRequest {
        EnsureWatchRequest {
            group: "apps".into(),
            version: "v1".into(),
            plural: "deployments".into(),
            namespace: String::new(),
            holder: "variant".into(),
            ttl: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let (interest, version) = interest(&request()).unwrap();
        assert_eq!((interest.kind.to_string(), version), ("deployments.apps".to_owned(), "v1".to_owned()));
        assert!(interest.expires > Timestamp::now() && interest.namespace.is_none());

        let wrong = EnsureWatchRequest {
            group: "A".into(),
            plural: "a/b".into(),
            namespace: "a.b".into(),
            ttl: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            ..EnsureWatchRequest::default()
        };
        let refused = super::interest(&wrong).unwrap_err();
        let fields: Vec<_> = status::violations(&refused).into_iter().map(|wrong| wrong.field).collect();
        assert_eq!(fields, ["plural", "group", "version", "holder", "namespace", "ttl"]);
    }

    #[test]
    fn no_two_users_have_the_same_interest() {
        assert_eq!(holder("variant", "system:serviceaccount:a:b"), "variant@system:serviceaccount:a:b");
        for holder in ["a@b", "", "a b", "a/b", &"x".repeat(64)] {
            let request = EnsureWatchRequest { holder: holder.to_owned(), ..request() };
            assert!(super::interest(&request).is_err(), "{holder}");
        }
    }

    #[test]
    fn a_ttl_of_zero_ends_an_interest() {
        let ttl = Some(prost_types::Duration::default());
        let (interest, _) = interest(&EnsureWatchRequest { ttl, ..request() }).unwrap();
        assert!(interest.expires <= Timestamp::now());
        assert!(super::interest(&EnsureWatchRequest { ttl: None, ..request() }).is_err());
    }
}
