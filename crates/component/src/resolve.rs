//! Resolution of references to component versions (`components.md` 2.4, 2.6, 4.2, 4.5, 4.6).

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use groundwork_keys::Hash;

use crate::access::Access;
use crate::descriptor::{Descriptor, DescriptorError};
use crate::inline::InlineSet;
use crate::overwrite::{Overwrites, Substitution};
use crate::reference::{Reference, RepositoryContext};
use crate::repository::{Blob, Repositories, Repository, RepositoryError};
use crate::resolvers::ResolverRules;

/// Limits of a closure (`components.md` 4.6).
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

/// Component version with the repositories of its content.
#[derive(Clone)]
pub struct ComponentVersion {
    pub descriptor: Descriptor,
    /// Resolved reference, with overwrites applied.
    pub reference: Reference,
    /// Repositories to search for blobs, in this order. The first one contains the descriptor
    /// unless that is inline.
    repositories: Vec<Arc<dyn Repository>>,
    /// First error of opening a repository of an inline component.
    unopened: Option<RepositoryError>,
}

impl std::fmt::Debug for ComponentVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentVersion").field("reference", &self.reference).finish_non_exhaustive()
    }
}

impl ComponentVersion {
    /// Creates a version from a decoded descriptor and the repository of its blobs, if there is
    /// one.
    pub fn new(descriptor: Descriptor, repository: Option<Arc<dyn Repository>>) -> Self {
        let reference = Reference {
            repository: descriptor.repository_context(),
            name: descriptor.name().to_owned(),
            version: descriptor.version().to_owned(),
        };
        Self { descriptor, reference, repositories: repository.into_iter().collect(), unopened: None }
    }

    /// Returns the digest of an artifact's manifest, if one of the repositories can tell.
    ///
    /// # Errors
    ///
    /// As for [`ComponentVersion::fetch`].
    pub fn artifact_digest(&self, access: &Access) -> Result<Option<String>, RepositoryError> {
        let (name, version) = (self.descriptor.name(), self.descriptor.version());
        for repository in &self.repositories {
            match repository.artifact_digest(name, version, access) {
                Ok(None) | Err(RepositoryError::Elsewhere { .. } | RepositoryError::Offline { .. }) => {}
                answer => return answer,
            }
        }
        Ok(None)
    }

    /// Returns the content that an access of this version describes.
    ///
    /// # Errors
    ///
    /// An inline component without a repository has no blobs. For other errors see
    /// [`RepositoryError`].
    pub fn fetch(&self, access: &Access) -> Result<Blob, RepositoryError> {
        let (name, version) = (self.descriptor.name(), self.descriptor.version());
        let mut missing = self.unopened.clone().unwrap_or_else(|| RepositoryError::Missing {
            address: format!("{access} of the inline component {name}:{version}, which has no repository,"),
        });
        for repository in &self.repositories {
            match repository.content(name, version, access) {
                Err(
                    error @ (RepositoryError::Missing { .. }
                    | RepositoryError::Elsewhere { .. }
                    | RepositoryError::Offline { .. }),
                ) => missing = error,
                answer => return answer,
            }
        }
        Err(missing)
    }
}

/// Error of a reference that cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The repository failed. The reference is included, because the texts of some repositories do
    /// not name it.
    #[error("cannot load component version \"{reference}\": {source}")]
    Repository { reference: String, source: RepositoryError },
    /// The descriptor is invalid.
    #[error("cannot use the descriptor of component version \"{reference}\": {source}")]
    Descriptor { reference: String, source: DescriptorError },
    /// Error E7 (`components.md` 8): the version is not found.
    #[error("component version \"{reference}\" not found in {}", places.join(", "))]
    NotFound { reference: String, places: Vec<String> },
    /// Error E7 (`components.md` 8), without any place to search.
    #[error("component version \"{reference}\" not found: no repository or ocm resolvers found")]
    NoRepository { reference: String },
    /// Error E8 (`components.md` 8): a reference of the closure fails.
    #[error(
        "unable to resolve component reference {name} with component name {component} and version {version}: {source}"
    )]
    Reference { name: String, component: String, version: String, source: Box<ResolveError> },
    /// Error E9 (`components.md` 8): the descriptor names another version.
    #[error("descriptor found at {address} is {found}, expected {expected}")]
    OtherVersion { address: String, found: String, expected: String },
    /// Error E11 (`components.md` 8): the closure is too large.
    #[error("component closure of \"{root}\" exceeds {limit}")]
    TooLarge { root: String, limit: String },
    /// Error E23 (`components.md` 8): the version is not a semantic version.
    #[error("version {version:?} of component {name:?} is not a semantic version")]
    Version { name: String, version: String },
}

