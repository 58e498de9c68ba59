//! Times whole renderings. Each line of standard input is `NAME FOLDER`: a folder with a blueprint and `values.yaml`, which holds what an
//! Installation supplies. It gives `NAME-cold NANOSECONDS`, with everything read and parsed anew, and `NAME-warm NANOSECONDS`, with a
//! blueprint that has been used before, the medians of several; and what one rendering allocates, as `NAME-cold-bytes` and
//! `NAME-warm-bytes`. Counting costs some of the time that is measured.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::alloc::System;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::io::BufRead as _;
use std::path::Path;
use std::time::{Duration, Instant};

use groundwork_api::ObjectReference;
use groundwork_blueprint::{
    Blueprint, Capabilities, Components, Filesystem, ImportedTarget, Request, States, Supplied, TargetValue,
    import_mappings, render,
};
use groundwork_yaml as yaml;
use serde_json::{Map, Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How long one input is run at least, after a first time.
const BUDGET: Duration = Duration::from_millis(400);

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let Some((name, folder)) = line.split_once(' ') else { continue };
        let folder = Path::new(folder);
        let values = fs::read_to_string(folder.join("values.yaml")).unwrap();
        let files = tree(folder);
        measure(&format!("{name}-cold"), || {
            let given = Given::read(&values);
            let blueprint = Blueprint::load(files.clone()).unwrap();
            given.render(&blueprint)
        });
        let (given, blueprint) = (Given::read(&values), Blueprint::load(files).unwrap());
        measure(&format!("{name}-warm"), || given.render(&blueprint));
    }
}

fn measure(name: &str, run: impl Fn() -> usize) {
    black_box(run());
    let region = Region::new(ALLOCATOR);
    black_box(run());
    let bytes = region.change().bytes_allocated;
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || begin.elapsed() < BUDGET {
        let start = Instant::now();
        black_box(run());
        times.push(start.elapsed());
    }
    times.sort();
    println!("{name} {}", times[times.len() / 2].as_nanos());
    println!("{name}-bytes {bytes}");
}

fn tree(folder: &Path) -> Filesystem {
    fn add(files: &mut Filesystem, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                add(files, &path, &format!("{name}/"));
            } else {
                files.insert(&name, fs::read(path).unwrap()).unwrap();
            }
        }
    }
    let mut files = Filesystem::default();
    add(&mut files, folder, "");
    files
}

/// What an Installation supplies.
struct Given {
    supplied: RefCell<Supplied>,
    mappings: Map<String, Value>,
}

impl Given {
    fn read(text: &str) -> Self {
        let document = yaml::from_str(text).unwrap();
        let members = |name: &str| document.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let singles = members("targets").into_iter();
        let singles = singles.map(|(name, target)| (name, TargetValue::Single(imported(&target))));
        let maps = members("targetMaps").into_iter().map(|(name, map)| {
            let entries = map.as_object().unwrap().iter();
            (name, TargetValue::Map(entries.map(|(key, target)| (key.clone(), imported(target))).collect()))
        });
        let supplied = Supplied {
            data: members("data").into_iter().collect(),
            targets: singles.chain(maps).collect(),
            mapped: BTreeMap::new(),
        };
        Self { supplied: RefCell::new(supplied), mappings: members("importDataMappings") }
    }

    /// The number of deploy items and nested installations.
    fn render(&self, blueprint: &Blueprint) -> usize {
        let mappings = self.mappings.iter().map(|(name, mapping)| (name.as_str(), mapping));
        let mut supplied = self.supplied.borrow_mut();
        supplied.mapped = import_mappings("bench", mappings, &supplied).unwrap();
        let (definition, none, capabilities) =
            (json!({"ref": {"resourceName": "blueprint"}}), json!({}), Capabilities::default());
        let (components, mut states) = (Components::default(), States::new());
        let request = Request {
            blueprint,
            name: "bench",
            namespace: "bench",
            supplied: &supplied,
            components: &components,
            schemas: None,
            blueprint_definition: &definition,
            component_definition: &none,
            capabilities: &capabilities,
            show_values: false,
        };
        let rendered = render(&request, &mut states).unwrap_or_else(|error| panic!("{error}"));
        rendered.deploy_items.len() + rendered.subinstallations.len()
    }
}

fn imported(object: &Value) -> ImportedTarget {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let reference = ObjectReference {
        name: text("/metadata/name").unwrap_or_default(),
        namespace: text("/metadata/namespace"),
    };
    ImportedTarget { reference, object: object.clone() }
}
