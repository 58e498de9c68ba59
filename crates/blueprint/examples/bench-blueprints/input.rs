//! Renderings of the folders that standard input names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::BufRead as _;
use std::path::Path;

use groundwork_api::ObjectReference;
use groundwork_blueprint::{
    Blueprint, Capabilities, Components, Filesystem, ImportedTarget, Request, States, Supplied, TargetValue,
    import_mappings, render,
};
use groundwork_budget::TemplateLimits;
use groundwork_yaml as yaml;
use serde_json::{Map, Value, json};

/// Calls `measure` with a cold and a warm rendering of each line's folder, and their names.
pub(crate) fn each(measure: impl Fn(&str, &dyn Fn() -> usize)) {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let Some((name, folder)) = line.split_once(' ') else { continue };
        let folder = Path::new(folder);
        let values = fs::read_to_string(folder.join("values.yaml")).unwrap();
        let files = tree(folder);
        measure(&format!("{name}-cold"), &|| {
            let given = Given::read(&values);
            let blueprint = Blueprint::load(files.clone()).unwrap();
            given.render(&blueprint)
        });
        let (given, blueprint) = (Given::read(&values), Blueprint::load(files).unwrap());
        measure(&format!("{name}-warm"), &|| given.render(&blueprint));
    }
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

/// Values that an Installation supplies.
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

    /// Renders once and returns the number of deploy items and nested Installations.
    fn render(&self, blueprint: &Blueprint) -> usize {
        let mappings = self.mappings.iter().map(|(name, mapping)| (name.as_str(), mapping));
        let mut supplied = self.supplied.borrow_mut();
        supplied.mapped = import_mappings("bench", mappings, &supplied, TemplateLimits::default()).unwrap();
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
