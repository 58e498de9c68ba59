//! Creation of drafts (`packagevariants.md` 6.6).

use std::sync::Arc;

use groundwork_api::metadata::label;
use groundwork_api::{
    GitPackage, InitTask, Lifecycle, PackageRevision, Repository, ResourceExt as _, RevisionRecord, Task,
};
use groundwork_apiserver::{Answer, Cause, Refusal, Request};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::ApiError;
use groundwork_fleet::normalized;
use groundwork_grpc::ResourceAttributes;
use groundwork_packages::git::{Actor, Address, GitRepository, NewDraft, Owner, Source, Store, StoreError};
use serde_json::Value;

use super::kinds::REVISIONS_OF_GROUP;
use super::upgrading::{Upgrading, UpgradingError, named};
use super::{Api, object, refusals};
use crate::packages::access::access_to;
use crate::packages::git_content::{recent, synced};
use crate::packages::records::{Attributes, Note, ensure, served, with_metadata};

/// Kind of an object in messages.
pub(super) const KIND: &str = "PackageRevision.porch.kpt.dev";

impl Api {
    /// Creates a draft, and answers when it is in git.
    pub(super) async fn create(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal> {
        let body = request.json()?;
        super::changing::check_fields(&body, request, warnings)?;
        let draft = parsed(body)?;
        if draft.metadata.namespace.as_ref().is_some_and(|given| *given != request.namespace) {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let repository = draft.spec.repository.clone().filter(|name| !name.is_empty());
        let repository = repository.ok_or_else(|| Refusal::bad_request("spec.repository is required"))?;
        check(&draft)?;
        let store = self.store()?;
        let key = ObjectId::new(Kind::of::<Repository>(), Some(&request.namespace), &repository);
        let registered = recent(store, &key, &self.objects).await;
        let registered = registered.map_err(|error| of_repository(&error, &repository))?;
        let spec = &draft.spec;
        let (package, workspace) =
            (spec.package_name.clone().unwrap_or_default(), spec.workspace_name.clone().unwrap_or_default());
        let name = registered.settings().place().name(&package, &workspace);
        if let Some(given) = draft.metadata.name.as_ref().filter(|given| !given.is_empty() && **given != name)
        {
            warnings.push(format!("metadata.name {given:?} has no effect: the name is computed, {name:?}"));
        }
        let task = self.task(&draft, request, &name).await?;
        let has_secret = draft.spec.tasks.iter().any(|task| {
            let clone = task.clone.as_ref().and_then(|task| task.upstream_ref.as_ref()?.git.as_ref());
            clone.is_some_and(|git| git.secret_ref.is_some())
        });
        if let (Making::Known(Source::Clone { upstream }), true) = (&task, has_secret) {
            let field = "spec.tasks[0].clone.upstreamRef.git.secretRef";
            warnings.push(format!(
                "{field} has no effect: a registered Repository has the package, {upstream:?}"
            ));
        }
        for named in task.named() {
            self.known(&request.namespace, named).await.map_err(|error| refusals::of_store(&error, &name))?;
        }
        let owner = draft.owner_references().iter().find(|owner| owner.kind == "PackageVariant");
        let owner = owner.map(|owner| Owner {
            kind: owner.kind.clone(),
            namespace: request.namespace.clone(),
            name: owner.name.clone(),
        });
        let (namespace, is_dry) = (request.namespace.clone(), request.options.is_dry_run);
        let actor = Actor { name: request.user.name.clone() };
        let make = move |store: &Store| {
            let source = task.source(store, &namespace)?;
            let new = NewDraft { namespace, repository, package, workspace, source, owner };
            let staged = store.stage(&new)?;
            if is_dry { Ok(None) } else { staged.commit(&actor).map(|made| Some(made.revision)) }
        };
        let made = match is_dry {
            true => store.run(&key, make).await,
            false => store.write(&key, make).await,
        };
        let Some(revision) = made.map_err(|error| refusals::of_store(&error, &name))? else {
            let mut shown = draft;
            shown.metadata.name = Some(name);
            shown.metadata.namespace = Some(request.namespace.clone());
            shown.spec.lifecycle = Some(Lifecycle::Draft.as_str().to_owned());
            return Ok(Answer::Created(object(&shown)?));
        };
        let metadata = draft.metadata;
        let attributes = Attributes {
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            owners: metadata.owner_references.clone().unwrap_or_default(),
        };
        let created = ensure(&registered, &revision, None, None, attributes, Note::Kept, &self.objects).await;
        let record = match created {
            // The sync has made the record already, without the attributes.
            Err(ApiError::AlreadyExists(_)) => self.attributed(&request.namespace, &name, &metadata).await?,
            created => created.map_err(|error| refusals::of_api(&error, &name))?,
        };
        self.seen(&record).await;
        Ok(Answer::Created(object(&served(&record))?))
    }

    /// Writes the attributes of a new draft into the record that a sync has made.
    async fn attributed(
        &self,
        namespace: &str,
        name: &str,
        metadata: &groundwork_api::ObjectMeta,
    ) -> Result<RevisionRecord, Refusal> {
        let mut attempts = 0;
        loop {
            let mut record = self.record(namespace, name).await?;
            with_metadata(&mut record, metadata);
            attempts += 1;
            match self.objects.replace(&record).await {
                Err(ApiError::Conflict(_)) if attempts < super::changing::ATTEMPTS => {}
                written => return written.map_err(|error| refusals::of_api(&error, name)),
            }
        }
    }

    /// Returns the task that makes a draft, as far as it is known before the store is asked.
    async fn task(&self, draft: &PackageRevision, request: &Request, name: &str) -> Result<Making, Refusal> {
        let package = draft.spec.package_name.clone().unwrap_or_default();
        let task = match &*draft.spec.tasks {
            [] => {
                let description = Some(format!("{package} description"));
                return Ok(Making::Known(Source::Init(InitTask { description, ..InitTask::default() })));
            }
            [task] => task,
            _ => return Err(Refusal::internal("task list must not contain more than one task")),
        };
        let invalid = |field: &str, why: &str| {
            Refusal::invalid(
                KIND,
                name,
                vec![Cause::invalid(&format!("spec.tasks[0].{field}"), &task.type_, why)],
            )
        };
        let missing = |field: &str| {
            Refusal::invalid(
                KIND,
                name,
                vec![Cause::required(&format!("spec.tasks[0].{field}"), "it must be given")],
            )
        };
        let Task { init, clone, edit, upgrade, .. } = task;
        match task.type_.as_str() {
            "init" => Ok(Making::Known(Source::Init(init.clone().unwrap_or_default()))),
            "clone" => {
                let upstream = clone.as_ref().and_then(|task| task.upstream_ref.as_ref());
                let upstream = upstream.ok_or_else(|| missing("clone.upstreamRef"))?;
                if let Some(named) = &upstream.upstream_ref {
                    return Ok(Making::Known(Source::Clone { upstream: named.name.clone() }));
                }
                if upstream.oci.is_some() {
                    return Err(Refusal::internal("clone from OCI is not implemented"));
                }
                let git = upstream.git.as_ref().ok_or_else(|| missing("clone.upstreamRef.upstreamRef"))?;
                Ok(Making::Known(match self.revision_at(git, &request.namespace).await? {
                    Some(upstream) => Source::Clone { upstream },
                    None => Source::Visit(Box::new(self.address(git, request, name).await?)),
                }))
            }
            "edit" => {
                let source = edit.as_ref().and_then(|task| task.source_ref.as_ref());
                let source = source.ok_or_else(|| missing("edit.sourceRef"))?.name.clone();
                Ok(Making::Known(Source::Edit { source }))
            }
            "upgrade" => {
                let task = upgrade.as_ref().ok_or_else(|| missing("upgrade"))?;
                let local = named(&task.local_package_revision_ref);
                let local = local.ok_or_else(|| missing("upgrade.localPackageRevisionRef"))?;
                let upgrading = Upgrading::of(task).map_err(|error| match error {
                    UpgradingError::NoUpstream => missing("upgrade.newUpstreamRef"),
                    UpgradingError::Strategy(error) => invalid("upgrade.strategy", &error.to_string()),
                })?;
                Ok(Making::Upgrade { local, upgrading })
            }
            _ => Err(invalid("type", "supported types: \"init\", \"clone\", \"edit\", \"upgrade\"")),
        }
    }

    /// Returns the address of a package outside of the registered repositories. Only a user who may
    /// read the Secret with the credentials may have them sent to the address.
    async fn address(&self, git: &GitPackage, request: &Request, draft: &str) -> Result<Address, Refusal> {
        let secret =
            git.secret_ref.as_ref().map(|secret| secret.name.as_str()).filter(|name| !name.is_empty());
        if let Some(secret) = secret {
            let attributes = ResourceAttributes {
                group: "",
                resource: "secrets",
                namespace: Some(&request.namespace),
                name: Some(secret),
            };
            let may_read = self.access.may(&request.user, "get", &attributes).await;
            if !may_read.map_err(|status| Refusal::of_review(&status, REVISIONS_OF_GROUP, draft))? {
                let why = format!("a clone with the credentials in secret {secret:?} needs get on secrets");
                return Err(Refusal::forbidden(REVISIONS_OF_GROUP, draft, &why));
            }
        }
        let url = git.repo.as_deref().unwrap_or_default();
        let access = access_to(url, secret, &request.namespace, &self.objects).await;
        let (access, _) = access.map_err(|error| refusals::of_store(&error.of_clone_task(), draft))?;
        Ok(Address { package: git.clone(), access })
    }

    /// Returns the revision at a place in git, if a registered Repository has it.
    async fn revision_at(&self, git: &GitPackage, namespace: &str) -> Result<Option<String>, Refusal> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (url, reference, directory) = (text(&git.repo), text(&git.reference), text(&git.directory));
        let store = self.store()?;
        let listed = self.objects.list::<Repository>(namespace, "").await;
        let listed = listed.map_err(|error| refusals::of_api(&error, ""))?;
        let is_there = |found: &&Repository| {
            let repo = found.spec.git.as_ref().map(|git| git.repo.as_str()).unwrap_or_default();
            normalized(repo) == normalized(&url)
        };
        for repository in listed.iter().filter(is_there) {
            let key = ObjectId::new(Kind::of::<Repository>(), Some(namespace), repository.name_any());
            let registered: Arc<GitRepository> = synced(store, &key, &self.objects)
                .await
                .map_err(|error| of_repository(&error, &repository.name_any()))?;
            let snapshot = registered.snapshot();
            let of_place = snapshot.revisions.values().find(|revision| {
                let object = revision.object(&registered.settings().place());
                let lock = object.status.and_then(|status| status.self_lock).and_then(|lock| lock.git);
                lock.is_some_and(|lock| {
                    let is_directory = text(&lock.directory).trim_matches('/') == directory.trim_matches('/');
                    is_directory && (text(&lock.reference) == reference || text(&lock.commit) == reference)
                })
            });
            if let Some(found) = of_place {
                return Ok(Some(found.name.clone()));
            }
        }
        Ok(None)
    }
}

/// Source of a draft, before the store is asked.
enum Making {
    Known(Source),
    Upgrade { local: String, upgrading: Upgrading },
}

impl Making {
    /// Returns the revisions that the source names.
    fn named(&self) -> Vec<&str> {
        match self {
            Self::Known(Source::Clone { upstream: name } | Source::Edit { source: name }) => vec![name],
            Self::Known(_) => Vec::new(),
            Self::Upgrade { local, upgrading: Upgrading { upstream, original, .. } } => {
                [local.as_str(), upstream.as_str()].into_iter().chain(original.as_deref()).collect()
            }
        }
    }

