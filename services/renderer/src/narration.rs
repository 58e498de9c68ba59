//! Journal entries about an attempt: the steps of the state machine and their results, in fixed
//! texts. Messages of statuses are not copied into the journal, since they may quote values and the
//! access rights of the objects protect them.

use std::time::Instant;

use groundwork_api::{
    DataObject, DeployItem, ErrorCode, Execution, Installation, Kind as _, LastError, ResourceExt, Target,
};
use groundwork_bus::{About, ObjectId, What};
use groundwork_controller::{ApiError, Note, Scribe, Sight};
use groundwork_lifecycle::machine::{Change, HasJob, Tree, Write};
use groundwork_lifecycle::{OperationError, parent_name};

use crate::write_error::WriteError;

/// Returns the kind of a plural, among those that the renderer handles.
fn kind_of(plural: &str) -> &str {
    match plural {
        Installation::PLURAL => Installation::KIND,
        Execution::PLURAL => Execution::KIND,
        DeployItem::PLURAL => DeployItem::KIND,
        DataObject::PLURAL => DataObject::KIND,
        Target::PLURAL => Target::KIND,
        other => other,
    }
}

/// Records the events since the last attempt.
pub(crate) fn tell_events(scribe: &mut Scribe<'_>, changed: &[(ObjectId, Sight)]) {
    if !scribe.is_heard() {
        return;
    }
    for (object, sight) in changed {
        let kind = kind_of(object.kind.plural());
        let note = Note {
            about: about(kind, &object.name, None),
            reason: "Changed".to_owned(),
            text: format!("an event reported a change of the {kind}"),
            seen: Some(sight.version().to_owned()),
            written: None,
        };
        scribe.note(What::Event, note);
    }
}

/// Sets the job that the next entries belong to.
pub(crate) fn tell_job(scribe: &mut Scribe<'_>, tree: &Tree) {
    if let Some(installation) = tree.installation.get() {
        scribe.set_job(installation.job().id, parent_name(installation));
    }
}

fn about(kind: &str, name: &str, uid: Option<&str>) -> About {
    About { kind: kind.to_owned(), name: name.to_owned(), uid: uid.unwrap_or_default().to_owned() }
}

fn about_installation(tree: &Tree) -> About {
    let uid = tree.installation.get().and_then(|installation| installation.metadata.uid.as_deref());
    about(Installation::KIND, &tree.name, uid)
}

/// Records the result of a rendering, or the reason of its failure.
pub(crate) fn tell_rendering(
    scribe: &mut Scribe<'_>,
    tree: &Tree,
    what: &str,
    began: Instant,
    error: Option<&OperationError>,
) {
    let took = began.elapsed().as_millis();
    let (reason, text) = match error {
        None => ("Rendered".to_owned(), format!("rendered {what} in {took} ms")),
        Some(error) => (
            error.reason.to_string(),
            format!("rendering {what} failed in the operation {}, after {took} ms", error.operation),
        ),
    };
    let seen = tree.installation.get().and_then(ResourceExt::resource_version);
    scribe.note(What::Decision, Note { about: about_installation(tree), reason, text, seen, written: None });
}

/// Records which templates of the blueprint produced the objects. Names of items may come from
/// imports, as they may elsewhere in the journal; values are left out.
pub(crate) fn tell_sources(scribe: &mut Scribe<'_>, tree: &Tree, sources: &[String]) {
    for source in sources {
        let note = Note {
            about: about_installation(tree),
            reason: "Source".to_owned(),
            text: source.clone(),
            ..Note::default()
        };
        scribe.note(What::Decision, note);
    }
}

/// Records the wait of a job. An Installation shows the same in its status first.
pub(crate) fn tell_wait(scribe: &mut Scribe<'_>, tree: &Tree) {
    let error =
        tree.installation.get().and_then(|installation| installation.status.as_ref()?.last_error.as_ref());
    let text = match error {
        Some(error) => format!("waits for other Installations, in the operation {}", error.operation),
        None => "waits for other Installations".to_owned(),
    };
    let reason = error.map_or_else(|| "Waiting".to_owned(), |error| error.reason.clone());
    scribe.note(What::Wait, Note { about: about_installation(tree), reason, text, ..Note::default() });
}

