use std::sync::Arc;

use serde_json::{Value as Json, json};

use groundwork_budget::Budget;

use super::{Host, RenderError, render};
use crate::bindings::Bindings;
use crate::capabilities::Capabilities;
use crate::components::Components;
use crate::filesystem::Filesystem;
use crate::functions::{HostFunctions, Kubeconfigs};
use crate::testing::{components, yaml};

const FILES: [(&str, &str); 9] = [
    ("VERSION", "0.0.0"),
    ("dir/b.txt", "bb"),
    ("dir/a.txt", "a"),
    ("dir/sub/c", ""),
    ("part.tmpl", "name: {{ .name }}\nsize: {{ .size }}"),
    ("loop.tmpl", "{{ include \"loop.tmpl\" . }}"),
    ("nested.tmpl", "[{{ include \"/leaf.tmpl\" .x }}]"),
    ("leaf.tmpl", "<{{ . }}>"),
    ("broken.tmpl", "{{ .x "),
];

const ROOT: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/root
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: [{type: ociRegistry, baseUrl: old.example.org}, {type: ociRegistry, baseUrl: new.example.org}]
  resources:
  - {name: chart, version: 1.0.0, type: helm, relation: external, access: {type: ociRegistry, imageReference: 'h/chart:1'}}
  - {name: image, version: 1.0.0, type: ociImage, relation: external, extraIdentity: {os: linux}, access: {type: ociRegistry, imageReference: 'h/linux:1'}}
  - {name: image, version: 1.0.0, type: ociImage, relation: external, extraIdentity: {os: darwin}, access: {type: ociRegistry, imageReference: 'h/darwin:1'}}
  componentReferences:
  - {name: child, componentName: example.org/child, version: 1.0.0}
  - {name: gone, componentName: example.org/gone, version: 1.0.0}
";

const CHILD: &str = "
apiVersion: ocm.software/v3alpha1
kind: ComponentVersion
metadata: {name: example.org/child, version: 1.0.0, provider: {name: me}}
repositoryContexts: []
spec:
  resources:
  - {name: ubuntu, version: 0.18.0, type: ociImage, relation: external, access: {type: ociRegistry, imageReference: 'ubuntu:0.18.0'}}
";

pub(in crate::template) fn tree() -> Filesystem {
    let mut files = Filesystem::default();
    for (path, content) in FILES {
        files.insert(path, content).unwrap();
    }
    files
}

fn both_versions() -> (Components, Components) {
    let newer =
        CHILD.replace("version: 1.0.0, provider", "version: 2.0.0, provider").replace("0.18.0", "0.20.0");
    let overwrites = [("example.org/child", "1.0.0", "2.0.0")];
    (components(&[ROOT, CHILD], &[]), components(&[ROOT, CHILD, &newer], &overwrites))
}

/// Returns the output text of a template, before it is parsed as YAML.
fn text_with(components: &Components, template: &str, given: &Json) -> Result<String, String> {
    let functions = HostFunctions {
        files: Arc::new(tree()),
        components: components.clone(),
        kubeconfigs: Kubeconfigs::default(),
    };
    let mut bindings = Bindings::default();
    for (name, value) in given.as_object().unwrap() {
        bindings.bind(Box::leak(name.clone().into_boxed_str()), value);
    }
    let (capabilities, budget) = (Capabilities::default(), Budget::default());
    let host = Host { functions: &functions, capabilities: &capabilities, budget: &budget };
    match render(&Arc::default(), template, &bindings, host) {
        Ok(output) => Ok(String::from_utf8(output).unwrap()),
        Err(RenderError::Parse(error) | RenderError::Execute(error, _)) => Err(error.to_string()),
    }
}

fn bindings() -> Json {
    let (components, _) = both_versions();
    let descriptors = components.bindings(&groundwork_api::Map::absent()).unwrap();
    json!({
        "cd": descriptors.descriptor,
        "imports": {
            "n": 1_000_000, "big": 9_007_199_254_740_993_i64, "f": 1.5, "three": 3, "word": "text", "nothing": null,
            "list": [1, 2], "map": {"a": {"b": 1}},
        },
    })
}

