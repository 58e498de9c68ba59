//! Tests with the blueprints and templates of Landscaper's own tests (`blueprints.md` 11), if a
//! copy is available.

use std::path::{Path, PathBuf};

use groundwork_api::TemplateExecutor;
use serde_json::{Value, json};

use crate::template::{ExecutionKind, Output, TemplateError};
use crate::testing::{components, configurations, execute, render_with, supplied, yaml};
use crate::{Blueprint, Components, Filesystem, LoadError};

/// Returns a folder of Landscaper's repository, if a copy is available.
fn fixtures(part: &str) -> Option<PathBuf> {
    groundwork_testkit::fixture(&format!("landscaper/{part}"))
}

/// Reads all files below a folder, by relative path.
fn tree(folder: &Path) -> Filesystem {
    fn add(files: &mut Filesystem, folder: &Path, prefix: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                add(files, &path, &format!("{name}/"));
            } else {
                files.insert(&name, std::fs::read(path).unwrap()).unwrap();
            }
        }
    }
    let mut files = Filesystem::default();
    add(&mut files, folder, "");
    files
}

/// Returns the folders that contain a blueprint, sorted.
fn blueprints(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if folder.join("blueprint.yaml").is_file() {
        found.push(folder.to_owned());
    }
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    entries.sort();
    found.extend(entries.iter().flat_map(|entry| blueprints(entry)));
    found
}

