//! Reconcile of a set: the wanted children, the present children, the writes between them, and the
//! status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use groundwork_api::{PackageVariant, PackageVariantSet, PackageVariantSetStatus, ResourceExt as _, Time};
use groundwork_controller::{
    ApiError, ObjectEvent, Objects, ReconcileError, ReconcileRequest, Reconciled, WorkError, Workers,
};
use groundwork_fleet::{
    Action, ExpandError, Expansion, OWNER_LABEL, Observed, Plan, conditions, is_child, is_paused, plan,
};
use jiff::Timestamp;

use crate::inputs::{given_up, read_inputs, selected_kinds};
use crate::shared::Shared;
use crate::work::ExpansionError;
use crate::{COMPONENT, follow};

/// Writes of one set at the same time.
const MAX_PARALLEL_WRITES: usize = 8;
/// Plans per reconcile: each time the name of a new child turns out to be taken, the next plan uses
/// other names.
const MAX_PLANS: usize = 3;
/// Pause before a retry if a kind is missing or must not be read, or if no event reports the change
/// of an object.
const UNKNOWN_KIND_PAUSE: Duration = Duration::from_secs(60);
/// Pause before a retry if the upstream is missing; usually an event comes first
/// (`packagevariants.md` 2.11, 5.6).
const NO_UPSTREAM_PAUSE: Duration = Duration::from_secs(300);
/// Pause before a retry if an expression fails (`packagevariants.md` 4.8).
const UNEXPECTED_PAUSE: Duration = Duration::from_secs(600);
/// Pause before a retry if a wanted child is still being deleted.
const DELETION_PAUSE: Duration = Duration::from_secs(2);

/// Outcome of an attempt to reconcile a set.
enum Outcome {
    Done { expansion: Expansion, ready: usize, guarded: Option<String>, held: usize, waits: bool },
    Failed(ExpandError),
}

/// Creates, updates and deletes the children of a set as its spec asks for. Returns `None` if the
/// set does not exist any more.
pub(crate) async fn handle(
    shared: &Arc<Shared>,
    request: &ReconcileRequest<'_>,
) -> Result<Option<Reconciled>, ReconcileError> {
    let ReconcileRequest { key, objects, set_aside, .. } = *request;
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let Some(set) = objects.get::<PackageVariantSet>(namespace, &key.name).await? else { return Ok(None) };
    if set.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the children, and their finalizers delete the packages
        // (`packagevariants.md` 4.7).
        return Ok(Some(Reconciled::default()));
    }
    if let Some(words) = set_aside.due() {
        report(&set, &Outcome::Failed(ExpandError::SetAside(words.to_owned())), objects).await?;
        return Ok(Some(Reconciled::default()));
    }
    let conditions = set.status.iter().flat_map(|status| status.conditions.iter());
    if set_aside
        .covers(set.metadata.generation, conditions.map(|one| (&*one.message, one.observed_generation)))
    {
        return Ok(Some(Reconciled::default()));
    }
    let inputs = read_inputs(&set, objects, &shared.workers).await?;
    shared.watches.set_selected(key, inputs.kinds.clone());
    let revisions = inputs.revisions.as_deref().unwrap_or_default();
    let set = follow::followed(shared, set, revisions, objects).await?;
    let outcome = match shared.expanders.expand(&set, inputs).await {
        Ok(expansion) => reconcile(&set, expansion, objects, &shared.workers).await?,
        Err(ExpansionError::Set(failure)) => Outcome::Failed(failure),
        Err(ExpansionError::Work(error)) => Outcome::Failed(given_up(error.is_limit(), &error.to_string())?),
    };
    report(&set, &outcome, objects).await?;
    let polled = (!shared.watches.follow() && !selected_kinds(&set).is_empty()).then_some(UNKNOWN_KIND_PAUSE);
    let requeue_after = match &outcome {
        Outcome::Done { waits: true, .. } => Some(DELETION_PAUSE),
        Outcome::Done { expansion, .. } => retried(expansion.failures.first()).or(polled),
        Outcome::Failed(failure) => retried(Some(failure)).or(polled),
    };
    Ok(Some(Reconciled { requeue_after, ..Reconciled::default() }))
}

/// Returns the pause before the retry of a failure whose end no event may report.
fn retried(failure: Option<&ExpandError>) -> Option<Duration> {
    match failure? {
        ExpandError::NoMatchingTargets(_) => Some(UNKNOWN_KIND_PAUSE),
        ExpandError::Upstream(_) => Some(NO_UPSTREAM_PAUSE),
        ExpandError::Unexpected(_) => Some(UNEXPECTED_PAUSE),
        ExpandError::Invalid(_) | ExpandError::DuplicateTargets { .. } | ExpandError::SetAside(_) => None,
    }
}

