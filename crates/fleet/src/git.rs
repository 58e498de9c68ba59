//! Locations in git, as locks name them (`packagevariants.md` 2.8, 6.3).

use groundwork_api::{GitLock, PackageRevision};

use crate::package::{Package, UNNUMBERED, given, number, self_lock};

/// Compares the content of two locks by their trees; `None` if the server gives none.
pub(crate) fn same_tree(lock: &GitLock, own: &GitLock) -> Option<bool> {
    Some(given(lock.tree.as_ref())? == given(own.tree.as_ref())?)
}

/// Returns the number at the end of a ref, 4 for `net/coredns/v4`; -1 for branches and other tags.
pub(crate) fn ref_number(reference: &str) -> i64 {
    let last = reference.rsplit('/').next().unwrap_or_default();
    let digits = last.strip_prefix('v').unwrap_or(last);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).unwrap_or(UNNUMBERED)
}

/// Returns the package and workspace in the ref of a Draft or Proposed revision.
pub(crate) fn draft_of(reference: &str) -> Option<&str> {
    reference.strip_prefix("drafts/").or_else(|| reference.strip_prefix("proposed/"))
}

/// Reports whether a lock may be one of this revision, by repository and directory. Porch writes
/// directories relative to the directory of the Repository, but tags with the full path, so both
/// forms are accepted.
pub(crate) fn is_of_package(lock: &GitLock, revision: &PackageRevision) -> bool {
    let trimmed = |text: Option<&String>| given(text).unwrap_or_default().trim_matches('/').to_owned();
    let own = self_lock(revision);
    let directory = trimmed(lock.directory.as_ref());
    let is_directory = directory == Package::of(revision).path.trim_matches('/')
        || own.is_some_and(|own| trimmed(own.directory.as_ref()) == directory);
    let repos = (given(lock.repo.as_ref()), own.and_then(|own| given(own.repo.as_ref())));
    let is_repo = match repos {
        (Some(one), Some(other)) => normalized(one) == normalized(other),
        // An unknown address or directory does not exclude the revision.
        _ => true,
    };
    is_directory && is_repo
}

/// Reports whether a lock names the number of a revision.
pub(crate) fn is_of_number(lock: &GitLock, revision: &PackageRevision) -> bool {
    ref_number(lock.reference.as_deref().unwrap_or_default()) == number(revision)
}

/// Normalizes the address of a repository: removes a slash or `.git` at the end, and lowers the
/// case of the host.
pub fn normalized(url: &str) -> String {
    let mut url = url.trim_end_matches('/');
    url = url.strip_suffix(".git").unwrap_or(url).trim_end_matches('/');
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    // `user@host:path` has no scheme, but a host. A plain path has neither.
    let end = match scheme.is_empty() {
        false => rest.find('/').unwrap_or(rest.len()),
        true => rest.find([':', '/']).filter(|&at| rest[at..].starts_with(':')).unwrap_or_default(),
    };
    let (authority, path) = rest.split_at(end);
    let host = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, host) = authority.split_at(host);
    format!("{scheme}{user}{}{path}", host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_mean_the_same() {
        for (url, expected) in [
            ("https://Git.Example/Catalog.git", "https://git.example/Catalog"),
            ("https://git.example/Catalog/", "https://git.example/Catalog"),
            ("https://git.example/Catalog.git/", "https://git.example/Catalog"),
            ("https://Me@GIT.example:8443/c", "https://Me@git.example:8443/c"),
            ("git@GitHub.com:Org/repo.git", "git@github.com:Org/repo"),
            ("HTTPS://h", "HTTPS://h"),
            ("/srv/Git/x.git", "/srv/Git/x"),
            ("file:///srv/Git/x.git", "file:///srv/Git/x"),
            ("", ""),
            (".git", ""),
            ("é://É:x", "é://É:x"),
        ] {
            assert_eq!(normalized(url), expected, "{url}");
        }
    }

    #[test]
    fn numbers_of_refs() {
        for (reference, expected) in [
            ("net/coredns/v4", 4),
            ("v4", 4),
            ("net/coredns/12", 12),
            ("net/coredns/v4.0.0", -1),
            ("net/coredns/v", -1),
            ("net/coredns/v+1", -1),
            ("main", -1),
            ("", -1),
            ("v99999999999999999999", -1),
        ] {
            assert_eq!(ref_number(reference), expected, "{reference}");
        }
        assert_eq!(draft_of("drafts/net/coredns/w"), Some("net/coredns/w"));
        assert_eq!(draft_of("proposed/net/coredns/w"), Some("net/coredns/w"));
        assert_eq!(draft_of("drafts-of-mine/v1"), None);
    }
}