/// The static check finds no problems in existing blueprints.
#[test]
fn blueprints_are_checked() {
    let mut found = Vec::new();
    for part in ["guided-tour", "installations", "subinstallations", "components"] {
        let Some(folder) = fixtures(part) else { continue };
        for path in blueprints(&folder) {
            for finding in Blueprint::check(&tree(&path)).unwrap() {
                // `def-2` and `j` do not load. The next test covers them.
                let refused = ["def-2", "j"].iter().any(|name| path.ends_with(name));
                if !refused && !finding.message.ends_with(".name: name must be defined") {
                    found.push(format!("{} {finding}", path.strip_prefix(&folder).unwrap().display()));
                }
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// Every blueprint loads, except the one whose import has no schema.
#[test]
fn blueprints_load() {
    for (part, least) in
        [("guided-tour", 25), ("installations", 15), ("subinstallations", 9), ("components", 2)]
    {
        let Some(folder) = fixtures(part) else { continue };
        let folders = blueprints(&folder);
        assert!(folders.len() >= least, "{part}: {}", folders.len());
        for folder in folders {
            let loaded = Blueprint::load(tree(&folder)).map(|blueprint| blueprint.warnings);
            match folder.file_name().and_then(|name| name.to_str()) {
                // This file is an installation template under the name of a blueprint.
                Some("def-2") => {
                    assert!(matches!(loaded, Err(LoadError::Undecodable { .. })), "{folder:?}");
                }
                Some("j") => assert_eq!(
                    loaded.unwrap_err().to_string(),
                    "blueprint is invalid: imports[0][a.b]: Required value: Schema must not be empty for type data"
                ),
                _ => {
                    // Some executions have no name, which is only a warning.
                    let warnings = loaded.unwrap_or_else(|error| panic!("{folder:?}: {error}"));
                    assert!(
                        warnings.iter().all(|warning| warning.ends_with(".name: name must be defined")),
                        "{folder:?}: {warnings:?}"
                    );
                }
            }
        }
    }
}

/// Archived blueprints, plain and compressed, equal the folder. Broken archives are rejected.
#[test]
fn archived_blueprints() {
    let Some(folder) = fixtures("components/localocmrepos/components-with-blueprints/blobs") else { return };
    let expected = tree(&folder.join("blueprint-dir"));
    for (name, intact) in [
        ("blueprint-tar", true),
        ("blueprint-tar-gzip", true),
        ("corrupted-blueprint", false),
        ("corrupted-blueprint-tar", false),
    ] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let files = Filesystem::from_archive(&bytes, crate::ArchiveLimits::default());
        if intact {
            assert_eq!(files.unwrap(), expected, "{name}");
        } else {
            let loaded = files
                .map_err(|error| error.to_string())
                .and_then(|files| Blueprint::load(files).map_err(|error| error.to_string()));
            assert!(loaded.is_err(), "{name}");
        }
    }
}

const DESCRIPTOR: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/root
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: []
  componentReferences:
  - {name: my-referenced-component, componentName: example.org/child, version: 1.0.0}
  resources:
  - {name: mycustomimage, version: 1.0.0, type: ociImage, relation: external, extraIdentity: {class: image}, access: {type: ociRegistry, imageReference: 'h/custom:1'}}
  - {name: other, version: 1.0.0, type: ociImage, relation: external, extraIdentity: {class: image}, access: {type: ociRegistry, imageReference: 'h/other:1'}}
  - {name: flux-chart, version: 1.0.0, type: helm, relation: external, access: {type: ociRegistry, imageReference: 'h/chart:1'}}
  - {name: echo-server-chart, version: 1.0.0, type: helm, relation: external, access: {type: ociRegistry, imageReference: 'h/echo-chart:1'}}
  - {name: echo-server-image, version: 1.0.0, type: ociImage, relation: external, access: {type: ociRegistry, imageReference: 'h/echo:1'}}
  - {name: podinfo-gitrepo, version: 1.0.0, type: git, relation: external, access: {type: github, repoUrl: github.example.org/x/y, commit: 6f8b8f5a8f5e4d8f5a8f5e4d8f5a8f5e4d8f5a8f}}
";

const CHILD: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/child
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: []
  componentReferences: []
  resources:
  - {name: ubuntu, version: 0.18.0, type: ociImage, relation: external, access: {type: ociRegistry, imageReference: 'ubuntu:0.18.0'}}
";

/// Runs the first execution of a template fixture.
fn run(folder: &Path, number: &str, annotations: &Value, more: &Value) -> Result<Output, TemplateError> {
    let text = std::fs::read_to_string(folder.join(format!("template-{number}.yaml"))).unwrap();
    let executors: Vec<TemplateExecutor> = serde_json::from_value(yaml(&text)).unwrap();
    let mut files = Filesystem::default();
    files.insert("VERSION", "0.0.0").unwrap();
    let components = components(&[DESCRIPTOR, CHILD], &[]);
    let bound = components.bindings(&serde_json::from_value(annotations.clone()).unwrap()).unwrap();
    let mut bindings = json!({"cd": bound.descriptor, "components": bound.components, "imports": {}});
    bindings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    execute(&files, &components, (ExecutionKind::Deploy, &executors[0]), &bindings, None)
}

/// GoTemplate executions give the results that Landscaper's tests expect.
#[test]
fn templates() {
    let Some(folder) = fixtures("templates/gotemplate") else { return };
    let result = |number: &str, more: &Value, pointer: &str| {
        let output = run(&folder, number, &json!({}), more).unwrap();
        Value::Object(output.document).pointer(pointer).cloned().unwrap_or_default()
    };
    let config = "/deployItems/0/config";
    for (number, more, pointer, expected) in [
        ("01", json!({}), "/deployItems/0/name", json!("init")),
        ("01", json!({}), "/deployItems/0/type", json!("container")),
        (
            "02",
            json!({"imports": {"version": "0.0.0"}}),
            "/deployItems/0/config/image",
            json!("my-custom-image:0.0.0"),
        ),
        ("03", json!({}), "/deployItems/0/config/image", json!("my-custom-image:0.0.0")),
        ("05", json!({}), "/exports/testKey", json!("myval")),
        ("06", json!({"values": {"version": "0.0.0"}}), "/exports/image", json!("my-custom-image:0.0.0")),
        ("07", json!({}), "/exports/image", json!("my-custom-image:0.0.0")),
        ("09", json!({}), "/state/version", json!("0.0.1")),
        ("10", json!({}), "/deployItems/0/config/image", json!("ubuntu:0.18.0")),
        (
            "11",
            json!({"blueprint": {"ref": {"resourceName": "bp"}}, "componentDescriptorDef": {"ref": {"version": "1"}}}),
            config,
            json!({
                "apiVersion": "example.test/v1", "kind": "Configuration",
                "blueprint": {"ref": {"resourceName": "bp"}}, "componentDescriptor": {"ref": {"version": "1"}},
            }),
        ),
    ] {
        assert_eq!(result(number, &more, pointer), expected, "template {number}");
    }
    // The stored state is read by the next run.
    let text = std::fs::read_to_string(folder.join("template-09.yaml")).unwrap();
    let executors: Vec<TemplateExecutor> = serde_json::from_value(yaml(&text)).unwrap();
    let (files, components) = (Filesystem::default(), Components::default());
    let execution = (ExecutionKind::Deploy, &executors[0]);
    let output = execute(&files, &components, execution, &json!({"imports": {}}), Some("version: 0.0.2\n"));
    assert_eq!(output.unwrap().document["state"]["version"], json!("0.0.2"));
    for schema in ["v2", "ocm.software/v3alpha1"] {
        let output = run(&folder, "04", &json!({"ocmSchemaVersion": schema}), &json!({})).unwrap();
        let config = Value::Object(output.document).pointer(config).cloned().unwrap();
        assert_eq!(config["image"], json!("h/custom:1"), "{schema}");
        assert_eq!(config["images"], json!([{"image": "h/custom:1"}, {"image": "h/other:1"}]), "{schema}");
    }
    let failure = run(&folder, "08", &json!({}), &json!({})).unwrap_err();
    assert!(matches!(failure, TemplateError::Failed(_)), "{failure}");
}

/// Spiff executions, as structures and as texts, give the results that Landscaper's tests expect.
#[test]
fn spiff_templates() {
    for form in ["yaml", "text"] {
        let Some(folder) = fixtures(&format!("templates/spifftemplate/{form}")) else { return };
        let result = |number: &str, more: &Value, pointer: &str| {
            let output = run(&folder, number, &json!({}), more)
                .unwrap_or_else(|error| panic!("{form} template {number}: {error}"));
            Value::Object(output.document).pointer(pointer).cloned().unwrap_or_default()
        };
        for (number, more, pointer, expected) in [
            ("01", json!({}), "/deployItems/0/name", json!("init")),
            (
                "02",
                json!({"imports": {"version": "0.0.0"}}),
                "/deployItems/0/config/image",
                json!("my-custom-image:0.0.0"),
            ),
            ("03", json!({}), "/deployItems/0/config/image", json!("my-custom-image:0.0.0")),
            ("04", json!({}), "/deployItems/0/config/image", json!("h/custom:1")),
            ("04", json!({}), "/deployItems/0/config/temp", json!({})),
            ("05", json!({}), "/exports/testKey", json!("myval")),
            ("06", json!({"values": {"version": "0.0.0"}}), "/exports/image", json!("my-custom-image:0.0.0")),
            ("07", json!({}), "/exports/image", json!("my-custom-image:0.0.0")),
            ("09", json!({}), "/state/version", json!("0.0.1")),
            ("10", json!({}), "/deployItems/0/config/image", json!("ubuntu:0.18.0")),
            (
                "11",
                json!({"blueprint": {"ref": {"resourceName": "bp"}}, "componentDescriptorDef": {"ref": {"version": "1"}}}),
                "/deployItems/0/config",
                json!({
                    "apiVersion": "example.test/v1", "kind": "Configuration",
                    "blueprint": {"ref": {"resourceName": "bp"}}, "componentDescriptor": {"ref": {"version": "1"}},
                }),
            ),
        ] {
            assert_eq!(result(number, &more, pointer), expected, "{form} template {number}");
        }
        let failure = run(&folder, "08", &json!({}), &json!({})).unwrap_err();
        assert!(failure.to_string().starts_with("unresolved nodes:"), "{form}: {failure}");
        let text = std::fs::read_to_string(folder.join("template-09.yaml")).unwrap();
        let executors: Vec<TemplateExecutor> = serde_json::from_value(yaml(&text)).unwrap();
        let (files, components) = (Filesystem::default(), Components::default());
        let execution = (ExecutionKind::Deploy, &executors[0]);
        let stored = Some("state: {version: 0.0.2}\n");
        let output = execute(&files, &components, execution, &json!({"imports": {}}), stored).unwrap();
        assert_eq!(
            output.document["deployItems"][0]["config"]["image"],
            json!("my-custom-image:0.0.2"),
            "{form}"
        );
        assert_eq!(yaml(&output.state.unwrap()), json!({"state": {"version": "0.0.2"}}), "{form}");
    }
}

/// Blueprints of the guided tour whose imports are easy to supply give the expected names of deploy
/// items. Case B-11 is `export-parameters`.
#[test]
fn guided_tour_renders() {
    let Some(folder) = fixtures("guided-tour") else { return };
    let cluster = "landscaper.gardener.cloud/kubernetes-cluster";
    let one = format!("target: {{cluster: {cluster}}}");
    let two = format!(
        "map: {{clusters: {{blue: {cluster}, red: {cluster}}}}}\ndata: {{namespace: ns, config: {{blue: {{c: b}}, red: {{c: r}}}}}}"
    );
    for (path, given, expected) in [
        ("target-maps/01-multiple-deploy-items/component/blueprint", two.clone(), "di-blue di-red"),
        ("target-maps/02-targetmap-ref/component/blueprint/sub", two.clone(), "di-blue di-red"),
        (
            "target-maps/03-multiple-subinst/component/blueprint/sub",
            format!("{one}\ndata: {{instanceName: x, namespace: ns, config: {{a: b}}}}"),
            "di-x",
        ),
        (
            "target-maps/04-forward-map/component/blueprint/subsub",
            format!("map: {{subsubclusters: {{a: {cluster}}}}}\ndata: {{namespace: ns}}"),
            "di-a",
        ),
        (
            "import-export/import-parameters/blueprint",
            format!("{one}\ndata: {{release: {{name: r, namespace: ns}}, values: {{a: {{b: c}}}}}}"),
            "default-deploy-item",
        ),
        ("import-export/export-parameters/blueprint", one.clone(), "default-deploy-item"),
        ("kustomize/01-kustomize-introduction/blueprint", one.clone(), "item"),
        (
            "subinstallations/export-import/blueprints/sub",
            format!("{one}\ndata: {{configmap-name-in: x}}"),
            "default-deploy-item",
        ),
    ] {
        let blueprint = Blueprint::load(tree(&folder.join(path))).unwrap();
        let rendered = render_with(&blueprint, &supplied(&given), &components(&[DESCRIPTOR, CHILD], &[]))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let names: Vec<String> = configurations(&rendered).keys().cloned().collect();
        assert_eq!(names.join(" "), expected, "{path}");
        assert_eq!(rendered.warnings, Vec::<String>::new(), "{path}");
        assert!(rendered.deploy_items.iter().all(|item| item.target.is_some()), "{path}");
    }
}

/// The guided tour's example that iterates over all component descriptors, with its own components.
#[test]
fn guided_tour_of_components() {
    let Some(folder) = fixtures("guided-tour/templating/components") else { return };
    let descriptor = |name: &str| {
        std::fs::read_to_string(folder.join(format!("components/component-descriptor-{name}.yaml"))).unwrap()
    };
    let texts = ["root", "core", "ext"].map(descriptor);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let blueprint = Blueprint::load(tree(&folder.join("blueprint"))).unwrap();
    let given = supplied("target: {cluster: landscaper.gardener.cloud/kubernetes-cluster}");
    let rendered =
        render_with(&blueprint, &given, &components(&texts, &[])).unwrap_or_else(|error| panic!("{error}"));
    let content = configurations(&rendered)["default-deploy-item"]
        .pointer("/manifests/0/manifest/data/content")
        .and_then(Value::as_str)
        .map(yaml)
        .unwrap();
    let repository = "sap-gcp-cp-k8s-stable-hub/landscaper-examples/examples/images";
    let image = |name: &str| json!({"registry": "europe-docker.pkg.dev", "repository": format!("{repository}/{name}"), "tag": "1.0.0"});
    let expected = json!({
        "images": {"types": {"type-a": image("image-a"), "type-d": image("image-d")}},
        "auxiliaryImages": {"aux-b": image("image-b"), "aux-c": image("image-c")},
    });
    assert_eq!(content, expected);
}

/// `root-cond`: the conditional import is required only with its owner. Without the owner, imports
/// wired to it are left out.
#[test]
fn conditional_fixture() {
    let Some(folder) = fixtures("installations/testdata/registry/blobs/root-cond") else { return };
    let blueprint = Blueprint::load(tree(&folder)).unwrap();
    let check = |given: &str| {
        crate::imports::construct(&blueprint, "i", &supplied(given), None).map(|imports| imports.values.len())
    };
    assert_eq!(check("{}").unwrap(), 0);
    assert_eq!(check("data: {rootcond.foo: a, rootcond.bar: b}").unwrap(), 2);
    assert_eq!(
        check("data: {rootcond.foo: a}").unwrap_err()[0].to_string(),
        "blueprint defines import \"rootcond.bar\" of type data, which is not satisfied"
    );
    let children = |given: &str| {
        let rendered = render_with(&blueprint, &supplied(given), &Components::default()).unwrap();
        let imports = rendered.subinstallations.iter().map(|template| {
            let imports = template.imports.iter().flat_map(|imports| imports.data.iter());
            let names: Vec<&str> = imports.map(|import| import.name.as_str()).collect();
            format!("{}({})", template.name(), names.join(" "))
        });
        imports.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(children("{}"), "subinst-import(internalBaz), subinst-export()");
    assert_eq!(
        children("data: {rootcond.foo: a, rootcond.bar: b}"),
        "subinst-import(internalFoo internalBar internalBaz), subinst-export()"
    );
}

/// Variable with the number of renderings of each input. `cargo xtask fuzz` sets it higher than a
/// test has time for.
const RENDERINGS_VARIABLE: &str = "GROUNDWORK_RENDERINGS";

/// The result depends on the inputs alone: neither on the order of maps nor on earlier renderings.
#[test]
fn renderings_are_the_same_each_time() {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/blueprints");
    let asked: Option<usize> = std::env::var(RENDERINGS_VARIABLE).ok().and_then(|times| times.parse().ok());
    for (name, times) in [("echo", 1_000), ("aggregate", 100), ("large", 50)] {
        let times = asked.unwrap_or(times);
        let folder = inputs.join(name);
        let given = yaml(&std::fs::read_to_string(folder.join("values.yaml")).unwrap());
        let members = |name: &str| given.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let target = |object: &Value| crate::ImportedTarget {
            reference: groundwork_api::ObjectReference {
                name: "t".to_owned(),
                namespace: Some("n".to_owned()),
            },
            object: object.clone(),
        };
        let singles = members("targets").into_iter();
        let singles = singles.map(|(name, object)| (name, crate::TargetValue::Single(target(&object))));
        let maps = members("targetMaps").into_iter().map(|(name, map)| {
            let entries = map.as_object().unwrap().iter().map(|(key, object)| (key.clone(), target(object)));
            (name, crate::TargetValue::Map(entries.collect()))
        });
        let mut supplied = crate::Supplied {
            data: members("data").into_iter().collect(),
            targets: singles.chain(maps).collect(),
            ..crate::Supplied::default()
        };
        let mappings = members("importDataMappings");
        let mappings = mappings.iter().map(|(name, mapping)| (name.as_str(), mapping));
        supplied.mapped =
            crate::import_mappings("i", mappings, &supplied, crate::TemplateLimits::default()).unwrap();
        let used = Blueprint::load(tree(&folder)).unwrap();
        let render = |blueprint: &Blueprint| {
            render_with(blueprint, &supplied, &Components::default())
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let first = render(&Blueprint::load(tree(&folder)).unwrap());
        assert!(first.deploy_items.len() + first.subinstallations.len() > 0, "{name}");
        for _ in 0..times {
            assert_eq!(render(&used), first, "{name}");
        }
    }
}
