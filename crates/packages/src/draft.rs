//! Drafts that nobody sees yet: a task is done in memory, its result may be changed, and one push makes it a revision
//! (`packagevariants.md` 2.6, 6.12).

use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::{RenderStatus, Task};
use groundwork_krm::Package;

use crate::error::StoreError;
use crate::layout::{Place, full_path};
use crate::message::{Annotation, Extension, Message, Owner, Updated};
use crate::objects::Content;
use crate::remote::RefUpdate;
use crate::repository::{Actor, GitRepository};
use crate::revision::Revision;

/// The task of a commit that brings what people or a variant changed.
const RENDER: &str = "render";

/// The next content of a draft, new or there already.
#[derive(Debug)]
pub struct Staged {
    repository: Arc<GitRepository>,
    package: String,
    workspace: String,
    /// The commit that the draft's ref has now; a new one has none.
    old: Option<ObjectId>,
    /// The commit that the next one is made on.
    parent: Option<ObjectId>,
    /// What the task made, rendered, and what its commit says. A save has none.
    made: Option<(Content, Message)>,
    content: Content,
    /// What the functions said of `made`.
    status: RenderStatus,
    /// Whether content is kept that cannot be rendered.
    keeps_failures: bool,
}

/// A revision that was made or changed, and what the functions of its package said.
#[derive(Debug, Clone)]
pub struct Committed {
    pub revision: Arc<Revision>,
    /// None if nothing was rendered.
    pub status: Option<RenderStatus>,
    /// Why the content is there unrendered ([`Staged::keep_failures`]).
    pub error: Option<String>,
}

impl Staged {
    /// A new draft.
    pub(crate) fn create(
        repository: &Arc<GitRepository>,
        package: &str,
        workspace: &str,
        rendered: Rendered,
        task: Task,
        owner: Option<Owner>,
    ) -> Self {
        let Rendered { content, status } = rendered;
        let message = Message {
            headline: headline(&task.type_).to_owned(),
            annotations: vec![annotation(repository, package, workspace, Some(task))],
            extension: owner.map(|owner| Extension { owner: Some(owner), updated: None }),
        };
        Self {
            repository: Arc::clone(repository),
            package: package.to_owned(),
            workspace: workspace.to_owned(),
            old: None,
            parent: repository.snapshot().head,
            made: Some((content.clone(), message)),
            content,
            status,
            keeps_failures: false,
        }
    }

    /// A draft that takes its upstream's next revision in. The task that made it stays its own.
    pub(crate) fn update(
        repository: &Arc<GitRepository>,
        draft: &Revision,
        rendered: Rendered,
        updated: Updated,
    ) -> Self {
        let Rendered { content, status } = rendered;
        let message = Message {
            headline: headline("upgrade").to_owned(),
            annotations: vec![annotation(repository, &draft.package, &draft.workspace, Some(render()))],
            extension: Some(Extension { owner: None, updated: Some(updated) }),
        };
        let made = Some((content.clone(), message));
        Self { made, content, status, ..Self::save(repository, draft, Content::default()) }
    }

    /// A draft with other content.
    pub(crate) fn save(repository: &Arc<GitRepository>, draft: &Revision, content: Content) -> Self {
        Self {
            repository: Arc::clone(repository),
            package: draft.package.clone(),
            workspace: draft.workspace.clone(),
            old: Some(draft.commit),
            parent: Some(draft.commit),
            made: None,
            content,
            status: RenderStatus::default(),
            keeps_failures: false,
        }
    }

    /// The files as they are now.
    pub fn files(&self) -> &Package {
        &self.content.texts
    }

    /// The name that the revision has, or will have.
    pub fn name(&self) -> String {
        self.repository.settings().place().name(&self.package, &self.workspace)
    }

    /// Replaces all files that are texts.
    pub fn set_files(&mut self, files: Package) {
        self.content.texts = files;
    }

