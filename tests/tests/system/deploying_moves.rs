//! Objects that move between items of all modes at random (ownership, `installations.md` 7.9).
//! After each round exactly the listed objects exist, and no object that stayed listed was ever
//! deleted.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use groundwork_testkit::made_up::{Random, cases};

use crate::case::Case;
use crate::deploying_ownership::{Mode, Part, deploy, maps_chart};
use crate::shared;
use crate::support::outcome;
use crate::target_cluster::{TargetCluster, cluster};

/// Number of moves per run. `GROUNDWORK_MOVES` sets another number, `GROUNDWORK_MOVES_SEED` another
/// sequence.
const MOVES: usize = 150;
const OBJECTS: usize = 48;
const INSTALLATIONS: [&str; 2] = ["left", "right"];
const NAMESPACE: &str = "moves";

/// Item that is created and deleted under changing names.
#[derive(Debug, Clone)]
struct Slot {
    installation: usize,
    is_chart: bool,
    mode: Mode,
    generation: usize,
}

/// Deployed state: slots, and the slot that lists each object.
#[derive(Debug, Clone)]
struct World {
    slots: Vec<Slot>,
    listed: Vec<Option<usize>>,
}

fn object(number: usize) -> String {
    format!("o{number}")
}

impl World {
    fn new() -> Self {
        let slot = |number: usize| Slot {
            installation: number / 4,
            is_chart: number % 4 > 1,
            mode: if number % 4 > 1 { Mode::Release } else { Mode::Manifests },
            generation: 0,
        };
        Self { slots: (0..8).map(slot).collect(), listed: vec![None; OBJECTS] }
    }

    /// Renames some items, and changes the mode of some charts.
    fn change_slots(&mut self, random: &mut Random) {
        for slot in &mut self.slots {
            if random.below(6) == 0 {
                slot.generation += 1;
            }
            if slot.is_chart && random.below(4) == 0 {
                slot.mode = if slot.mode == Mode::Release { Mode::Rendered } else { Mode::Release };
            }
        }
    }

    /// Moves objects within an Installation, to and from the list of unlisted ones, and to the
    /// Installation `receiver`. Returns the number of moved objects.
    fn move_objects(&mut self, random: &mut Random, receiver: usize) -> usize {
        let mut moved = 0;
        for number in 0..OBJECTS {
            if random.below(3) > 0 {
                continue;
            }
            let from = self.listed[number];
            let to = if random.below(8) == 0 { None } else { Some(random.below(self.slots.len())) };
            let of = |slot: Option<usize>| slot.map(|slot| self.slots[slot].installation);
            let may_cross = of(to).is_none_or(|installation| installation == receiver);
            if from == to || (of(from).is_some() && of(from) != of(to) && !may_cross) {
                continue;
            }
            self.listed[number] = to;
            moved += 1;
        }
        moved
    }

    /// Returns the items of an Installation, with dependencies on some of the items before them.
    fn parts(&self, installation: usize, random: &mut Random) -> Vec<Part> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.installation == installation);
        let mut parts: Vec<Part> = slots
            .map(|(number, slot)| {
                let listed = (0..OBJECTS).filter(|object| self.listed[*object] == Some(number)).map(object);
                Part {
                    name: format!("s{number}-{}", slot.generation),
                    mode: slot.mode,
                    listed: listed.collect(),
                    depends_on: Vec::new(),
                }
            })
            .collect();
        for index in (1..parts.len()).rev() {
            parts.swap(index, random.below(index + 1));
        }
        for index in 1..parts.len() {
            if random.below(3) == 0 {
                let earlier = parts[random.below(index)].name.clone();
                parts[index].depends_on.push(earlier);
            }
        }
        parts
    }
}

/// Returns names and UIDs of the existing objects.
async fn there(cluster: &TargetCluster) -> Result<BTreeMap<String, String>> {
    let list = cluster.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps")).await?.unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = list["items"].as_array().into_iter().flatten().map(|object| &object["metadata"]);
    Ok(metadata.map(|metadata| (text(&metadata["name"]), text(&metadata["uid"]))).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_move_at_random() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, NAMESPACE).await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace(NAMESPACE).await?;
    let chart = maps_chart()?;
    let seed = cases("GROUNDWORK_MOVES_SEED", 51);
    let mut random = Random::new(seed as u64);
    let mut world = World::new();
    let mut before = BTreeMap::new();
    let (mut moved, mut round) = (0, 0);
    while moved < cases("GROUNDWORK_MOVES", MOVES) {
        round += 1;
        let receiver = random.below(2);
        let former = world.clone();
        world.change_slots(&mut random);
        moved += world.move_objects(&mut random, receiver);
        // The receiver runs first, so it gets objects before the other Installation drops them.
        for installation in [receiver, 1 - receiver] {
            let parts = world.parts(installation, &mut random);
            let found = deploy(&case, INSTALLATIONS[installation], &chart, &parts).await?;
            let told = || format!("seed {seed}, round {round}, {}: {parts:?}", INSTALLATIONS[installation]);
            ensure!(
                outcome(&found) == ("Succeeded".into(), String::new()),
                "{:?} {}",
                outcome(&found),
                told()
            );
            let now = there(&cluster).await?;
            for number in (0..OBJECTS).filter(|number| former.listed[*number].is_some()) {
                let name = object(number);
                let is_listed = world.listed[number].is_some();
                ensure!(
                    !is_listed || now.get(&name) == before.get(&name),
                    "{name} is gone, or another one: was {:?}, is {:?}, {}",
                    former.listed[number],
                    world.listed[number],
                    told()
                );
            }
        }
        let now = there(&cluster).await?;
        let listed: Vec<String> =
            (0..OBJECTS).filter(|number| world.listed[*number].is_some()).map(object).collect();
        let mut found: Vec<&String> = now.keys().collect();
        found.sort_by_key(|name| name[1..].parse::<usize>().unwrap_or_default());
        if !found.iter().copied().eq(&listed) {
            let mut marks = Vec::new();
            for name in found.iter().filter(|name| !listed.contains(name)) {
                let live = cluster.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")).await?;
                marks.push(live.map(|live| live["metadata"].clone()).unwrap_or_default());
            }
            bail!(
                "seed {seed}, round {round}: {found:?} instead of {listed:?}: {marks:?}; {former:?}; {world:?}"
            );
        }
        before = now;
        if round % 50 == 0 {
            eprintln!("{moved} moves in {round} rounds");
        }
    }
    for installation in INSTALLATIONS {
        case.delete::<groundwork_api::Installation>(installation).await?;
        case.gone::<groundwork_api::Installation>(installation).await.context("it goes")?;
    }
    let left = there(&cluster).await?;
    ensure!(left.is_empty(), "seed {seed}: {left:?} is left");
    Ok(())
}
