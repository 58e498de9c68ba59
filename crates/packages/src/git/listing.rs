//! Refs of a remote that belong to packages, within limits (`packagevariants.md` 6.12, 6.16).

use std::collections::{BTreeMap, BTreeSet};

use gix_hash::ObjectId;

use crate::git::limits::{MAX_REFERENCE, MAX_REFS, shortened};
use crate::git::remote::RemoteRef;

/// Refs of a remote by name.
pub(crate) type Refs = BTreeMap<String, RemoteRef>;

/// Refs of a remote, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) refs: Refs,
    /// Reasons why refs of the remote are missing here.
    pub(crate) problems: Vec<String>,
    /// A branch of the remote without packages of a Repository.
    pub(crate) other_branch: Option<String>,
    /// Reasons why refs are missing or outdated here, by their names.
    pub(crate) unfetched: BTreeMap<String, String>,
}

impl Listing {
    /// Parses the output of `git ls-remote`. Other branches, and refs that do not belong to
    /// packages, are skipped.
    pub(crate) fn read(printed: &str, branches: &BTreeSet<String>) -> Self {
        let mut listing = Self::default();
        let (mut long, mut many) = (0, 0);
        for line in printed.lines() {
            let Some((id, name)) = line.split_once('\t') else { continue };
            let Ok(id) = ObjectId::from_hex(id.as_bytes()) else { continue };
            let peeled = name.strip_suffix("^{}");
            if !is_of_packages(peeled.unwrap_or(name), branches) {
                if let (Some(branch), None) = (name.strip_prefix("refs/heads/"), &listing.other_branch) {
                    listing.other_branch = Some(shortened(branch, MAX_REFERENCE / 4));
                }
                continue;
            }
            if let Some(tag) = peeled {
                listing.refs.entry(tag.to_owned()).and_modify(|found| found.commit = id);
            } else if name.len() > MAX_REFERENCE {
                long += 1;
                if long == 1 {
                    let shown = shortened(name, MAX_REFERENCE / 4);
                    listing.problems.push(format!(
                        "{shown}: the name has {} bytes, more than the allowed {MAX_REFERENCE}",
                        name.len()
                    ));
                }
            } else if listing.refs.len() == MAX_REFS {
                many += 1;
            } else {
                listing.refs.insert(name.to_owned(), RemoteRef { id, commit: id });
            }
        }
        if long > 1 {
            listing.problems.push(format!("{} more refs have names that are too long", long - 1));
        }
        if many > 0 {
            listing.problems.push(format!(
                "the repository has {many} refs of packages beyond the allowed {MAX_REFS}; they are left out"
            ));
        }
        listing
    }
}

impl Listing {
    /// Returns a branch of the remote besides drafts; `None` for a repository into which nobody
    /// has pushed but this store.
    pub(crate) fn any_branch(&self) -> Option<&str> {
        let branches = self.refs.keys().filter_map(|name| name.strip_prefix("refs/heads/"));
        let mut branches = branches.filter(|branch| !is_of_revision(branch));
        branches.next().or(self.other_branch.as_deref())
    }

    /// Reports whether there is published content: a branch, or a tag of a package.
    pub(crate) fn has_content(&self) -> bool {
        self.any_branch().is_some() || self.refs.keys().any(|name| name.starts_with("refs/tags/"))
    }
}

/// Reports whether a branch belongs to an unpublished revision, or marks one for deletion.
fn is_of_revision(branch: &str) -> bool {
    ["drafts/", "proposed/", "deletionProposed/"].iter().any(|prefix| branch.starts_with(prefix))
}

pub(crate) fn is_of_packages(reference: &str, branches: &BTreeSet<String>) -> bool {
    if let Some(tag) = reference.strip_prefix("refs/tags/") {
        return tag.contains('/');
    }
    let Some(branch) = reference.strip_prefix("refs/heads/") else { return false };
    is_of_revision(branch) || branches.contains(branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const COMMIT: &str = "5b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn refs_beyond_limits_are_told() {
        let branches = BTreeSet::from(["main".to_owned()]);
        let long = format!("refs/tags/a/{}", "v".repeat(2_000));
        let few = format!(
            "{ID}\tHEAD\n{ID}\trefs/heads/main\n{ID}\trefs/heads/other\n{ID}\trefs/tags/a/v1\n{COMMIT}\trefs/tags/a/v1^{{}}\n{ID}\t{long}\n\
             {ID}\t{long}2\nx\ty\n"
        );
        let listing = Listing::read(&few, &branches);
        assert_eq!(listing.refs.keys().collect::<Vec<_>>(), ["refs/heads/main", "refs/tags/a/v1"]);
        assert_eq!(listing.refs["refs/tags/a/v1"].commit.to_string(), COMMIT);
        assert_eq!(listing.any_branch(), Some("main"));
        assert_eq!(Listing::read(&few, &BTreeSet::new()).any_branch(), Some("main"), "it is not fetched");
        let drafts = Listing::read(&format!("{ID}\trefs/heads/drafts/a/w\n"), &branches);
        assert!(!drafts.has_content() && !drafts.refs.is_empty());
        let [first, second] = listing.problems.as_slice() else { panic!("{:?}", listing.problems) };
        assert!(first.contains("…: the name has 2012 bytes, more than the allowed 1024"), "{first}");
        assert_eq!(second, "1 more refs have names that are too long");

        let many: String =
            (0..=MAX_REFS + 4).map(|number| format!("{ID}\trefs/tags/a/v{number}\n")).collect();
        let listing = Listing::read(&many, &branches);
        assert_eq!(listing.refs.len(), MAX_REFS);
        assert_eq!(
            listing.problems,
            ["the repository has 5 refs of packages beyond the allowed 50000; they are left out"]
        );
    }
}
