//! Changes of a revision: metadata, lifecycle, labels and gates of the package, conditions
//! (`packagevariants.md` 6.5, 6.14).

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use groundwork_api::metadata::{annotation, label};
use groundwork_api::strict::{Schemas, node};
use groundwork_api::{
    Kind as _, Lifecycle, ObjectMeta, PackageRevision, PackageRevisionSpec, ResourceExt as _, RevisionRecord,
    package_revision_crd,
};
use groundwork_apiserver::{Answer, Cause, FieldValidation, Refusal, Request, Verb, is_equivalent, patched};
use groundwork_controller::ApiError;
use groundwork_krm::{CreationError, set_package_metadata, set_readiness_gates};
use groundwork_packages::git::{Actor, GitRepository, Revision, StoreError};
use serde_json::Value;

use super::creating::{KIND, parsed};
use super::kinds::REVISIONS_OF_GROUP;
use super::{Api, object, refusals};
use crate::packages::git_content::knowing;
use crate::packages::records::{Attributes, Note, ensure, served, wanted, with_metadata};
use crate::packages::revision::{repository_key, revision_key};

/// Attempts at the write of a record that a sync writes at the same time.
pub(super) const ATTEMPTS: u32 = 5;
/// Subresource for decisions about revisions.
const APPROVAL: &str = "approval";
/// Looks at an unfinished draft that is to be proposed, and the pause before each: a variant saves
/// its changes a moment after the creation.
const FINISHING_LOOKS: u32 = 50;
const FINISHING_PAUSE: Duration = Duration::from_millis(100);

impl Api {
    /// Changes a revision, its lifecycle by way of `approval`, or its conditions by way of
    /// `status`. A patch without a version is based on what is there when it is applied, so it is
    /// applied again if another change comes first.
    pub(super) async fn change(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal> {
        let is_free =
            request.verb == Verb::Patch && request.json()?.pointer("/metadata/resourceVersion").is_none();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.change_once(request, warnings).await {
                Err(refusal) if is_free && refusal.is_conflict() && attempts < ATTEMPTS => warnings.clear(),
                changed => return changed,
            }
        }
    }

    async fn change_once(&self, request: &Request, warnings: &mut Vec<String>) -> Result<Answer, Refusal> {
        let (namespace, name) = (&request.namespace, &request.name);
        let record = self.record(namespace, name).await?;
        let present = served(&record);
        let body = match request.verb {
            Verb::Patch => patched(&object(&present)?, request)?,
            _ => request.json()?,
        };
        check_fields(&body, request, warnings)?;
        let mut asked = parsed(body)?;
        check_identity(&asked, &present, request)?;
        // Members that a client leaves out of an update stay.
        asked.spec.package_metadata =
            asked.spec.package_metadata.or_else(|| present.spec.package_metadata.clone());
        if request.subresource == "status" {
            return self.set_conditions(record, &asked, request).await;
        }
        if is_early(&present, &asked) && self.is_finished_soon(namespace, name).await? {
            return Err(Refusal::conflict(REVISIONS_OF_GROUP, name, &StoreError::Conflict.to_string()));
        }
        let is_approval = request.subresource == APPROVAL;
        let causes = match is_approval {
            true => faults_of_approval(&present, &asked),
            false => faults(&present, &asked),
        };
        if !causes.is_empty() {
            return Err(Refusal::invalid(KIND, name, causes));
        }
        if request.options.is_dry_run {
            return Ok(Answer::Object(object(&asked)?));
        }
        let store = self.store()?;
        let key = repository_key(&revision_key(namespace, name));
        let repository = knowing(store, &key, &record, &self.objects).await;
        let repository = repository.map_err(|error| refusals::of_store(&error, name))?;
        let in_git = repository.revision(name).map_err(|error| refusals::of_store(&error, name))?;
        self.ensure_current(&repository, &in_git, &record).await?;
        let actor = Actor { name: request.user.name.clone() };
        let mut changed = Arc::clone(&in_git);
        if !is_approval {
            changed = self.save_description(&repository, changed, &asked.spec, &actor).await?;
        }
        let to = asked.spec.lifecycle().unwrap_or(Lifecycle::Draft);
        if to != changed.lifecycle {
            changed = self.move_to(&repository, &changed, &present, to, &actor).await?;
        }
        let metadata = (!is_approval).then_some(&asked.metadata);
        let record = self.follow(&repository, &changed, record, metadata).await?;
        if changed.number != in_git.number {
            self.follow_package(&repository, &changed).await;
        }
        self.seen(&record).await;
        if record.attributes.deletion_timestamp.is_some() && record.attributes.finalizers.is_empty() {
            return self.finish_removal(&record, &actor).await;
        }
        Ok(Answer::Object(object(&served(&record))?))
    }

