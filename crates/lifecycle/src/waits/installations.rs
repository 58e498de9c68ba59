//! Waits of Installations.

use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{Installation, Kind as _, ResourceExt as _};
use jiff::Timestamp;

use super::parts::{IGNORED, deleted_at, has_finalizer, is_ignored};
use super::{
    Cause, Clock, Found, LONGEST_BACKOFF, Look, Reach, SIBLING_LOOK, below, counted, held, retried, time,
};
use crate::automatic::{Automatic, AutomaticInput, automatic};
use crate::machine::{Awaited, awaited};
use crate::names::parent_name;
use crate::phase::Phase;
use crate::protocol::HasJob as _;
use crate::siblings::{DataName, Interface};

/// Installations related to one Installation, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) parent: Option<&'a Installation>,
    pub(crate) siblings: &'a [&'a Installation],
    /// False if the Installation has a parent, which may be unknown.
    pub(crate) is_root: bool,
}

/// Returns the name of an Installation in its blueprint, or its object name.
pub(crate) fn installation_name(installation: &Installation) -> String {
    let template = installation.annotations().get(annotation::SUBINSTALLATION_NAME);
    template.cloned().unwrap_or_else(|| installation.name_any())
}

/// Limit for the related Installations to read: messages name no more of them.
const MOST_AROUND: usize = 10;

/// Returns the names of Installations outside the tree that a description needs: those that the
/// Installation waits for, according to its status, and its parent.
pub fn names_around(installation: &Installation) -> Vec<&str> {
    let error = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    let siblings = match error.filter(|_| installation.job().is_running()).and_then(awaited) {
        Some(Awaited::Predecessors(names) | Awaited::Successors(names)) => names,
        None => Vec::new(),
    };
    siblings.into_iter().take(MOST_AROUND).chain(parent_name(installation)).collect()
}

/// Returns the wait of an Installation. `None` if it is at rest or working.
pub(crate) fn of_installation(
    installation: &Installation,
    around: Around<'_>,
    causes: &[Cause],
    clock: &Clock,
) -> Option<Found> {
    match installation.job().is_running() {
        _ if installation.is_deleting() && !has_finalizer(installation) => {
            held(installation.finalizers(), deleted_at(installation))
        }
        true => of_running(installation, around, causes, clock),
        false if installation.is_deleting() => of_deleted(installation, around),
        false => of_idle(installation, around, clock),
    }
}

fn requested(installation: &Installation) -> Option<&str> {
    installation.annotations().get(annotation::OPERATION).map(String::as_str)
}

fn of_running(
    installation: &Installation,
    around: Around<'_>,
    causes: &[Cause],
    clock: &Clock,
) -> Option<Found> {
    if is_ignored(installation) {
        return Found::unseen(IGNORED, None);
    }
    if requested(installation) == Some(operation::INTERRUPT) {
        return Found::own("its interruption to be taken up", None);
    }
    let status = installation.status.as_ref()?;
    let times = status.transition_times.as_ref();
    let error = status.last_error.as_ref();
    let failed = || retried(error?, LONGEST_BACKOFF);
    match installation.phase() {
        Phase::None | Phase::Succeeded | Phase::Failed | Phase::DeleteFailed => {
            Found::own("its job to begin", times.and_then(|times| time(times.trigger_time.as_ref())))
        }
        Phase::Init | Phase::InitDelete => {
            let awaited = error.and_then(|error| Some((awaited(error)?, error)));
            if let Some((siblings, error)) = awaited {
                let what = match siblings {
                    Awaited::Predecessors(names) => predecessors(installation, &names, around),
                    Awaited::Successors(names) => successors(installation, &names, around),
                };
                let since = time(error.last_transition_time.as_ref());
                return Found::new(Reach::InLine, what, since, Some(Look::Within(SIBLING_LOOK)));
            }
            // In these phases a job waits for an object below only if an old object under deletion
            // is in the way of the new one with its name (`installations.md` 6.2, 8.6).
            failed().or_else(|| below(causes, None, clock))
        }
        Phase::ObjectsCreated | Phase::Completing | Phase::TriggerDelete => failed(),
        // The status may still show an error that is over, so the objects below come first.
        Phase::Progressing | Phase::Deleting => {
            below(causes, times.and_then(|times| time(times.wait_time.as_ref())), clock).or_else(failed)
        }
        Phase::Unknown => {
            Found::unseen("a user to correct its phase, which has a value that no service writes", None)
        }
    }
}

fn of_deleted(installation: &Installation, around: Around<'_>) -> Option<Found> {
    let since = deleted_at(installation);
    match around.parent {
        _ if is_ignored(installation) => Found::unseen(IGNORED, since),
        Some(parent) if parent.job().is_running() && parent.job().id != installation.job().id => {
            turn(parent, since)
        }
        // After a failed deletion, services do nothing until a user requests another job.
        _ if installation.phase() == Phase::DeleteFailed && requested(installation).is_none() => None,
        None if around.is_root => Found::own("the job that deletes it to begin", since),
        _ => Found::unseen("the next job of the Installation that it belongs to, which deletes it", since),
    }
}

