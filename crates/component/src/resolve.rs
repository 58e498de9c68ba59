//! From a reference to component versions (`components.md` 2.4, 2.6, 4.2, 4.5, 4.6).

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
    /// Where blobs are looked for, in this order; the first one holds the descriptor unless that is inline.
    repositories: Vec<Arc<dyn Repository>>,
    /// Why a repository of an inline component could not be opened.
    unopened: Option<RepositoryError>,
}

impl std::fmt::Debug for ComponentVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentVersion").field("reference", &self.reference).finish_non_exhaustive()
    }
}

impl ComponentVersion {
    /// A version whose descriptor is at hand, and the repository that holds its blobs, if there is one.
    pub fn new(descriptor: Descriptor, repository: Option<Arc<dyn Repository>>) -> Self {
        let reference = Reference {
            repository: descriptor.repository_context(),
            name: descriptor.name().to_owned(),
            version: descriptor.version().to_owned(),
        };
        Self { descriptor, reference, repositories: repository.into_iter().collect(), unopened: None }
    }

    /// The digest of the manifest of an artifact, if one of the repositories can tell.
    ///
    /// # Errors
    ///
    /// As [`ComponentVersion::fetch`].
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

    /// The content that an access of this version describes.
    ///
    /// # Errors
    ///
    /// An inline component without a repository has no blobs; see [`RepositoryError`] for the rest.
    pub fn fetch(&self, access: &Access) -> Result<Blob, RepositoryError> {
        let (name, version) = (self.descriptor.name(), self.descriptor.version());
        let mut missing = self.unopened.clone().unwrap_or_else(|| RepositoryError::Missing {
            address: format!("{access} of the inline component {name}:{version}, which names no repository,"),
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

/// Why a reference leads to no component version.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The repository gave no answer; which version was asked for is not in the texts of all repositories.
    #[error("cannot load component version \"{reference}\": {source}")]
    Repository { reference: String, source: RepositoryError },
    /// Its descriptor cannot be used.
    #[error("cannot use the descriptor of component version \"{reference}\": {source}")]
    Descriptor { reference: String, source: DescriptorError },
    /// `components.md` 8, E7.
    #[error("component version \"{reference}\" not found in {}", places.join(", "))]
    NotFound { reference: String, places: Vec<String> },
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

impl ResolveError {
    /// The repository's own words, where one was asked and gave no answer.
    pub fn repository(&self) -> Option<&RepositoryError> {
        match self {
            Self::Repository { source, .. } => Some(source),
            Self::Reference { source, .. } => source.repository(),
            _ => None,
        }
    }
}

/// What tells one closure from another: the SHA-256, in hex, of the references that were looked up, in their order. `None` of one that is the root
/// alone, which its own reference tells.
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

/// Looks up component versions for one Installation.
///
/// Every reference passes through the overwrites exactly once on its way (`components.md` 2.4).
pub struct Resolver<'a> {
    repositories: &'a dyn Repositories,
    overwrites: &'a Overwrites,
    inline: &'a InlineSet,
    /// The effective repository context of the Installation, where every lookup begins (2.6).
    context: Option<RepositoryContext>,
    /// Tried after the repository of a reference.
    rules: Option<&'a ResolverRules>,
    limits: Limits,
    /// Repositories of contexts that were asked for; there are few of them.
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
            rules: None,
            limits: Limits::default(),
            opened: RefCell::default(),
        }
    }

    /// Further repositories for versions that the repository of a reference does not hold.
    #[must_use]
    pub fn with_rules(mut self, rules: &'a ResolverRules) -> Self {
        self.rules = Some(rules);
        self
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

    /// Where a version may be, the most preferred place first, with the prefix of the resolver that names it. The repository of the reference comes
    /// before all resolvers: overwrites rely on that.
    fn places<'b>(
        &'b self,
        effective: &'b Reference,
    ) -> impl Iterator<Item = (&'b RepositoryContext, Option<&'b str>)> {
        let own = effective.repository.iter().map(|context| (context, None));
        let rules = self.rules.into_iter().flat_map(|rules| rules.of(&effective.name));
        own.chain(rules.map(|rule| (&rule.repository, Some(rule.prefix.as_str()))))
    }

    fn inline_version(&self, descriptor: &Descriptor, effective: &Reference) -> ComponentVersion {
        // The repository of the reference may have been overwritten, so it comes before the one written inline.
        let own = descriptor.repository_context().filter(|own| Some(own) != effective.repository.as_ref());
        let (mut repositories, mut unopened) = (Vec::new(), None);
        // Then the registries that its resources name (I-38): it may name no repository at all.
        let mut registries: Vec<RepositoryContext> = Vec::new();
        for registry in descriptor.accesses().filter_map(|access| access.registry()) {
            if !registries.contains(&registry) {
                registries.push(registry);
            }
        }
        for context in effective.repository.iter().chain(&own).chain(&registries) {
            // Without a store for its context an inline component still has its descriptor; its blobs are missed
            // when they are asked for.
            match self.open(context) {
                Ok(repository) => repositories.push(repository),
                Err(error) => unopened = unopened.or(Some(error)),
            }
        }
        let (descriptor, reference) = (descriptor.clone(), effective.clone());
        ComponentVersion { descriptor, reference, repositories, unopened }
    }

    /// The version that a component reference found in some descriptor leads to.
    ///
    /// # Errors
    ///
    /// See [`ResolveError`].
    pub fn follow(&self, component: &str, version: &str) -> Result<ComponentVersion, ResolveError> {
        self.lookup(&self.overwrites.apply(&self.reference(component, version)).effective)
    }

    /// A reference as it stands in some descriptor, with the place where its lookup begins.
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
        // Most versions are referred to from many places: what was looked up leads nowhere new.
        let mut looked_up = HashSet::new();
        let mut found = vec![root.clone()];
        // The way from the root to where we are.
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

/// A version whose references are being followed.
struct Step {
    descriptor: Descriptor,
    /// The reference that comes next; the one before it is being followed.
    next: usize,
}

/// An error that names every reference from the root on.
fn on_the_way(way: &[Step], error: ResolveError) -> ResolveError {
    let followed = way.iter().rev().filter_map(|step| step.descriptor.links().get(step.next - 1));
    followed.fold(error, |source, link| ResolveError::Reference {
        name: link.name.to_string(),
        component: link.component.to_string(),
        version: link.version.to_string(),
        source: Box::new(source),
    })
}

/// How messages call a place.
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
    // E9.
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