#[track_caller]
fn check(template: &str, expected: &str) {
    let (components, _) = both_versions();
    assert_eq!(text_with(&components, template, &bindings()).as_deref(), Ok(expected), "{template}");
}

/// Checks the end of the engine's error message.
#[track_caller]
fn check_error(template: &str, expected: &str) {
    let (components, _) = both_versions();
    let error = text_with(&components, template, &bindings()).unwrap_err();
    assert!(error.ends_with(expected), "{template}\n{error}");
    assert!(error.starts_with("template: execution:"), "{template}\n{error}");
}

/// Acceptance item 5, `blueprints.md` 5.2.
#[test]
fn numbers() {
    for (template, expected) in [
        ("{{ .imports.n }}", "1000000"),
        ("{{ printf \"%.0f\" .imports.n }}", "1000000"),
        ("{{ printf \"%d\" .imports.n }}", "1000000"),
        ("{{ eq .imports.n 1000000 }}", "true"),
        ("{{ kindOf .imports.n }}", "float64"),
        ("{{ eq .imports.three 3 }}", "true"),
        ("{{ .imports.big }}", "9007199254740993"),
        ("{{ .imports.f }}", "1.5"),
        ("{{ range until .imports.three }}{{ . }}{{ end }}", "012"),
        ("{{ (fromYaml \"a: 1000000\").a }}", "1000000"),
        ("{{ add .imports.n 1 }}", "1000001"),
        ("{{ .imports.n | quote }}", "\"1000000\""),
        ("{{ toYaml .imports.n }}", "1000000"),
    ] {
        check(template, expected);
    }
}

/// Cases B-10, B-16: file functions of `blueprints.md` 5.5.
#[test]
fn files() {
    for (template, expected) in [
        ("{{ readFile \"VERSION\" | toString }}", "0.0.0"),
        ("{{ readFile \"/VERSION\" | toString }}", "0.0.0"),
        ("{{ readFile \"./VERSION\" | toString }}", "0.0.0"),
        ("{{ readFile \"../VERSION\" | toString }}", "0.0.0"),
        ("{{ readFile \"dir/a.txt\" }}", "[97]"),
        (
            "{{ range readDir \"dir\" }}{{ .Name }} {{ .IsDir }} {{ .Size }};{{ end }}",
            "a.txt false 1;b.txt false 2;sub true 0;",
        ),
        ("{{ include \"part.tmpl\" (dict \"name\" \"x\" \"size\" 3) | indent 2 }}", "  name: x\n  size: 3"),
        ("{{ include \"nested.tmpl\" (dict \"x\" 5) }}", "[<5>]"),
        ("{{ toYaml (dict \"b\" (list 1 \"2\") \"a\" nil) }}", "a: null\nb:\n- 1\n- \"2\""),
        ("{{ (fromYaml \"a: [yes, 010]\").a }}", "[true 8]"),
        ("{{ fromYaml \"a\\n---\\nb\" }}", "a"),
    ] {
        check(template, expected);
    }
    for (template, expected) in [
        ("{{ readFile \"nope\" }}", "error calling readFile: file does not exist"),
        ("{{ readFile \"dir\" }}", "error calling readFile: dir is a directory"),
        ("{{ readDir \"nope\" }}", "error calling readDir: file does not exist"),
        (
            "{{ include \"nope\" . }}",
            "error calling include: unable to read include file \"nope\": file does not exist",
        ),
        (
            "{{ include \"loop.tmpl\" . }}",
            "rendering template has a nested reference name: loop.tmpl: unable to execute template",
        ),
    ] {
        check_error(template, expected);
    }
    for template in ["{{ include \"broken.tmpl\" . }}", "{{ fromYaml \"a: [\" }}"] {
        check_error(template, "");
    }
}

#[test]
fn image_references() {
    check(
        "{{ index (parseOCIRef \"h:5000/a/b:2\") 0 }} {{ index (parseOCIRef \"h:5000/a/b:2\") 1 }}",
        "h:5000/a/b 2",
    );
    check("{{ ociRefRepo \"myimage:1\" }} {{ ociRefVersion \"myimage:1\" }}", "myimage 1");
    check_error("{{ ociRefRepo \"plain\" }}", "error calling ociRefRepo: invalid reference");
}

