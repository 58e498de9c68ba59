//! gRPC call `WatchInstallation`: the progress of an Installation as a stream.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use groundwork_api::{DeployItem, Execution, Installation, Kind};
use groundwork_grpc::{Access, ResourceAttributes, User};
use groundwork_lifecycle::overview::Node;
use groundwork_lifecycle::waits::{Look, Wait};
use groundwork_proto::MAX_MESSAGE;
use groundwork_proto::component::v1::{Failure, ObjectName};
use groundwork_proto::renderer::v1::wait::NextLook;
use groundwork_proto::renderer::v1::{StatusNode, Wait as WireWait, WatchInstallationResponse};
use groundwork_proto::status::{self, reasons};
use groundwork_turns::{Holder, Seat, Seats, Shares};
use jiff::{SignedDuration, Timestamp};
use prost::Message;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::unavailable;
use crate::changes::{Changed, Changes};
use crate::follower::Follower;

/// Limit for the open watches of a replica, shared fairly among users.
const WATCHES: Shares = Shares::of(400);
/// Time in which changes are collected into one message.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval of the checks that the caller may still see the objects. The access checker caches a
/// right for ten seconds.
const REVIEW: Duration = Duration::from_secs(60);

/// Stream of trees, one for each change.
pub(super) type Trees = Pin<Box<dyn Stream<Item = Result<WatchInstallationResponse, Status>> + Send>>;

/// State that all calls share.
#[derive(Debug, Clone)]
pub(crate) struct Watches {
    changes: Changes,
    places: Seats,
    pickup_timeout: Option<SignedDuration>,
}

impl Watches {
    pub(crate) fn new(changes: Changes, pickup_timeout: Option<SignedDuration>) -> Self {
        Self { changes, places: Seats::new(WATCHES), pickup_timeout }
    }

    fn place(&self, holders: Vec<Holder>) -> Result<Seat, Status> {
        self.places.take(holders).map_err(|full| {
            let text =
                format!("too many Installations are being shown: {full}; end some, or ask another replica");
            status::exhausted(reasons::TOO_MANY_WATCHES, text)
        })
    }

    /// Reads the tree, and reads its parts again when they change. The open watch counts against
    /// the share of `holders`.
    pub(super) async fn follow(
        &self,
        follower: Follower,
        caller: Caller,
        holders: Vec<Holder>,
    ) -> Result<Trees, Status> {
        let place = self.place(holders)?;
        let mut follower = follower.with_pickup_timeout(self.pickup_timeout);
        // Subscribe before the first read, so that no change in between is missed.
        let changes = self.changes.subscribe();
        follower.read().await.map_err(unavailable)?;
        if follower.tree().is_none() {
            return Err(caller.gone());
        }
        let watch = Watch { follower, caller, changes, reviewed: Instant::now(), is_first: true, place };
        Ok(Box::pin(stream::unfold(Some(watch), async |watch| {
            let mut watch = watch?;
            match watch.next().await {
                Ok(tree) => Some((Ok(tree), Some(watch))),
                Err(status) => Some((Err(status), None)),
            }
        })))
    }
}

/// Caller, and the Installation that the caller follows.
pub(super) struct Caller {
    pub(super) access: Access,
    pub(super) metadata: MetadataMap,
    pub(super) installation: ObjectName,
}

impl Caller {
    /// Checks that the caller may `get` all objects in the tree.
    pub(super) async fn check(&self) -> Result<Arc<User>, Status> {
        let namespace = Some(self.installation.namespace.as_str());
        let attributes = [Installation::PLURAL, Execution::PLURAL, DeployItem::PLURAL].map(|resource| {
            ResourceAttributes { group: Installation::GROUP, resource, namespace, name: None }
        });
        self.access.authorise(&self.metadata, &attributes).await
    }

    fn gone(&self) -> Status {
        let ObjectName { namespace, name } = &self.installation;
        let text = format!("Installation {name} does not exist in namespace {namespace}");
        status::not_found(reasons::INSTALLATION_NOT_FOUND, text)
    }
}

/// State of one call.
struct Watch {
    follower: Follower,
    caller: Caller,
    changes: Receiver<Changed>,
    reviewed: Instant,
    is_first: bool,
    #[allow(dead_code, reason = "held until the call ends")]
    place: Seat,
}

