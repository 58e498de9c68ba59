//! Operations of users on packages of a Porch server (`packagevariants.md` 6.2, 6.13). The server
//! checks the rights of this service, so each call checks the rights of its caller first.

use async_trait::async_trait;
use groundwork_api::{Lifecycle, PackageRevision, Repository, ResourceExt as _, Task};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{Key, Objects};
use groundwork_fleet::{Package, Repositories, check_creation, check_names, revision_name};
use groundwork_krm::Package as Texts;
use groundwork_packages::git::{
    Actor, Files, Original, Source, StoreError, Update, check_file_names, check_files,
};
use groundwork_packages::porch::{Meaning, NewDraft, PorchError, Resources, Revision};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::status::{self, reasons};
use tonic::Status;

use super::status::{of_list, of_porch};
use super::upgrade_base::{OriginalError, original};
use super::{PorchStore, Registration, Turn, registration};
use crate::packages::content::{Content, Made, Read, Saved, WantedDraft, refused, repository_of};
use crate::packages::creation::Wanted;
use crate::status::of_api;

/// A Porch server, for one call.
pub(in crate::packages) struct PorchContent<'a> {
    pub(in crate::packages) store: &'a PorchStore,
    pub(in crate::packages) objects: &'a Objects,
}

#[async_trait]
impl Content for PorchContent<'_> {
    async fn read(&self, name: &ObjectName) -> Result<Read, Status> {
        let revision = self.revision(name).await?;
        let (resources, texts) = self.resources(name).await?;
        // Porch checks file names when a user writes with its API, but not when a user pushes to
        // git.
        check_file_names(&texts).map_err(|error| refused(&error))?;
        let lifecycle = revision.object().spec.lifecycle().map(|found| found.as_str().to_owned());
        Ok(Read {
            version: resources.version().to_owned(),
            lifecycle: lifecycle.unwrap_or_default(),
            files: texts.into_iter().map(|(path, text)| (path, text.into_bytes())).collect(),
        })
    }

    async fn save(
        &self,
        name: &ObjectName,
        version: String,
        files: Files,
        _: Actor,
    ) -> Result<Saved, Status> {
        check_files(&files).map_err(|error| refused(&error))?;
        let texts = texts(files)?;
        let (resources, present) = self.resources(name).await?;
        if resources.version() != version {
            return Err(refused(&StoreError::Conflict));
        }
        if present == texts {
            return Ok(Saved { version, status: None, error: None });
        }
        let saving = resources.with_files(&texts);
        let saved = {
            let _turn = self.turn(&repository_of(name)).await?;
            self.store.porch.save(&saving).await
        };
        let saved = match saved {
            // The check before this request saw a draft, so the lifecycle changed in between.
            Err(error) if error.meaning == Meaning::NotDraft && self.is_draft(name).await? => {
                return Err(refused(&StoreError::Conflict));
            }
            Err(error) if may_be_done(&error) => match self.resources(name).await? {
                (saved, present) if present == texts => saved,
                _ => return Err(of_porch(&error)),
            },
            saved => saved.map_err(|error| of_porch(&error))?,
        };
        self.store.wrote(&name.namespace, &name.name, saved.version());
        let status = saved.render_status().cloned();
        let error = status.as_ref().and_then(|status| status.error.clone()).filter(|text| !text.is_empty());
        Ok(Saved { version: saved.version().to_owned(), status, error })
    }

    async fn create(&self, wanted: WantedDraft, _: Actor) -> Result<Made, Status> {
        let WantedDraft { namespace, repository, package, workspace, source, from } = wanted;
        let key = ObjectId::new(Kind::of::<Repository>(), Some(&namespace), &repository);
        let mut known = Known::default();
        self.learn(&key, &mut known).await?;
        for name in &from {
            self.learn(&repository_of(name), &mut known).await?;
        }
        let task = self.task(source, &namespace, &mut known).await?;
        let target = Package { repository: &repository, path: &package };
        known.check(target, &workspace, &task).map_err(|error| refused(&error))?;
        let name = revision_name(target, &workspace);
        let draft = NewDraft { namespace, repository, package, workspace, task, ..NewDraft::default() };
        let made = {
            let _turn = self.turn(&key).await?;
            self.store.porch.create(&draft).await
        };
        let made = match made {
            Err(error) if may_be_done(&error) => self.made_meanwhile(&draft, &name, &error).await?,
            made => made.map_err(|error| of_porch(&error))?,
        };
        self.store.wrote(&draft.namespace, made.name(), made.version());
        Ok(Made { name: made.name().to_owned(), version: made.version().to_owned(), status: None })
    }
}

/// Repositories and revisions that a new draft is checked against.
#[derive(Default)]
struct Known {
    repositories: Vec<Repository>,
    /// All revisions of `repositories`.
    revisions: Vec<PackageRevision>,
}

impl Known {
    /// Checks the rules that the server does not reliably enforce (`packagevariants.md` 6.13):
    /// names, and the references in the task.
    fn check(&self, package: Package<'_>, workspace: &str, task: &Task) -> Result<(), StoreError> {
        let repositories = Repositories(&self.repositories);
        check_names(package, workspace, repositories.branch(package.repository), &self.revisions)?;
        let tasks = std::slice::from_ref(task);
        check_creation(package, tasks, &self.revisions, repositories)?;
        Ok(())
    }
}

