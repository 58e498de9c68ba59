//! Resolution of an upstream to a package revision (`packagevariants.md` 2.5, 5.2 to 5.4).

use std::cmp::Reverse;

use groundwork_api::metadata::annotation::PAUSE_UPSTREAM as PAUSE;
use groundwork_api::{
    IntOrString, Lifecycle, PackageRevision, PackageVariant, ResolvedUpstream, ResourceExt, Time, Upstream,
};
use serde::{Deserialize, Serialize};

use crate::git::same_tree;
use crate::package::{
    Package, Repositories, UNNUMBERED, commit, given, is_published, number, self_lock, workspace,
};
use crate::revision::{Revision, revision, written};

/// Annotation of a published revision with the names of the tags that point to it, separated by
/// commas.
const FLOATING_TAGS: &str = "groundwork/floating-tags";
/// Value of the annotation that users write.
const PAUSED: &str = "true";
/// Value of the annotation that a set writes on its variants.
pub(crate) const PAUSED_BY_SET: &str = "by-set";

/// Reports whether the value of the annotation `groundwork/pause-upstream` pauses a variant.
fn is_pause(value: &str) -> bool {
    matches!(value, PAUSED | PAUSED_BY_SET)
}

/// Reports whether the annotations of a variant or a set pause it.
pub fn is_paused(object: &impl ResourceExt) -> bool {
    object.annotations().get(PAUSE).is_some_and(|value| is_pause(value))
}

/// Reason why an upstream does not resolve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unresolved {
    /// There is no revision with this number or workspace.
    #[error("could not find upstream package revision '{package}/{revision}' in repo '{repo}'")]
    NotFound { repo: String, package: String, revision: String },
    /// There is no tag with this name.
    #[error("floating tag {tag:?} not found for package {package:?} in repo {repo:?}")]
    Tag { repo: String, package: String, tag: String },
    /// There is no PackageRevisionSet with this name.
    #[error("package revision set {name:?} not found")]
    RevisionSet { name: String },
    /// Error of one of several upstreams.
    #[error("{place}: {why}")]
    At { place: String, why: Box<Unresolved> },
}

impl Unresolved {
    /// Returns the reason for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::RevisionSet { .. } => "UpstreamNotFound",
            Self::Tag { .. } => "FloatingTagUnresolved",
            Self::At { why, .. } => why.reason(),
        }
    }

    /// Adds the path of the upstream, if there are several.
    pub(crate) fn at(self, place: Option<&str>) -> Self {
        match place {
            Some(place) => Self::At { place: place.to_owned(), why: Box::new(self) },
            None => self,
        }
    }
}

/// Revision that an upstream resolves to.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved<'a> {
    pub revision: &'a PackageRevision,
    /// Commit for the status of the variant: the last one that has changed the package.
    commit: Option<String>,
    /// Tag that led to the revision.
    pub floating_tag: Option<String>,
    /// Warnings for users; each becomes an Event.
    pub warnings: Vec<String>,
}

impl<'a> From<&'a PackageRevision> for Resolved<'a> {
    fn from(revision: &'a PackageRevision) -> Self {
        let commit = commit(revision).map(str::to_owned);
        Self { revision, commit, floating_tag: None, warnings: Vec::new() }
    }
}

impl Resolved<'_> {
    /// Returns the entry for the status of a variant. The time is that of the last change.
    pub fn status(&self, before: Option<&ResolvedUpstream>, now: &Time) -> ResolvedUpstream {
        let mut status = ResolvedUpstream {
            name: Some(self.revision.name_any()),
            revision: Some(IntOrString::Int(number(self.revision))),
            commit: self.commit.clone(),
            tree: self_lock(self.revision).and_then(|lock| lock.tree.clone()),
            floating_tag: self.floating_tag.clone(),
            resolved_at: before.and_then(|before| before.resolved_at.clone()),
            ..ResolvedUpstream::default()
        };
        if status.resolved_at.is_none() || before != Some(&status) {
            status.resolved_at = Some(now.clone());
        }
        status
    }
}

/// Resolves an upstream among the package revisions of its namespace. The result may be the head of
/// a branch.
///
/// # Errors
/// See [`Unresolved`].
pub fn resolve<'a>(
    upstream: &Upstream,
    revisions: &'a [PackageRevision],
) -> Result<&'a PackageRevision, Unresolved> {
    find(upstream, revisions, Repositories::default()).map(|found| found.revision)
}

