//! From a reference to component versions (`components.md` 2.4, 2.6, 4.2, 4.5, 4.6).

use std::collections::HashSet;
use std::sync::Arc;

use crate::descriptor::{Descriptor, DescriptorError};
use crate::inline::InlineSet;
use crate::overwrite::{Overwrites, Substitution};
use crate::reference::{Reference, RepositoryContext};
use crate::repository::{Repositories, Repository, RepositoryError};

/// Bounds of a closure (`components.md` 4.6).
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub versions: usize,
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { versions: 10_000, depth: 100 }
    }
}

/// A component version and the place it was loaded from.
#[derive(Clone)]
pub struct ComponentVersion {
    pub descriptor: Descriptor,
    /// The reference that was looked up, overwrites applied.
    pub reference: Reference,
    repository: Option<Arc<dyn Repository>>,
}

impl std::fmt::Debug for ComponentVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentVersion").field("reference", &self.reference).finish_non_exhaustive()
    }
}

impl ComponentVersion {
    /// The content of a local blob of this version.
    ///
    /// # Errors
    ///
    /// An inline component without a repository has no blobs; see [`RepositoryError`] for the rest.
    pub fn blob(&self, reference: &str) -> Result<Vec<u8>, RepositoryError> {
        let (name, version) = (self.descriptor.name(), self.descriptor.version());
        match &self.repository {
            Some(repository) => repository.blob(name, version, reference),
            None => Err(RepositoryError::Missing {
                address: format!(
                    "blob {reference} of the inline component {name}:{version}, which names no repository,"
                ),
            }),
        }
    }
}

/// Why a reference leads to no component version.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// `components.md` 8, E7.
    #[error("component version \"{reference}\" not found in {repository}")]
    NotFound { reference: String, repository: String },
    /// E7 without any place to look.
    #[error("component version \"{reference}\" not found: no repository or ocm resolvers found")]
    NoRepository { reference: String },
    /// E8.
    #[error(
        "unable to resolve component reference {name} with component name {component} and version {version}: {source}"
    )]
    Reference { name: String, component: String, version: String, source: Box<ResolveError> },
    /// E9.
    #[error("descriptor found at {address} is {found}, expected {expected}")]
    OtherVersion { address: String, found: String, expected: String },
    /// E11.
    #[error("component closure of \"{root}\" exceeds {limit}")]
    TooLarge { root: String, limit: String },
    /// E23.
    #[error("version {version:?} of component {name:?} is not a semantic version")]
    Version { name: String, version: String },
}

/// Looks up component versions for one Installation.
///
/// Every reference passes through the overwrites exactly once on its way (`components.md` 2.4).
pub struct Resolver<'a> {
    repositories: &'a dyn Repositories,
    overwrites: &'a Overwrites,
    inline: &'a InlineSet,
    /// The effective repository context of the Installation, where every lookup begins (2.6).
    context: Option<RepositoryContext>,
    limits: Limits,
}

