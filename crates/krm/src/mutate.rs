//! Changes of a variant to its package (`packagevariants.md` 3): package context, then pipeline,
//! then config injection.
//!
//! This module neither renders nor saves a package. The mutations are idempotent.

mod context;
mod injection;
mod pipeline;
#[cfg(test)]
mod tests;

use groundwork_api::PackageVariant;
use serde_json::Value;

use crate::file::{Document, File};
use crate::package::Package;

/// Source of cluster objects.
pub trait Cluster {
    /// Lists the objects of a kind in the namespace of the variant.
    fn list(&self, api_version: &str, kind: &str) -> Listed<'_>;
}

/// Result of listing the objects of a kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Listed<'a> {
    Objects(Vec<&'a Value>),
    /// The kind is cluster-scoped, so its objects cannot be injected.
    ClusterScoped,
    /// Error message of the API.
    Failed(String),
}

/// A variant, and the package revision that it is applied to.
#[derive(Clone, Copy)]
pub struct Mutation<'a> {
    pub variant: &'a PackageVariant,
    /// Namespace and name of the package revision, for messages.
    pub namespace: &'a str,
    pub revision: &'a str,
    pub cluster: &'a dyn Cluster,
}

impl std::fmt::Debug for Mutation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mutation")
            .field("namespace", &self.namespace)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Package after the mutations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutated {
    pub files: Package,
    /// True if the content has changed (`packagevariants.md` 2.12).
    pub changed: bool,
}

/// Reason why a variant cannot be applied, with the message of the step that failed: context,
/// pipeline or injection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MutationError {
    /// The package revision has no content.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    PackageContext(String),
    #[error("{0}")]
    Pipeline(String),
    #[error("{0}")]
    Injection(String),
}

impl MutationError {
    /// Returns the reason of the condition (`packagevariants.md` 2.10).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing(_) => "Error",
            Self::PackageContext(_) => "PackageContextError",
            Self::Pipeline(_) => "PipelineError",
            Self::Injection(_) => "InjectionError",
        }
    }
}

/// Applies a variant to the content of a package revision; `None` for a revision without a map of
/// resources.
///
/// # Errors
/// See [`MutationError`]; no file is changed then.
pub fn mutate(files: Option<&Package>, mutation: &Mutation<'_>) -> Result<Mutated, MutationError> {
    let Mutation { namespace, revision, .. } = mutation;
    let Some(before) = files else {
        let text = format!("nil resources found for PackageRevisionResources '{namespace}/{revision}'");
        return Err(MutationError::Missing(text));
    };
    let mut files = before.clone();
    context::apply(&mut files, mutation).map_err(MutationError::PackageContext)?;
    pipeline::apply(&mut files, mutation).map_err(MutationError::Pipeline)?;
    injection::apply(&mut files, mutation)?;
    let changed = files != *before;
    Ok(Mutated { files, changed })
}

impl Mutation<'_> {
    fn not_found(&self, file: &str) -> String {
        format!("{file:?} not found in PackageRevisionResources '{}/{}'", self.namespace, self.revision)
    }

    fn lacks(&self, file: &str, what: &str, name: &str) -> String {
        let Self { namespace, revision, .. } = self;
        format!(
            "{file:?} does not contain {what} {name:?} in PackageRevisionResources '{namespace}/{revision}'"
        )
    }

    fn unreadable(&self, file: &str, cause: &str) -> String {
        let Self { namespace, revision, .. } = self;
        format!("failed to parse {file:?} of PackageRevisionResources {namespace}/{revision}: {cause}")
    }

    /// Parses a file that must contain exactly one document.
    fn single(&self, name: &str, text: &str) -> Result<File, String> {
        let file = File::read(text)
            .map_err(|error| self.unreadable(name, &format!("failed to parse input bytes: {error}")))?;
        match file.documents.len() {
            1 => Ok(file),
            count => Err(self.unreadable(name, &format!("expected exactly one object, got {count}"))),
        }
    }
}

/// Returns the only document of a file that was parsed by `single`.
fn only(file: &mut File) -> Option<&mut Document> {
    file.documents.first_mut()
}