/// Records that the job waits for a change below it; only if the attempt did something before.
pub(crate) fn tell_rest(scribe: &mut Scribe<'_>, tree: &Tree) {
    let Some(installation) = tree.installation.get() else { return };
    if !scribe.has_decided() || !installation.job().is_running() {
        return;
    }
    let reason = installation.phase().as_str().to_owned();
    let text = "waits for progress of the objects below, or of a sibling".to_owned();
    scribe.note(What::Wait, Note { about: about_installation(tree), reason, text, ..Note::default() });
}

/// Records that the key was requeued behind the others.
pub(crate) fn tell_requeue(scribe: &mut Scribe<'_>, tree: &Tree) {
    let text = "continues after other keys had their turn".to_owned();
    let note =
        Note { about: about_installation(tree), reason: "Requeue".to_owned(), text, ..Note::default() };
    scribe.note(What::Requeue, note);
}

/// Records why the attempt has to be repeated. Texts of [`ApiError`] quote no values.
pub(crate) fn tell_api_error(scribe: &mut Scribe<'_>, tree: &Tree, error: &ApiError) {
    let reason = reason_of(error).to_owned();
    let text = format!("{error}; trying again after a pause");
    scribe.note(What::Error, Note { about: about_installation(tree), reason, text, ..Note::default() });
}

/// Records an error that is not one of the API server.
pub(crate) fn tell_error(scribe: &mut Scribe<'_>, tree: &Tree, error: &OperationError) {
    let text = format!("failed in the operation {}; trying again after a pause", error.operation);
    let note =
        Note { about: about_installation(tree), reason: error.reason.to_string(), text, ..Note::default() };
    scribe.note(What::Error, note);
}

fn reason_of(error: &ApiError) -> &'static str {
    match error {
        ApiError::Conflict(_) => "Conflict",
        ApiError::AlreadyExists(_) => "AlreadyExists",
        ApiError::NotFound(_) => "NotFound",
        ApiError::Forbidden { .. } => "Forbidden",
        ApiError::Refused { .. } | ApiError::WebhookAway { .. } => "Refused",
        ApiError::Undeclared { .. } => "Invalid",
        ApiError::NoNamespace { .. } => "NotFound",
        ApiError::Invalid { .. } => "Invalid",
        ApiError::TooLarge(_) => "TooLarge",
        ApiError::Terminating(_) => "Terminating",
        ApiError::Transient { .. } | ApiError::Unasked { .. } => "Unavailable",
    }
}

fn reason_of_write(error: &WriteError) -> &'static str {
    match error {
        WriteError::Api(error) => reason_of(error),
        WriteError::Taken(_) => "Taken",
    }
}

/// Entry for a write that has not been made yet.
pub(crate) struct Planned(Option<Note>);

impl Planned {
    /// Describes a planned write, compared with the present object.
    pub(crate) fn of(write: &Write, tree: &Tree, scribe: &Scribe<'_>) -> Self {
        if !scribe.is_heard() {
            return Self(None);
        }
        Self(Some(match write {
            Write::Installation(change) => of_job(Installation::KIND, change, tree.installation.get()),
            Write::Child(change) => of_job(
                Installation::KIND,
                change,
                tree.children.get(&change.name()).and_then(|known| known.get()),
            ),
            Write::Execution(change) => of_job(Execution::KIND, change, tree.execution.get()),
            Write::DeployItem(change) => of_job(DeployItem::KIND, change, None),
            Write::Sibling(patch) => Note {
                about: about(Installation::KIND, &patch.name, None),
                reason: "Trigger".to_owned(),
                text: "requests a job of an Installation that imports from this one".to_owned(),
                seen: patch.resource_version.clone(),
                written: None,
            },
            Write::DataObject(change) => plain(DataObject::KIND, change),
            Write::Target(change) => plain(Target::KIND, change),
            Write::Secret(change) => plain("Secret", change),
        }))
    }

