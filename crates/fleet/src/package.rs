//! Packages and their revisions: identity, order, numbers and names (`packagevariants.md` 1.5, 2.6,
//! 6.5).

mod approval;
mod creation;
mod lifecycle;
mod rule;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;

use groundwork_api::{GitLock, Lifecycle, PackageRevision, PackageVariant, Repository};

pub use approval::{Approval, approval, has_policy};
pub use creation::{Creation, CreationError, Source, check_creation, check_names};
pub use lifecycle::{
    Actor, Deletion, Refusal, Transition, approvable, check_content_change, check_new_lifecycle,
    check_spec_change, check_version, deletion, transition, unmet_gates,
};
pub use rule::{RULE, Rule, Ruling};

/// Value of `spec.revision` for revisions without a number: the head of a branch, and tags.
pub(crate) const UNNUMBERED: i64 = -1;
/// Prefix for the workspaces of revisions that variants make; a number follows.
const WORKSPACE_PREFIX: &str = "packagevariant-";
/// Branch of a repository that names none.
const DEFAULT_BRANCH: &str = "main";

/// A package by its full path: `a/x` and `b/x` of one repository are different packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package<'a> {
    /// Name of the Repository object.
    pub repository: &'a str,
    /// Path in the repository.
    pub path: &'a str,
}

impl<'a> Package<'a> {
    /// Returns the package of a revision.
    pub fn of(revision: &'a PackageRevision) -> Self {
        Self {
            repository: revision.spec.repository.as_deref().unwrap_or_default(),
            path: revision.spec.package_name.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the package that a variant makes.
    pub fn downstream_of(variant: &'a PackageVariant) -> Self {
        let downstream = variant.spec.downstream.as_ref();
        Self {
            repository: downstream.and_then(|found| found.repo.as_deref()).unwrap_or_default(),
            path: downstream.and_then(|found| found.package.as_deref()).unwrap_or_default(),
        }
    }

    /// Returns the package's revisions, including those without a number.
    pub fn revisions(self, revisions: &[PackageRevision]) -> impl Iterator<Item = &PackageRevision> {
        revisions.iter().filter(move |found| Package::of(found) == self)
    }
}

/// Repositories of a namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repositories<'a>(pub &'a [Repository]);

impl<'a> Repositories<'a> {
    /// Returns the branch with the published packages of a repository; `main` if it is unknown.
    pub fn branch(self, name: &str) -> &'a str {
        let found = self.0.iter().find(|found| found.metadata.name.as_deref() == Some(name));
        let branch = found.and_then(|found| found.spec.git.as_ref()?.branch.as_deref());
        branch.filter(|branch| !branch.is_empty()).unwrap_or(DEFAULT_BRANCH)
    }

    /// Reports whether a revision is the moving head of its branch.
    pub fn is_placeholder(self, revision: &PackageRevision) -> bool {
        number(revision) == UNNUMBERED && workspace(revision) == self.branch(Package::of(revision).repository)
    }
}

pub(crate) fn workspace(revision: &PackageRevision) -> &str {
    revision.spec.workspace_name.as_deref().unwrap_or_default()
}

/// Returns the number of a revision, 0 until it has one.
pub(crate) fn number(revision: &PackageRevision) -> i64 {
    revision.spec.revision.unwrap_or_default()
}

/// Reports whether a revision has a number and is published. A proposed deletion does not change
/// that.
pub(crate) fn is_published(revision: &PackageRevision) -> bool {
    matches!(revision.spec.lifecycle(), Some(Lifecycle::Published | Lifecycle::DeletionProposed))
        && number(revision) >= 1
}

/// Returns the location of a revision in git. Empty members count as absent.
pub(crate) fn self_lock(revision: &PackageRevision) -> Option<&GitLock> {
    revision.status.as_ref()?.self_lock.as_ref()?.git.as_ref()
}

/// Returns a text, unless it is empty.
pub(crate) fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

pub(crate) fn commit(revision: &PackageRevision) -> Option<&str> {
    given(self_lock(revision)?.commit.as_ref())
}

/// Returns the object name of a revision (`packagevariants.md` 1.5).
pub fn revision_name(package: Package<'_>, workspace: &str) -> String {
    format!("{}.{}.{workspace}", package.repository, package.path.replace('/', "."))
}

/// Returns the highest number of a workspace in these names of revisions of the package; 0 without
/// one.
pub fn highest_workspace<'a>(package: Package<'_>, names: impl Iterator<Item = &'a str>) -> u32 {
    let prefix = revision_name(package, WORKSPACE_PREFIX);
    let numbers = names.filter_map(|name| name.strip_prefix(&prefix)?.parse::<u32>().ok());
    numbers.max().unwrap_or_default()
}

