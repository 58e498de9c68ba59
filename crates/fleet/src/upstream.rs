//! Which package revision an upstream stands for (`packagevariants.md` 2.5, 5.2 to 5.4).

use std::cmp::Reverse;

use groundwork_api::{
    GitLock, IntOrString, Lifecycle, PackageRevision, PackageVariant, ResolvedUpstream, ResourceExt as _,
    Time, Upstream,
};
use serde::{Deserialize, Serialize};

use crate::git::Git;
use crate::package::{
    Package, Repositories, UNNUMBERED, commit, given, is_published, number, self_lock, workspace,
};
use crate::revision::{Revision, revision, written};

/// Names of the tags that point at a published revision, separated by commas.
const FLOATING_TAGS: &str = "groundwork/floating-tags";
/// Annotation of a variant: its upstream stays what it was resolved to last.
const PAUSE: &str = "groundwork/pause-upstream";

/// Why an upstream stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unresolved {
    /// No revision of that number or workspace.
    #[error("could not find upstream package revision '{package}/{revision}' in repo '{repo}'")]
    NotFound { repo: String, package: String, revision: String },
    /// No tag of that name.
    #[error("floating tag {tag:?} not found for package {package:?} in repo {repo:?}")]
    Tag { repo: String, package: String, tag: String },
    /// The tag is there, the package is not.
    #[error(
        "floating tag {tag:?} of package {package:?} does not point at a package (commit {commit} has no Kptfile there)"
    )]
    TagNotPublished { package: String, tag: String, commit: String },
    /// Every clone of it would be another one.
    #[error("upstream {name:?} is the moving branch head; use a published revision")]
    Placeholder { name: String },
    /// No PackageRevisionSet of that name.
    #[error("package revision set {name:?} not found")]
    RevisionSet { name: String },
    /// One of several upstreams.
    #[error("{place}: {why}")]
    At { place: String, why: Box<Unresolved> },
}

impl Unresolved {
    /// The reason that conditions give.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::RevisionSet { .. } => "UpstreamNotFound",
            Self::Tag { .. } | Self::TagNotPublished { .. } => "FloatingTagUnresolved",
            Self::Placeholder { .. } => "UpstreamIsPlaceholder",
            Self::At { why, .. } => why.reason(),
        }
    }

    /// The same with the place of the upstream, if there are several.
    pub(crate) fn at(self, place: Option<&str>) -> Self {
        match place {
            Some(place) => Self::At { place: place.to_owned(), why: Box::new(self) },
            None => self,
        }
    }
}

/// What an upstream stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved<'a> {
    pub revision: &'a PackageRevision,
    /// The tag that led to it.
    pub floating_tag: Option<String>,
    /// What people should know about it; an event each.
    pub warnings: Vec<String>,
}

impl<'a> From<&'a PackageRevision> for Resolved<'a> {
    fn from(revision: &'a PackageRevision) -> Self {
        Self { revision, floating_tag: None, warnings: Vec::new() }
    }
}

impl Resolved<'_> {
    /// What the status of a variant says about it. The time is that of the last change.
    pub fn status(&self, before: Option<&ResolvedUpstream>, now: &Time) -> ResolvedUpstream {
        let mut status = ResolvedUpstream {
            name: Some(self.revision.name_any()),
            revision: Some(IntOrString::Int(number(self.revision))),
            commit: commit(self.revision).map(str::to_owned),
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

/// The package revision that an upstream stands for, among those of its namespace. That may be the head of a branch.
///
/// # Errors
/// There is none.
pub fn resolve<'a>(
    upstream: &Upstream,
    revisions: &'a [PackageRevision],
) -> Result<&'a PackageRevision, Unresolved> {
    find(upstream, revisions, Repositories::default(), &Git::UNKNOWN).map(|found| found.revision)
}