/// Makes plans and carries them out, until the names of all new children are free.
async fn reconcile(
    set: &PackageVariantSet,
    expansion: Expansion,
    objects: &Objects,
    workers: &Workers,
) -> Result<Outcome, ReconcileError> {
    let mut taken = BTreeSet::<String>::new();
    let mut expansion = expansion;
    for _ in 0..MAX_PLANS {
        let children = children(set, objects).await?;
        let (owner, others) = (set.clone(), taken.clone());
        let planned = workers.run(move || {
            let plan = plan(&owner, &expansion, &children, |name| others.contains(name));
            (expansion, plan)
        });
        let planned = match planned.await {
            Ok(planned) => planned,
            Err(error) => {
                return given_up(matches!(error, WorkError::TimedOut(_)), &error.to_string())
                    .map(Outcome::Failed);
            }
        };
        expansion = planned.0;
        let plan = match planned.1 {
            Ok(plan) => plan,
            Err(failure) => return Ok(Outcome::Failed(failure)),
        };
        let Plan { actions, ready, guarded, kept, held, .. } = plan;
        let creates = actions.iter().filter(|action| matches!(action, Action::Create(_))).count();
        let waits = guarded.is_none() && kept + creates < expansion.variants.len();
        let rejected = carry_out(set, actions, objects).await?;
        if let Some(error) = rejected.error {
            return Ok(Outcome::Failed(ExpandError::Unexpected(error.to_string())));
        }
        if rejected.names.is_empty() {
            return Ok(Outcome::Done { expansion, ready, guarded, held, waits });
        }
        taken.extend(rejected.names);
    }
    Err(ReconcileError::new("other clients took each name that was chosen for a package variant"))
}

/// Returns the present children of a set.
pub(crate) async fn children(
    set: &PackageVariantSet,
    objects: &Objects,
) -> Result<Vec<PackageVariant>, ApiError> {
    let namespace = set.namespace().unwrap_or_default();
    let labels = format!("{OWNER_LABEL}={}", set.uid().unwrap_or_default());
    let mut found = objects.list::<PackageVariant>(&namespace, &labels).await?;
    // Any user can write labels, so the owner reference decides.
    found.retain(|variant| is_child(variant, set));
    Ok(found)
}

/// Writes that cannot succeed by repetition.
#[derive(Default)]
struct RejectedWrites {
    /// Names that other owners' objects have.
    names: Vec<String>,
    /// Error of the first write that the API server will never accept.
    error: Option<ApiError>,
}

/// Creates, then updates, then deletes; several children at a time in each step.
async fn carry_out(
    set: &PackageVariantSet,
    actions: Vec<Action>,
    objects: &Objects,
) -> Result<RejectedWrites, ReconcileError> {
    let rank = |action: &Action| match action {
        Action::Create(_) => 0,
        Action::Adopt(_) | Action::Update(_) => 1,
        Action::Delete(_) => 2,
    };
    let mut groups = [Vec::new(), Vec::new(), Vec::new()];
    for action in actions {
        groups[rank(&action)].push(action);
    }
    let mut rejected = RejectedWrites::default();
    for group in groups {
        let writes = stream::iter(group).map(|action| write(set, action, objects));
        let answers: Vec<_> = writes.buffer_unordered(MAX_PARALLEL_WRITES).collect().await;
        let mut transient = None;
        for answer in answers {
            match answer {
                Ok(taken) => rejected.names.extend(taken),
                Err(error @ ApiError::Terminating(_)) => return Err(error.into()),
                // A missing right is shown in the status too, since a quick retry would fail in the
                // same way.
                Err(error) if error.is_final() || matches!(error, ApiError::Forbidden { .. }) => {
                    rejected.error.get_or_insert(error);
                }
                Err(error) => transient = Some(error),
            }
        }
        if let Some(error) = transient {
            return Err(error.into());
        }
        // Old children are deleted only after the new ones exist.
        if rejected.error.is_some() || !rejected.names.is_empty() {
            break;
        }
    }
    Ok(rejected)
}