impl PorchContent<'_> {
    async fn revision(&self, name: &ObjectName) -> Result<Revision, Status> {
        let found = self.store.porch.get(&name.namespace, &name.name).await;
        found.map_err(|error| of_porch(&error))?.ok_or_else(|| missing(&name.name))
    }

    async fn is_draft(&self, name: &ObjectName) -> Result<bool, Status> {
        Ok(self.revision(name).await?.object().spec.lifecycle() == Some(Lifecycle::Draft))
    }

    async fn resources(&self, name: &ObjectName) -> Result<(Resources, Texts), Status> {
        let resources = self.store.porch.resources(&name.namespace, &name.name).await;
        let resources = resources.map_err(|error| of_porch(&error))?;
        match resources.files() {
            Some(texts) => Ok((resources, texts)),
            None => {
                let text = format!("the Porch server has no files of package revision {:?}", name.name);
                Err(status::failed_precondition(reasons::PACKAGE_REFUSED, text))
            }
        }
    }

    /// Waits for a write slot of a repository.
    async fn turn(&self, repository: &Key) -> Result<Turn, Status> {
        self.store.turns.take(repository, true).await.map_err(|error| refused(&error))
    }

    /// Reads a repository and all its revisions, unless they are known already.
    async fn learn(&self, key: &Key, known: &mut Known) -> Result<(), Status> {
        let (namespace, name) = (key.namespace.as_deref().unwrap_or_default(), &key.name);
        if known.repositories.iter().any(|found| found.name_any() == *name) {
            return Ok(());
        }
        match registration(self.store.server, self.objects, namespace, name).await.map_err(of_api)? {
            Registration::Ready(found) => known.repositories.push(*found),
            Registration::NotReady(text) => {
                return Err(status::unavailable(reasons::PACKAGE_STORE_UNAVAILABLE, text));
            }
            Registration::Absent => {
                let text = format!("repository {name:?} not found");
                return Err(status::not_found(reasons::PACKAGE_NOT_FOUND, text));
            }
        }
        let listed = self.store.porch.list(namespace, name, None).await;
        let listed = listed.map_err(|error| of_list(&error))?;
        known.revisions.extend(listed.into_iter().map(Revision::into_object));
        Ok(())
    }

    /// Returns the task of a draft. The base of an upgrade is found as for variants
    /// (`packagevariants.md` 2.8).
    async fn task(&self, source: Wanted, namespace: &str, known: &mut Known) -> Result<Task, Status> {
        let (local, upstream, strategy) = match source {
            Wanted::Known(source) => return Ok(source.task()),
            Wanted::Upgrade { local, upstream, strategy } => (local, upstream, strategy),
        };
        let found = known.revisions.iter().find(|found| found.name_any() == local);
        let found = found.ok_or_else(|| missing(&local))?;
        let registered = self.objects.list::<Repository>(namespace, "").await.map_err(of_api)?;
        let original = original(&self.store.porch, found, &known.revisions, &registered).await;
        let original = original.map_err(|error| match error {
            OriginalError::List(error) => of_list(&error),
            OriginalError::Missing(error) => {
                status::failed_precondition(reasons::PACKAGE_REFUSED, error.to_string())
            }
        })?;
        if known.revisions.iter().all(|found| found.name_any() != original) {
            let name = ObjectName { namespace: namespace.to_owned(), name: original.clone() };
            self.learn(&repository_of(&name), known).await?;
        }
        let update = Update { original: Original::Revision(original), upstream, strategy };
        Ok(Source::Upgrade { local, update }.task())
    }

    /// Looks for a draft that the failed request may have created: one with the same name and the
    /// same task is that draft.
    async fn made_meanwhile(
        &self,
        draft: &NewDraft,
        name: &str,
        error: &PorchError,
    ) -> Result<Revision, Status> {
        let found = self.store.porch.get(&draft.namespace, name).await.ok().flatten();
        let is_it = |found: &Revision| found.object().spec.tasks.first() == Some(&draft.task);
        found.filter(is_it).ok_or_else(|| of_porch(error))
    }
}

/// Reports whether the request may have succeeded despite the error: no answer came, or the client
/// retried by itself and met the result of its first attempt.
fn may_be_done(error: &PorchError) -> bool {
    error.is_unanswered || matches!(error.meaning, Meaning::Conflict | Meaning::AlreadyExists)
}

/// Converts files to texts, since a Porch server only keeps text files.
fn texts(files: Files) -> Result<Texts, Status> {
    let text = |(path, content): (String, Vec<u8>)| match String::from_utf8(content) {
        Ok(text) => Ok((path, text)),
        Err(_) => {
            let text = format!(
                "{path:?} is not UTF-8 text, and a Porch server stores only text: remove it from the folder, or push \
                 it to the git repository of the package"
            );
            Err(status::failed_precondition(reasons::PACKAGE_REFUSED, text))
        }
    };
    files.into_iter().map(text).collect()
}

fn missing(name: &str) -> Status {
    status::not_found(reasons::PACKAGE_NOT_FOUND, format!("package revision {name:?} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_are_kept() {
        let files = |content: &[u8]| Files::from([("logo".to_owned(), content.to_vec())]);
        assert_eq!(texts(files(b"a")).unwrap()["logo"], "a");
        let refused = texts(files(b"\xff")).unwrap_err();
        assert_eq!(status::reason(&refused).as_deref(), Some("PACKAGE_REFUSED"));
        assert!(refused.message().starts_with("\"logo\" is not UTF-8 text"), "{refused:?}");
    }
}
