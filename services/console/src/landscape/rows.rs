//! Rows of the landscape, read from the snapshots in events.

use std::sync::Arc;

use groundwork_api::metadata::label;
use groundwork_api::view::{self, Snapshot};
use groundwork_api::{Kind as _, PackageVariantSet};
use groundwork_bus::{Change, Event, ObjectId};
use groundwork_lifecycle::Interface;
use groundwork_lifecycle::machine::Phase;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// State of an object, in the order in which pages sort: what needs attention comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Failed,
    Running,
    /// No job has begun yet.
    New,
    Succeeded,
}

impl State {
    pub(crate) const ALL: [Self; 4] = [Self::Failed, Self::Running, Self::New, Self::Succeeded];

    /// Returns the name of the state in addresses and style sheets.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Running => "running",
            Self::New => "new",
            Self::Succeeded => "succeeded",
        }
    }
}

/// The current job, or else the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) state: State,
    pub(crate) phase: Phase,
    pub(crate) is_deleting: bool,
    pub(crate) began: Option<Timestamp>,
    /// End of the job, absent while it runs.
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
        // A job that has just begun still has the end of the job before in its status.
        let ended = ended.filter(|ended| !job.is_running() && began.is_none_or(|began| *ended >= began));
        Self { state, phase, is_deleting: snapshot.deletion_timestamp.is_some(), began, ended }
    }

    /// Returns the duration of the job: until its end, or until now while it runs.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Option<SignedDuration> {
        let end = if self.state == State::Running { Some(now) } else { self.ended };
        Some(end?.duration_since(self.began?).max(SignedDuration::ZERO))
    }
}

/// Row of an Installation.
#[derive(Debug, Clone)]
pub(crate) struct InstallationRow {
    pub(crate) job: Job,
    /// Name of the Installation that this one is nested in.
    pub(crate) parent: Option<Box<str>>,
    /// Name of a nested Installation in the blueprint of its parent.
    pub(crate) template: Box<str>,
    pub(crate) component: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) context: Arc<str>,
    /// Operation annotation that the renderer has not taken up yet.
    pub(crate) requested: Option<Arc<str>>,
    /// Time of the first event that showed the request.
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

/// Row of an Execution or a DeployItem.
#[derive(Debug, Clone)]
pub(crate) struct PartRow {
    pub(crate) job: Job,
    /// Name of the Execution, for an item.
    pub(crate) owner: Option<Box<str>>,
    /// Name in the blueprint, for an item.
    pub(crate) template: Box<str>,
    /// Deployer type, for an item.
    pub(crate) type_: Arc<str>,
    /// Time of the first event that showed the item's job waiting for a deployer.
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

/// State of a set or a variant, read from its conditions (`packagevariants.md` 2.10, 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PackageState {
    /// The object cannot continue until a user changes something.
    Stalled,
    /// The object waits for its first run or for a retry.
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

/// Row of a PackageVariantSet.
#[derive(Debug, Clone)]
pub(crate) struct SetRow {
    pub(crate) uid: Arc<str>,
    pub(crate) state: PackageState,
    pub(crate) is_deleting: bool,
    pub(crate) upstream: Box<str>,
    /// Number of entries in `spec.targets`.
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

/// Returns the upstream packages of a set as text. A set that derives from a PackageRevisionSet
/// gives the name of that.
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

/// Row of a PackageVariant.
#[derive(Debug, Clone)]
pub(crate) struct VariantRow {
    pub(crate) state: PackageState,
    pub(crate) is_deleting: bool,
    /// UID of the set that created the variant.
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

/// Row of an event, for the page of events.
#[derive(Debug, Clone)]
pub(crate) struct SeenEvent {
    pub(crate) object: ObjectId,
    pub(crate) time: Timestamp,
    /// Absent if the event is a deletion.
    pub(crate) resource_version: Option<Box<str>>,
    /// Phase in the status, empty for kinds without phases.
    pub(crate) phase: &'static str,
}

impl SeenEvent {
    pub(super) fn of(event: &Event) -> Self {
        let (resource_version, phase) = match &event.change {
            Change::Applied(snapshot) => {
                let is_landscaper = event.object.kind.group() == groundwork_api::Installation::GROUP;
                // All of Landscaper's kinds keep the phase at the same path, so that the view of an
                // Installation reads each of them.
                let phase = if is_landscaper { view::Installation(snapshot).phase() } else { "" };
                (Some(snapshot.resource_version.as_str().into()), Phase::of(Some(phase)).as_str())
            }
            Change::Deleted(_) => (None, ""),
        };
        Self { object: event.object.clone(), time: event.time, resource_version, phase }
    }
}