/// Cases B-19, B-45, B-81: selector functions of `blueprints.md` 5.5.
#[test]
fn component_functions() {
    for (template, expected) in [
        ("{{ (getResource .cd \"name\" \"chart\").access.imageReference }}", "h/chart:1"),
        ("{{ (getResource \"name\" \"chart\").access.imageReference }}", "h/chart:1"),
        ("{{ (getResource .cd \"name\" \"image\" \"os\" \"darwin\").access.imageReference }}", "h/darwin:1"),
        ("{{ (getResource .cd \"os\" \"linux\").access.imageReference }}", "h/linux:1"),
        (
            "{{ range getResources .cd \"name\" \"image\" }}{{ .access.imageReference }} {{ end }}",
            "h/linux:1 h/darwin:1 ",
        ),
        ("{{ (getComponent .cd \"name\" \"child\").component.name }}", "example.org/child"),
        ("{{ (getComponent \"name\" \"child\").meta.schemaVersion }}", "v2"),
        // The name of the component is used if no reference has that name.
        ("{{ (getComponent .cd \"name\" \"example.org/child\").component.version }}", "1.0.0"),
        (
            "{{ $c := getComponent .cd \"name\" \"child\" }}{{ (getResource $c \"name\" \"ubuntu\").access.imageReference }}",
            "ubuntu:0.18.0",
        ),
        ("{{ (getRepositoryContext .cd).baseUrl }}", "new.example.org"),
        ("{{ getRepositoryContext (dict \"a\" 1) }}", "map[]"),
    ] {
        check(template, expected);
    }
    for (template, expected) in [
        ("{{ getResource }}", "error calling getResource: at least 2 arguments are expected"),
        ("{{ getResource .cd }}", "error calling getResource: at least 2 arguments are expected"),
        (
            "{{ getResource (dict \"a\" 1) \"name\" \"x\" }}",
            "error calling getResource: unable to determine component descriptor schema version",
        ),
        (
            "{{ getComponent (dict \"apiVersion\" \"v9\") \"name\" \"x\" }}",
            "error calling getComponent: unknown schema version",
        ),
        (
            "{{ getRepositoryContext nil }}",
            "Unable to get effective component descriptor as no ComponentDescriptor is defined.",
        ),
        ("{{ getRepositoryContext 5 }}", "error calling getRepositoryContext: invalid component descriptor"),
        ("{{ getResource .cd \"name\" }}", "error calling getResource: odd number of key value pairs"),
        ("{{ getResource \"name\" 5 }}", "error calling getResource: expect argument 1 to be a string"),
        ("{{ getResource .cd \"name\" \"nope\" }}", "error calling getResource: NotFound"),
        ("{{ getResource .cd \"version\" \"1.0.0\" }}", "error calling getResource: NotFound"),
        ("{{ getResources .cd \"name\" \"nope\" }}", "error calling getResources: NotFound"),
        ("{{ getComponent .cd \"name\" \"nope\" }}", "error calling getComponent: NotFound"),
        (
            "{{ getComponent .cd \"name\" \"gone\" }}",
            "error calling getComponent: unable to resolve component gone:1.0.0",
        ),
    ] {
        check_error(template, expected);
    }
    for (function, what) in
        [("getResource", "a resource"), ("getResources", "a resource"), ("getComponent", "a component")]
    {
        for arguments in [".cd \"name\" \"x\"", "\"name\"", ""] {
            let template = format!("{{{{ {function} {arguments} }}}}");
            let error = text_with(&Components::default(), &template, &json!({"cd": null})).unwrap_err();
            assert!(
                error
                    .ends_with(&format!("Unable to search for {what} as no ComponentDescriptor is defined.")),
                "{error}"
            );
        }
    }
}

/// References of `components.md` 2.4 f: overwrites apply.
#[test]
fn component_functions_apply_overwrites() {
    let (_, overwritten) = both_versions();
    let template = "{{ $c := getComponent .cd \"name\" \"child\" }}{{ $c.component.version }} \
                    {{ (getResource $c \"name\" \"ubuntu\").access.imageReference }}";
    assert_eq!(text_with(&overwritten, template, &bindings()).as_deref(), Ok("2.0.0 ubuntu:0.20.0"));
}

