//! Targets of a set (`packagevariants.md` 4.2).

use groundwork_api::{Kind as _, PackageVariantTarget, Repository, RepositoryTarget};

use crate::attributes::Attributes;
use crate::expand::{ExpandError, Objects};
use crate::expression::Shown;
use crate::selector;

/// Limit for the variants of one set.
const MOST: usize = 40_000;

/// Place for one variant: its default repository and package, and the value of `target` in
/// expressions.
pub(crate) struct Site<'a> {
    pub(crate) repository: &'a str,
    pub(crate) package: &'a str,
    pub(crate) seen: Seen<'a>,
}

/// Value of `target`.
pub(crate) enum Seen<'a> {
    /// Entry of a list.
    Listed,
    /// Selected object, shared by all packages that are made for it.
    Object(&'a Attributes),
}

impl Seen<'_> {
    pub(crate) fn shown(&self, repository: &str, package: &str) -> Shown {
        match self {
            Self::Listed => Shown::pair(repository, package),
            Self::Object(object) => Shown::object(object),
        }
    }
}

/// Repositories or objects that a target selects, for any package.
pub(crate) enum Selection<'a> {
    Listed(&'a [RepositoryTarget]),
    Objects { objects: Vec<&'a Attributes>, package_names: &'a [String] },
}

impl<'a> Selection<'a> {
    /// Returns the number of selected repositories or objects.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Listed(repositories) => repositories.len(),
            Self::Objects { objects, .. } => objects.len(),
        }
    }

    /// Returns the sites for an upstream package, in order.
    pub(crate) fn sites(&self, upstream_package: &'a str) -> Result<Vec<Site<'a>>, ExpandError> {
        let names = |names: &'a [String]| -> Vec<&'a str> {
            if names.is_empty() { vec![upstream_package] } else { names.iter().map(String::as_str).collect() }
        };
        let mut sites = Vec::new();
        match self {
            Self::Listed(repositories) => {
                for entry in *repositories {
                    let repository = entry.name.as_deref().unwrap_or_default();
                    let packages = names(&entry.package_names).into_iter();
                    sites.extend(packages.map(|package| Site { repository, package, seen: Seen::Listed }));
                    within_limit(sites.len())?;
                }
            }
            Self::Objects { objects, package_names } => {
                let packages = names(package_names);
                within_limit(objects.len().saturating_mul(packages.len()))?;
                for object in objects {
                    let of_package = |package: &&'a str| Site {
                        repository: &object.name,
                        package,
                        seen: Seen::Object(object),
                    };
                    sites.extend(packages.iter().map(of_package));
                }
            }
        }
        Ok(sites)
    }
}

/// Evaluates the selector of a target.
pub(crate) fn selection<'a>(
    target: &'a PackageVariantTarget,
    objects: &'a Objects<'a>,
) -> Result<Selection<'a>, ExpandError> {
    if let Some(repositories) = target.repositories.written() {
        return Ok(Selection::Listed(repositories));
    }
    Ok(Selection::Objects { objects: selected(target, objects)?, package_names: &target.package_names })
}

pub(crate) fn within_limit(count: usize) -> Result<(), ExpandError> {
    if count > MOST {
        return Err(ExpandError::Unexpected(format!(
            "the set targets more than {MOST} package variants: split it into several sets"
        )));
    }
    Ok(())
}

/// Returns the objects that a target selects, by name.
fn selected<'a>(
    target: &PackageVariantTarget,
    objects: &'a Objects<'a>,
) -> Result<Vec<&'a Attributes>, ExpandError> {
    let (selector, name, found) = if let Some(selector) = &target.repository_selector {
        objects.of(Repository::API_VERSION, Repository::KIND)?;
        (selector.label_selector(), None, objects.repositories)
    } else if let Some(selector) = &target.object_selector {
        let (version, kind) = (selector.api_version.as_deref(), selector.kind.as_deref());
        let (version, kind) = (version.unwrap_or_default(), kind.unwrap_or_default());
        let is_repository = version == Repository::API_VERSION && kind == Repository::KIND;
        let others = objects.of(version, kind)?;
        let found = if is_repository { objects.repositories } else { others };
        let name = selector.name.as_deref().filter(|name| !name.is_empty());
        (selector.label_selector(), name, found)
    } else {
        return Ok(Vec::new());
    };
    let fits = |object: &&Attributes| {
        name.is_none_or(|name| name == object.name) && selector::matches(&selector, &object.labels)
    };
    let mut selected: Vec<&Attributes> = found.iter().filter(fits).collect();
    selected.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(selected)
}
