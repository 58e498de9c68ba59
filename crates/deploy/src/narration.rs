//! Journal entries about an item: its pick-up, its waits and its result, in fixed words. Messages
//! of statuses stay in the objects, where permissions protect them.

use groundwork_api::metadata::label;
use groundwork_api::{DeployItem, Kind as _, ResourceExt};
use groundwork_bus::{About, ObjectId, What};
use groundwork_controller::{Note, ReconcileError, Scribe, Sight};
use groundwork_lifecycle::machine::HasJob as _;

fn note(item: &DeployItem, reason: &str, text: String) -> Note {
    let about = About {
        kind: DeployItem::KIND.to_owned(),
        name: item.name_any(),
        uid: item.uid().unwrap_or_default(),
    };
    Note { about, reason: reason.to_owned(), text, seen: item.resource_version(), written: None }
}

/// Sets the job of the entries, and notes the events about the item that this attempt handles.
pub(crate) fn begin(scribe: &mut Scribe<'_>, item: &DeployItem, changed: &[(ObjectId, Sight)]) {
    if !scribe.is_heard() {
        return;
    }
    // An Execution has the same name as its Installation.
    scribe.set_job(item.job().id, item.labels().get(label::MANAGED_BY).map(String::as_str));
    for (_, sight) in changed {
        let text = "an event reported a change of the DeployItem".to_owned();
        scribe.note(
            What::Event,
            Note { seen: Some(sight.version().to_owned()), ..note(item, "Changed", text) },
        );
    }
}

/// Notes the process that works on the item from now on.
pub(crate) fn tell_pick_up(scribe: &mut Scribe<'_>, item: &DeployItem, stored: &DeployItem) {
    let deployer = stored.status.as_ref().and_then(|status| status.deployer.as_ref());
    let identity = deployer.map(|deployer| deployer.identity.as_str()).unwrap_or_default();
    let phase = stored.phase().as_str();
    let text = format!("{identity} picks it up: sets the phase {phase}");
    scribe.note(What::Write, Note { written: stored.resource_version(), ..note(item, phase, text) });
}

/// Notes the wait of the item: names of objects, and what they lack.
pub(crate) fn tell_wait(scribe: &mut Scribe<'_>, item: &DeployItem, what: &str) {
    scribe.note(What::Wait, note(item, item.phase().as_str(), format!("waits: {what}")));
}

/// Notes the written result. Renewals of the claim are left out.
pub(crate) fn tell_result(scribe: &mut Scribe<'_>, item: &DeployItem, stored: &DeployItem) {
    let (from, to) = (item.phase().as_str(), stored.phase().as_str());
    let mut text = match (stored.job().is_running(), from == to) {
        (false, _) => format!("ends the job: {to}"),
        (true, false) => format!("changes the phase from {from} to {to}"),
        (true, true) => "stays in its phase".to_owned(),
    };
    let error = |item: &DeployItem| item.status.as_ref().and_then(|status| status.last_error.clone());
    let mut reason = to.to_owned();
    let new_error = error(stored).filter(|now| error(item).as_ref() != Some(now));
    if new_error.is_none() && stored.job().is_running() && from == to {
        return;
    }
    if let Some(error) = new_error {
        reason.clone_from(&error.reason);
        text.push_str(&format!(", in the operation {}", error.operation));
        if !error.codes.is_empty() {
            text.push_str(&format!(" ({})", error.codes.join(", ")));
        }
    }
    scribe.note(What::Write, Note { written: stored.resource_version(), ..note(item, &reason, text) });
}

/// Notes objects that others have changed since the job.
pub(crate) fn tell_drift(scribe: &mut Scribe<'_>, item: &DeployItem, reason: &str, text: &str) {
    let written = item.resource_version();
    scribe.note(What::Write, Note { written, ..note(item, reason, text.to_owned()) });
}

/// Notes that the uninstallation was skipped because the cluster no longer exists.
pub(crate) fn tell_vanished(scribe: &mut Scribe<'_>, item: &DeployItem) {
    let text = "the cluster is gone: skips the uninstallation".to_owned();
    scribe.note(What::Decision, note(item, "ClusterVanished", text));
}

/// Notes that all objects of the item are gone and the item itself is deleted.
pub(crate) fn tell_removed(scribe: &mut Scribe<'_>, item: &DeployItem) {
    let text = "the deployed objects are gone: removes the finalizer of the DeployItem".to_owned();
    scribe.note(What::Write, note(item, "Removed", text));
}

/// Notes the reason why an attempt has to be repeated. The text is also logged, and quotes no
/// value.
pub(crate) fn tell_error(scribe: &mut Scribe<'_>, name: &str, error: &ReconcileError) {
    let about = About { kind: DeployItem::KIND.to_owned(), name: name.to_owned(), uid: String::new() };
    let reason = if error.is_conflict { "Conflict" } else { "Unavailable" }.to_owned();
    let text = format!("{error}; trying again after a pause");
    scribe.note(What::Error, Note { about, reason, text, ..Note::default() });
}