    /// Waits a moment until the variant of a draft has saved its changes, and reports whether it
    /// has.
    async fn is_finished_soon(&self, namespace: &str, name: &str) -> Result<bool, Refusal> {
        for _ in 0..FINISHING_LOOKS {
            tokio::time::sleep(FINISHING_PAUSE).await;
            let record = self.record(namespace, name).await?;
            if !record.attributes.annotations.contains_key(annotation::UNFINISHED) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes labels, annotations and gates of the package into the Kptfile of a draft.
    async fn save_description(
        &self,
        repository: &Arc<GitRepository>,
        revision: Arc<Revision>,
        asked: &PackageRevisionSpec,
        actor: &Actor,
    ) -> Result<Arc<Revision>, Refusal> {
        let in_git = &revision.facts.description;
        let metadata = asked.package_metadata.clone().unwrap_or_default();
        let gates = asked.readiness_gates.to_vec();
        let is_same = *metadata.labels == in_git.labels
            && *metadata.annotations == in_git.annotations
            && gates == in_git.readiness_gates;
        if is_same || revision.lifecycle != Lifecycle::Draft {
            return Ok(revision);
        }
        let settings = repository.settings();
        let (namespace, name) = (settings.namespace.clone(), revision.name.clone());
        let key = repository_key(&revision_key(&namespace, &name));
        let (repository, actor) = (Arc::clone(repository), actor.clone());
        let saved = self.store()?.write(&key, move |store| {
            let mut files = repository.content(&revision)?.texts;
            let package = &revision.package;
            let refused = |error: CreationError| StoreError::Refused(error.to_string());
            set_package_metadata(&mut files, package, &metadata.labels, &metadata.annotations)
                .map_err(refused)?;
            set_readiness_gates(&mut files, package, &gates).map_err(refused)?;
            store.stage_save(&namespace, &revision.name, &revision.version(), files)?.commit(&actor)
        });
        Ok(saved.await.map_err(|error| refusals::of_store(&error, &name))?.revision)
    }

    /// Moves a revision to another lifecycle in git.
    async fn move_to(
        &self,
        repository: &Arc<GitRepository>,
        revision: &Revision,
        present: &PackageRevision,
        to: Lifecycle,
        actor: &Actor,
    ) -> Result<Arc<Revision>, Refusal> {
        if to == Lifecycle::Published && revision.lifecycle == Lifecycle::Proposed {
            // The conditions that programs have written count like those of the Kptfile.
            let gates = groundwork_fleet::approvable(present);
            gates.map_err(|refusal| {
                Refusal::forbidden(REVISIONS_OF_GROUP, &revision.name, &refusal.to_string())
            })?;
        }
        let (namespace, name, version) =
            (repository.settings().namespace.clone(), revision.name.clone(), revision.version());
        let key = repository_key(&revision_key(&namespace, &name));
        let actor = actor.clone();
        let moved = self.store()?.write(&key, {
            let name = name.clone();
            move |store| store.set_lifecycle(&namespace, &name, &version, to, &actor)
        });
        moved.await.map_err(|error| refusals::of_store(&error, &name))
    }

    /// Refuses a change that was decided on a record which another push has left behind: the
    /// request would overwrite that push. The record then follows git, so that the next attempt
    /// sees it.
    pub(super) async fn ensure_current(
        &self,
        repository: &Arc<GitRepository>,
        revision: &Arc<Revision>,
        record: &RevisionRecord,
    ) -> Result<(), Refusal> {
        let lock = record.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.as_ref());
        if lock.and_then(|lock| lock.commit.as_deref()) == Some(&revision.commit.to_string()) {
            return Ok(());
        }
        self.follow(repository, revision, record.clone(), None).await?;
        Err(Refusal::conflict(REVISIONS_OF_GROUP, &revision.name, &StoreError::Conflict.to_string()))
    }

    /// Writes the record of a changed revision, and metadata that the user asks for. A sync may
    /// write the same record at the same time; other users' changes end in a conflict.
    pub(super) async fn follow(
        &self,
        repository: &Arc<GitRepository>,
        revision: &Arc<Revision>,
        seen: RevisionRecord,
        metadata: Option<&ObjectMeta>,
    ) -> Result<RevisionRecord, Refusal> {
        let name = &revision.name;
        let is_latest = repository.snapshot().latest(repository.settings()).contains(name);
        let mut present = seen.clone();
        let mut attempts = 0;
        loop {
            let mut next = wanted(repository, revision, Some(is_latest), Some(&present), Note::Kept);
            if let Some(metadata) = metadata {
                with_metadata(&mut next, metadata);
                // The label is the store's, whatever the user has read.
                next = wanted(repository, revision, Some(is_latest), Some(&next), Note::Kept);
            }
            if next == present {
                return Ok(present);
            }
            attempts += 1;
            match self.objects.replace(&next).await {
                Err(ApiError::Conflict(_)) if attempts < ATTEMPTS => {
                    present = self.record(&repository.settings().namespace, name).await?;
                    if present.attributes != seen.attributes && metadata.is_some() {
                        let text = StoreError::Conflict.to_string();
                        return Err(Refusal::conflict(REVISIONS_OF_GROUP, name, &text));
                    }
                }
                written => return written.map_err(|error| refusals::of_api(&error, name)),
            }
        }
    }

    /// Writes the records of a package's other revisions after one was published or deleted: the
    /// label of the latest moves, and the head of the branch has changed. The next sync does the
    /// same, so a failure is no failure of the request.
    pub(super) async fn follow_package(&self, repository: &Arc<GitRepository>, changed: &Revision) {
        let (snapshot, settings) = (repository.snapshot(), repository.settings());
        let latest = snapshot.latest(settings);
        let others = snapshot.revisions.values().filter(|found| {
            found.package == changed.package && found.name != changed.name && found.number != 0
        });
        for revision in others {
            let is_head = revision.is_placeholder(&settings.branch);
            let written = match self.objects.get::<RevisionRecord>(&settings.namespace, &revision.name).await
            {
                Ok(Some(record)) => self.follow_other(repository, revision, record, latest).await,
                Ok(None) if is_head => {
                    let none = Attributes::default();
                    let made = ensure(repository, revision, None, None, none, Note::Kept, &self.objects);
                    made.await.map(Some).map_err(|error| error.to_string())
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error.to_string()),
            };
            match written {
                // Lists show the record before the request is answered.
                Ok(Some(record)) => self.seen(&record).await,
                Ok(None) => {}
                Err(problem) => {
                    tracing::debug!(revision = revision.name, problem, "a record waits for the next sync");
                }
            }
        }
    }

    /// Writes the record of another revision of the package, if its label or its content changes.
    async fn follow_other(
        &self,
        repository: &Arc<GitRepository>,
        revision: &Arc<Revision>,
        record: RevisionRecord,
        latest: &BTreeSet<String>,
    ) -> Result<Option<RevisionRecord>, String> {
        let has_label = record.attributes.labels.contains_key(label::LATEST_REVISION);
        let is_head = revision.is_placeholder(&repository.settings().branch);
        if !is_head && has_label == latest.contains(&revision.name) {
            return Ok(None);
        }
        self.follow(repository, revision, record, None).await.map(Some).map_err(|error| error.message)
    }

    /// Replaces the conditions that programs write beside those of the Kptfile.
    async fn set_conditions(
        &self,
        mut record: RevisionRecord,
        asked: &PackageRevision,
        request: &Request,
    ) -> Result<Answer, Refusal> {
        let in_git = record.status.clone().unwrap_or_default().conditions;
        let asked = asked.status.clone().unwrap_or_default().conditions;
        let own = asked.into_iter().filter(|condition| !in_git.contains(condition));
        let own: Vec<_> = own.collect();
        record.attributes.conditions = if own.is_empty() { Default::default() } else { own.into() };
        if request.options.is_dry_run {
            return Ok(Answer::Object(object(&served(&record))?));
        }
        let written = self.objects.replace(&record).await;
        let written = written.map_err(|error| refusals::of_api(&error, &request.name))?;
        self.seen(&written).await;
        Ok(Answer::Object(object(&served(&written))?))
    }
}

/// Reports whether a draft is to be proposed before its variant has saved its changes.
fn is_early(present: &PackageRevision, asked: &PackageRevision) -> bool {
    let is_unfinished = present.annotations().contains_key(annotation::UNFINISHED)
        && asked.annotations().contains_key(annotation::UNFINISHED);
    is_unfinished && asked.spec.lifecycle() == Some(Lifecycle::Proposed)
}

/// Checks name, UID and version of an object that replaces the present one.
fn check_identity(
    asked: &PackageRevision,
    present: &PackageRevision,
    request: &Request,
) -> Result<(), Refusal> {
    let name = &request.name;
    if asked.metadata.name.as_ref().is_some_and(|given| given != name) {
        let given = asked.name_any();
        let why = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Refusal::bad_request(why));
    }
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let (Some(asked), Some(present)) = (given(&asked.metadata.uid), given(&present.metadata.uid))
        && asked != present
    {
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {present}");
        return Err(Refusal::conflict(REVISIONS_OF_GROUP, name, &why));
    }
    match given(&asked.metadata.resource_version) {
        None if request.verb == Verb::Update => {
            let cause = Cause::invalid("metadata.resourceVersion", "", "must be specified for an update");
            Err(Refusal::invalid(KIND, name, vec![cause]))
        }
        Some(version) if Some(&version) != present.metadata.resource_version.as_ref() => {
            Err(Refusal::conflict(REVISIONS_OF_GROUP, name, &StoreError::Conflict.to_string()))
        }
        _ => Ok(()),
    }
}