/// Returns the workspace of the next revision that a variant makes (`packagevariants.md` 2.6).
/// `high_water` is the highest number that was ever used for the package, or 0 if it is unknown.
pub fn next_workspace(package: Package<'_>, revisions: &[PackageRevision], high_water: u32) -> String {
    let used: BTreeSet<&str> = package.revisions(revisions).map(workspace).collect();
    let numbers = used.iter().filter_map(|name| {
        let number = name.strip_prefix(WORKSPACE_PREFIX)?;
        // Text that is not a `u32` counts as 0.
        Some(number.parse::<u32>().unwrap_or_default())
    });
    let highest = u64::from(numbers.max().unwrap_or_default().max(high_water));
    let mut names = (highest + 1..).map(|number| format!("{WORKSPACE_PREFIX}{number}"));
    names.find(|name| !used.contains(name.as_str())).unwrap_or_default()
}

/// Returns the number that the next approved revision of a package gets (`packagevariants.md` 6.5).
/// `high_water` is the highest number that was ever used for the package, or 0 if it is unknown:
/// numbers are never used twice.
pub fn next_revision(package: Package<'_>, revisions: &[PackageRevision], high_water: i64) -> i64 {
    let used = package.revisions(revisions).filter(|found| is_published(found)).map(number);
    used.max().unwrap_or_default().max(high_water).max(0).saturating_add(1)
}

/// Returns the revisions with the label `kpt.dev/latest-revision` (`packagevariants.md` 6.5), one
/// for each package that was ever published.
pub fn latest(revisions: &[PackageRevision]) -> BTreeMap<Package<'_>, &PackageRevision> {
    let mut latest: BTreeMap<Package<'_>, &PackageRevision> = BTreeMap::new();
    for revision in revisions.iter().filter(|found| is_published(found)) {
        let newest = latest.entry(Package::of(revision)).or_insert(revision);
        if number(revision) > number(newest) {
            *newest = revision;
        }
    }
    latest
}

/// Orders revisions for processing (`packagevariants.md` 2.6): by workspace, with numbers in the
/// text compared as numbers.
pub(crate) fn by_workspace(one: &PackageRevision, other: &PackageRevision) -> Ordering {
    let name = |revision: &PackageRevision| revision.metadata.name.clone();
    natural(workspace(one), workspace(other)).then_with(|| name(one).cmp(&name(other)))
}