    /// What cannot be rendered becomes a revision all the same, as it is, or as far as it was rendered if the Kptfile says so (8.1); for
    /// drafts with the annotation `porch.kpt.dev/push-on-render-failure`. What a task makes must be rendered anyway.
    #[must_use]
    pub fn keep_failures(mut self, keeps: bool) -> Self {
        self.keeps_failures = keeps;
        self
    }

    /// Makes it a revision that everybody sees, with one push. Where nothing differs from what is there, nothing is written.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if somebody else has made a revision of this name, [`StoreError::Conflict`] if somebody has
    /// changed the draft.
    pub fn commit(self, actor: &Actor) -> Result<Committed, StoreError> {
        let repository = Arc::clone(&self.repository);
        let name = self.name();
        let (status, error) = repository.exclusively(&self.package.clone(), || self.push(actor))?;
        Ok(Committed { revision: repository.revision(&name)?, status, error })
    }

    fn push(self, actor: &Actor) -> Result<Said, StoreError> {
        let Self { repository, package, workspace, old, parent, made, content, status, keeps_failures } =
            self;
        let objects = repository.objects();
        let path = full_path(&repository.settings().directory, &package);
        let signature = repository.signature(Some(actor));
        let before = repository.root_of(parent)?;
        let mut directory = match before {
            Some(root) => objects.directory(root, &path)?,
            None => None,
        };
        let mut commit = parent;
        let mut write = |content: &Content, message: &Message, always: bool| -> Result<(), StoreError> {
            let written = objects.write_package(content, directory)?;
            if directory == Some(written) && !always {
                return Ok(());
            }
            directory = Some(written);
            let tree = objects.replace(before, &path, directory)?;
            let parents: Vec<ObjectId> = commit.into_iter().collect();
            commit = Some(objects.write_commit(tree, &parents, &signature, &message.text())?);
            Ok(())
        };
        let is_new = old.is_none();
        let mut said = None;
        let mut failure = None;
        if let Some((made, message)) = &made {
            // A copy that equals what is on the branch is a revision all the same.
            write(made, message, is_new)?;
            said = Some(status);
        }
        let message = Message {
            headline: headline(RENDER).to_owned(),
            annotations: vec![annotation(&repository, &package, &workspace, Some(render()))],
            extension: None,
        };
        if made.is_none_or(|(made, _)| made != content) {
            let rendered = if keeps_failures {
                let (rendered, error) = repository.render_anyhow(content);
                failure = error;
                rendered
            } else {
                repository.render(content)?
            };
            write(&rendered.content, &message, false)?;
            said = Some(rendered.status);
        }
        if commit == old {
            return Ok((said, failure));
        }
        let reference = Place::Draft { path, workspace: workspace.clone() }.reference();
        let pushed = repository.push(&[RefUpdate { reference, old, new: commit }]);
        match pushed {
            Err(StoreError::Conflict) if is_new => {
                let name = repository.settings().place().name(&package, &workspace);
                Err(StoreError::AlreadyExists(format!("package revision {name:?} already exists")))
            }
            result => result.map(|()| (said, failure)),
        }
    }
}

/// What the functions said, if anything was rendered, and why rendering failed.
type Said = (Option<RenderStatus>, Option<String>);

fn annotation(repository: &GitRepository, package: &str, workspace: &str, task: Option<Task>) -> Annotation {
    Annotation {
        package: full_path(&repository.settings().directory, package),
        workspace_name: workspace.to_owned(),
        revision: "0".to_owned(),
        task,
    }
}

fn render() -> Task {
    Task { type_: RENDER.to_owned(), ..Task::default() }
}

/// The first line of a commit (6.4).
fn headline(task: &str) -> &'static str {
    match task {
        "init" => "Creating new empty revision",
        "clone" => "Creating new revision by cloning",
        "edit" => "Creating new revision by copying previous revision",
        "upgrade" => "Upgrading revision",
        _ => "Rendering package",
    }
}

/// Content after the functions of its package have run.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) content: Content,
    pub(crate) status: RenderStatus,
}