/// Returns the faults of an update, in Porch's words.
fn faults(present: &PackageRevision, asked: &PackageRevision) -> Vec<Cause> {
    let mut causes = Vec::new();
    if present.labels().get(label::LATEST_REVISION) != asked.labels().get(label::LATEST_REVISION) {
        let field = format!("metadata.labels.{}", label::LATEST_REVISION);
        causes.push(Cause::forbidden(&field, "label is managed by porch and cannot be modified by users"));
    }
    let before = present.spec.lifecycle.as_deref().unwrap_or("Draft");
    let only = |allowed: &str| format!("value can be only updated to {allowed}");
    let Some(to) = asked.spec.lifecycle() else {
        let lifecycle = asked.spec.lifecycle.as_deref().unwrap_or_default();
        causes.push(Cause::invalid(
            "spec.lifecycle",
            lifecycle,
            &only("Draft,Proposed,Published,DeletionProposed"),
        ));
        return causes;
    };
    match present.spec.lifecycle() {
        None | Some(Lifecycle::Draft | Lifecycle::Proposed) => {
            if !matches!(to, Lifecycle::Draft | Lifecycle::Proposed) {
                causes.push(Cause::invalid("spec.lifecycle", before, &only("Draft,Proposed")));
            }
            if is_early(present, asked) {
                let why = format!(
                    "the package variant of this draft has not saved its changes yet (annotation {}): wait for it, or save \
                     the files yourself",
                    annotation::UNFINISHED
                );
                causes.push(Cause::forbidden("spec.lifecycle", &why));
            }
            causes.extend(fixed(&present.spec, &asked.spec));
            if present.spec.lifecycle() == Some(Lifecycle::Proposed)
                && is_described_otherwise(&present.spec, &asked.spec)
            {
                let why =
                    "labels, annotations and gates of the package can only be changed while it is a Draft";
                causes.push(Cause::forbidden("spec", why));
            }
        }
        Some(Lifecycle::Published | Lifecycle::DeletionProposed) => {
            if !matches!(to, Lifecycle::Published | Lifecycle::DeletionProposed) {
                let wanted = if before == "Published" { "'ProposeDeletion'" } else { "'Published'" };
                let why = format!("package with {before} lifecycle value can only be updated to {wanted}");
                causes.push(Cause::invalid("spec.lifecycle", before, &why));
            }
            let others = |spec: &PackageRevisionSpec| PackageRevisionSpec { lifecycle: None, ..spec.clone() };
            if !is_equivalent(&others(&present.spec), &others(&asked.spec)) {
                let why = "spec can only update package with lifecycle value one of Draft,Proposed";
                causes.push(Cause::invalid("spec", before, why));
            }
        }
    }
    causes
}

