//! Property test: a plan agrees with the result of applying the change and running all jobs.

use std::collections::BTreeMap;

use groundwork_api::metadata::label;
use groundwork_api::{Installation, ResourceExt as _};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{NAMESPACE, asking, blueprint, installation, planned};
use crate::{Change, Landscape, Plan};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const MOCK: &str = "landscaper.gardener.cloud/mock";

/// Shape of a root, which imports from earlier roots.
#[derive(Debug, Clone)]
struct Shape {
    /// Bit mask of the earlier roots whose export it imports.
    imports: u8,
    items: Vec<u8>,
    with_secret: bool,
    exports: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let items = proptest::collection::vec(0..3_u8, 0..3);
    (0..8_u8, items, any::<bool>(), any::<bool>()).prop_map(|(imports, items, with_secret, exports)| Shape {
        imports,
        items,
        with_secret,
        exports,
    })
}

fn root(at: usize, shapes: &[Shape]) -> Installation {
    let shape = &shapes[at];
    let exporters = (0..at).filter(|earlier| shape.imports & (1 << earlier) != 0 && shapes[*earlier].exports);
    let mut names: Vec<String> = exporters.map(|earlier| format!("x{}", NAMES[earlier])).collect();
    let mut imports: Vec<Value> = names.iter().map(|name| json!({"name": name, "dataRef": name})).collect();
    imports.push(json!({"name": "seed", "dataRef": "seed"}));
    names.push("seed".to_owned());
    if shape.with_secret {
        imports.push(json!({"name": "login", "secretRef": {"name": "login", "key": "password"}}));
        names.push("login".to_owned());
    }
    let all: String = names.iter().map(|name| format!("{{{{ .imports.{name} }}}},")).collect();
    let items: Vec<(String, String)> = shape
        .items
        .iter()
        .enumerate()
        .map(|(number, kind)| {
            (format!("i{number}{}", kind % 2), format!("kind-of: k{kind}, export: {{all: '{all}'}}"))
        })
        .collect();
    let items: Vec<_> = items.iter().map(|(name, config)| (name.as_str(), MOCK, config.as_str())).collect();
    let export = format!("x{}", NAMES[at]);
    let value = match items.first() {
        Some((name, ..)) => format!("'{{{{ .values.deployitems.{name}.all }}}}!'"),
        None => "none".to_owned(),
    };
    let exports = if shape.exports { vec![(export.as_str(), value.as_str())] } else { Vec::new() };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exported: Vec<&str> = exports.iter().map(|(name, _)| *name).collect();
    installation(NAMES[at], &blueprint(&names, &items, &exports), &json!(imports), &exported)
}

/// Returns items and exports by kind and name.
fn objects(landscape: &Landscape) -> BTreeMap<String, Value> {
    let items = landscape.items.values().map(|item| {
        let name =
            format!("item {}/{}", item.labels()[label::MANAGED_BY], item.labels()[label::DEPLOY_ITEM_NAME]);
        (name, serde_json::to_value(&item.spec).unwrap())
    });
    let is_export = |labels: &BTreeMap<String, String>| {
        labels.get(label::DATA_SOURCE_TYPE).is_some_and(|of| of == "export")
    };
    let exports = landscape.data_objects.values().filter(|object| is_export(object.labels()));
    let exports =
        exports.map(|object| (format!("export {}", object.name_any()), object.data.get().cloned().unwrap()));
    items.chain(exports).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn plans_agree_with_what_happens(
        before in proptest::collection::vec(shape(), 4),
        after in proptest::collection::vec(shape(), 4),
        changed in 0..16_u8,
        existing in 1..=4_usize,
        seed in any::<bool>(),
        secret in any::<bool>(),
    ) {
        let roots = &NAMES[..existing];
        // Importers with an unchanged spec still import their exports, so a changed root keeps its
        // exports.
        let mut mixed = before.clone();
        for at in (0..4).filter(|at| changed & (1 << at) != 0 || *at >= existing) {
            mixed[at] = Shape { exports: before[at].exports, ..after[at].clone() };
        }
        let present = Landscape::default()
            .with_data("seed", &json!("corn"))
            .with_secret("login", "password", "hunter2")
            .with((0..existing).map(|at| root(at, &before)))
            .run(roots);
        let mut applied = Landscape::default().with((0..4).filter(|at| changed & (1 << at) != 0).map(|at| asking(root(at, &mixed))));
        if seed {
            applied = applied.with_data("seed", &json!("rye"));
        }
        if secret {
            applied = applied.with_secret("login", "password", "sesame4");
        }
        // A root that does not exist must not be imported from.
        prop_assume!(!(0..4).any(|at| at >= existing && changed & (1 << at) == 0
            && (at + 1..4).any(|later| changed & (1 << later) != 0 && mixed[later].imports & (1 << at) != 0 && mixed[at].exports)));
        let plan = planned(&present, &applied);
        let then = present.after(&applied).run(&NAMES);

        let (former, now) = (objects(&present), objects(&then));
        let mut expected: BTreeMap<String, Change> = BTreeMap::new();
        for name in former.keys().chain(now.keys()) {
            let change = match (former.get(name), now.get(name)) {
                (None, _) => Change::Created,
                (_, None) => Change::Deleted,
                (before, after) if before == after => continue,
                _ => Change::Changed,
            };
            expected.insert(name.clone(), change);
        }
        let mut told: BTreeMap<String, Change> = BTreeMap::new();
        for planned in plan.all() {
            prop_assert!(planned.error.is_none() && planned.waits_for.is_none(), "{planned:?}");
            let root = planned.name.clone().unwrap();
            told.extend(planned.items.iter().map(|item| (format!("item {root}/{}", item.template), item.change)));
            told.extend(planned.exports.iter().map(|export| (format!("export {}", export.name), export.change)));
        }
        told.retain(|_, change| *change != Change::Unchanged);
        prop_assert_eq!(told, expected);
        let text = serde_json::to_string(&plan).unwrap();
        prop_assert!(!text.contains("hunter2") && !text.contains("sesame4"), "{}", text);
        // A program can parse the plan to an equal value, and the plan contains no secrets.
        prop_assert_eq!(&serde_json::from_str::<Plan>(&text).unwrap(), &plan);
        // The names of items in the plan equal those in the cluster.
        for planned in plan.all() {
            for item in planned.items.iter().filter(|item| item.change == Change::Changed) {
                let place = (NAMESPACE.to_owned(), item.name.clone().unwrap());
                prop_assert!(then.items.contains_key(&place));
            }
        }
        // After the change, a second plan is empty.
        let again = planned_again(&then, &applied);
        prop_assert!(again, "something is planned again");
    }
}

/// Reports whether a plan for objects that have been applied already contains no changes.
fn planned_again(then: &Landscape, applied: &Landscape) -> bool {
    let mut applied = applied.clone();
    applied.installations.values_mut().for_each(|installation| installation.metadata.annotations = None);
    planned(then, &applied).is_empty()
}