/// Resolves the upstream of a variant among the revisions and Repositories of its namespace. The
/// result may be the head of a branch.
///
/// # Errors
/// There is no such revision.
pub fn resolve_upstream<'a>(
    variant: &PackageVariant,
    revisions: &'a [PackageRevision],
    repositories: Repositories<'_>,
) -> Result<Resolved<'a>, Unresolved> {
    let none = Upstream::default();
    let upstream = variant.spec.upstream.as_ref().unwrap_or(&none);
    let mut resolved = match paused(variant) {
        Some(kept) => {
            let mut found = find_again(kept, upstream, revisions)?;
            let name = found.revision.name_any();
            let of_set = match variant.annotations().get(PAUSE).map(String::as_str) {
                Some(PAUSED_BY_SET) => " of its set",
                _ => "",
            };
            found.warnings.push(format!("annotation {PAUSE}{of_set} keeps the upstream at {name:?}"));
            found
        }
        None => find(upstream, revisions, repositories)?,
    };
    if let Some(value) =
        variant.annotations().get(PAUSE).filter(|value| !is_pause(value) && *value != "false")
    {
        resolved
            .warnings
            .push(format!("annotation {PAUSE} has no effect: it is {value:?}, and must be {PAUSED:?}"));
    }
    let found = resolved.revision;
    if let Some(commit) = unchanged(variant, found) {
        resolved.commit = Some(commit);
    }
    if found.spec.lifecycle() == Some(Lifecycle::DeletionProposed) {
        resolved.warnings.push(format!("upstream {:?} is proposed for deletion", found.name_any()));
    }
    Ok(resolved)
}

/// Returns the commit in the status of a variant, if the head of the branch still has the same
/// package. Every package of the branch moves the head, and each move would otherwise write the
/// status of all variants.
fn unchanged(variant: &PackageVariant, found: &PackageRevision) -> Option<String> {
    let before = variant.status.as_ref()?.upstream.as_ref()?;
    let own = self_lock(found).filter(|_| number(found) == UNNUMBERED)?;
    let is_same = before.name == found.metadata.name && before.tree.is_some() && before.tree == own.tree;
    before.commit.clone().filter(|_| is_same)
}

/// Returns the last resolved upstream of a paused variant.
fn paused(variant: &PackageVariant) -> Option<&ResolvedUpstream> {
    let kept = variant.status.as_ref()?.upstream.as_ref()?;
    (is_paused(variant) && (kept.name.is_some() || kept.revision.is_some())).then_some(kept)
}

/// Finds the revision of a paused variant again, whatever its spec is by now. The name identifies
/// it; the number is used if the object was created again under another name.
fn find_again<'a>(
    kept: &ResolvedUpstream,
    upstream: &Upstream,
    revisions: &'a [PackageRevision],
) -> Result<Resolved<'a>, Unresolved> {
    let name = given(kept.name.as_ref());
    let named = revisions.iter().find(|found| name.is_some() && found.metadata.name.as_deref() == name);
    let number = match &kept.revision {
        Some(IntOrString::Int(number)) => Some(*number),
        _ => None,
    };
    let numbered = || {
        let mut of_package = package_of(upstream).revisions(revisions);
        of_package.find(|found| is_published(found) && found.spec.revision == number)
    };
    let found = named.or_else(numbered).ok_or_else(|| {
        let revision = kept.revision.as_ref().map(ToString::to_string);
        not_found(upstream, revision.or_else(|| kept.name.clone()).unwrap_or_default())
    })?;
    Ok(Resolved { floating_tag: kept.floating_tag.clone(), ..found.into() })
}

fn package_of(upstream: &Upstream) -> Package<'_> {
    Package {
        repository: upstream.repo.as_deref().unwrap_or_default(),
        path: upstream.package.as_deref().unwrap_or_default(),
    }
}

fn not_found(upstream: &Upstream, revision: String) -> Unresolved {
    let package = package_of(upstream);
    Unresolved::NotFound { repo: package.repository.to_owned(), package: package.path.to_owned(), revision }
}

