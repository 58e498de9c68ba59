//! Random lives: users create, change, annotate and delete objects, deployers fail and disappear,
//! the process dies.
//!
//! After any such history, everything works once all obstacles are removed, and a deletion leaves
//! no objects behind.

use std::collections::HashSet;

use groundwork_api::ResourceExt;
use groundwork_api::metadata::label;

use super::super::HasJob;
use super::nested::parent;
use super::roots::root;
use super::*;
use crate::names::parent_name;

/// Number of sequences by default.
const SEQUENCES: u64 = 150;
const VARIABLE: &str = "GROUNDWORK_MODEL_SEQUENCES";
const OPERATION: &str = "landscaper.gardener.cloud/operation";

/// Pseudo-random numbers, reproducible by seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

const ROOTS: [&str; 3] = ["server", "source", "sink"];

/// Returns a root Installation of this name as a user may write it.
fn written(name: &str, random: &mut Random) -> Value {
    match name {
        "source" => root(random.one(&["source: > fact", "source: > fact more", "source: who > fact"])),
        "sink" => root(random.one(&["sink: fact >", "sink: fact who >", "sink: >"])),
        _ => match random.below(4) {
            0 => installation(random.one(&[&["a"][..], &["a", "b>a"], &["b", "c"], &[]]), &json!({})),
            1 => parent(&["web: who access > url", "db: who > access"]),
            2 => parent(&["db: who > access"]),
            _ => parent(&[]),
        },
    }
}

/// Executes one random action of a user, a deployer or the process.
fn act(cluster: &mut Cluster, random: &mut Random) {
    let name = random.one(&ROOTS);
    let exists = cluster.installations.contains_key(name);
    let is_deleting = cluster.installations.get(name).is_some_and(HasJob::is_deleting);
    match random.below(11) {
        0 | 1 if !exists => cluster.apply(written(name, random)),
        0 | 1 if !is_deleting => cluster.change_spec(written(name, random)),
        2 if exists => cluster.annotate_one(name, OPERATION, "reconcile"),
        3 if exists => cluster.annotate_one(name, OPERATION, "interrupt"),
        4 if exists => cluster.delete_one(name),
        5 => drop(cluster.verdicts.insert(random.one(&["a", "b", "item"]).to_owned(), "Failed")),
        6 => cluster.verdicts.clear(),
        7 => cluster.has_no_deployer = !cluster.has_no_deployer,
        8 => cluster.advance(400),
        9 => {
            let mut nested = cluster.installations.keys().cloned().collect::<Vec<_>>();
            nested.retain(|name| !ROOTS.contains(&name.as_str()));
            if !nested.is_empty() {
                cluster.delete_one(&nested[random.below(nested.len())]);
            }
        }
        _ => {}
    }
    let death = (random.below(3) == 0).then(|| random.below(12));
    if random.below(4) > 0 {
        cluster.run(death);
    }
}

/// Checks the invariants that apply at every moment (`installations.md` 2.1, 6.2).
fn check(cluster: &Cluster) {
    fn ended<K: HasJob>(object: &K) {
        let job = object.job();
        let is_ended = !job.id.is_empty() && !job.is_running();
        assert!(
            !is_ended || object.phase().is_final(),
            "{} ended in {:?}",
            object.name_any(),
            object.phase()
        );
    }
    cluster.installations.values().for_each(ended);
    cluster.executions.values().for_each(ended);
    cluster.items.values().for_each(ended);
    let mut templates = HashSet::new();
    for item in cluster.items.values() {
        let execution = &item.labels()[label::MANAGED_BY];
        assert!(cluster.executions.contains_key(execution), "{} has no Execution", item.name_any());
        let is_first = templates.insert((execution.clone(), item.labels()[label::DEPLOY_ITEM_NAME].clone()));
        assert!(is_first, "{} is there twice", item.name_any());
    }
    for execution in cluster.executions.keys() {
        assert!(cluster.installations.contains_key(execution), "the Execution {execution} is left over");
    }
    for child in cluster.installations.values() {
        let parent = parent_name(child);
        assert!(
            parent.is_none_or(|parent| cluster.installations.contains_key(parent)),
            "{}",
            child.name_any()
        );
    }
}

/// Removes all obstacles and requests a job for every Installation.
fn recover(cluster: &mut Cluster) {
    cluster.verdicts.clear();
    cluster.has_no_deployer = false;
    cluster.run(None);
    for name in ROOTS {
        if cluster.installations.contains_key(name) {
            cluster.annotate_one(name, OPERATION, "reconcile");
        }
    }
    cluster.run(None);
}

fn live(seed: u64) {
    let mut random = Random(seed);
    let mut cluster = Cluster::new(written("server", &mut random));
    let who = json!({"metadata": {"name": "who", "namespace": "team"}, "data": "me"});
    cluster.data_objects.insert("who".to_owned(), serde_json::from_value(who).unwrap());
    for _ in 0..random.below(14) {
        act(&mut cluster, &mut random);
        check(&cluster);
    }
    recover(&mut cluster);
    check(&cluster);
    for name in ROOTS {
        let Some(installation) = cluster.installations.get(name) else { continue };
        let imports = installation.spec.data_imports();
        let is_fed = !imports.iter().any(|import| import.data_ref.as_deref() == Some("fact"))
            || cluster.installations.get("source").is_some_and(|source| !source.is_deleting());
        if !installation.is_deleting() && is_fed {
            assert_eq!(cluster.phase_of(name), "Succeeded", "{name}: {}", cluster.told());
        }
    }
    for name in ROOTS {
        if cluster.installations.contains_key(name) {
            cluster.delete_one(name);
        }
    }
    cluster.run(None);
    recover(&mut cluster);
    let left = (&cluster.installations.len(), &cluster.executions.len(), &cluster.items.len());
    assert_eq!(left, (&0, &0, &0), "{}", cluster.told());
    let data: Vec<&String> = cluster.data_objects.keys().collect();
    assert_eq!(data, ["who"]);
}

#[test]
fn random_lives_end_well() {
    let sequences = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(SEQUENCES);
    for seed in 0..sequences {
        if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
            eprintln!("with the seed {seed} of {VARIABLE}");
            std::panic::resume_unwind(panic);
        }
    }
}
