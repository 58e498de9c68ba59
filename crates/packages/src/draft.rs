//! Drafts that nobody sees yet: a task is done in memory, its result may be changed, and one push makes it a revision
//! (`packagevariants.md` 2.6, 6.12).

use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::Task;
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
    /// What the task made, and what its commit says. A save has none.
    made: Option<(Content, Message)>,
    content: Content,
}

impl Staged {
    /// A new draft.
    pub(crate) fn create(
        repository: &Arc<GitRepository>,
        package: &str,
        workspace: &str,
        content: Content,
        task: Task,
        owner: Option<Owner>,
    ) -> Self {
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
        }
    }

    /// A draft that takes its upstream's next revision in. The task that made it stays its own.
    pub(crate) fn update(
        repository: &Arc<GitRepository>,
        draft: &Revision,
        content: Content,
        updated: Updated,
    ) -> Self {
        let message = Message {
            headline: headline("upgrade").to_owned(),
            annotations: vec![annotation(repository, &draft.package, &draft.workspace, Some(render()))],
            extension: Some(Extension { owner: None, updated: Some(updated) }),
        };
        let made = Some((content.clone(), message));
        Self { made, content, ..Self::save(repository, draft, Content::default()) }
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

    /// Makes it a revision that everybody sees, with one push. Where nothing differs from what is there, nothing is written.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if somebody else has made a revision of this name, [`StoreError::Conflict`] if somebody has
    /// changed the draft.
    pub fn commit(self, actor: &Actor) -> Result<Arc<Revision>, StoreError> {
        let repository = Arc::clone(&self.repository);
        let name = self.name();
        repository.exclusively(&self.package.clone(), || self.push(actor))?;
        repository.revision(&name)
    }

    fn push(self, actor: &Actor) -> Result<(), StoreError> {
        let Self { repository, package, workspace, old, parent, made, content } = self;
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
            let rendered = groundwork_krm::render(&content.texts)
                .map_err(|error| StoreError::Render(error.to_string()))?;
            let content = Content { texts: rendered, binaries: content.binaries.clone() };
            let written = objects.write_package(&content, directory)?;
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
        if let Some((made, message)) = &made {
            // A copy that equals what is on the branch is a revision all the same.
            write(made, message, is_new)?;
        }
        let message = Message {
            headline: headline(RENDER).to_owned(),
            annotations: vec![annotation(&repository, &package, &workspace, Some(render()))],
            extension: None,
        };
        write(&content, &message, false)?;
        if commit == old {
            return Ok(());
        }
        let reference = Place::Draft { path, workspace: workspace.clone() }.reference();
        let pushed = repository.push(&[RefUpdate { reference, old, new: commit }]);
        match pushed {
            Err(StoreError::Conflict) if is_new => {
                let name = repository.settings().place().name(&package, &workspace);
                Err(StoreError::AlreadyExists(format!("package revision {name:?} already exists")))
            }
            result => result,
        }
    }
}

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