impl ResolveError {
    /// Returns the error of a repository, if one failed.
    pub fn repository(&self) -> Option<&RepositoryError> {
        match self {
            Self::Repository { source, .. } => Some(source),
            Self::Reference { source, .. } => source.repository(),
            _ => None,
        }
    }
}

/// Returns the digest of a closure: the SHA-256, in hex, of the resolved references, in their
/// order. `None` for a root without references, which its own reference identifies.
pub fn closure_digest(versions: &[ComponentVersion]) -> Option<String> {
    let [_, rest @ ..] = versions else { return None };
    if rest.is_empty() {
        return None;
    }
    let mut hash = Hash::Sha256.begin();
    for version in versions {
        let Reference { repository, name, version } = &version.reference;
        let context = repository.as_ref().map(RepositoryContext::to_json).unwrap_or_default();
        hash.update(format!("{context}\n{name}\n{version}\n").as_bytes());
    }
    Some(HEXLOWER.encode(&hash.finish()))
}

/// Resolver of component versions for one Installation.
///
/// The resolver applies the overwrites to every reference exactly once (`components.md` 2.4).
pub struct Resolver<'a> {
    repositories: &'a dyn Repositories,
    overwrites: &'a Overwrites,
    inline: &'a InlineSet,
    /// Effective repository context of the Installation, where every lookup begins (`components.md`
    /// 2.6).
    context: Option<RepositoryContext>,
    /// Resolvers to try after the repository of a reference.
    rules: Option<&'a ResolverRules>,
    limits: Limits,
    /// Opened repositories. A list is enough for their small number.
    opened: RefCell<Vec<(RepositoryContext, Arc<dyn Repository>)>>,
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
    /// Creates a resolver for an Installation whose own reference has been substituted already.
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
            rules: None,
            limits: Limits::default(),
            opened: RefCell::default(),
        }
    }

    /// Adds repositories for versions that the repository of a reference does not have.
    #[must_use]
    pub fn with_rules(mut self, rules: &'a ResolverRules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Replaces the default limits.
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
            return Ok(self.inline_version(descriptor, effective));
        }
        if !crate::descriptor::valid_version(&effective.version) {
            return Err(ResolveError::Version {
                name: effective.name.clone(),
                version: effective.version.clone(),
            });
        }
        let unloaded = |source| ResolveError::Repository { reference: effective.to_string(), source };
        for (context, _) in self.places(effective) {
            let repository = self.open(context).map_err(unloaded)?;
            let found = repository.load(&effective.name, &effective.version, context).map_err(unloaded)?;
            if let Some(descriptor) = found {
                return stored_version(descriptor, effective, context, repository);
            }
        }
        let tried: Vec<String> =
            self.places(effective).map(|(context, prefix)| place(context, prefix)).collect();
        Err(if tried.is_empty() {
            ResolveError::NoRepository { reference: effective.to_string() }
        } else {
            ResolveError::NotFound { reference: effective.to_string(), places: tried }
        })
    }

    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let known = self.opened.borrow().iter().find(|(known, _)| known == context).cloned();
        if let Some((_, repository)) = known {
            return Ok(repository);
        }
        let repository = self.repositories.open(context)?;
        self.opened.borrow_mut().push((context.clone(), Arc::clone(&repository)));
        Ok(repository)
    }

    /// Returns the places to search for a version, the most preferred first, with the prefix of the
    /// resolver that names it.
    ///
    /// The repository of the reference comes before all resolvers, which overwrites rely on.
    fn places<'b>(
        &'b self,
        effective: &'b Reference,
    ) -> impl Iterator<Item = (&'b RepositoryContext, Option<&'b str>)> {
        let own = effective.repository.iter().map(|context| (context, None));
        let rules = self.rules.into_iter().flat_map(|rules| rules.of(&effective.name, &effective.version));
        own.chain(rules.map(|rule| (&rule.repository, Some(rule.name()))))
    }

    fn inline_version(&self, descriptor: &Descriptor, effective: &Reference) -> ComponentVersion {
        // The repository of the reference may have been overwritten, so it comes before the inline
        // one.
        let own = descriptor.repository_context().filter(|own| Some(own) != effective.repository.as_ref());
        let (mut repositories, mut unopened) = (Vec::new(), None);
        // The registries of the resources come last (case I-38): the descriptor may name no
        // repository at all.
        let mut registries: Vec<RepositoryContext> = Vec::new();
        for registry in descriptor.accesses().filter_map(|access| access.registry()) {
            if !registries.contains(&registry) {
                registries.push(registry);
            }
        }
        for context in effective.repository.iter().chain(&own).chain(&registries) {
            // An inline component has its descriptor even without a store for its context. The
            // error is reported when a blob is requested.
            match self.open(context) {
                Ok(repository) => repositories.push(repository),
                Err(error) => unopened = unopened.or(Some(error)),
            }
        }
        let (descriptor, reference) = (descriptor.clone(), effective.clone());
        ComponentVersion { descriptor, reference, repositories, unopened }
    }

    /// Returns the version that a component reference of a descriptor leads to.
    ///
    /// # Errors
    ///
    /// See [`ResolveError`].
    pub fn follow(&self, component: &str, version: &str) -> Result<ComponentVersion, ResolveError> {
        self.lookup(&self.overwrites.apply(&self.reference(component, version)).effective)
    }

    /// Returns a descriptor's reference, with the repository where its lookup begins.
    pub(crate) fn reference(&self, component: &str, version: &str) -> Reference {
        Reference {
            repository: self.context.clone(),
            name: component.to_owned(),
            version: version.to_owned(),
        }
    }

    pub(crate) fn overwrites(&self) -> &Overwrites {
        self.overwrites
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns all versions that `root` refers to, directly or indirectly, depth first in the order
    /// of the references, each once.
    ///
    /// # Errors
    ///
    /// One reference that cannot be resolved fails the whole closure, even if it is not used.
    pub fn closure(&self, root: &ComponentVersion) -> Result<Vec<ComponentVersion>, ResolveError> {
        let id = |version: &ComponentVersion| {
            (version.descriptor.name().to_owned(), version.descriptor.version().to_owned())
        };
        let too_large = |limit: String| ResolveError::TooLarge {
            root: format!("{}:{}", root.descriptor.name(), root.descriptor.version()),
            limit,
        };
        let mut seen = HashSet::from([id(root)]);
        // Most versions are referenced from many places, and a second lookup would find the same
        // version.
        let mut looked_up = HashSet::new();
        let mut found = vec![root.clone()];
        // Path from the root to the current version.
        let mut way = vec![Step { descriptor: root.descriptor.clone(), next: 0 }];
        while let Some(step) = way.last_mut() {
            let Some(link) = step.descriptor.links().get(step.next).cloned() else {
                way.pop();
                continue;
            };
            step.next += 1;
            if !looked_up.insert((Arc::clone(&link.component), Arc::clone(&link.version))) {
                continue;
            }
            let version =
                self.follow(&link.component, &link.version).map_err(|error| on_the_way(&way, error))?;
            if !seen.insert(id(&version)) {
                continue;
            }
            if found.len() >= self.limits.versions {
                return Err(too_large(format!("{} component versions", self.limits.versions)));
            }
            if way.len() >= self.limits.depth {
                return Err(too_large(format!("a depth of {}", self.limits.depth)));
            }
            way.push(Step { descriptor: version.descriptor.clone(), next: 0 });
            found.push(version);
        }
        Ok(found)
    }
}