pub(crate) fn find<'a>(
    upstream: &Upstream,
    revisions: &'a [PackageRevision],
    repositories: Repositories<'_>,
) -> Result<Resolved<'a>, Unresolved> {
    let package = package_of(upstream);
    let of_package: Vec<&PackageRevision> = package.revisions(revisions).collect();
    let not_found = || not_found(upstream, written(upstream));
    let plain = |found: Option<&'a PackageRevision>| found.map(Resolved::from).ok_or_else(not_found);
    if let Some(name) = given(upstream.workspace_name.as_ref()) {
        return plain(in_workspace(&of_package, name));
    }
    let branch = repositories.branch(package.repository);
    let meaning = match &upstream.revision {
        Some(IntOrString::String(name)) if name == branch => Some(Revision::Head),
        Some(other) => revision(other),
        None => None,
    };
    match meaning {
        None => Err(not_found()),
        Some(Revision::Number(wanted)) => {
            plain(published(&of_package).into_iter().find(|found| number(found) == wanted))
        }
        Some(Revision::Latest) => {
            let found = plain(published(&of_package).into_iter().next())?;
            Ok(Resolved { floating_tag: Some("latest".to_owned()), ..found })
        }
        Some(Revision::Head) => plain(unnumbered(&of_package, branch)),
        Some(Revision::Tag(tag)) => {
            tagged(package, &of_package, &tag).map(|found| Resolved { floating_tag: Some(tag), ..found })
        }
    }
}

fn in_workspace<'a>(revisions: &[&'a PackageRevision], name: &str) -> Option<&'a PackageRevision> {
    revisions.iter().find(|found| workspace(found) == name).copied()
}

fn unnumbered<'a>(revisions: &[&'a PackageRevision], name: &str) -> Option<&'a PackageRevision> {
    in_workspace(revisions, name).filter(|found| found.spec.revision == Some(UNNUMBERED))
}

/// Returns the published revisions, the highest first. A revision whose deletion is proposed is
/// still published.
fn published<'a>(revisions: &[&'a PackageRevision]) -> Vec<&'a PackageRevision> {
    let mut published: Vec<_> = revisions.iter().filter(|found| is_published(found)).copied().collect();
    published.sort_by_key(|found| Reverse(number(found)));
    published
}

/// Resolves a tag. A store shows it as a revision without a number. Without one, an annotation of a
/// published revision may name the tag.
fn tagged<'a>(
    package: Package<'_>,
    revisions: &[&'a PackageRevision],
    tag: &str,
) -> Result<Resolved<'a>, Unresolved> {
    let published = published(revisions);
    let carrier = unnumbered(revisions, tag);
    if let Some(carrier) = carrier {
        let target = commit(carrier);
        let by_commit = published.iter().find(|found| target.is_some() && commit(found) == target);
        let is_same = |found: &&&PackageRevision| match (self_lock(found), self_lock(carrier)) {
            (Some(own), Some(lock)) => same_tree(own, lock) == Some(true),
            _ => false,
        };
        let found = by_commit.or_else(|| published.iter().find(is_same));
        return Ok(Resolved::from(found.copied().unwrap_or(carrier)));
    }
    annotated(&published, tag).ok_or_else(|| Unresolved::Tag {
        repo: package.repository.to_owned(),
        package: package.path.to_owned(),
        tag: tag.to_owned(),
    })
}

/// Returns the highest of the revisions whose annotation names the tag.
fn annotated<'a>(published: &[&'a PackageRevision], tag: &str) -> Option<Resolved<'a>> {
    let carries = |found: &&&PackageRevision| {
        let tags = found.annotations().get(FLOATING_TAGS);
        tags.is_some_and(|tags| tags.split(',').any(|name| name.trim() == tag))
    };
    let carriers: Vec<&PackageRevision> = published.iter().filter(carries).copied().collect();
    let mut resolved = Resolved::from(*carriers.first()?);
    if carriers.len() > 1 {
        let numbers: Vec<String> = carriers.iter().rev().map(|found| number(found).to_string()).collect();
        resolved
            .warnings
            .push(format!("floating tag {tag:?} is ambiguous: revisions [{}] carry it", numbers.join(" ")));
    }
    Some(resolved)
}

#[cfg(test)]
mod tests;
