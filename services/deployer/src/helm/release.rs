//! Install, upgrade, rollback and uninstall of a release (`helm.md` 9.5 to 9.8), in rounds.
//!
//! ```text
//! history ──next──> Begin (render, check, record pending) ──┐
//!            └────> Continue, Settled ──────────────────────┴─> hooks ──> objects ──> wait
//!                                                                  ──> hooks ──> deployed
//! ```
//!
//! The record stores how far an operation has come. Every object is either created by name or
//! applied again without a change. So a process may end between any two writes, and the next round
//! continues.

use std::collections::HashSet;
use std::iter;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use groundwork_apply::{
    Applied, ApplyError, Cluster, Deadline, ManagedResource, Owner as ItemOwner, PatchKind, ReadinessRules,
    Reference, Seen, ServerSideApply, Waiting, Whose, create_declared, server_side_apply,
};
use groundwork_controller::ApiError;
use groundwork_deploy::Round;
use groundwork_helm::{Document, Record, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::configuration::OperationOptions;
use super::history::{Author, History, Stored};
use super::hooks::Hooks;
use super::marks::siblings;
use super::objects::{Object, Owner, Unknown, objects, parse};
use super::waiting::first_unready;

/// Number of objects that are read or applied at the same time.
const SIDE_BY_SIDE: usize = 16;
/// Field managers whose fields Groundwork takes over: Helm's, and that of Landscaper's helm
/// deployer.
const PREDECESSORS: [&str; 2] = ["helm", "helm-deployer-controller"];
/// Field managers of deployers from whose items an object may be taken over. Their fields are
/// removed together with their marks.
const FORMER_OWNERS: [&str; 4] =
    ["helm", "helm-deployer-controller", "manifest-deployer-controller", crate::MANAGER];

/// Next step for a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Create a revision: an install or an upgrade. `revision` exists already if it is the failed
    /// one of this job, which is tried again.
    Begin { revision: i64, is_upgrade: bool },
    /// An operation of this job is under way.
    Continue,
    /// This job has deployed the release.
    Settled,
    /// An earlier job has deployed the release: a new revision is needed only if the chart renders
    /// to something else now (`helm.md` 9.6, R20).
    Compare { revision: i64 },
    /// An upgrade has failed, and the revision before was restored.
    RolledBack,
    /// Another program is working on the release.
    Busy,
}

/// Decides the next step from the records (`helm.md` 9.5, 9.6, 9.8).
pub(super) fn next(history: &History<'_>, author: &Author, patience: SignedDuration) -> Next {
    let Some(last) = history.last() else { return Next::Begin { revision: 1, is_upgrade: false } };
    let revision = last.record.revision();
    let upgrade = Next::Begin { revision: revision + 1, is_upgrade: true };
    let is_of_job = last.is_of(&author.job);
    match last.record.status() {
        status if status.is_pending() && is_of_job => Next::Continue,
        // Either an earlier process of this item has died, or the record is another program's and
        // older than `patience`, and will not be finished any more.
        status if status.is_pending() => {
            let may_be_alive = !last.is_of_item(&author.uid) && last.is_younger_than(patience);
            if may_be_alive { Next::Busy } else { upgrade }
        }
        Status::Deployed if is_of_job && last.record.description().starts_with("Rollback to ") => {
            Next::RolledBack
        }
        Status::Deployed if is_of_job => Next::Settled,
        Status::Deployed => Next::Compare { revision },
        Status::Failed if is_of_job && last.is_of_item(&author.uid) => {
            Next::Begin { revision, is_upgrade: history.revisions.len() > 1 || revision > 1 }
        }
        _ => upgrade,
    }
}