/// Returns the faults of changed fields that the store alone sets.
fn fixed(present: &PackageRevisionSpec, asked: &PackageRevisionSpec) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    for (field, before, after) in [
        ("packageName", text(&present.package_name), text(&asked.package_name)),
        ("repository", text(&present.repository), text(&asked.repository)),
        ("workspaceName", text(&present.workspace_name), text(&asked.workspace_name)),
        (
            "revision",
            present.revision.unwrap_or_default().to_string(),
            asked.revision.unwrap_or_default().to_string(),
        ),
    ] {
        if before != after {
            causes.push(Cause::invalid(&format!("spec.{field}"), &after, "field is immutable"));
        }
    }
    if !is_equivalent(&present.tasks, &asked.tasks) {
        causes.push(Cause::forbidden("spec.tasks", "tasks are set when a revision is created"));
    }
    causes
}

fn is_described_otherwise(present: &PackageRevisionSpec, asked: &PackageRevisionSpec) -> bool {
    let metadata = |spec: &PackageRevisionSpec| spec.package_metadata.clone().unwrap_or_default();
    let (one, other) = (metadata(present), metadata(asked));
    *one.labels != *other.labels
        || *one.annotations != *other.annotations
        || *present.readiness_gates != *asked.readiness_gates
}

/// Returns the faults of a decision, in Porch's words.
fn faults_of_approval(present: &PackageRevision, asked: &PackageRevision) -> Vec<Cause> {
    let before = present.spec.lifecycle.as_deref().unwrap_or("Draft");
    let after = asked.spec.lifecycle.as_deref().unwrap_or("Draft");
    let mut causes = Vec::new();
    let mut fault = |value: &str, why: &str| causes.push(Cause::invalid("spec.lifecycle", value, why));
    match before {
        "Published" if after != "DeletionProposed" => {
            fault(before, "package with Published lifecycle value can only be updated to 'ProposeDeletion'");
        }
        "DeletionProposed" if after != "Published" => {
            fault(before, "package with DeletionProposed lifecycle value can only be updated to 'Published'");
        }
        "Published" | "DeletionProposed" | "Proposed" => {}
        _ => fault(
            before,
            &format!(
                "cannot approve package with {before} lifecycle value; only Proposed packages can be approved"
            ),
        ),
    }
    match after {
        "Draft" | "Published" => {}
        "DeletionProposed" if before == "Published" => {}
        "DeletionProposed" => fault(
            after,
            "cannot update lifecycle DeletionProposed; only Published packages require approval for deletion",
        ),
        _ => fault(after, "value for approval can be only one of Draft,Published"),
    }
    causes
}

