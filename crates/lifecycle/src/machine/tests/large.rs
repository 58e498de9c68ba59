//! Executions with many items: steps contain several writes, and the cost grows linearly with the
//! number of items.

use std::time::Instant;

use super::*;
use crate::machine::Tree;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("i{index:04}")).collect()
}

fn run(count: usize) -> Cluster {
    let names = names(count);
    let mut cluster = cluster(&names.iter().map(String::as_str).collect::<Vec<_>>());
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert_eq!(cluster.items.len(), count);
    cluster
}

/// Independent creations, triggers and deletions form one step, and each step has a bound.
#[test]
fn independent_writes_go_together() {
    let mut cluster = run(200);
    let steps = cluster.batches;
    assert!(steps < 13 + 2 * 200 / 25, "{steps} steps for 400 writes about items");
    cluster.batches = 0;
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.items.is_empty());
    assert!(cluster.batches < 13 + 2 * 200 / 25, "{} steps for 400 writes about items", cluster.batches);
}

/// The cost of one item hardly depends on the number of items. It used to grow with that number, so
/// the total grew with its square.
#[test]
fn the_cost_of_an_item_does_not_grow_with_their_number() {
    let cost = |count: usize| {
        let best = (0..3).map(|_| {
            let start = Instant::now();
            run(count);
            start.elapsed()
        });
        best.min().unwrap_or_default().as_secs_f64() / count as f64
    };
    let (few, many) = (cost(50), cost(1000));
    assert!(many < 6.0 * few, "an item costs {:.1} times as much among 1000 as among 50", many / few);
}

/// A process may die after any write within a step: the next process continues from there.
#[test]
fn a_death_within_a_step_is_survived() {
    let names = names(40);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let life = |death: Option<usize>| {
        let mut cluster = cluster(&names);
        cluster.run(death);
        assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
        (cluster.dump(), cluster.creates())
    };
    let expected = life(None);
    for death in [7, 8, 20, 39, 45, 47, 60, 80] {
        assert_eq!(life(Some(death)), expected, "killed after write {death}");
    }
}

/// Two replicas alternate on one job with more items than one step has writes, and then on two
/// jobs. Each sees the objects that the other one created.
#[test]
fn what_another_replica_made_is_seen() {
    let names: Vec<String> = (0..70).map(|index| format!("i{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut cluster = cluster(&names);
    cluster.has_no_deployer = true;
    let (mut one, mut other) = (Tree::new("team", "server"), Tree::new("team", "server"));
    cluster.replica("server", &mut one, |cluster| cluster.items.len() < 32);
    let first: Vec<String> = cluster.items.keys().cloned().collect();
    cluster.replica("server", &mut other, |_| true);
    assert_eq!((cluster.items.len(), cluster.phase().as_str()), (70, "Progressing"));
    // All items that the first replica knows of have succeeded.
    for name in &first {
        let item = cluster.items.get_mut(name).unwrap();
        item.metadata.resource_version = Some("1000000".to_owned());
        let status = item.status.as_mut().unwrap();
        status.phase = Some("Succeeded".to_owned());
        status.job_id_finished = status.job_id.clone();
    }
    cluster.replica("server", &mut one, |_| true);
    assert_eq!(cluster.phase(), "Progressing", "{}", cluster.error());
    let execution = cluster.execution().unwrap().status.clone().unwrap();
    assert_eq!(execution.phase.as_deref(), Some("Progressing"));
    cluster.has_no_deployer = false;
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());

    // The other replica runs the next job, except for its end.
    cluster.has_no_deployer = true;
    cluster.change_spec(installation(&["i0", "new"], &json!({})));
    cluster.replica("server", &mut other, |_| true);
    cluster.has_no_deployer = false;
    cluster.run(None);
    cluster.replica("server", &mut one, |_| true);
    assert_eq!((cluster.phase().as_str(), cluster.items.len()), ("Succeeded", 2), "{}", cluster.error());
}