impl std::fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver")
            .field("context", &self.context)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<'a> Resolver<'a> {
    /// A resolver for an Installation whose own reference has been substituted already.
    pub fn new(
        repositories: &'a dyn Repositories,
        overwrites: &'a Overwrites,
        inline: &'a InlineSet,
        root: &Substitution,
    ) -> Self {
        Self {
            repositories,
            overwrites,
            inline,
            context: root.effective.repository.clone(),
            limits: Limits::default(),
        }
    }

    /// Other bounds than the usual ones.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Looks up a reference that has been substituted already.
    ///
    /// # Errors
    ///
    /// See [`ResolveError`].
    pub fn lookup(&self, effective: &Reference) -> Result<ComponentVersion, ResolveError> {
        if let Some(descriptor) = self.inline.get(&effective.name, &effective.version) {
            return self.inline_version(descriptor, effective);
        }
        if !crate::descriptor::valid_version(&effective.version) {
            return Err(ResolveError::Version {
                name: effective.name.clone(),
                version: effective.version.clone(),
            });
        }
        let Some(context) = &effective.repository else {
            return Err(ResolveError::NoRepository { reference: effective.to_string() });
        };
        let repository = self.repositories.open(context)?;
        let bytes = repository.descriptor(&effective.name, &effective.version)?;
        let bytes = bytes.ok_or_else(|| ResolveError::NotFound {
            reference: effective.to_string(),
            repository: context.to_string(),
        })?;
        let mut descriptor = Descriptor::parse(&bytes)?;
        check_identity(&descriptor, effective, context)?;
        if descriptor.repository_context().as_ref() != Some(context) {
            descriptor.push_repository_context(context);
        }
        Ok(ComponentVersion { descriptor, reference: effective.clone(), repository: Some(repository) })
    }

    fn inline_version(
        &self,
        descriptor: &Descriptor,
        effective: &Reference,
    ) -> Result<ComponentVersion, ResolveError> {
        let context = descriptor.repository_context().or_else(|| effective.repository.clone());
        // Without a store for its context an inline component still has its descriptor; its blobs are missed
        // when they are asked for.
        let repository = context.and_then(|context| self.repositories.open(&context).ok());
        Ok(ComponentVersion { descriptor: descriptor.clone(), reference: effective.clone(), repository })
    }

    /// The version that a component reference found in some descriptor leads to.
    ///
    /// # Errors
    ///
    /// See [`ResolveError`].
    pub fn follow(&self, component: &str, version: &str) -> Result<ComponentVersion, ResolveError> {
        let reference = Reference {
            repository: self.context.clone(),
            name: component.to_owned(),
            version: version.to_owned(),
        };
        self.lookup(&self.overwrites.apply(&reference).effective)
    }

    /// All versions that belong to `root`, depth-first in the order of the references, each once.
    ///
    /// # Errors
    ///
    /// One reference that cannot be resolved fails the whole closure, even if nothing uses it.
    pub fn closure(&self, root: &ComponentVersion) -> Result<Vec<ComponentVersion>, ResolveError> {
        let id = |version: &ComponentVersion| {
            (version.descriptor.name().to_owned(), version.descriptor.version().to_owned())
        };
        let too_large = |limit: String| ResolveError::TooLarge {
            root: format!("{}:{}", root.descriptor.name(), root.descriptor.version()),
            limit,
        };
        let mut seen = HashSet::from([id(root)]);
        let mut found = vec![root.clone()];
        // References still to follow, the next one last; each with the chain of references that led to it.
        let mut open = pending(root, &[]);
        while let Some(path) = open.pop() {
            let version = self.follow_path(&path)?;
            if !seen.insert(id(&version)) {
                continue;
            }
            if found.len() >= self.limits.versions {
                return Err(too_large(format!("{} component versions", self.limits.versions)));
            }
            if path.len() >= self.limits.depth {
                return Err(too_large(format!("a depth of {}", self.limits.depth)));
            }
            open.extend(pending(&version, &path));
            found.push(version);
        }
        Ok(found)
    }

    /// Follows the last step of a path; the error names every step.
    fn follow_path(&self, path: &[Step]) -> Result<ComponentVersion, ResolveError> {
        let Some(last) = path.last() else {
            return Err(ResolveError::NoRepository { reference: String::new() });
        };
        self.follow(&last.component, &last.version).map_err(|error| {
            path.iter().rev().fold(error, |source, step| ResolveError::Reference {
                name: step.name.clone(),
                component: step.component.clone(),
                version: step.version.clone(),
                source: Box::new(source),
            })
        })
    }
}

/// A component reference on the way from the root to a version.
#[derive(Debug, Clone)]
struct Step {
    name: String,
    component: String,
    version: String,
}

/// The references of `version` in reverse, so that the first one is taken from the end of a stack first.
fn pending(version: &ComponentVersion, path: &[Step]) -> Vec<Vec<Step>> {
    let mut paths: Vec<Vec<Step>> = version
        .descriptor
        .references()
        .map(|reference| {
            let step = Step {
                name: reference.name,
                component: reference.component_name,
                version: reference.version,
            };
            path.iter().cloned().chain([step]).collect()
        })
        .collect();
    paths.reverse();
    paths
}

/// E9. A version asked for in the spelling of tags (`1.0.0.build-7`) is the one written with a plus sign.
fn check_identity(
    descriptor: &Descriptor,
    expected: &Reference,
    context: &RepositoryContext,
) -> Result<(), ResolveError> {
    let from_tag = || match expected.version.rsplit_once(".build-") {
        Some((core, build)) => format!("{core}+{build}"),
        None => expected.version.clone(),
    };
    let version_fits = descriptor.version() == expected.version || descriptor.version() == from_tag();
    if descriptor.name() == expected.name && version_fits {
        return Ok(());
    }
    Err(ResolveError::OtherVersion {
        address: context.to_string(),
        found: format!("{}:{}", descriptor.name(), descriptor.version()),
        expected: expected.to_string(),
    })
}

#[cfg(test)]
mod tests;