    /// Returns the complete source. The calls to the store block.
    fn source(self, store: &Store, namespace: &str) -> Result<Source, StoreError> {
        Ok(match self {
            Self::Known(source) => source,
            Self::Upgrade { local, upgrading } => {
                let update = upgrading.update(store, namespace, &local)?;
                Source::Upgrade { local, update }
            }
        })
    }
}

/// Parses a PackageRevision.
pub(super) fn parsed(body: Value) -> Result<PackageRevision, Refusal> {
    serde_json::from_value(body)
        .map_err(|error| Refusal::bad_request(format!("the object is no PackageRevision: {error}")))
}

/// Checks what users may not set in a new draft.
fn check(draft: &PackageRevision) -> Result<(), Refusal> {
    let mut causes = Vec::new();
    if draft.labels().contains_key(label::LATEST_REVISION) {
        let field = format!("metadata.labels.{}", label::LATEST_REVISION);
        causes.push(Cause::forbidden(&field, "label is managed by porch and cannot be set by users"));
    }
    let lifecycle = draft.spec.lifecycle.as_deref().unwrap_or_default();
    if !matches!(lifecycle, "" | "Draft") {
        causes.push(Cause::invalid("spec.lifecycle", lifecycle, "value can be only created as Draft"));
    }
    if causes.is_empty() { Ok(()) } else { Err(Refusal::invalid(KIND, &draft.name_any(), causes)) }
}

/// Returns the refusal for a repository that cannot be used.
fn of_repository(error: &StoreError, name: &str) -> Refusal {
    match error {
        StoreError::NotFound(_) => Refusal::not_found("repositories.config.porch.kpt.dev", name),
        error => refusals::of_store(error, name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_users_may_not_set() {
        let draft = |labels: Value, lifecycle: &str| {
            check(&parsed(json!({"metadata": {"labels": labels}, "spec": {"lifecycle": lifecycle}})).unwrap())
                .map_err(|refusal| (refusal.code, refusal.message))
        };
        assert_eq!(draft(json!({"a": "b"}), "Draft"), Ok(()));
        let (code, message) = draft(json!({label::LATEST_REVISION: "true"}), "Published").unwrap_err();
        assert_eq!(code, 422);
        assert!(
            message.contains("cannot be set by users")
                && message.contains("value can be only created as Draft"),
            "{message}"
        );
    }
}