impl Watch {
    /// Waits for a change of the tree, and returns the new tree.
    async fn next(&mut self) -> Result<WatchInstallationResponse, Status> {
        while !std::mem::take(&mut self.is_first) {
            let review = sleep_until(self.reviewed + REVIEW);
            let change = tokio::select! {
                change = self.changes.recv() => change,
                () = review => {
                    self.caller.check().await?;
                    self.reviewed = Instant::now();
                    continue;
                }
            };
            if self.is_changed(change).await? {
                break;
            }
        }
        let tree = self.follower.tree().ok_or_else(|| self.caller.gone())?;
        let response = WatchInstallationResponse { tree: Some(wire_node(&tree)) };
        if response.encoded_len() > MAX_MESSAGE {
            let text = "the tree of the Installation is too large for a message";
            return Err(status::exhausted(reasons::ANSWER_TOO_LARGE, text));
        }
        Ok(response)
    }

    /// Reads the changed objects, together with changes that follow within `PAUSE`.
    async fn is_changed(&mut self, change: Result<Changed, RecvError>) -> Result<bool, Status> {
        let mut stale = BTreeSet::new();
        match change {
            // A receiver that lagged continues with the oldest change left, so everything is read
            // again.
            Ok(Changed::All) | Err(RecvError::Lagged(_)) => return self.read_again().await,
            Ok(change) if !self.note(&change, &mut stale) => return Ok(false),
            Ok(_) => {}
            Err(RecvError::Closed) => {
                return Err(status::unavailable(reasons::BUS_UNAVAILABLE, "the service is shutting down"));
            }
        }
        tokio::time::sleep(PAUSE).await;
        loop {
            match self.changes.try_recv() {
                Ok(Changed::All) | Err(TryRecvError::Lagged(_)) => return self.read_again().await,
                Ok(change) => drop(self.note(&change, &mut stale)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        for (plural, name) in stale {
            self.follower.refresh(plural, &name).await.map_err(unavailable)?;
        }
        Ok(true)
    }

    async fn read_again(&mut self) -> Result<bool, Status> {
        self.follower.read().await.map_err(unavailable)?;
        Ok(true)
    }

    /// Reports whether a change concerns the tree. Objects of a new nested Installation need no
    /// note, since they are read together with it.
    fn note(&self, change: &Changed, stale: &mut BTreeSet<(&'static str, String)>) -> bool {
        let Changed::Object { object, owner } = change else { return true };
        let kinds = [Installation::PLURAL, Execution::PLURAL, DeployItem::PLURAL];
        let Some(plural) = kinds.into_iter().find(|plural| *plural == object.kind.plural()) else {
            return false;
        };
        let is_here = object.namespace.as_deref() == Some(self.caller.installation.namespace.as_str());
        let concerns = is_here
            && (self.follower.concerns(plural, &object.name, owner.as_deref())
                || owner
                    .as_ref()
                    .is_some_and(|owner| stale.contains(&(Installation::PLURAL, owner.clone()))));
        if concerns {
            stale.insert((plural, object.name.clone()));
        }
        concerns
    }
}

fn wire_time(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

fn wire_wait(wait: &Wait) -> WireWait {
    let next_look = wait.next_look.map(|look| match look {
        Look::Within(duration) => NextLook::LookedAtWithin(prost_types::Duration {
            seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        Look::By(time) => NextLook::LookedAtBy(wire_time(time)),
    });
    WireWait { what: wait.what.clone(), since: wait.since.map(wire_time), next_look }
}

fn wire_node(node: &Node) -> StatusNode {
    let time = |time: Option<Timestamp>| time.map(wire_time);
    StatusNode {
        kind: node.kind.to_owned(),
        namespace: node.namespace.clone(),
        name: node.name.clone(),
        template: node.template.clone().unwrap_or_default(),
        content: node.content.clone().unwrap_or_default(),
        phase: node.phase.clone(),
        job_id: node.job_id.clone(),
        running: node.is_running,
        deleting: node.is_deleting,
        requested: node.requested.clone().unwrap_or_default(),
        error: node.error.as_ref().map(|error| Failure {
            operation: error.operation.clone(),
            reason: error.reason.clone(),
            message: error.message.clone(),
            codes: error.codes.clone(),
        }),
        trigger_time: time(node.times.trigger),
        init_time: time(node.times.init),
        wait_time: time(node.times.wait),
        finished_time: time(node.times.finished),
        nodes: node.nodes.iter().map(wire_node).collect(),
        drift: node.drift.clone().unwrap_or_default(),
        waits_for: node.waits_for.as_ref().map(wire_wait),
    }
}
