//! Packages whose upstream has published a newer revision.

use std::collections::HashMap;

use groundwork_api::PackageRevision;

use super::freshness::upstream_lock;
use crate::git::{is_of_package, ref_number};
use crate::package::{is_published, latest, number};

/// Package that can be upgraded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upgradable<'a> {
    /// Highest published revision of the package.
    pub revision: &'a PackageRevision,
    /// Highest published revision of its upstream.
    pub upstream: &'a PackageRevision,
}

/// Returns, in the order of their names, the packages whose upstream has published a newer revision
/// than the one that their highest published revision was made from. The head of a branch counts as
/// older than every number.
pub fn upgradable(revisions: &[PackageRevision]) -> Vec<Upgradable<'_>> {
    let latest: Vec<&PackageRevision> =
        latest(revisions).into_values().filter(|found| is_published(found)).collect();
    // A lock names a directory in one of two forms. The last part of both is the last part of the
    // package's path.
    let mut by_name: HashMap<&str, Vec<&PackageRevision>> = HashMap::new();
    for revision in latest.iter().copied() {
        by_name.entry(last(revision.spec.package_name.as_deref())).or_default().push(revision);
    }
    let upgradable = latest.into_iter().filter_map(|revision| {
        let lock = upstream_lock(revision)?;
        let candidates = by_name.get(last(lock.directory.as_deref()))?;
        let upstream = *candidates.iter().find(|found| is_of_package(lock, found))?;
        let present = ref_number(lock.reference.as_deref().unwrap_or_default());
        (number(upstream) > present).then_some(Upgradable { revision, upstream })
    });
    upgradable.collect()
}

/// Returns the last part of a path.
fn last(path: Option<&str>) -> &str {
    path.unwrap_or_default().trim_matches('/').rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use groundwork_api::ResourceExt as _;
    use serde_json::json;

    use super::*;
    use crate::package::tests::{revision, with_status};

    const URL: &str = "https://git.example/catalog.git";

    #[test]
    fn packages_with_a_newer_upstream() {
        let of_catalog = |number: i64| {
            let lock = json!({"selfLock": {"git": {"repo": URL, "directory": "net/dns", "ref": format!("net/dns/v{number}")}}});
            with_status(revision(&format!("catalog/net/dns:w{number}"), number, "Published"), &lock)
        };
        let made = |place: &str, number: i64, lifecycle: &str, reference: &str, directory: &str| {
            let lock =
                json!({"upstreamLock": {"git": {"repo": URL, "directory": directory, "ref": reference}}});
            with_status(revision(place, number, lifecycle), &lock)
        };
        let revisions = [
            of_catalog(2),
            of_catalog(3),
            made("edge/old:a", 1, "Published", "net/dns/v2", "net/dns"),
            made("edge/new:a", 1, "Published", "net/dns/v3", "net/dns"),
            made("edge/head:a", 1, "Published", "main", "net/dns"),
            // Only the highest published revision counts.
            made("edge/moved:a", 1, "Published", "net/dns/v2", "net/dns"),
            made("edge/moved:b", 2, "Published", "net/dns/v3", "net/dns"),
            made("edge/draft:a", 0, "Draft", "net/dns/v2", "net/dns"),
            made("edge/other:a", 1, "Published", "net/ntp/v1", "net/ntp"),
            revision("edge/own:a", 1, "Published"),
        ];
        let found = upgradable(&revisions);
        let found: Vec<_> =
            found.iter().map(|found| (found.revision.name_any(), found.upstream.name_any())).collect();
        let to = "catalog.net.dns.w3".to_owned();
        assert_eq!(found, [("edge.head.a".to_owned(), to.clone()), ("edge.old.a".to_owned(), to)]);
    }
}
