//! What a row holds, read from what an event shows.

use std::sync::Arc;

use groundwork_api::metadata::label;
use groundwork_api::view::{self, Snapshot};
use groundwork_api::{Kind as _, PackageVariantSet};
use groundwork_bus::{Change, Event, ObjectId};
use groundwork_lifecycle::Interface;
use groundwork_lifecycle::machine::Phase;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// How an object stands: what people ask first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Failed,
    Running,
    /// No job has begun.
    New,
    Succeeded,
}

impl State {
    pub(crate) const ALL: [Self; 4] = [Self::Failed, Self::Running, Self::New, Self::Succeeded];

    /// As addresses and style sheets name it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Running => "running",
            Self::New => "new",
            Self::Succeeded => "succeeded",
        }
    }
}

/// The current or last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) state: State,
    pub(crate) phase: Phase,
    pub(crate) is_deleting: bool,
    pub(crate) began: Option<Timestamp>,
    /// Absent while it runs.
    pub(crate) ended: Option<Timestamp>,
}

impl Job {
    fn new(
        snapshot: &Snapshot,
        job: view::Job<'_>,
        phase: &str,
        began: Option<Timestamp>,
        ended: Option<Timestamp>,
    ) -> Self {
        let phase = Phase::of(Some(phase));
        let state = match phase {
            _ if job.is_running() => State::Running,
            _ if !job.is_known() => State::New,
            Phase::Failed | Phase::DeleteFailed => State::Failed,
            _ => State::Succeeded,
        };
        let ended = ended.filter(|ended| !job.is_running() && began.is_none_or(|began| *ended >= began));
        Self { state, phase, is_deleting: snapshot.deletion_timestamp.is_some(), began, ended }
    }

    /// How long it took, or has taken until now.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Option<SignedDuration> {
        let end = if self.state == State::Running { Some(now) } else { self.ended };
        Some(end?.duration_since(self.began?).max(SignedDuration::ZERO))
    }
}

/// An Installation.
#[derive(Debug, Clone)]
pub(crate) struct InstallationRow {
    pub(crate) job: Job,
    /// Name of the Installation that it is nested in.
    pub(crate) parent: Option<Box<str>>,
    /// Its name inside of that.
    pub(crate) template: Box<str>,
    pub(crate) component: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) context: Arc<str>,
    /// A request that has not been taken up yet.
    pub(crate) requested: Option<Arc<str>>,
    /// When an event showed that request first.
    pub(crate) waits_since: Option<Timestamp>,
    pub(crate) interface: Interface,
}

impl InstallationRow {
    pub(super) fn of(snapshot: &Snapshot, mut shared: impl FnMut(&str) -> Arc<str>) -> Self {
        let seen = view::Installation(snapshot);
        Self {
            job: Job::new(snapshot, seen.job(), seen.phase(), seen.trigger_time(), seen.finished_time()),
            parent: seen.parent().map(|owner| owner.name.as_str().into()),
            template: seen.template_name().into(),
            component: shared(seen.component_name()),
            version: shared(seen.component_version()),
            context: shared(seen.context()),
            requested: seen.operation().map(&mut shared),
            waits_since: None,
            interface: Interface::of_view(seen),
        }
    }
}

/// An Execution or an item.
#[derive(Debug, Clone)]
pub(crate) struct PartRow {
    pub(crate) job: Job,
    /// Of an item the name of its Execution.
    pub(crate) owner: Option<Box<str>>,
    /// Of an item its name in the blueprint.
    pub(crate) template: Box<str>,
    /// Of an item its deployer type.
    pub(crate) type_: Arc<str>,
    /// Of an item, when an event showed first that its job waits for a deployer.
    pub(crate) waits_since: Option<Timestamp>,
}

impl PartRow {
    pub(super) fn of_execution(snapshot: &Snapshot) -> Self {
        let seen = view::Execution(snapshot);
        let job = Job::new(snapshot, seen.job(), seen.phase(), seen.trigger_time(), seen.finished_time());
        Self { job, owner: None, template: "".into(), type_: "".into(), waits_since: None }
    }

    pub(super) fn of_item(snapshot: &Snapshot, mut shared: impl FnMut(&str) -> Arc<str>) -> Self {
        let seen = view::DeployItem(snapshot);
        Self {
            job: Job::new(snapshot, seen.job(), seen.phase(), seen.trigger_time(), seen.finished_time()),
            owner: seen.execution().map(|owner| owner.as_str().into()),
            template: snapshot.label(label::DEPLOY_ITEM_NAME).into(),
            type_: shared(seen.deployer_type()),
            waits_since: None,
        }
    }
}

