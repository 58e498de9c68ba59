//! Upstream packages of a set (`packagevariants.md` 12.2, 12.3).

use std::collections::BTreeSet;

use groundwork_api::{PackageRevisionSet, PackageVariantSet, ResourceExt as _, Upstream};

use crate::expand::ExpandError;
use crate::revision::revision_error;
use crate::upstream::Unresolved;

/// Limit for the upstreams of a set, including those of all its PackageRevisionSets.
const MOST: usize = 1_000;

/// An upstream package, and its place in the spec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named<'a> {
    pub(crate) upstream: &'a Upstream,
    /// Path such as `spec.upstreams[1]`; `None` if the set has only one upstream.
    pub(crate) place: Option<String>,
}

/// Returns the packages of a set in order, without duplicates.
///
/// # Errors
/// A PackageRevisionSet is missing or invalid, or there are too many packages.
pub(crate) fn named<'a>(
    set: &'a PackageVariantSet,
    revision_sets: &'a [PackageRevisionSet],
) -> Result<Vec<Named<'a>>, ExpandError> {
    let mut found: Vec<Named<'a>> = Vec::new();
    let mut add = |upstream: &'a Upstream, place: String| {
        if found.iter().all(|other| other.upstream != upstream) {
            found.push(Named { upstream, place: Some(place) });
        }
        if found.len() > MOST {
            let text = format!("the set derives from more than {MOST} packages: split it into several sets");
            return Err(ExpandError::Unexpected(text));
        }
        Ok(())
    };
    for (upstream, place) in written(set) {
        let Some(name) = revision_set(upstream) else {
            add(upstream, place)?;
            continue;
        };
        let there = revision_sets.iter().find(|there| there.name_any() == name).ok_or_else(|| {
            let missing = Unresolved::RevisionSet { name: name.to_owned() };
            missing.at(set.spec.upstreams.written().map(|_| place.as_str()))
        })?;
        let errors = validate_revision_set(there);
        if !errors.is_empty() {
            let of_set = |error: String| format!("package revision set {name:?}: {error}");
            return Err(ExpandError::Invalid(errors.into_iter().map(of_set).collect()));
        }
        for (index, upstream) in there.spec.upstreams.iter().enumerate() {
            add(upstream, format!("spec.upstreams[{index}] of package revision set {name:?}"))?;
        }
    }
    if set.spec.upstreams.written().is_none()
        && let [only] = found.as_mut_slice()
    {
        only.place = None;
    }
    Ok(found)
}

/// Returns repositories and paths of the packages that a set derives from, as far as its
/// PackageRevisionSets exist.
pub fn upstream_packages(
    set: &PackageVariantSet,
    revision_sets: &[PackageRevisionSet],
) -> BTreeSet<(String, String)> {
    let of_sets = revision_set_names(set);
    let of_sets = revision_sets.iter().filter(|there| of_sets.contains(&there.name_any()));
    let all = written(set).into_iter().map(|(upstream, _)| upstream);
    let all = all.chain(of_sets.flat_map(|there| &*there.spec.upstreams));
    let package = |upstream: &Upstream| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&upstream.repo), text(&upstream.package))
    };
    all.filter(|upstream| revision_set(upstream).is_none()).map(package).collect()
}

/// Returns the names of the PackageRevisionSets that a set refers to.
pub fn revision_set_names(set: &PackageVariantSet) -> BTreeSet<String> {
    written(set).into_iter().filter_map(|(upstream, _)| revision_set(upstream)).map(str::to_owned).collect()
}

/// Returns the upstreams in the spec of a set, each with its path.
fn written(set: &PackageVariantSet) -> Vec<(&Upstream, String)> {
    let one = set.spec.upstream.iter().map(|upstream| (upstream, "spec.upstream".to_owned()));
    one.chain(numbered(&set.spec.upstreams)).collect()
}

fn numbered(upstreams: &[Upstream]) -> impl Iterator<Item = (&Upstream, String)> {
    upstreams.iter().enumerate().map(|(index, upstream)| (upstream, format!("spec.upstreams[{index}]")))
}

fn revision_set(upstream: &Upstream) -> Option<&str> {
    upstream.package_revision_set.as_deref()
}

/// Returns the errors in the upstreams of a set.
pub(crate) fn errors(set: &PackageVariantSet) -> Vec<String> {
    match (&set.spec.upstream, set.spec.upstreams.written()) {
        (None, None) => vec!["spec.upstream is a required field".to_owned()],
        (Some(_), Some(_)) => {
            vec!["spec must specify exactly one of `upstream` and `upstreams`".to_owned()]
        }
        (None, Some([])) => vec!["must specify at least one item in spec.upstreams".to_owned()],
        (None, Some(upstreams)) if upstreams.len() > MOST => vec![too_many()],
        (Some(_), None) | (None, Some(_)) => {
            written(set).iter().flat_map(|(upstream, path)| upstream_errors(upstream, path)).collect()
        }
    }
}

fn too_many() -> String {
    format!("spec.upstreams has more than {MOST} items")
}

fn upstream_errors(upstream: &Upstream, path: &str) -> Vec<String> {
    if let Some(name) = revision_set(upstream) {
        let alone = Upstream { package_revision_set: Some(name.to_owned()), ..Upstream::default() };
        return match name {
            "" => vec![format!("{path}.packageRevisionSet cannot be empty")],
            _ if *upstream != alone => {
                vec![format!("{path} may specify `packageRevisionSet` only without other fields")]
            }
            _ => Vec::new(),
        };
    }
    let is_empty = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let mut errors = Vec::new();
    if is_empty(&upstream.package) {
        errors.push(format!("{path}.package is a required field"));
    }
    if is_empty(&upstream.repo) {
        errors.push(format!("{path}.repo is a required field"));
    }
    errors.extend(revision_error(upstream, path));
    errors
}

/// Returns all errors of a PackageRevisionSet; empty if it is valid.
pub fn validate_revision_set(set: &PackageRevisionSet) -> Vec<String> {
    if set.spec.upstreams.is_empty() {
        return vec!["must specify at least one item in spec.upstreams".to_owned()];
    }
    if set.spec.upstreams.len() > MOST {
        return vec![too_many()];
    }
    let each = numbered(&set.spec.upstreams).flat_map(|(upstream, path)| match revision_set(upstream) {
        Some(_) => vec![format!("{path}.packageRevisionSet may only be used in a PackageVariantSet")],
        None => upstream_errors(upstream, &path),
    });
    each.collect()
}

#[cfg(test)]
mod tests;
