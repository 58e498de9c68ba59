use groundwork_api::Installation;
use groundwork_blueprint::{Exports, Origins};
use groundwork_lifecycle::{JobError, Outcome, ScopedObject};

/// An Installation, what its job gave, and the Installations nested in it.
#[derive(Debug)]
pub(crate) struct Rendering {
    pub(crate) installation: Installation,
    /// The name of the root and the templates that lead from there.
    pub(crate) path: Vec<String>,
    pub(crate) outcome: Outcome,
    /// Why it cannot be rendered here, although nothing is wrong with it.
    pub(crate) waits_for: Option<String>,
    pub(crate) published: Published,
    /// In the order in which they run.
    pub(crate) children: Vec<Rendering>,
}

/// What became of the exports of an Installation.
#[derive(Debug, Default)]
pub(crate) enum Published {
    #[default]
    Nothing,
    Objects {
        exports: Exports,
        objects: Vec<ScopedObject>,
        origins: Origins,
    },
    /// They hang on values that nobody knows here.
    Unknown(String),
    Failed(JobError),
}

impl Rendering {
    /// How messages call it.
    pub(crate) fn title(&self) -> String {
        let namespace = self.installation.metadata.namespace.as_deref().unwrap_or_default();
        format!("Installation {namespace}/{}", self.path.join("/"))
    }

    /// Why its own job fails.
    pub(crate) fn error(&self) -> Option<&JobError> {
        match &self.published {
            Published::Failed(problem) => Some(problem),
            _ => self.outcome.error.as_ref(),
        }
    }

    /// Whether anything failed, here or below.
    pub(crate) fn has_failed(&self) -> bool {
        self.error().is_some() || self.children.iter().any(Rendering::has_failed)
    }

    /// It and all below, parents first.
    pub(crate) fn all(&self) -> Vec<&Rendering> {
        let mut all = vec![self];
        all.extend(self.children.iter().flat_map(Rendering::all));
        all
    }
}
