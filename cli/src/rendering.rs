use groundwork_api::Installation;
use groundwork_blueprint::{Exports, Origins};
use groundwork_lifecycle::{JobError, JobOutcome, ScopedObject};

/// Installation, the result of its job, and the Installations nested in it.
#[derive(Debug)]
pub(crate) struct Rendering {
    pub(crate) installation: Installation,
    /// Name of the root, and of the templates that lead from the root to this Installation.
    pub(crate) path: Vec<String>,
    pub(crate) outcome: JobOutcome,
    /// Reason that the Installation cannot be rendered offline, although it has no error.
    pub(crate) waits_for: Option<String>,
    pub(crate) published: Published,
    /// Nested installations, in the order in which they run.
    pub(crate) children: Vec<Rendering>,
}

/// Result of the exports of an Installation.
#[derive(Debug, Default)]
pub(crate) enum Published {
    #[default]
    Nothing,
    Objects {
        exports: Exports,
        objects: Vec<ScopedObject>,
        origins: Origins,
    },
    /// Exports depend on values that are not known offline, for this reason.
    Unknown(String),
    Failed(JobError),
}

impl Rendering {
    /// Returns the name of the Installation for messages.
    pub(crate) fn title(&self) -> String {
        let namespace = self.installation.metadata.namespace.as_deref().unwrap_or_default();
        format!("Installation {namespace}/{}", self.path.join("/"))
    }

    /// Returns the error of this Installation's own job, without those of nested Installations.
    pub(crate) fn error(&self) -> Option<&JobError> {
        match &self.published {
            Published::Failed(problem) => Some(problem),
            _ => self.outcome.error.as_ref(),
        }
    }

    /// Reports whether the Installation, or one below it, failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.error().is_some() || self.children.iter().any(Rendering::has_failed)
    }

    /// Returns the Installation and all below it, parents first.
    pub(crate) fn all(&self) -> Vec<&Rendering> {
        let mut all = vec![self];
        all.extend(self.children.iter().flat_map(Rendering::all));
        all
    }
}