/// Carries out one write. Returns the name if an object of another owner has it.
async fn write(
    set: &PackageVariantSet,
    action: Action,
    objects: &Objects,
) -> Result<Option<String>, ApiError> {
    match action {
        Action::Create(child) => match objects.create(&*child).await {
            Ok(_) => Ok(None),
            Err(ApiError::AlreadyExists(what)) => {
                let namespace = child.namespace().unwrap_or_default();
                match objects.get::<PackageVariant>(&namespace, &child.name_any()).await? {
                    // Another replica created the child first, or the object was deleted again:
                    // retry with a fresh read.
                    Some(found) if is_child(&found, set) => Err(ApiError::Conflict(what)),
                    None => Err(ApiError::Conflict(what)),
                    Some(_) => Ok(Some(child.name_any())),
                }
            }
            Err(error) => Err(error),
        },
        Action::Adopt(child) | Action::Update(child) => objects.replace(&*child).await.map(|_| None),
        Action::Delete(child) => {
            let (namespace, name) = (child.namespace().unwrap_or_default(), child.name_any());
            // Delete exactly the version that the plan saw: a child that changed since needs a new
            // plan, and another object may have got its name.
            let (uid, version) = (child.uid(), child.resource_version());
            objects
                .delete::<PackageVariant>(&namespace, &name, uid.as_deref(), version.as_deref())
                .await
                .map(|_| None)
        }
    }
}

/// Writes the status if it has changed, and sends Events about new problems.
async fn report(set: &PackageVariantSet, outcome: &Outcome, objects: &Objects) -> Result<(), ReconcileError> {
    let before = set.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let (reason, message);
    let observed = match outcome {
        Outcome::Done { expansion, ready, guarded, held, .. } => {
            let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
            after.target_counts = expansion.target_counts.iter().copied().map(number).collect();
            after.variants_ready = Some(number(*ready));
            // A plan whose deletions wait for a confirmation (`DeletionGuarded`) writes no child,
            // so the count in the status stays.
            if guarded.is_none() {
                after.variant_count = Some(number(expansion.variants.len()));
            }
            match (expansion.failure(), guarded) {
                (Some((failure, text)), _) => {
                    reason = failure;
                    message = isolated(&text, *held);
                    Observed::Stalled { reason, message: &message, ready: None }
                }
                (None, Some(text)) => Observed::NotReady { reason: "DeletionGuarded", message: text },
                (None, None) => {
                    let message = match is_paused(set) {
                        false => "package variants successfully reconciled",
                        true => {
                            "package variants successfully reconciled; annotation groundwork/pause-upstream keeps their \
                             upstreams"
                        }
                    };
                    Observed::Ready { reason: "Reconciled", message }
                }
            }
        }
        Outcome::Failed(failure) => {
            (reason, message) = (failure.reason(), failure.to_string());
            Observed::Stalled { reason, message: &message, ready: None }
        }
    };
    let now = Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default());
    let generation = set.metadata.generation;
    after.conditions = conditions(&before.conditions, &observed, generation, &now).into();
    after.observed_generation = generation;
    if after == before {
        return Ok(());
    }
    let wanted = PackageVariantSet { status: Some(after.clone()), ..set.clone() };
    let stored = match objects.replace_status(&wanted).await {
        Err(ApiError::NotFound(_)) => return Ok(()),
        answer => answer?,
    };
    warn_about(&stored, &before, &after, objects).await;
    Ok(())
}

/// Returns the message of a set whose failing targets are isolated while the others are reconciled.
fn isolated(failures: &str, held: usize) -> String {
    let held = match held {
        0 => String::new(),
        held => format!("; {held} package variants that no other target asks for stay until then"),
    };
    format!("{failures} (the other package variants are reconciled{held})")
}

/// Sends a warning Event for each new problem in a status.
async fn warn_about(
    set: &PackageVariantSet,
    before: &PackageVariantSetStatus,
    after: &PackageVariantSetStatus,
    objects: &Objects,
) {
    let occurrence = after.observed_generation.unwrap_or_default().to_string();
    let mut warnings = Vec::new();
    let ready = after.conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_new = |message: &str| before.conditions.iter().all(|condition| condition.message != message);
    if let Some(ready) = ready.filter(|ready| ready.status == "False" && is_new(&ready.message)) {
        warnings.push((ready.reason.as_str(), ready.message.clone()));
    }
    for (index, count) in after.target_counts.iter().enumerate() {
        if *count == 0 && before.target_counts.get(index) != Some(&0) {
            warnings.push((
                "NoObjectsSelected",
                format!("spec.targets[{index}] selects no repository or object"),
            ));
        }
    }
    for (reason, message) in warnings {
        let report = ObjectEvent { reason, message: &message, component: COMPONENT, occurrence: &occurrence };
        if let Err(error) = objects.warn(set, &report).await {
            tracing::warn!(%error, "an Event could not be recorded");
        }
    }
}
