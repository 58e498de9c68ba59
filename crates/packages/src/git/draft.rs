//! Staged drafts: a task runs in memory, its result may be changed, and one push makes it a
//! revision (`packagevariants.md` 2.6, 6.12).

use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::{FunctionResult, RenderStatus, ResultFile, ResultItem, Task};
use groundwork_krm::Package;

use crate::git::error::StoreError;
use crate::git::layout::{Place, full_path};
use crate::git::message::{Annotation, Extension, Message, Owner, Updated};
use crate::git::objects::Content;
use crate::git::remote::RefUpdate;
use crate::git::repository::{Actor, GitRepository};
use crate::git::revision::Revision;

/// Type of the task in a commit with the changes of a user or a variant.
const RENDER: &str = "render";

/// Next content of a new or an existing draft.
#[derive(Debug)]
pub struct Staged {
    repository: Arc<GitRepository>,
    package: String,
    workspace: String,
    /// Current commit of the draft's ref; `None` for a new draft.
    old: Option<ObjectId>,
    /// Parent of the next commit.
    parent: Option<ObjectId>,
    /// Rendered result of the task, and the message of its commit; `None` for a save.
    made: Option<(Content, Message)>,
    content: Content,
    /// Results of the functions that rendered `made`.
    status: RenderStatus,
    /// Warnings of the merge that made the content: the path of a file, and a sentence.
    warnings: Vec<(String, String)>,
    /// True if content is kept even if it cannot be rendered.
    keeps_failures: bool,
    /// True if a save belongs to the making of a new draft.
    is_making: bool,
}

/// Revision that was created or changed, with the results of its functions.
#[derive(Debug, Clone)]
pub struct Committed {
    pub revision: Arc<Revision>,
    /// Result of the functions; `None` if nothing was rendered.
    pub status: Option<RenderStatus>,
    /// Reason why the content is unrendered ([`Staged::keep_failures`]).
    pub error: Option<String>,
}

impl Staged {
    /// Stages a new draft.
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
            extension: owner.map(|owner| Extension { owner: Some(owner), ..Extension::default() }),
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
            warnings: Vec::new(),
            keeps_failures: false,
            is_making: false,
        }
    }

    /// Adds the warnings of the merge that made the content. Users see them in the results of the
    /// functions.
    #[must_use]
    pub(crate) fn warn(mut self, warnings: Vec<(String, String)>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Stages an update of a draft to its upstream's next revision. The draft keeps the task that
    /// made it.
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
            extension: Some(Extension { updated: Some(updated), ..Extension::default() }),
        };
        let made = Some((content.clone(), message));
        Self { made, content, status, ..Self::save(repository, draft, Content::default()) }
    }

    /// Stages changed files of an existing draft.
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
            warnings: Vec::new(),
            keeps_failures: false,
            is_making: false,
        }
    }

    /// Returns the current files.
    pub fn files(&self) -> &Package {
        &self.content.texts
    }

    /// Returns the name of the revision, which may not exist yet.
    pub fn name(&self) -> String {
        self.repository.settings().place().name(&self.package, &self.workspace)
    }

    /// Replaces all text files.
    pub fn set_files(&mut self, files: Package) {
        self.content.texts = files;
    }

    /// Counts a save as the store's own, and not as a change by people: it is the last part of the
    /// making of a new draft.
    #[must_use]
    pub fn making(mut self, is_making: bool) -> Self {
        self.is_making = is_making;
        self
    }

    /// Commits content even if it cannot be rendered. The content is kept as it was, or as far as
    /// it was rendered if the Kptfile asks for that (`packagevariants.md` 8.1). This is for drafts
    /// with the annotation `porch.kpt.dev/push-on-render-failure`. The result of a task must be
    /// rendered in any case.
    #[must_use]
    pub fn keep_failures(mut self, keeps: bool) -> Self {
        self.keeps_failures = keeps;
        self
    }

    /// Pushes the draft, after which all users see it. Unchanged content is not written.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if another writer has made a revision of this name,
    /// [`StoreError::Conflict`] if another writer has changed the draft.
    pub fn commit(self, actor: &Actor) -> Result<Committed, StoreError> {
        let repository = Arc::clone(&self.repository);
        let name = self.name();
        let (status, error) = repository.exclusively(&self.package.clone(), || self.push(actor))?;
        Ok(Committed { revision: repository.revision(&name)?, status, error })
    }

    fn push(self, actor: &Actor) -> Result<Said, StoreError> {
        let Self {
            repository,
            package,
            workspace,
            old,
            parent,
            made,
            content,
            status,
            warnings,
            keeps_failures,
            is_making,
        } = self;
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
            // A new draft needs a commit even if its content equals that of the branch.
            write(made, message, is_new)?;
            said = Some(status);
        }
        let message = Message {
            headline: headline(RENDER).to_owned(),
            annotations: vec![annotation(&repository, &package, &workspace, Some(render()))],
            extension: (is_making || made.is_some())
                .then(|| Extension { made: true, ..Extension::default() }),
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
        if let Some(status) = &mut said {
            tell(status, warnings);
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

/// Adds the warnings of a merge in front of the results of the functions (`packagevariants.md`
/// 7.5).
pub(crate) fn tell(status: &mut RenderStatus, warnings: Vec<(String, String)>) {
    if warnings.is_empty() {
        return;
    }
    let item = |(path, message)| ResultItem {
        message: Some(message),
        severity: Some("warning".to_owned()),
        file: Some(ResultFile { path: Some(path), ..ResultFile::default() }),
        ..ResultItem::default()
    };
    let merge = FunctionResult {
        exec: Some("resource-merge".to_owned()),
        exit_code: Some(0),
        results: warnings.into_iter().map(item).collect(),
        ..FunctionResult::default()
    };
    let result = status.result.get_or_insert_default();
    result.items = std::iter::once(merge).chain(result.items.iter().cloned()).collect();
}

/// Result of the functions, if anything was rendered, and the error of a failed rendering.
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

/// Returns the first line of a commit message (`packagevariants.md` 6.4).
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