/// Compares texts so that `ws-2` comes before `ws-10`. Texts that differ only in leading zeros are
/// not equal.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one.chars().peekable(), other.chars().peekable());
    loop {
        let order = match (left.peek().copied(), right.peek().copied()) {
            (None, None) => return one.cmp(other),
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                let (a, b) = (digits(&mut left), digits(&mut right));
                a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
            }
            (a, b) => {
                left.next();
                right.next();
                a.cmp(&b)
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Reads the next digits, without leading zeros.
fn digits(text: &mut Peekable<Chars<'_>>) -> String {
    let mut digits = String::new();
    while let Some(digit) = text.next_if(char::is_ascii_digit) {
        if !(digits.is_empty() && digit == '0') {
            digits.push(digit);
        }
    }
    digits
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a revision of `repository/package:workspace`, with number and lifecycle.
    pub(crate) fn revision(place: &str, number: i64, lifecycle: &str) -> PackageRevision {
        let (package, workspace) = place.split_once(':').unwrap();
        let (repository, package) = package.split_once('/').unwrap();
        let name = revision_name(Package { repository, path: package }, workspace);
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "fleet"},
            "spec": {"repository": repository, "packageName": package, "workspaceName": workspace, "revision": number,
                "lifecycle": lifecycle},
        }))
        .unwrap()
    }

    /// Returns the revision with additional members of its status.
    pub(crate) fn with_status(mut revision: PackageRevision, status: &Value) -> PackageRevision {
        revision.status = serde_json::from_value(status.clone()).unwrap();
        revision
    }

    const DNS: Package<'static> = Package { repository: "edge", path: "net/dns" };

    #[test]
    fn names() {
        assert_eq!(revision_name(DNS, "packagevariant-1"), "edge.net.dns.packagevariant-1");
    }

    /// The numbers of all revisions of the package count, regardless of their owner
    /// (`packagevariants.md` 2.6).
    #[test]
    fn workspaces() {
        let next = |places: &[&str], high_water| {
            let revisions: Vec<_> = places.iter().map(|place| revision(place, 0, "Draft")).collect();
            next_workspace(DNS, &revisions, high_water)
        };
        for (places, high_water, expected) in [
            (&[][..], 0, "packagevariant-1"),
            (&["edge/net/dns:packagevariant-2", "edge/net/dns:packagevariant-10"], 0, "packagevariant-11"),
            (&["edge/net/dns:packagevariant-x", "edge/net/dns:mine-7"], 0, "packagevariant-1"),
            (&["edge/dns:packagevariant-7", "other/net/dns:packagevariant-8"], 0, "packagevariant-1"),
            (&["edge/net/dns:packagevariant-2"], 5, "packagevariant-6"),
            (&["edge/net/dns:packagevariant-4294967295"], 0, "packagevariant-4294967296"),
            (&["edge/net/dns:packagevariant-99999999999999999999"], 0, "packagevariant-1"),
            (
                &["edge/net/dns:packagevariant-4294967295", "edge/net/dns:packagevariant-4294967296"],
                0,
                "packagevariant-4294967297",
            ),
        ] {
            assert_eq!(next(places, high_water), expected, "{places:?}");
        }
    }

    #[test]
    fn numbers_in_names() {
        let highest = |names: &[&str]| highest_workspace(DNS, names.iter().copied());
        assert_eq!(highest(&[]), 0);
        assert_eq!(highest(&["edge.net.dns.packagevariant-2", "edge.net.dns.packagevariant-10"]), 10);
        assert_eq!(highest(&["edge.dns.packagevariant-7", "edge.net.dns.mine-8", "edge.net.dns"]), 0);
    }

    /// V-056: a revision gets its number at its approval. Placeholders, tags and drafts have none,
    /// and numbers are never used twice.
    #[test]
    fn revision_numbers() {
        let revisions = [
            revision("edge/net/dns:a", 1, "Published"),
            revision("edge/net/dns:b", 3, "DeletionProposed"),
            revision("edge/net/dns:c", 9, "Draft"),
            revision("edge/net/dns:main", -1, "Published"),
            revision("edge/dns:a", 7, "Published"),
        ];
        assert_eq!(next_revision(DNS, &revisions, 0), 4);
        assert_eq!(next_revision(DNS, &revisions, 5), 6);
        assert_eq!(next_revision(DNS, &[], -3), 1);
        assert_eq!(next_revision(DNS, &[], i64::MAX), i64::MAX);
        let latest = latest(&revisions);
        let shown: Vec<_> = latest.iter().map(|(package, found)| (package.path, number(found))).collect();
        assert_eq!(shown, [("dns", 7), ("net/dns", 3)], "the last element of a path is no package");
    }

    #[test]
    fn numbers_in_workspaces_are_numbers() {
        let mut names = ["w-10", "w-2", "b", "w-2-a", "w-02", "w", "", "w-99999999999999999999999"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["", "b", "w", "w-02", "w-2", "w-2-a", "w-10", "w-99999999999999999999999"]);
    }

    #[test]
    fn placeholders_have_the_name_of_the_branch() {
        let repositories: Vec<Repository> = serde_json::from_value(json!([
            {"metadata": {"name": "edge"}, "spec": {"git": {"repo": "u", "branch": "trunk"}}},
            {"metadata": {"name": "plain"}, "spec": {"git": {"repo": "u"}}},
        ]))
        .unwrap();
        let repositories = Repositories(&repositories);
        for (place, number, expected) in [
            ("edge/p:trunk", -1, true),
            ("edge/p:main", -1, false),
            ("edge/p:trunk", 1, false),
            ("plain/p:main", -1, true),
            ("plain/p:stable", -1, false),
            ("unknown/p:main", -1, true),
        ] {
            assert_eq!(
                repositories.is_placeholder(&revision(place, number, "Published")),
                expected,
                "{place}"
            );
        }
    }
}
