//! Meaning of the refs of a repository (`packagevariants.md` 6.3).

const HEADS: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";
const DRAFTS: &str = "refs/heads/drafts/";
const PROPOSED: &str = "refs/heads/proposed/";
const DELETION_PROPOSED: &str = "refs/heads/deletionProposed/";

/// Meaning of a ref. Paths are relative to the root of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Branch with the published content of all packages.
    Branch(String),
    Draft {
        path: String,
        workspace: String,
    },
    Proposed {
        path: String,
        workspace: String,
    },
    /// Published revision, or a tag that a user has set.
    Tag {
        path: String,
        name: String,
    },
    /// Marker for the tag with this name, whose deletion is proposed.
    DeletionProposed {
        path: String,
        name: String,
    },
}

/// Reason why a ref looks like one of a package, but is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("{0}: invalid draft ref name; missing workspaceName suffix")]
    NoWorkspace(String),
}

impl Place {
    /// Returns the meaning of a ref; `None` if it does not belong to a package.
    ///
    /// # Errors
    /// A name below `drafts/` or `proposed/` without a workspace.
    pub(crate) fn read(reference: &str, branch: &str) -> Result<Option<Self>, PlaceError> {
        let split = |rest: &str| {
            let (path, last) = rest.rsplit_once('/')?;
            Some((path.to_owned(), last.to_owned()))
        };
        let missing = || PlaceError::NoWorkspace(reference.to_owned());
        if let Some(rest) = reference.strip_prefix(DRAFTS) {
            let (path, workspace) = split(rest).ok_or_else(missing)?;
            return Ok(Some(Self::Draft { path, workspace }));
        }
        if let Some(rest) = reference.strip_prefix(PROPOSED) {
            let (path, workspace) = split(rest).ok_or_else(missing)?;
            return Ok(Some(Self::Proposed { path, workspace }));
        }
        if let Some(rest) = reference.strip_prefix(DELETION_PROPOSED) {
            return Ok(split(rest).map(|(path, name)| Self::DeletionProposed { path, name }));
        }
        if let Some(rest) = reference.strip_prefix(TAGS) {
            return Ok(split(rest).map(|(path, name)| Self::Tag { path, name }));
        }
        let is_branch = reference.strip_prefix(HEADS) == Some(branch);
        Ok(is_branch.then(|| Self::Branch(branch.to_owned())))
    }

    /// Returns the full name of the ref.
    pub(crate) fn reference(&self) -> String {
        match self {
            Self::Branch(branch) => format!("{HEADS}{branch}"),
            Self::Draft { path, workspace } => format!("{DRAFTS}{path}/{workspace}"),
            Self::Proposed { path, workspace } => format!("{PROPOSED}{path}/{workspace}"),
            Self::Tag { path, name } => format!("{TAGS}{path}/{name}"),
            Self::DeletionProposed { path, name } => format!("{DELETION_PROPOSED}{path}/{name}"),
        }
    }

    /// Returns the path of the package.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Branch(_) => None,
            Self::Draft { path, .. }
            | Self::Proposed { path, .. }
            | Self::Tag { path, .. }
            | Self::DeletionProposed { path, .. } => Some(path),
        }
    }

    /// Returns the name of the ref as in Kptfiles and locks: without `refs/heads/` and
    /// `refs/tags/`.
    pub(crate) fn short(&self) -> String {
        let reference = self.reference();
        let short = reference.strip_prefix(HEADS).or_else(|| reference.strip_prefix(TAGS));
        short.unwrap_or(&reference).to_owned()
    }
}

/// Returns the number in the tag of a published revision; -1 for a tag without a number.
pub(crate) fn revision_number(tag: &str) -> i64 {
    let digits = tag.strip_prefix('v').unwrap_or(tag);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().unwrap_or(-1) } else { -1 }
}

/// Returns the path of a package from the root of the repository.
pub(crate) fn full_path(directory: &str, package: &str) -> String {
    if directory.is_empty() { package.to_owned() } else { format!("{directory}/{package}") }
}

/// Returns the path of a package below the registered directory; `None` if it is elsewhere.
pub(crate) fn package_path<'a>(directory: &str, path: &'a str) -> Option<&'a str> {
    if directory.is_empty() {
        return Some(path);
    }
    path.strip_prefix(directory)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs() {
        let draft =
            |path: &str, workspace: &str| Place::Draft { path: path.into(), workspace: workspace.into() };
        let tag = |path: &str, name: &str| Place::Tag { path: path.into(), name: name.into() };
        for (reference, place) in [
            ("refs/heads/main", Some(Place::Branch("main".into()))),
            ("refs/heads/feature", None),
            ("refs/heads/drafts/net/coredns/ws-1", Some(draft("net/coredns", "ws-1"))),
            ("refs/heads/proposed/a/b", Some(Place::Proposed { path: "a".into(), workspace: "b".into() })),
            ("refs/tags/net/coredns/v4", Some(tag("net/coredns", "v4"))),
            ("refs/tags/a/v4.0.0", Some(tag("a", "v4.0.0"))),
            // A release tag of the repository itself.
            ("refs/tags/v1", None),
            (
                "refs/heads/deletionProposed/a/v2",
                Some(Place::DeletionProposed { path: "a".into(), name: "v2".into() }),
            ),
            ("refs/pull/1/head", None),
        ] {
            let read = Place::read(reference, "main").unwrap();
            assert_eq!(read, place, "{reference}");
            if let Some(place) = read {
                assert_eq!(place.reference(), reference);
            }
        }
        let error = Place::read("refs/heads/drafts/alone", "main").unwrap_err();
        assert_eq!(
            error.to_string(),
            "refs/heads/drafts/alone: invalid draft ref name; missing workspaceName suffix"
        );
        assert_eq!(draft("a/b", "w").short(), "drafts/a/b/w");
        assert_eq!(tag("a/b", "v3").short(), "a/b/v3");
    }

    #[test]
    fn numbers_of_tags() {
        for (tag, number) in [
            ("v4", 4),
            ("4", 4),
            ("007", 7),
            ("v4.0.0", -1),
            ("stable", -1),
            ("v", -1),
            ("", -1),
            ("-1", -1),
            ("99999999999999999999", -1),
        ] {
            assert_eq!(revision_number(tag), number, "{tag}");
        }
    }

    #[test]
    fn paths_below_a_directory() {
        assert_eq!(package_path("", "a/b"), Some("a/b"));
        assert_eq!(package_path("pkgs", "pkgs/a"), Some("a"));
        assert_eq!(package_path("pkgs", "pkgs"), None);
        assert_eq!(package_path("pkgs", "pkgs2/a"), None);
        assert_eq!(full_path("pkgs", "a/b"), "pkgs/a/b");
        assert_eq!(full_path("", "a"), "a");
    }
}
