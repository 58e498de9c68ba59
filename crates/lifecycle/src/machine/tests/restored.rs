//! Landscapes that return from a backup (`installations.md` 8.7): objects without status, with
//! other UIDs, and with dead owners or none.

use super::*;
use crate::ownership::{Ownership, ownership};
use crate::protocol::HasJob as _;

const REQUEST: (&str, &str) = ("landscaper.gardener.cloud/operation", "reconcile");

/// Returns the names of the items, and checks that each item belongs to the present Execution.
fn owned_items(cluster: &Cluster) -> Vec<String> {
    let execution = cluster.execution().unwrap();
    for item in cluster.items.values() {
        assert_eq!(ownership(&item.metadata, execution), Ownership::Own, "{:?}", item.metadata);
    }
    cluster.items.keys().cloned().collect()
}

/// Starts a job after a restore, and checks that it succeeds and that no item was uninstalled.
fn runs_again(cluster: &mut Cluster) {
    cluster.worked.clear();
    cluster.log.clear();
    cluster.annotate(REQUEST.0, REQUEST.1);
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.told());
    assert_eq!(ownership(&cluster.execution().unwrap().metadata, cluster.server()), Ownership::Own);
}

#[test]
fn objects_without_owners_are_taken_over() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    let names = owned_items(&cluster);
    cluster.restore(false);
    runs_again(&mut cluster);
    assert_eq!(owned_items(&cluster), names);
    assert_eq!(cluster.worked, ["a", "b"]);
    assert_eq!(cluster.creates(), 0, "{:?}", cluster.log);
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.items.is_empty(), "{}", cluster.told());
}

/// Garbage collection has marked all objects below the root before the first job begins.
#[test]
fn objects_with_dead_owners_end_untouched() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    let names = owned_items(&cluster);
    cluster.restore(true);
    runs_again(&mut cluster);
    assert!(owned_items(&cluster).iter().all(|name| !names.contains(name)), "{:?}", cluster.items.keys());
    assert_eq!(cluster.worked, ["a", "b"], "only the new items are deployed");
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.items.is_empty(), "{}", cluster.told());
}

/// The owners of the objects have returned, and no job is requested.
#[test]
fn what_has_a_dead_owner_ends_without_a_request() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.run(None);
    cluster.restore(true);
    cluster.installations.get_mut("server").unwrap().metadata.annotations = None;
    cluster.worked.clear();
    cluster.run(None);
    assert!(cluster.executions.is_empty() && cluster.items.is_empty(), "{}", cluster.told());
    assert_eq!(cluster.worked, Vec::<String>::new());
}

/// A late restore of an item finds the Execution at rest after its job.
#[test]
fn an_item_that_returns_late_ends() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    let mut late = cluster.items.values().next().unwrap().clone();
    cluster.restore(true);
    runs_again(&mut cluster);
    late.metadata.deletion_timestamp =
        late.status.as_ref().unwrap().transition_times.as_ref().unwrap().finished_time.clone();
    late.status = None;
    let name = late.metadata.name.clone().unwrap();
    assert!(!cluster.items.contains_key(&name));
    cluster.items.insert(name.clone(), late);
    cluster.worked.clear();
    cluster.run(None);
    assert!(!cluster.items.contains_key(&name), "{}", cluster.told());
    assert_eq!((cluster.items.len(), cluster.worked.len()), (1, 0));
}

#[test]
fn a_deletion_needs_no_job_before() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.run(None);
    cluster.restore(false);
    cluster.installations.get_mut("server").unwrap().metadata.annotations = None;
    cluster.worked.clear();
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.items.is_empty(), "{}", cluster.told());
    assert_eq!(cluster.worked.len(), 2, "the user's deletion uninstalls");
}

/// The process dies after each write of the job that takes the objects over.
#[test]
fn nested_landscapes_return() {
    for has_owners in [false, true] {
        for writes in (0..40).map(Some).chain([None]) {
            let mut nested = nested::shop(&["db: who > access", "web: access > url"]);
            nested.run(None);
            assert_eq!(nested.phase(), "Succeeded", "{}", nested.told());
            let children: Vec<String> = nested.installations.keys().cloned().collect();
            nested.restore(has_owners);
            nested.worked.clear();
            // The restored spec has not been observed, so a job begins.
            nested.run(writes);
            nested.run(None);
            assert_eq!(nested.phase(), "Succeeded", "{has_owners} {writes:?}: {}", nested.told());
            let now: Vec<String> = nested.installations.keys().cloned().collect();
            assert_eq!(now == children, !has_owners, "{now:?} {children:?}");
            for child in
                nested.installations.values().filter(|child| child.metadata.name.as_deref() != Some("server"))
            {
                assert_eq!(ownership(&child.metadata, nested.server()), Ownership::Own);
                assert!(!child.is_deleting());
            }
            assert_eq!(nested.worked, ["item", "item"], "{has_owners} {writes:?}");
            nested.delete();
            nested.run(None);
            assert!(nested.installations.is_empty() && nested.items.is_empty(), "{}", nested.told());
        }
    }
}
