//! Origin of a package (`packagevariants.md` 6.6): `upstream` and `upstreamLock` of its Kptfile.

use groundwork_yaml::tree::{Node, Pair};

use super::{CreationError, edit_kptfile, metadata_of, set_string};
use crate::package::Package;
use crate::value::assign;

/// Location in git that a package was copied from, or last merged with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Address of the repository; a missing `.git` is added.
    pub repo: String,
    /// Path of the package; a leading slash is removed.
    pub directory: String,
    /// Short ref, such as `net/coredns/v4`.
    pub reference: String,
    /// Commit, for `upstreamLock`.
    pub commit: Option<String>,
}

impl Origin {
    /// Returns both sections, in their order in a Kptfile.
    fn sections(&self) -> [(&'static str, Node); 2] {
        let repo = if self.repo.ends_with(".git") { self.repo.clone() } else { format!("{}.git", self.repo) };
        let text = |key: &str, value: &str| Pair::new(key, Node::string(value));
        let git = vec![
            text("repo", &repo),
            text("directory", self.directory.trim_start_matches('/')),
            text("ref", &self.reference),
        ];
        let mut lock = git.clone();
        lock.extend(self.commit.as_deref().map(|commit| text("commit", commit)));
        [("upstream", git), ("upstreamLock", lock)].map(|(name, git)| {
            (name, Node::mapping(vec![text("type", "git"), Pair::new("git", Node::mapping(git))]))
        })
    }
}

/// Writes the origin of a package into its root Kptfile, and its new name if one is given. Messages
/// contain `package`.
///
/// # Errors
/// The root Kptfile is missing or cannot be parsed; see [`CreationError`].
pub fn set_origin(
    files: &mut Package,
    package: &str,
    name: Option<&str>,
    origin: &Origin,
) -> Result<(), CreationError> {
    edit_kptfile(files, package, |root| {
        if let (Some(name), Some(metadata)) = (name, metadata_of(root)) {
            set_string(metadata, "name", name);
        }
        set_sections(root, origin.sections());
    })
}

/// Replaces each section as a whole. Keys that stay keep their comments. New sections come after
/// `metadata`.
fn set_sections(root: &mut Node, sections: [(&str, Node); 2]) {
    let Some(mapping) = root.as_mapping_mut() else { return };
    let place = |name: &str, pairs: &[Pair]| pairs.iter().position(|pair| pair.name() == name);
    let mut at = place("metadata", &mapping.pairs).map_or(mapping.pairs.len(), |at| at + 1);
    for (name, value) in sections {
        match mapping.get_mut(name) {
            Some(found) => assign(found, &value),
            None => mapping.pairs.insert(at, Pair::new(name, value)),
        }
        at = place(name, &mapping.pairs).map_or(at, |found| found + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kptfile: &str, name: Option<&str>, commit: Option<&str>, expected: &str) {
        let origin = Origin {
            repo: "https://git.example/catalog".to_owned(),
            directory: "/net/coredns".to_owned(),
            reference: "net/coredns/v4".to_owned(),
            commit: commit.map(str::to_owned),
        };
        let mut files: Package = [("Kptfile".to_owned(), kptfile.to_owned())].into();
        set_origin(&mut files, "dns", name, &origin).unwrap();
        assert_eq!(files["Kptfile"], expected);
        set_origin(&mut files, "dns", name, &origin).unwrap();
        assert_eq!(files["Kptfile"], expected);
    }

    /// The example of `packagevariants.md` 6.6: both sections come directly after `metadata`, and
    /// comments stay.
    #[test]
    fn sections_of_a_clone() {
        check(
            "# top\nkind: Kptfile\nmetadata:\n  name: coredns # why\ninfo:\n  description: x # keep\n",
            Some("dns"),
            Some("9a0b"),
            "# top\nkind: Kptfile\nmetadata:\n  name: dns # why\nupstream:\n  type: git\n  git:\n    repo: \
             https://git.example/catalog.git\n    directory: net/coredns\n    ref: net/coredns/v4\nupstreamLock:\n  type: git\n  git:\n    \
             repo: https://git.example/catalog.git\n    directory: net/coredns\n    ref: net/coredns/v4\n    commit: 9a0b\ninfo:\n  \
             description: x # keep\n",
        );
    }

    /// The sections are replaced as a whole, an `updateStrategy` is removed, and an upgrade keeps
    /// the name (`packagevariants.md` 6.6).
    #[test]
    fn sections_of_an_upgrade() {
        check(
            "kind: Kptfile\nmetadata: {name: dns}\nupstream: # from\n  type: git\n  git: {repo: r, directory: d, ref: v3} # r\n  \
             updateStrategy: fast-forward\nextra: 1\n",
            None,
            None,
            "kind: Kptfile\nmetadata: {name: dns}\nupstream: # from\n  type: git\n  git: {repo: https://git.example/catalog.git, directory: \
             net/coredns, ref: net/coredns/v4} # r\nupstreamLock:\n  type: git\n  git:\n    repo: https://git.example/catalog.git\n    \
             directory: net/coredns\n    ref: net/coredns/v4\nextra: 1\n",
        );
    }

    /// The error texts of `packagevariants.md` 6.6.
    #[test]
    fn packages_without_a_kptfile() {
        let error = |text: Option<&str>| {
            let mut files: Package =
                text.into_iter().map(|text| ("Kptfile".to_owned(), text.to_owned())).collect();
            set_origin(&mut files, "net/dns", None, &Origin::default()).unwrap_err().to_string()
        };
        assert_eq!(error(None), "package \"net/dns\" is missing Kptfile");
        assert_eq!(error(Some("")), "Kptfile of package \"net/dns\": expected exactly one object, got 0");
        assert_eq!(error(Some("- a\n")), "Kptfile of package \"net/dns\" must be a map");
        assert!(error(Some("a: [\n")).starts_with("Kptfile of package \"net/dns\": line 1: "));
    }
}