/// What a variant is made of, among the revisions and Repositories of its namespace.
///
/// # Errors
/// There is no such revision, or it is the head of a branch.
pub fn resolve_upstream<'a>(
    variant: &PackageVariant,
    revisions: &'a [PackageRevision],
    repositories: Repositories<'_>,
    git: &Git<'_>,
) -> Result<Resolved<'a>, Unresolved> {
    let none = Upstream::default();
    let upstream = variant.spec.upstream.as_ref().unwrap_or(&none);
    let mut resolved = match paused(variant) {
        Some(kept) => find_again(kept, upstream, revisions)?,
        None => find(upstream, revisions, repositories, git)?,
    };
    let found = resolved.revision;
    if repositories.is_placeholder(found) {
        return Err(Unresolved::Placeholder { name: found.name_any() });
    }
    if found.spec.lifecycle() == Some(Lifecycle::DeletionProposed) {
        resolved.warnings.push(format!("upstream {:?} is proposed for deletion", found.name_any()));
    }
    Ok(resolved)
}

/// What the upstream of a paused variant was resolved to last.
fn paused(variant: &PackageVariant) -> Option<&ResolvedUpstream> {
    let is_paused = variant.annotations().get(PAUSE).is_some_and(|value| value == "true");
    let kept = variant.status.as_ref()?.upstream.as_ref()?;
    (is_paused && (kept.name.is_some() || kept.revision.is_some())).then_some(kept)
}

/// Names are of one revision, whatever the spec says by now; the number helps where the object was made anew under another one.
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
    git: &Git<'_>,
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
            tagged(package, &of_package, &tag, git).map(|found| Resolved { floating_tag: Some(tag), ..found })
        }
    }
}

fn in_workspace<'a>(revisions: &[&'a PackageRevision], name: &str) -> Option<&'a PackageRevision> {
    revisions.iter().find(|found| workspace(found) == name).copied()
}

fn unnumbered<'a>(revisions: &[&'a PackageRevision], name: &str) -> Option<&'a PackageRevision> {
    in_workspace(revisions, name).filter(|found| found.spec.revision == Some(UNNUMBERED))
}

/// Published revisions, the highest first. One whose deletion is proposed is still published.
fn published<'a>(revisions: &[&'a PackageRevision]) -> Vec<&'a PackageRevision> {
    let mut published: Vec<_> = revisions.iter().filter(|found| is_published(found)).copied().collect();
    published.sort_by_key(|found| Reverse(number(found)));
    published
}

/// A store shows a tag as a revision without a number, and git has those at which there is no package; where nothing does, an
/// annotation of a published revision may.
fn tagged<'a>(
    package: Package<'_>,
    revisions: &[&'a PackageRevision],
    tag: &str,
    git: &Git<'_>,
) -> Result<Resolved<'a>, Unresolved> {
    let published = published(revisions);
    let carrier = unnumbered(revisions, tag);
    let lock = match carrier {
        Some(carrier) => self_lock(carrier).cloned(),
        None => (git.tag_commit)(tag).map(|commit| lock_at(commit, package, &published)),
    };
    let target = lock.as_ref().and_then(|lock| given(lock.commit.as_ref()));
    if let (Some(lock), Some(target)) = (&lock, target) {
        let by_commit = published.iter().find(|found| commit(found) == Some(target));
        let is_same =
            |found: &&&PackageRevision| self_lock(found).is_some_and(|own| (git.same_tree)(own, lock));
        if let Some(found) = by_commit.or_else(|| published.iter().find(is_same)) {
            return Ok(Resolved::from(*found));
        }
    }
    if let Some(carrier) = carrier {
        return Ok(carrier.into());
    }
    if let Some(target) = target {
        let (package, tag) = (package.path.to_owned(), tag.to_owned());
        return Err(Unresolved::TagNotPublished { package, tag, commit: target.to_owned() });
    }
    annotated(&published, tag).ok_or_else(|| Unresolved::Tag {
        repo: package.repository.to_owned(),
        package: package.path.to_owned(),
        tag: tag.to_owned(),
    })
}

/// The place of a package at another commit.
fn lock_at(commit: String, package: Package<'_>, published: &[&PackageRevision]) -> GitLock {
    let place = published.iter().find_map(|found| self_lock(found)).cloned().unwrap_or_default();
    let directory = place.directory.unwrap_or_else(|| package.path.to_owned());
    GitLock { commit: Some(commit), directory: Some(directory), reference: None, ..place }
}

/// Of several revisions that carry a tag the highest counts.
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