/// Version whose references are being followed.
struct Step {
    descriptor: Descriptor,
    /// Index of the next reference. The one before it is being followed.
    next: usize,
}

/// Wraps an error with every reference from the root on.
fn on_the_way(way: &[Step], error: ResolveError) -> ResolveError {
    let followed = way.iter().rev().filter_map(|step| step.descriptor.links().get(step.next - 1));
    followed.fold(error, |source, link| ResolveError::Reference {
        name: link.name.to_string(),
        component: link.component.to_string(),
        version: link.version.to_string(),
        source: Box::new(source),
    })
}

/// Returns the name of a place in messages.
fn place(context: &RepositoryContext, prefix: Option<&str>) -> String {
    match prefix {
        Some(prefix) => format!("{context} (ocm resolver for prefix {prefix:?})"),
        None => context.to_string(),
    }
}

fn stored_version(
    descriptor: Result<Descriptor, DescriptorError>,
    effective: &Reference,
    context: &RepositoryContext,
    repository: Arc<dyn Repository>,
) -> Result<ComponentVersion, ResolveError> {
    let descriptor =
        descriptor.map_err(|source| ResolveError::Descriptor { reference: effective.to_string(), source })?;
    // Error E9 (`components.md` 8): the descriptor names another version.
    if !descriptor.is_version(&effective.name, &effective.version) {
        return Err(ResolveError::OtherVersion {
            address: context.to_string(),
            found: format!("{}:{}", descriptor.name(), descriptor.version()),
            expected: effective.to_string(),
        });
    }
    let reference = effective.clone();
    Ok(ComponentVersion { descriptor, reference, repositories: vec![repository], unopened: None })
}

#[cfg(test)]
mod tests;
