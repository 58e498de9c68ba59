//! Cache of the blueprints that a worker has loaded. Later renderings share them, with their parsed
//! templates and compiled schemas.

use std::cell::Cell;
use std::time::Duration;

use groundwork_blueprint::{Blueprint, Filesystem};
use groundwork_lifecycle::{BlueprintCache, BlueprintDigest};
use groundwork_telemetry::Metrics;
use moka::sync::Cache;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::{Deserialize, Serialize};

/// Capacity of the cache, in bytes of blueprint files. The parsed form takes several times as much
/// memory.
const CAPACITY: u32 = 4 << 20;
/// Limit for the number of blueprints: each weighs at least this fraction of the capacity, however
/// small it is.
const MOST: u32 = 256;
/// Size limit of a cached blueprint in bytes. A larger one is loaded again for each rendering.
const LARGEST: u32 = 1 << 20;
/// Weight of a file or a folder in addition to its content, in bytes.
const ENTRY: u32 = 256;
/// Time without use after which a blueprint is dropped.
const IDLE: Duration = Duration::from_hours(1);

/// Cached blueprints of one worker.
#[derive(Debug)]
pub(crate) struct Blueprints {
    kept: Cache<BlueprintDigest, KeptBlueprint>,
    lookups: Cell<Lookups>,
}

#[derive(Debug, Clone)]
struct KeptBlueprint {
    blueprint: Blueprint,
    weight: u32,
}

/// Hits and misses of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lookups {
    pub(crate) hits: u32,
    pub(crate) misses: u32,
}

/// Metric of the hits and misses of all workers.
#[derive(Debug, Clone)]
pub(crate) struct Kept(Family<Asked, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    outcome: &'static str,
}

const HIT: Asked = Asked { outcome: "hit" };
const MISS: Asked = Asked { outcome: "miss" };

impl Kept {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let asked: Family<Asked, Counter> = metrics.register(
            "renderer_blueprints",
            "Lookups of blueprints in the cache, by outcome: hit, miss",
            &["outcome"],
            Family::default(),
        );
        let kept = Self(asked);
        // Create the counters at 0, so that the metric exists before the first lookup.
        kept.count(Lookups::default());
        kept
    }

    pub(crate) fn count(&self, lookups: Lookups) {
        self.0.get_or_create(&HIT).inc_by(lookups.hits.into());
        self.0.get_or_create(&MISS).inc_by(lookups.misses.into());
    }
}

impl Default for Blueprints {
    fn default() -> Self {
        Self { kept: cache(u64::from(CAPACITY)), lookups: Cell::default() }
    }
}

impl Blueprints {
    /// Returns the lookups since the last call, and resets them.
    pub(crate) fn take_lookups(&self) -> Lookups {
        self.lookups.take()
    }
}

fn cache(capacity: u64) -> Cache<BlueprintDigest, KeptBlueprint> {
    let weigh = |_: &BlueprintDigest, kept: &KeptBlueprint| kept.weight;
    Cache::builder().max_capacity(capacity).weigher(weigh).time_to_idle(IDLE).build()
}

impl BlueprintCache for Blueprints {
    fn get(&self, digest: BlueprintDigest) -> Option<Blueprint> {
        let found = self.kept.get(&digest);
        let Lookups { hits, misses } = self.lookups.get();
        let is_hit = u32::from(found.is_some());
        self.lookups.set(Lookups { hits: hits + is_hit, misses: misses + 1 - is_hit });
        found.map(|kept| kept.blueprint)
    }

    fn keep(&self, digest: BlueprintDigest, blueprint: &Blueprint) {
        let Some(size) = size(&blueprint.files) else { return };
        let weight = size.max(CAPACITY / MOST);
        self.kept.insert(digest, KeptBlueprint { blueprint: blueprint.clone(), weight });
    }
}

/// Returns the bytes of all files, with links followed; `None` if there are too many. Links may
/// form a circle: a file that is seen twice counts twice, so the walk ends at the limit.
fn size(files: &Filesystem) -> Option<u32> {
    let mut total = 0_u32;
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in files.list(&folder).unwrap_or_default() {
            total = total.saturating_add(u32::try_from(entry.size).unwrap_or(u32::MAX)).saturating_add(ENTRY);
            if total > LARGEST {
                return None;
            }
            if entry.is_directory {
                folders.push(format!("{folder}/{}", entry.name));
            }
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use groundwork_api::{Context, Installation};
    use groundwork_blueprint::Capabilities;
    use groundwork_lifecycle::{Inputs, ObjectSet, ROOT_SCOPE, render};
    use groundwork_registry::RepositoryMap;
    use serde_json::{Value, json};

    use super::*;

    fn render_tree(blueprints: &Blueprints, tree: &Value) {
        let installation: Installation = serde_json::from_value(json!({
            "metadata": {"name": "server", "namespace": "team"},
            "spec": {"blueprint": {"inline": {"filesystem": tree}}},
        }))
        .unwrap();
        let inputs = Inputs {
            installation: &installation,
            context: Some(&Context::default()),
            overwrites: None,
            objects: &ObjectSet::default(),
            repositories: &RepositoryMap::empty("none"),
            blueprint: None,
            capabilities: &Capabilities::default(),
            scope: ROOT_SCOPE,
            states: None,
            cache: Some(blueprints),
            offline: None,
            signatures: None,
        };
        assert_eq!(render(&inputs).error, None);
    }

    fn tree(extra: &Value) -> Value {
        let definition = "{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Blueprint}";
        json!({"blueprint.yaml": definition, "extra": extra})
    }

    /// Returns the hits and misses since the last call, and the number of cached blueprints.
    fn counts(blueprints: &Blueprints) -> (u32, u32, u64) {
        blueprints.kept.run_pending_tasks();
        let Lookups { hits, misses } = blueprints.take_lookups();
        (hits, misses, blueprints.kept.entry_count())
    }

    #[test]
    fn what_is_kept_is_counted_and_not_loaded_again() {
        let blueprints = Blueprints::default();
        for _ in 0..3 {
            render_tree(&blueprints, &tree(&json!("text")));
        }
        render_tree(&blueprints, &tree(&json!("other")));
        assert_eq!(counts(&blueprints), (2, 2, 2));
        let (metrics, lookups) = (Metrics::default(), Lookups { hits: 2, misses: 2 });
        let kept = Kept::new(&metrics);
        kept.count(lookups);
        assert!(
            metrics.encode().unwrap().contains(r#"groundwork_renderer_blueprints_total{outcome="hit"} 2"#)
        );
    }

    #[test]
    fn large_trees_and_circles_of_links_are_not_kept() {
        let blueprints = Blueprints::default();
        let circle =
            json!({"a": {"$type": "symlink", "value": "/"}, "b": {"$type": "symlink", "value": "/"}});
        for extra in [json!("x".repeat(LARGEST as usize)), circle] {
            render_tree(&blueprints, &tree(&extra));
        }
        assert_eq!(counts(&blueprints), (0, 2, 0));
    }

    #[test]
    fn only_so_many_are_kept() {
        // A cache with the capacity for four blueprints.
        let room = cache(u64::from(4 * (CAPACITY / MOST)));
        let blueprints = Blueprints { kept: room, ..Blueprints::default() };
        for number in 0..20 {
            render_tree(&blueprints, &tree(&json!(number)));
            assert!(counts(&blueprints).2 <= 4, "{number}");
        }
    }
}
