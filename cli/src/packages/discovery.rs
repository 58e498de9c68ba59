//! `groundwork packages upgrade --discover`: packages whose upstream has published a newer
//! revision.

use groundwork_api::{PackageRevision, ResourceExt as _};
use groundwork_fleet::{Upgradable, upgradable};
use kube::api::ListParams;

use super::revisions::{all, namespace};
use crate::ending::Ending;
use crate::live::{self, Cluster, NamespaceArgument};
use crate::stdout;
use crate::terminal::{aligned, shown};

/// Prints the packages of a namespace that could be upgraded.
pub(super) fn discover(given: &NamespaceArgument) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages upgrade").await?;
        let namespace = namespace(&cluster, given);
        let revisions: Vec<PackageRevision> = all(&cluster, Some(&namespace), ListParams::default()).await?;
        let found = upgradable(&revisions);
        if found.is_empty() {
            return Ok(stdout::write("every package is made of the newest revision of its upstream\n"));
        }
        let head = ["NAME", "MADE OF", "NEWEST UPSTREAM", "VARIANT"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(head).chain(found.iter().map(row)).collect();
        Ok(stdout::write(&aligned(&rows)))
    })
}

/// Returns the table row of a package: its name, the revision that it was made from, the newest
/// upstream revision, and its variant. A variant upgrades its package itself when its spec or its
/// tag moves.
fn row(found: &Upgradable<'_>) -> [String; 4] {
    let Upgradable { revision, upstream } = found;
    let lock = revision.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
    let owners = revision.owner_references().iter();
    let variant = owners.filter(|owner| owner.kind == "PackageVariant").map(|owner| owner.name.clone());
    [
        revision.name_any(),
        lock.and_then(|lock| lock.reference.clone()).unwrap_or_default(),
        upstream.name_any(),
        variant.collect::<Vec<_>>().join(","),
    ]
    .map(|cell| shown(&cell).into_owned())
}