/// Treats fields that the kind does not have as the request asks: a refusal, a warning, or nothing.
pub(super) fn check_fields(
    body: &Value,
    request: &Request,
    warnings: &mut Vec<String>,
) -> Result<(), Refusal> {
    static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| Schemas::of([package_revision_crd()]));
    if request.options.field_validation == FieldValidation::Ignore {
        return Ok(());
    }
    let node = node(&body.to_string()).map_err(|error| Refusal::bad_request(error.to_string()))?;
    let findings =
        SCHEMAS.check(PackageRevision::API_VERSION, PackageRevision::KIND, &node).unwrap_or_default();
    let texts = findings.into_iter().map(|(_, text)| text);
    let unknown: Vec<String> = texts.filter(|text| text.starts_with("unknown field")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    if request.options.field_validation == FieldValidation::Strict {
        return Err(Refusal::bad_request(format!("strict decoding error: {}", unknown.join(", "))));
    }
    warnings.extend(unknown);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn revision(lifecycle: &str, changed: &Value) -> PackageRevision {
        let mut object = json!({
            "metadata": {"name": "edge.dns.w", "labels": {"a": "b"}},
            "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "w", "lifecycle": lifecycle,
                "tasks": [{"type": "init", "init": {}}]},
        });
        for (path, value) in changed.as_object().into_iter().flatten() {
            object["spec"][path] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn texts(causes: &[Cause]) -> Vec<String> {
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn updates() {
        let none = json!({});
        let only = "spec.lifecycle: Invalid value: \"Proposed\": value can be only updated to Draft,Proposed";
        for (from, to, changed, expected) in [
            ("Draft", "Proposed", &none, vec![]),
            ("Proposed", "Draft", &none, vec![]),
            ("Published", "DeletionProposed", &none, vec![]),
            ("DeletionProposed", "Published", &none, vec![]),
            ("Proposed", "Published", &none, vec![only]),
            (
                "Published",
                "Draft",
                &none,
                vec![
                    "spec.lifecycle: Invalid value: \"Published\": package with Published lifecycle value can only be updated to 'ProposeDeletion'",
                ],
            ),
            (
                "Draft",
                "Other",
                &none,
                vec![
                    "spec.lifecycle: Invalid value: \"Other\": value can be only updated to Draft,Proposed,Published,DeletionProposed",
                ],
            ),
            (
                "Draft",
                "Draft",
                &json!({"workspaceName": "v"}),
                vec!["spec.workspaceName: Invalid value: \"v\": field is immutable"],
            ),
            (
                "Draft",
                "Draft",
                &json!({"tasks": []}),
                vec!["spec.tasks: Forbidden: tasks are set when a revision is created"],
            ),
            ("Draft", "Draft", &json!({"packageMetadata": {"labels": {"x": "y"}}}), vec![]),
            (
                "Published",
                "Published",
                &json!({"packageMetadata": {"labels": {"x": "y"}}}),
                vec![
                    "spec: Invalid value: \"Published\": spec can only update package with lifecycle value one of Draft,Proposed",
                ],
            ),
            (
                "Proposed",
                "Proposed",
                &json!({"packageMetadata": {"labels": {"x": "y"}}}),
                vec![
                    "spec: Forbidden: labels, annotations and gates of the package can only be changed while it is a Draft",
                ],
            ),
        ] {
            let found = faults(&revision(from, &none), &revision(to, changed));
            assert_eq!(texts(&found), expected, "{from} {to} {changed}");
        }
        // Clients in Go leave out what is empty.
        let whole = json!({"readinessGates": [], "packageMetadata": {"labels": {}, "annotations": {"a": "b"}},
            "tasks": [{"type": "init", "init": {"keywords": []}}]});
        let bare =
            json!({"packageMetadata": {"annotations": {"a": "b"}}, "tasks": [{"type": "init", "init": {}}]});
        for (from, to) in [("Published", "DeletionProposed"), ("Draft", "Proposed"), ("Proposed", "Draft")] {
            assert_eq!(texts(&faults(&revision(from, &whole), &revision(to, &bare))), Vec::<String>::new());
        }
        let mut labelled = revision("Draft", &none);
        labelled.metadata.labels = Some([(label::LATEST_REVISION.to_owned(), "true".to_owned())].into());
        assert!(
            texts(&faults(&revision("Draft", &none), &labelled))[0].contains("cannot be modified by users")
        );
    }

    #[test]
    fn approvals() {
        for (from, to, expected) in [
            ("Proposed", "Published", vec![]),
            ("Proposed", "Draft", vec![]),
            ("Published", "DeletionProposed", vec![]),
            ("DeletionProposed", "Published", vec![]),
            (
                "Draft",
                "Published",
                vec![
                    "cannot approve package with Draft lifecycle value; only Proposed packages can be approved",
                ],
            ),
            (
                "Published",
                "Draft",
                vec!["package with Published lifecycle value can only be updated to 'ProposeDeletion'"],
            ),
            ("Proposed", "Proposed", vec!["value for approval can be only one of Draft,Published"]),
            (
                "Proposed",
                "DeletionProposed",
                vec![
                    "cannot update lifecycle DeletionProposed; only Published packages require approval for deletion",
                ],
            ),
        ] {
            let none = json!({});
            let found = faults_of_approval(&revision(from, &none), &revision(to, &none));
            let whys: Vec<&str> =
                found.iter().filter_map(|cause| cause.message.split("\": ").last()).collect();
            assert_eq!(whys, expected, "{from} {to}");
        }
    }
}