/// State of a release during one round.
#[derive(Debug)]
pub(super) struct ReleaseRun<'c> {
    pub(super) cluster: &'c Cluster,
    pub(super) history: History<'c>,
    pub(super) owner: Owner,
    pub(super) author: Author,
    /// Marks that the item and its release put on objects.
    pub(super) marks: ItemOwner,
    pub(super) options: OperationOptions,
    /// Readiness rules of the item.
    pub(super) rules: ReadinessRules,
    pub(super) deadline: Deadline,
    /// Objects that former rounds have applied.
    pub(super) former: Vec<ManagedResource>,
    pub(super) applied: Vec<ManagedResource>,
    /// True once all objects of the release were applied in this round.
    pub(super) is_complete: bool,
    /// Objects of the item that do not belong to the release. Those that the release does not list
    /// are given up.
    pub(super) estate: Vec<ManagedResource>,
    /// Deadline of a rollback, which has as much time as the upgrade had.
    pub(super) rollback_until: Option<Timestamp>,
    pub(super) seen: Seen,
    /// Objects that did not exist a moment ago, so that the API server is not asked again.
    pub(super) absent: HashSet<Reference>,
    /// True if the item has taken over a release of others.
    pub(super) is_adopted: bool,
    pub(super) round: &'c Round<'c>,
}

/// Progress of an operation.
#[derive(Debug, Clone)]
pub(super) enum Carried {
    Done,
    Waiting(Waiting),
}