    /// Records the write with its result.
    pub(crate) fn tell(self, scribe: &mut Scribe<'_>, written: Result<Option<String>, &WriteError>) {
        let Some(mut note) = self.0 else { return };
        match written {
            Ok(version) => {
                note.written = version;
                scribe.note(What::Write, note);
            }
            Err(error) => {
                note.text = format!("could not be written: {error}");
                note.reason = reason_of_write(error).to_owned();
                scribe.note(What::Error, note);
            }
        }
    }
}

/// Describes a write of an object without a status.
fn plain<K: ResourceExt>(kind: &str, change: &Change<K>) -> Note {
    let (reason, text, object) = match change {
        Change::Create(object) => ("Create", "creates it", Some(object)),
        Change::Ensure(object) => ("Ensure", "creates it, or replaces the object of its name", Some(object)),
        Change::Publish(object) => ("Publish", "exports it", Some(object)),
        Change::Replace(object) => ("Replace", "replaces its spec", Some(object)),
        Change::Status(object) => ("Status", "writes its status", Some(object)),
        Change::Metadata(_) => ("Metadata", "changes its annotations or finalizers", None),
        Change::Delete { .. } => ("Delete", "deletes it", None),
    };
    let (uid, seen) = match change {
        Change::Metadata(patch) => (None, patch.resource_version.clone()),
        Change::Delete { uid, resource_version, .. } => (uid.clone(), resource_version.clone()),
        _ => (object.and_then(ResourceExt::uid), object.and_then(ResourceExt::resource_version)),
    };
    let about = about(kind, &change.name(), uid.as_deref());
    Note { about, reason: reason.to_owned(), text: text.to_owned(), seen, written: None }
}

/// Describes a write of an object that has jobs.
fn of_job<K: HasJob + HasLastError>(kind: &str, change: &Change<K>, before: Option<&K>) -> Note {
    let mut note = plain(kind, change);
    let Change::Status(object) = change else { return note };
    let job = object.job();
    let had = before.map(|before| before.job().id.to_owned());
    let (from, to) =
        (before.map(|before| before.phase().as_str()).unwrap_or_default(), object.phase().as_str());
    // The former status of an item may be unknown: item statuses are only written to assign a job,
    // or to end it.
    let is_new = !job.id.is_empty() && had.as_deref().map_or(job.is_running(), |had| had != job.id);
    let has_ended = before.is_none_or(|before| before.job().is_running()) && !job.is_running();
    to.clone_into(&mut note.reason);
    note.text = match (is_new, has_ended, from == to) {
        (true, ..) => {
            "Triggered".clone_into(&mut note.reason);
            format!("begins the job {}", job.id)
        }
        (_, true, _) => format!("ends the job: {to}"),
        (_, _, false) => format!("changes the phase from {from} to {to}"),
        (_, _, true) => "writes its status".to_owned(),
    };
    // An error of an earlier job or phase says nothing about this one.
    let old = before.and_then(HasLastError::last_error);
    if let Some(error) = object.last_error().filter(|error| has_ended || old != Some(*error)) {
        note.reason.clone_from(&error.reason);
        let is_info = error.codes.iter().any(|code| code == ErrorCode::ForInfoOnly.as_str());
        match is_info {
            true => note.text.push_str(&format!(", and waits in the operation {}", error.operation)),
            false => note.text.push_str(&format!(", in the operation {}", error.operation)),
        }
        if !is_info && !error.codes.is_empty() {
            note.text.push_str(&format!(" ({})", error.codes.join(", ")));
        }
    }
    note
}

/// Kind whose status has a last error.
pub(crate) trait HasLastError {
    fn last_error(&self) -> Option<&LastError>;
}

impl HasLastError for Installation {
    fn last_error(&self) -> Option<&LastError> {
        self.status.as_ref()?.last_error.as_ref()
    }
}