/// How a set or a variant stands, by its conditions (`packagevariants.md` 2.10, 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PackageState {
    /// It cannot go on until somebody changes something.
    Stalled,
    /// It is to be worked on, or to be tried again.
    Pending,
    Ready,
}

impl PackageState {
    pub(crate) const ALL: [Self; 3] = [Self::Stalled, Self::Pending, Self::Ready];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Pending => "pending",
            Self::Ready => "ready",
        }
    }

    fn of(conditions: &[view::Condition<'_>]) -> Self {
        let holds = |type_: &str| {
            conditions.iter().any(|condition| condition.type_() == type_ && condition.status() == "True")
        };
        match () {
            () if holds("Stalled") => Self::Stalled,
            () if holds("Ready") => Self::Ready,
            () => Self::Pending,
        }
    }
}

/// A PackageVariantSet.
#[derive(Debug, Clone)]
pub(crate) struct SetRow {
    pub(crate) uid: Arc<str>,
    pub(crate) state: PackageState,
    pub(crate) is_deleting: bool,
    pub(crate) upstream: Box<str>,
    /// Entries of what it selects.
    pub(crate) targets: usize,
}

impl SetRow {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let seen = view::PackageVariantSet(snapshot);
        Self {
            uid: snapshot.uid.as_str().into(),
            state: PackageState::of(&seen.conditions()),
            is_deleting: snapshot.deletion_timestamp.is_some(),
            upstream: upstreams(seen).into(),
            targets: seen.targets().len(),
        }
    }
}

/// The packages that a set derives from; of a PackageRevisionSet its name.
fn upstreams(set: view::PackageVariantSet<'_>) -> String {
    let package = |repository: &str, package: &str, revision_set: &str| match revision_set {
        "" => format!("{repository}/{package}"),
        name => name.to_owned(),
    };
    let several = set.upstreams();
    if several.is_empty() {
        return package(set.upstream_repository(), set.upstream_package(), set.upstream_set());
    }
    let each =
        several.into_iter().map(|of| package(of.repository(), of.package(), of.package_revision_set()));
    each.collect::<Vec<_>>().join(", ")
}

/// A PackageVariant.
#[derive(Debug, Clone)]
pub(crate) struct VariantRow {
    pub(crate) state: PackageState,
    pub(crate) is_deleting: bool,
    /// UID of the set that made it.
    pub(crate) set: Option<Arc<str>>,
    pub(crate) upstream: Arc<str>,
    pub(crate) downstream_repository: Arc<str>,
    pub(crate) downstream_package: Arc<str>,
}

impl VariantRow {
    pub(super) fn of(snapshot: &Snapshot, mut shared: impl FnMut(&str) -> Arc<str>) -> Self {
        let seen = view::PackageVariant(snapshot);
        let set = snapshot.owner_references.iter().find(|owner| owner.is_a::<PackageVariantSet>());
        let workspace = Some(seen.upstream_workspace()).filter(|name| !name.is_empty()).map(str::to_owned);
        let revision = seen.upstream_revision().map(|revision| revision.to_string()).or(workspace);
        let package = format!("{}/{}", seen.upstream_repository(), seen.upstream_package());
        let upstream = revision.map_or_else(|| package.clone(), |revision| format!("{package}@{revision}"));
        Self {
            state: PackageState::of(&seen.conditions()),
            is_deleting: snapshot.deletion_timestamp.is_some(),
            set: set.map(|owner| shared(&owner.uid)),
            upstream: shared(&upstream),
            downstream_repository: shared(seen.downstream_repository()),
            downstream_package: shared(seen.downstream_package()),
        }
    }
}

/// An event, for the page that shows them.
#[derive(Debug, Clone)]
pub(crate) struct SeenEvent {
    pub(crate) object: ObjectId,
    pub(crate) time: Timestamp,
    /// Absent if the object was deleted.
    pub(crate) resource_version: Option<Box<str>>,
    /// What the status says, where the kind has that.
    pub(crate) phase: &'static str,
}

impl SeenEvent {
    pub(super) fn of(event: &Event) -> Self {
        let (resource_version, phase) = match &event.change {
            Change::Applied(snapshot) => {
                let is_landscaper = event.object.kind.group() == groundwork_api::Installation::GROUP;
                // One path for all kinds that have a phase.
                let phase = if is_landscaper { view::Installation(snapshot).phase() } else { "" };
                (Some(snapshot.resource_version.as_str().into()), Phase::of(Some(phase)).as_str())
            }
            Change::Deleted(_) => (None, ""),
        };
        Self { object: event.object.clone(), time: event.time, resource_version, phase }
    }
}