impl ReleaseRun<'_> {
    /// Runs all checks that need no write, and stores the record of the new revision.
    pub(super) async fn begin(
        &mut self,
        mut record: Record,
        crds: &[Document],
        creates_namespace: bool,
    ) -> Result<Carried, ApplyError> {
        let is_install = record.status() == Status::PendingInstall;
        if is_install && let Carried::Waiting(waiting) = self.create_crds(crds).await? {
            return Ok(Carried::Waiting(waiting));
        }
        let namespace = self.owner.namespace.clone();
        let wanted = objects(self.cluster, record.manifest(), &namespace, Unknown::IsError).await?;
        let old = self.old_objects(&record).await?;
        self.check_adoption(&wanted, &old, is_install).await?;
        if creates_namespace {
            self.create_namespace().await?;
        }
        self.end_interrupted(record.revision()).await?;
        let now = Timestamp::now().to_string();
        record.set_time("last_deployed", &now);
        match self.history.deployed().or_else(|| self.history.last()).map(|stored| stored.record.clone()) {
            Some(before) if before.revision() != record.revision() => record.keep_first_deployed(&before),
            _ => record.set_time("first_deployed", &now),
        }
        if self.history.revision(record.revision()).is_some() {
            // The failed revision of this job is reused: with a new one for each of ten retries,
            // the history would lose every good revision.
            return self.history.update(record, &self.author).await.map(|()| Carried::Done);
        }
        if !is_install {
            self.history.prune().await?;
        }
        self.history.create(record, &self.author).await?;
        Ok(Carried::Done)
    }

    /// Marks the last record as failed if its operation was interrupted, so that it does not stay
    /// pending.
    async fn end_interrupted(&mut self, revision: i64) -> Result<(), ApplyError> {
        let is_left =
            |stored: &&Stored| stored.record.status().is_pending() && stored.record.revision() != revision;
        let Some(mut left) = self.history.last().filter(is_left).map(|stored| stored.record.clone()) else {
            return Ok(());
        };
        left.set_status(Status::Failed, "interrupted");
        self.history.update(left, &self.author).await
    }

    async fn create_crds(&self, crds: &[Document]) -> Result<Carried, ApplyError> {
        for document in crds {
            let failed = |error: &dyn std::fmt::Display| {
                ApplyError::Configuration(format!("failed to install CRD {}: {error}", document.file))
            };
            for object in parse(&document.content).map_err(|error| failed(&error))? {
                let reference = Reference::of(&object);
                let kind = self.cluster.kind(&reference.api_version, &reference.kind).await?;
                let kind =
                    kind.ok_or_else(|| failed(&"the cluster does not serve definitions of this version"))?;
                let live = match self.cluster.get_of(&kind, &reference).await? {
                    Some(live) => live,
                    None => match self.cluster.create(&kind, &object).await {
                        Ok(_) | Err(ApiError::AlreadyExists(_)) => {
                            self.cluster.get_of(&kind, &reference).await?.unwrap_or_default()
                        }
                        Err(error @ ApiError::Invalid { .. }) => return Err(failed(&error)),
                        Err(error) => return Err(error.into()),
                    },
                };
                // Objects of the new kind can be created only once the definition is established.
                if let Some(waiting) =
                    first_unready(self.cluster, ReadinessRules::Kinds, iter::once((&reference, &live)))
                        .await?
                {
                    let what = format!("helm deployer: the definition {reference}");
                    return Ok(Carried::Waiting(Waiting { what, ..waiting }));
                }
            }
        }
        Ok(Carried::Done)
    }

    async fn create_namespace(&self) -> Result<(), ApplyError> {
        let name = &self.owner.namespace;
        let Some(kind) = self.cluster.kind("v1", "Namespace").await? else { return Ok(()) };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}});
        if self.cluster.get_of(&kind, &Reference::of(&namespace)).await?.is_some() {
            return Ok(());
        }
        match self.cluster.create(&kind, &namespace).await {
            Ok(_) | Err(ApiError::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that existing objects belong to this release or may be handed to it. Runs before the
    /// first write.
    async fn check_adoption(
        &mut self,
        wanted: &[Object],
        old: &[Object],
        is_install: bool,
    ) -> Result<(), ApplyError> {
        if self.options.take_ownership {
            return Ok(());
        }
        let is_new = |object: &&Object| !old.iter().any(|one| one.reference == object.reference);
        let work: Vec<_> = wanted
            .iter()
            .filter(is_new)
            .map(|object| self.cluster.get_of(&object.kind, &object.reference))
            .collect();
        let found: Vec<_> = stream::iter(work).buffered(SIDE_BY_SIDE).collect().await;
        for (object, live) in wanted.iter().filter(is_new).zip(found) {
            let Some(live) = live? else {
                self.absent.insert(object.reference.clone());
                continue;
            };
            // The item itself applied the object, without a release.
            if self.marks.is_labelled(&live) {
                continue;
            }
            if let Some(problem) = self.owner.problem(&live) {
                let (operation, reference) =
                    (if is_install { "install" } else { "update" }, &object.reference);
                let text = format!(
                    "Unable to continue with {operation}: {} {:?} in namespace {:?} exists and cannot be imported into the current \
                     release: {problem}",
                    reference.kind,
                    reference.name,
                    reference.namespace.as_deref().unwrap_or_default(),
                );
                let may_be_given_up = match self.marks.whose(&live) {
                    Whose::Another(marked) => siblings(self.round).may_give_up(&marked).await?,
                    Whose::Own | Whose::Nobodys => false,
                };
                return Err(match may_be_given_up {
                    true => ApplyError::Retry(text),
                    false => ApplyError::Configuration(text),
                });
            }
        }
        Ok(())
    }

    /// Returns the objects that earlier revisions left in the cluster: those of the current
    /// revision, and of the failed ones after it (`helm.md` 9.6, R16).
    async fn old_objects(&self, record: &Record) -> Result<Vec<Object>, ApplyError> {
        let before = |stored: &&Stored| stored.record.revision() < record.revision();
        let current = self.history.deployed().filter(before).map_or(0, |stored| stored.record.revision());
        let mut old: Vec<Object> = Vec::new();
        for stored in self.history.revisions.iter().filter(before) {
            let is_failed = matches!(stored.record.status(), Status::Failed | Status::Unknown)
                || stored.record.status().is_pending();
            if stored.record.revision() != current && !(stored.record.revision() > current && is_failed) {
                continue;
            }
            for object in
                objects(self.cluster, stored.record.manifest(), &self.owner.namespace, Unknown::IsSkipped)
                    .await?
            {
                old.retain(|known| !known.reference.is_same(&object.reference));
                old.push(object);
            }
        }
        Ok(old)
    }

    /// Continues the operation of the last record as far as possible.
    pub(super) async fn carry_on(&mut self) -> Result<Carried, ApplyError> {
        let Some(mut record) = self.history.last().map(|stored| stored.record.clone()) else {
            return Ok(Carried::Done);
        };
        let (before, after) = match record.status() {
            Status::PendingInstall => ("pre-install", "post-install"),
            Status::PendingRollback => ("pre-rollback", "post-rollback"),
            _ => ("pre-upgrade", "post-upgrade"),
        };
        let told = |event: &str, text: String| match event {
            "pre-install" | "post-install" => format!("failed {event}: {text}"),
            "pre-upgrade" | "post-upgrade" => format!("{event} hooks failed: {text}"),
            _ => text,
        };
        let failed = |event: &str, error: ApplyError| match error {
            ApplyError::Configuration(text) => ApplyError::Configuration(told(event, text)),
            ApplyError::Failed(text) => ApplyError::Failed(told(event, text)),
            error => error,
        };
        if let Some(what) =
            self.run_hooks(&mut record, before).await.map_err(|error| failed(before, error))?
        {
            return self.waits(what);
        }
        let namespace = self.owner.namespace.clone();
        let wanted = objects(self.cluster, record.manifest(), &namespace, Unknown::IsError).await?;
        let old = self.old_objects(&record).await?;
        self.apply(&wanted, &old).await?;
        if let Some(what) = self.drop_surplus(&wanted, &old).await? {
            return self.waits(what);
        }
        if self.options.wait {
            let live = wanted.iter().filter_map(|object| self.seen.get_key_value(&object.reference));
            if let Some(waiting) = first_unready(self.cluster, self.rules, live).await? {
                return self.waits(waiting);
            }
        }
        if let Some(what) = self.run_hooks(&mut record, after).await.map_err(|error| failed(after, error))? {
            return self.waits(what);
        }
        self.finish(record).await?;
        Ok(Carried::Done)
    }

    pub(super) async fn warn(&self, message: &str) {
        self.round.warn("ChartWarning", message).await;
    }

    pub(super) fn waits(&self, waiting: Waiting) -> Result<Carried, ApplyError> {
        self.deadline.check(&waiting.what)?;
        Ok(Carried::Waiting(waiting))
    }

    pub(super) async fn run_hooks(
        &mut self,
        record: &mut Record,
        event: &str,
    ) -> Result<Option<Waiting>, ApplyError> {
        let mut hooks = Hooks {
            cluster: self.cluster,
            history: &mut self.history,
            author: &self.author,
            marks: &self.marks,
            namespace: &self.owner.namespace,
            deadline: self.deadline,
            round: self.round,
        };
        hooks.run(record, event).await
    }

    async fn finish(&mut self, mut record: Record) -> Result<(), ApplyError> {
        let description = match record.status() {
            Status::PendingInstall => "Install complete".to_owned(),
            Status::PendingRollback => record.description().to_owned(),
            _ => "Upgrade complete".to_owned(),
        };
        let deployed: Vec<Record> = self
            .history
            .revisions
            .iter()
            .filter(|stored| {
                stored.record.status() == Status::Deployed && stored.record.revision() < record.revision()
            })
            .map(|stored| stored.record.clone())
            .collect();
        for mut before in deployed {
            let description = before.description().to_owned();
            before.set_status(Status::Superseded, &description);
            self.history.update(before, &self.author).await?;
        }
        record.set_status(Status::Deployed, &description);
        self.history.update(record, &self.author).await
    }

    /// Applies the objects of the last record again, without a new revision.
    pub(super) async fn repair(&mut self) -> Result<Carried, ApplyError> {
        let Some(manifest) = self.history.last().map(|stored| stored.record.manifest().to_owned()) else {
            return Ok(Carried::Done);
        };
        let namespace = self.owner.namespace.clone();
        let wanted = objects(self.cluster, &manifest, &namespace, Unknown::IsError).await?;
        self.apply(&wanted, &[]).await?;
        match self.drop_surplus(&wanted, &[]).await? {
            Some(what) => self.waits(what),
            None => Ok(Carried::Done),
        }
    }

    /// Applies objects in the order of the manifest. Consecutive objects of one kind are applied at
    /// the same time, and all their errors are returned.
    async fn apply(&mut self, wanted: &[Object], old: &[Object]) -> Result<(), ApplyError> {
        check_repeated(wanted)?;
        for group in wanted.chunk_by(|left, right| left.kind == right.kind) {
            let work: Vec<_> = group.iter().map(|object| self.apply_one(object, old)).collect();
            let answers: Vec<_> = stream::iter(work).buffered(SIDE_BY_SIDE).collect().await;
            let mut errors = Vec::new();
            for (object, answer) in group.iter().zip(answers) {
                match answer {
                    Ok((stored, applied, warning)) => {
                        if let Some(warning) = warning {
                            self.warn(&warning).await;
                        }
                        self.applied.push(remembered(&object.reference, applied));
                        self.seen.insert(object.reference.clone(), stored);
                    }
                    Err(error) => errors.push(error),
                }
            }
            if let Some(error) = ApplyError::of_all(errors) {
                return Err(error);
            }
        }
        self.is_complete = true;
        Ok(())
    }

    async fn apply_one(
        &self,
        object: &Object,
        old: &[Object],
    ) -> Result<(Value, Applied, Option<String>), ApplyError> {
        let mut manifest = object.manifest.clone();
        self.owner.stamp(&mut manifest);
        let live = match self.absent.contains(&object.reference) {
            true => None,
            false => self.cluster.get_of(&object.kind, &object.reference).await?,
        };
        let Some(live) = live else {
            self.deadline.check("helm deployer: start apply manifests")?;
            let (stored, warning) = match create_declared(self.cluster, &object.kind, &manifest).await {
                Err(ApiError::AlreadyExists(what)) => {
                    return Err(ApplyError::Retry(format!(
                        "{what}: another client created it in the meantime"
                    )));
                }
                answer => answer?,
            };
            let applied = Applied::new(&manifest, &stored);
            return Ok((stored, applied, warning));
        };
        let now = Applied::new(&manifest, &live);
        let known = self.former.iter().find(|managed| managed.resource.is_same(&object.reference));
        if known.and_then(|managed| managed.applied.as_ref()) == Some(&now) {
            return Ok((live, now, None));
        }
        self.deadline.check("helm deployer: start apply manifests")?;
        if self.options.force {
            let mut replacement = manifest.clone();
            // A replacement must name the object that was read, or the API server may refuse it.
            for field in ["resourceVersion", "uid"] {
                replacement["metadata"][field] = live["metadata"][field].clone();
            }
            let stored = self.cluster.replace(&object.kind, &replacement).await?;
            let applied = Applied::new(&manifest, &stored);
            return Ok((stored, applied, None));
        }
        let former = old.iter().find(|one| one.reference.is_same(&object.reference)).map(|one| &one.manifest);
        let is_taken_over = matches!(self.marks.whose(&live), Whose::Another(_));
        let predecessors = if is_taken_over { &FORMER_OWNERS[..] } else { &PREDECESSORS[..] };
        let live = match self.marks.claim_patch(&live, &manifest) {
            None => live,
            Some(patch) => {
                self.cluster.patch(&object.kind, &object.reference, PatchKind::Merge, &patch).await?
            }
        };
        let applied = known.and_then(|managed| managed.applied.as_ref());
        let is_repeated = !is_taken_over && applied.is_some_and(|applied| applied.manifest == now.manifest);
        let apply = ServerSideApply {
            kind: &object.kind,
            manifest: &manifest,
            live: &live,
            former,
            predecessors,
            is_repeated,
            is_guarded: false,
        };
        let (stored, warning) = server_side_apply(self.cluster, &apply).await?;
        let applied = Applied::new(&manifest, &stored);
        Ok((stored, applied, warning))
    }
}

/// Refuses a manifest with two objects of the same name: the result would depend on their order.
fn check_repeated(wanted: &[Object]) -> Result<(), ApplyError> {
    let mut texts = Vec::new();
    for (index, object) in wanted.iter().enumerate() {
        if wanted[..index].iter().any(|one| one.reference.is_same(&object.reference)) {
            let (resource, name) = (object.kind.resource(), &object.reference.name);
            texts.push(format!("\t* {resource} {name:?} already exists: the chart has it more than once\n"));
        }
    }
    let count = match texts.len() {
        0 => return Ok(()),
        1 => "1 error".to_owned(),
        several => format!("{several} errors"),
    };
    Err(ApplyError::Configuration(format!("{count} occurred:\n{}\n", texts.concat())))
}

fn remembered(reference: &Reference, applied: Applied) -> ManagedResource {
    ManagedResource { applied: Some(applied), ..ManagedResource::new(reference.clone()) }
}

/// Returns a copy of the cluster with Helm's field manager. Clusters are shared between items, so
/// the shared one keeps its field manager.
pub(super) fn as_helm(cluster: &Arc<Cluster>) -> Arc<Cluster> {
    Arc::new(cluster.with_manager("helm"))
}