impl HasLastError for Execution {
    fn last_error(&self) -> Option<&LastError> {
        self.status.as_ref()?.last_error.as_ref()
    }
}

impl HasLastError for DeployItem {
    fn last_error(&self) -> Option<&LastError> {
        self.status.as_ref()?.last_error.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::{Bus, JournalPart, Kind};
    use groundwork_controller::Journal;
    use groundwork_telemetry::Telemetry;
    use serde_json::{Value, json};

    use super::*;

    fn installation(status: &Value) -> Installation {
        serde_json::from_value(json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "4"},
            "spec": {}, "status": status,
        }))
        .unwrap()
    }

    fn told(before: &Value, after: &Value) -> (String, String) {
        let note = of_job("Installation", &Change::Status(installation(after)), Some(&installation(before)));
        assert_eq!((note.seen.as_deref(), note.about.uid.as_str()), (Some("4"), "u"));
        (note.reason, note.text)
    }

    #[test]
    fn what_a_status_changes_is_told_and_its_message_is_not() {
        let ended =
            json!({"observedGeneration": 1, "jobID": "1", "jobIDFinished": "1", "phase": "Succeeded"});
        let mut running =
            json!({"observedGeneration": 1, "jobID": "2", "jobIDFinished": "1", "phase": "Init"});
        assert_eq!(told(&ended, &running), ("Triggered".to_owned(), "begins the job 2".to_owned()));
        let mut later = running.clone();
        later["phase"] = json!("ObjectsCreated");
        assert_eq!(
            told(&running, &later),
            ("ObjectsCreated".to_owned(), "changes the phase from Init to ObjectsCreated".to_owned())
        );
        let mut failed = running.clone();
        failed["jobIDFinished"] = json!("2");
        failed["phase"] = json!("Failed");
        failed["lastError"] = json!({"operation": "o", "reason": "ImportsMissing", "message": "hunter2",
            "lastTransitionTime": null, "lastUpdateTime": null, "codes": ["ERR_X"]});
        running["lastError"] = failed["lastError"].clone();
        assert_eq!(
            told(&running, &failed),
            ("ImportsMissing".to_owned(), "ends the job: Failed, in the operation o (ERR_X)".to_owned())
        );
    }

    #[tokio::test]
    async fn a_write_is_told_with_what_came_of_it() {
        let bus = Bus::in_process();
        let journal = Journal::start(&bus, "renderer", &Telemetry::silent("renderer"));
        let key = ObjectId::new(Kind::new(Installation::GROUP, Installation::PLURAL), Some("n"), "a");
        let mut tree = Tree::new("n", "a");
        let mut scribe = journal.scribe(&key);
        tell_events(&mut scribe, &[(key.clone(), Sight::Alive("3".to_owned()))]);
        tree.installation
            .store(installation(&json!({"observedGeneration": 1, "jobID": "2", "phase": "Init"})));
        tell_job(&mut scribe, &tree);
        let write =
            || Write::Execution(Change::Delete { name: "a".into(), uid: None, resource_version: None });
        Planned::of(&write(), &tree, &scribe).tell(&mut scribe, Ok(Some("5".to_owned())));
        let refused = ApiError::Refused { object: "executions n/a".to_owned(), by: String::new() }.into();
        Planned::of(&write(), &tree, &scribe).tell(&mut scribe, Err(&refused));
        tell_rest(&mut scribe, &tree);
        drop(scribe);
        journal.flush().await;
        let entries = bus.read_journal(&JournalPart::Key(key), 10).await.unwrap();
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| format!("{} {} {} {}", entry.job, entry.what.as_str(), entry.reason, entry.text))
            .collect();
        assert_eq!(
            lines,
            [
                "2 event Changed an event reported a change of the Installation",
                "2 write Delete deletes it",
                "2 error Refused could not be written: executions n/a is refused by an admission policy of the cluster",
                "2 wait Init waits for progress of the objects below, or of a sibling",
            ]
        );
        assert_eq!((entries[0].seen.as_str(), entries[1].written.as_str()), ("3", "5"));
    }
}
