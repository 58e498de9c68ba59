//! What the journal is told of an item: its pick-up, what it waits for, and its result, in words of ours. Messages of statuses stay in the
//! objects, where rights guard them.

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

/// What an attempt is about: events have told of a change of the item, or its time has come.
pub(crate) fn begin(scribe: &mut Scribe<'_>, item: &DeployItem, changed: &[(ObjectId, Sight)]) {
    if !scribe.is_heard() {
        return;
    }
    // An Execution has the name of its Installation.
    scribe.set_job(item.job().id, item.labels().get(label::MANAGED_BY).map(String::as_str));
    for (_, sight) in changed {
        let text = "an event told of a change of the DeployItem".to_owned();
        scribe.note(
            What::Event,
            Note { seen: Some(sight.version().to_owned()), ..note(item, "Changed", text) },
        );
    }
}

/// Who works on the item from now on.
pub(crate) fn tell_pick_up(scribe: &mut Scribe<'_>, item: &DeployItem, stored: &DeployItem) {
    let deployer = stored.status.as_ref().and_then(|status| status.deployer.as_ref());
    let identity = deployer.map(|deployer| deployer.identity.as_str()).unwrap_or_default();
    let phase = stored.phase().as_str();
    let text = format!("{identity} picks it up: sets the phase {phase}");
    scribe.note(What::Write, Note { written: stored.resource_version(), ..note(item, phase, text) });
}

/// What the item waits for: names of objects, and what they lack.
pub(crate) fn tell_wait(scribe: &mut Scribe<'_>, item: &DeployItem, what: &str) {
    scribe.note(What::Wait, note(item, item.phase().as_str(), format!("waits: {what}")));
}

/// The result that was written. That it is still worked on, which is written now and then, is no news.
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

/// Objects that others have changed since the job.
pub(crate) fn tell_drift(scribe: &mut Scribe<'_>, item: &DeployItem, reason: &str, text: &str) {
    let written = item.resource_version();
    scribe.note(What::Write, Note { written, ..note(item, reason, text.to_owned()) });
}

/// That nothing is uninstalled, because there is no cluster any more to do it in.
pub(crate) fn tell_vanished(scribe: &mut Scribe<'_>, item: &DeployItem) {
    let text = "the cluster is gone: uninstalls nothing".to_owned();
    scribe.note(What::Decision, note(item, "ClusterVanished", text));
}

/// That nothing is left of the item but the object, which goes.
pub(crate) fn tell_removed(scribe: &mut Scribe<'_>, item: &DeployItem) {
    let text = "what it deployed is gone: gives the DeployItem free".to_owned();
    scribe.note(What::Write, note(item, "Removed", text));
}

/// Why an attempt has to be repeated. Its text is one that is logged, too, and quotes no value.
pub(crate) fn tell_error(scribe: &mut Scribe<'_>, name: &str, error: &ReconcileError) {
    let about = About { kind: DeployItem::KIND.to_owned(), name: name.to_owned(), uid: String::new() };
    let reason = if error.is_conflict { "Conflict" } else { "Unavailable" }.to_owned();
    let text = format!("{error}; tried again after a pause");
    scribe.note(What::Error, Note { about, reason, text, ..Note::default() });
}