fn turn(parent: &Installation, since: Option<Timestamp>) -> Option<Found> {
    Found::in_line(format!("its turn in the job of Installation {}", installation_name(parent)), since)
}

fn of_idle(installation: &Installation, around: Around<'_>, clock: &Clock) -> Option<Found> {
    let created = || time(installation.metadata.creation_timestamp.as_ref());
    let status = installation.status.as_ref();
    let times = status.and_then(|status| status.transition_times.as_ref());
    let finished = times.and_then(|times| time(times.finished_time.as_ref()));
    if is_ignored(installation) {
        return requested(installation).and_then(|_| Found::unseen(IGNORED, None));
    }
    if let Some(requested) = requested(installation) {
        return Found::own(format!("its request {requested} to be taken up"), None);
    }
    if let Some(parent) = around.parent {
        let is_behind = parent.job().is_running() && parent.job().id != installation.job().id;
        let status = parent.status.as_ref().filter(|_| is_behind)?;
        let times = status.transition_times.as_ref();
        return turn(parent, times.and_then(|times| time(times.trigger_time.as_ref())));
    }
    let observed = status.map_or(0, |status| status.observed_generation);
    let generation = installation.metadata.generation.unwrap_or_default();
    let annotations = installation.annotations();
    let follows = annotations.get(annotation::RECONCILE_IF_CHANGED).is_some_and(|value| value == "true");
    let dependents = status.map(|status| &status.dependents_to_trigger).filter(|names| !names.is_empty());
    if let Some(dependents) = dependents {
        let names: Vec<&str> = dependents.iter().map(|dependent| dependent.name.as_str()).collect();
        let what = format!("{} to be triggered", counted(Installation::KIND, &names));
        return Found::own(what, finished);
    }
    match () {
        () if !around.is_root => None,
        () if follows && observed != generation => Found::own("the job for its changed spec to begin", None),
        () if !has_finalizer(installation) => Found::own("the renderer to take it up", created()),
        () if installation.job().id.is_empty() => Found::unseen(
            "a user to request a job, by the annotation landscaper.gardener.cloud/operation: reconcile",
            created(),
        ),
        () => match automatic(&AutomaticInput::of(installation), clock.now) {
            Automatic::Nothing => None,
            Automatic::Begin(_) | Automatic::Run(_) => {
                Found::new(Reach::Own, NEXT_JOB, finished, Some(Look::By(clock.now)))
            }
            Automatic::At(time) => Found::new(Reach::Own, NEXT_JOB, finished, Some(Look::By(time))),
        },
    }
}

/// Job that a rule of `automaticReconcile` starts.
const NEXT_JOB: &str = "its next automatic job";

/// Returns the names of values that one Installation exports and another one imports.
fn between(exporter: &Installation, importer: &Installation) -> Vec<String> {
    let exports = Interface::of(&exporter.spec).exports;
    let imports = Interface::of(&importer.spec).imports;
    exports.intersection(&imports).map(|(_, name): &DataName| format!("`{name}`")).collect()
}

fn exports(values: &[String]) -> String {
    format!("export{} {}", if values.len() == 1 { "" } else { "s" }, values.join(", "))
}

fn predecessors(installation: &Installation, names: &[&str], around: Around<'_>) -> String {
    let one = |name: &str, known: Option<&Installation>| {
        let values = known.map(|known| between(known, installation)).unwrap_or_default();
        match values.is_empty() {
            true => format!("Installation {name}, from which it imports"),
            false => format!("Installation {name}, whose {} it imports", exports(&values)),
        }
    };
    said(names, around, one, "from which it imports")
}

fn successors(installation: &Installation, names: &[&str], around: Around<'_>) -> String {
    let one = |name: &str, known: Option<&Installation>| {
        let values = known.map(|known| between(installation, known)).unwrap_or_default();
        match values.is_empty() {
            true => format!("Installation {name}, which imports from it"),
            false => format!("Installation {name}, which imports its {}", exports(&values)),
        }
    };
    format!("the deletion of {}", said(names, around, one, "which import from it"))
}

/// Describes siblings: one sibling with its values, several by their names only.
fn said(
    names: &[&str],
    around: Around<'_>,
    one: impl Fn(&str, Option<&Installation>) -> String,
    more: &str,
) -> String {
    let known = |name: &str| around.siblings.iter().copied().find(|sibling| sibling.name_any() == *name);
    let shown = |name: &str| known(name).map_or_else(|| name.to_owned(), installation_name);
    match names {
        [name] => one(&shown(name), known(name)),
        names => {
            let shown: Vec<String> = names.iter().map(|name| shown(name)).collect();
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            format!("{}, {more}", counted(Installation::KIND, &shown))
        }
    }
}