/// Cases B-45, B-46, `blueprints.md` 4.3: the format follows the annotation, but functions always
/// return v2.
#[test]
fn descriptor_formats() {
    let (components, _) = both_versions();
    let bind = |annotations: &str| {
        let annotations: groundwork_api::Map<String> = serde_json::from_value(yaml(annotations)).unwrap();
        let bound = components.bindings(&annotations).map_err(|error| error.to_string())?;
        Ok::<_, String>(json!({"cd": bound.descriptor, "components": bound.components}))
    };
    let check = |annotations: &str, template: &str, expected: &str| {
        assert_eq!(
            text_with(&components, template, &bind(annotations).unwrap()).as_deref(),
            Ok(expected),
            "{template}"
        );
    };
    let v2 = "{{ .cd.meta.schemaVersion }} {{ .cd.component.name }} {{ len .components.components }}";
    check("{}", v2, "v2 example.org/root 2");
    check("{ocmSchemaVersion: ''}", v2, "v2 example.org/root 2");
    check("{ocmSchemaVersion: v2}", v2, "v2 example.org/root 2");
    let v3 = "{ocmSchemaVersion: ocm.software/v3alpha1}";
    check(
        v3,
        "{{ .cd.apiVersion }} {{ .cd.kind }} {{ .cd.metadata.name }} {{ len .components }} {{ (index .components 1).metadata.name }}",
        "ocm.software/v3alpha1 ComponentVersion example.org/root 2 example.org/child",
    );
    check(v3, "{{ (getResource .cd \"name\" \"chart\").access.imageReference }}", "h/chart:1");
    check(v3, "{{ (getComponent .cd \"name\" \"child\").component.name }}", "example.org/child");
    check(v3, "{{ (getRepositoryContext .cd).baseUrl }}", "new.example.org");
    check(
        v3,
        "{{ keys .cd | sortAlpha }} {{ keys .cd.spec | sortAlpha }} {{ keys (index .components 1) | sortAlpha }}",
        "[apiVersion kind metadata repositoryContexts spec] [references resources] [apiVersion kind metadata spec]",
    );
    assert_eq!(
        bind("{ocmSchemaVersion: v9}").unwrap_err(),
        "error during serializing of the resolved components: unknown schema version \"v9\""
    );
    let nothing =
        Components::default().bindings(&serde_json::from_value(json!({"ocmSchemaVersion": "v9"})).unwrap());
    assert_eq!(nothing.unwrap().descriptor, Json::Null, "without a component nobody looks at the version");
}

#[test]
fn resource_keys() {
    check(
        "{{ getResourceKey `cd://resources/chart` | b64dec | fromYaml | toJson }}",
        r#"{"component":{"name":"example.org/root","version":"1.0.0"},"resource":{"name":"chart"}}"#,
    );
    check_error("{{ getResourceKey }}", "this function requires 1 argument, but 0 were provided");
    check_error("{{ getResourceKey .cd \"x\" }}", "this function requires 1 argument, but 2 were provided");
    check_error("{{ getResourceKey 5 }}", "unable to assert the first argument as string");
    check_error("{{ getResourceKey (dict) }}", "unable to assert the first argument as string");
    let error = text_with(&Components::default(), "{{ getResourceKey 5 }}", &json!({})).unwrap_err();
    assert!(error.ends_with("unable to use this function without ocm component version"), "{error}");
}

#[test]
fn functions_that_need_a_client() {
    check_error(
        "{{ getOidcKubeconfig \"x\" }}",
        "templating function getOidcKubeconfig expects 3 arguments: issuer url, client id, and target",
    );
    for name in ["getShootAdminKubeconfig", "getServiceAccountKubeconfig"] {
        check_error(
            &format!("{{{{ {name} \"x\" }}}}"),
            &format!("error calling {name}: {name} is not available"),
        );
        check(&format!("{{{{ if false }}}}{{{{ {name} \"x\" }}}}{{{{ end }}}}"), "");
    }
    for name in ["env", "expandenv"] {
        check_error(&format!("{{{{ {name} \"HOME\" }}}}"), &format!("function \"{name}\" not defined"));
    }
    check_error("{{ getHostByName \"localhost\" }}", "getHostByName is not available");
}
