use serde_json::{Value, json};

use super::*;

const KPTFILE: &str =
    "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: a\ninfo:\n  description: x # keep\n";
const CONTEXT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n";
const SITE: &str = "apiVersion: net.example/v1\nkind: Site\nmetadata:\n  name: site\n  annotations:\n    \
                    kpt.dev/config-injection: required\nspec: # from infra\n  zone: a # keep\n  old: 1 # lost\n";

/// Cluster with these objects.
struct Objects(Vec<Value>);

impl Cluster for Objects {
    fn list(&self, api_version: &str, kind: &str) -> Listed<'_> {
        match kind {
            "Wide" => Listed::ClusterScoped,
            "Broken" => Listed::Failed("no matches for kind".to_owned()),
            _ => Listed::Objects(
                self.0
                    .iter()
                    .filter(|object| object["kind"] == kind && object["apiVersion"] == api_version)
                    .collect(),
            ),
        }
    }
}

fn site(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "net.example/v1", "kind": "Site", "metadata": {"name": name}, "spec": spec})
}

fn mutated(files: &[(&str, &str)], spec: &Value, objects: Vec<Value>) -> Result<Mutated, MutationError> {
    let variant: PackageVariant =
        serde_json::from_value(json!({"metadata": {"name": "my-pv", "namespace": "fleet"}, "spec": spec}))
            .unwrap();
    let files: Package = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let cluster = Objects(objects);
    let mutation = Mutation { variant: &variant, namespace: "fleet", revision: "draft", cluster: &cluster };
    let mutated = mutate(Some(&files), &mutation)?;
    // Mutations are idempotent.
    let again = mutate(Some(&mutated.files), &mutation).unwrap();
    assert_eq!((again.changed, &again.files), (false, &mutated.files), "{spec}");
    Ok(mutated)
}

/// Mutates one file besides the Kptfile, and checks its new text or the error.
fn check(file: (&str, &str), spec: &Value, objects: Vec<Value>, expected: &str) {
    let found = match mutated(&[("Kptfile", KPTFILE), file], spec, objects) {
        Ok(mutated) => mutated.files[file.0].clone(),
        Err(error) => format!("{}: {error}", error.reason()),
    };
    assert_eq!(found, expected, "{spec} on {}", file.1);
}

/// V-018, V-063, V-064: the rows of `packagevariants.md` 3.1.
#[test]
fn package_context() {
    let file = |data: &str| format!("{CONTEXT}{data}");
    let context = |context: Value| json!({"packageContext": context});
    let check = |data: &str, wanted: Value, expected: &str| {
        let expected = if expected.starts_with("Package") { expected.to_owned() } else { file(expected) };
        check(("package-context.yaml", &file(data)), &context(wanted), Vec::new(), &expected);
    };
    check(
        "data: {zone: 7}\n",
        json!({"data": {"tier": "2"}, "removeKeys": ["gone"]}),
        "data: {zone: \"7\", tier: \"2\"}\n",
    );
    check("data: {n: 5}\n", json!({"data": {"n": "5"}}), "data: {n: 5}\n");
    check(
        "data:\n  a: x # why\n  b: y\n",
        json!({"data": {"a": "z"}, "removeKeys": ["b"]}),
        "data:\n  a: z # why\n",
    );
    check("data: {a: b}\n", json!({"removeKeys": ["a"]}), "data: {}\n");
    check(
        "other: 1\n",
        json!({"data": {"a": "b"}}),
        "PackageContextError: PackageRevisionResources fleet/draft PackageContext no data field found",
    );
    check(
        "data: [a]\n",
        json!({"data": {"a": "b"}}),
        "PackageContextError: PackageRevisionResources fleet/draft PackageContext invalid data field: Resource(apiVersion=, \
         kind=ConfigMap) has unmatched field type \"map[string]string\" in fieldpath .data",
    );
}

/// V-062, V-069: errors for package contexts with a wrong form.
#[test]
fn package_contexts_that_cannot_be_edited() {
    let spec = json!({"packageContext": {"data": {"a": "b"}}});
    let place = "PackageRevisionResources 'fleet/draft'";
    for (text, expected) in [
        ("", "failed to parse \"package-context.yaml\" of PackageRevisionResources fleet/draft: expected exactly one object, got 0".to_owned()),
        ("kind: X\n", format!("\"package-context.yaml\" does not contain kind \"ConfigMap\" in {place}")),
        (
            "kind: ConfigMap\nmetadata: {name: x}\n",
            format!("\"package-context.yaml\" does not contain resource named \"kptfile.kpt.dev\" in {place}"),
        ),
    ] {
        check(("package-context.yaml", text), &spec, Vec::new(), &format!("PackageContextError: {expected}"));
    }
    check(
        ("x.yaml", "a: 1\n"),
        &spec,
        Vec::new(),
        &format!("PackageContextError: \"package-context.yaml\" not found in {place}"),
    );
    let elsewhere = format!("{CONTEXT}data: {{}}\n");
    check(("ctx.yaml", &elsewhere), &spec, Vec::new(), &format!("{CONTEXT}data: {{a: b}}\n"));
}

/// V-070 to V-076: the functions of the design document's example come first, and functions of
/// others stay.
#[test]
fn pipeline() {
    let before = "pipeline:\n  mutators:\n  - image: x:v1 # c\n    configMap: {n: 5}\n  - {name: PackageVariant.my-pv.old.0, image: \
                  y}\n  - {name: PackageVariant.other.f.0, image: z}\n";
    let spec = json!({"pipeline": {"mutators": [
        {"image": "gcr.io/kpt-fn/set-namespace:v0.1", "name": "my-func", "configMap": {"namespace": "my-ns"}},
        {"image": "gcr.io/kpt-fn/set-labels:v0.1", "configMap": {"app": "foo"}},
    ]}});
    let after = "pipeline:\n  mutators:\n  - name: PackageVariant.my-pv.my-func.0\n    image: gcr.io/kpt-fn/set-namespace:v0.1\n    \
                 configMap:\n      namespace: my-ns\n  - name: PackageVariant.my-pv..1\n    image: gcr.io/kpt-fn/set-labels:v0.1\n    \
                 configMap:\n      app: foo\n  - image: x:v1 # c\n    configMap: {n: \"5\"}\n  - {name: PackageVariant.other.f.0, \
                 image: z}\n";
    let kptfile = |pipeline: &str| format!("{KPTFILE}{pipeline}");
    let found = mutated(&[("Kptfile", &kptfile(before))], &spec, Vec::new()).unwrap();
    assert_eq!((found.files["Kptfile"].as_str(), found.changed), (kptfile(after).as_str(), true));
    let found = mutated(&[("Kptfile", &kptfile("pipeline: {}\n"))], &json!({}), Vec::new()).unwrap();
    assert_eq!((found.files["Kptfile"].as_str(), found.changed), (KPTFILE, true));
}

/// V-077: the table of shapes.
#[test]
fn pipelines_that_cannot_be_edited() {
    let wrong = |path: &str| {
        format!(
            "Resource(apiVersion=, kind=Kptfile) has unmatched field type \"struct {{}}\" in fieldpath {path}"
        )
    };
    for (pipeline, expected) in [
        ("pipeline: abc\n", wrong(".pipeline")),
        ("pipeline:\n  mutators: {a: b}\n", wrong(".pipeline.mutators")),
        ("pipeline:\n  validators: [a]\n", wrong(".pipeline.validators")),
        (
            "pipeline:\n  mutators:\n  - name: 5\n",
            "could not retrieve field name: Resource(apiVersion=, kind=) has unmatched field type \"string\" in fieldpath .name"
                .to_owned(),
        ),
    ] {
        let error = mutated(&[("Kptfile", &format!("{KPTFILE}{pipeline}"))], &json!({}), Vec::new()).unwrap_err();
        assert_eq!((error.reason(), error.to_string()), ("PipelineError", expected));
    }
    let error = mutated(&[], &json!({}), Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "\"Kptfile\" not found in PackageRevisionResources 'fleet/draft'");
    let other = KPTFILE.replace("kind: Kptfile", "kind: X");
    let error = mutated(&[("Kptfile", &other)], &json!({}), Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"Kptfile\" does not contain kind \"Kptfile\" in PackageRevisionResources 'fleet/draft'"
    );
}

/// V-025, V-100, V-101: values come from the cluster, comments from the package.
#[test]
fn injection() {
    let objects = vec![site("edge", &json!({"zone": "b", "cpu": 2}))];
    let expected = SITE
        .replace("required\n", "required\n    kpt.dev/injected-resource-name: edge\n")
        .replace("  zone: a # keep\n  old: 1 # lost\n", "  cpu: 2\n  zone: b # keep\n");
    check(("d/site.yaml", SITE), &json!({"injectors": [{"name": "edge"}]}), objects.clone(), &expected);
    check(("d/site.yaml", SITE), &json!({"injectors": [{"name": "other"}]}), objects, SITE);
    let json = "{\n  \"apiVersion\": \"net.example/v1\",\n  \"kind\": \"Site\",\n  \"metadata\": {\n    \"name\": \"s\",\n    \
                \"annotations\": {\n      \"kpt.dev/config-injection\": \"optional\"\n    }\n  }\n}";
    let injected = json.replace(
        "\"optional\"\n    }\n  }\n}",
        "\"optional\",\n      \"kpt.dev/injected-resource-name\": \"edge\"\n    }\n  },\n  \"spec\": {\n    \"n\": 1\n  }\n}",
    );
    check(
        ("s.json", json),
        &json!({"injectors": {"name": "edge"}}),
        vec![site("edge", &json!({"n": 1}))],
        &injected,
    );
}

/// V-088 to V-098: the conditions of injection points.
#[test]
fn conditions_of_points() {
    let message = |kind: &str, spec: Value, objects: Vec<Value>| {
        let text = SITE.replace("kind: Site", &format!("kind: {kind}"));
        let found = mutated(&[("Kptfile", KPTFILE), ("s.yaml", &text)], &spec, objects).unwrap();
        let kptfile = File::read(&found.files["Kptfile"]).unwrap();
        let root = &kptfile.documents[0].root;
        let gate = &root.at(&["info", "readinessGates"]).unwrap().as_sequence().unwrap().items[0];
        assert_eq!(gate.str_at(&["conditionType"]), Some(format!("config.injection.{kind}.site").as_str()));
        let condition = &root.at(&["status", "conditions"]).unwrap().as_sequence().unwrap().items[0];
        let text = |field: &str| condition.str_at(&[field]).unwrap().to_owned();
        format!("{} {} {}", text("status"), text("reason"), text("message"))
    };
    let injectors = json!({"injectors": [{"kind": "Other", "name": "edge"}, {"name": "edge"}]});
    let edge = || vec![site("edge", &json!({"a": "b"}))];
    for (kind, spec, objects, expected) in [
        ("Site", injectors.clone(), edge(), "True ConfigInjected injected resource \"edge\" from cluster"),
        ("Site", json!({}), edge(), "False NoResourceSelected no injectors defined"),
        ("Broken", injectors.clone(), edge(), "False NoResourceSelected no matches for kind"),
        (
            "Wide",
            injectors.clone(),
            edge(),
            "False NoResourceSelected kind Wide is cluster-scoped and cannot be injected",
        ),
        (
            "Site",
            injectors.clone(),
            vec![],
            "False NoResourceSelected no in-cluster resources of type net.example/v1.Site",
        ),
        (
            "Site",
            json!({"injectors": [{"name": "x"}]}),
            edge(),
            "False NoResourceSelected no resource matched any injection selector for this injection point",
        ),
        (
            "Site",
            injectors.clone(),
            vec![site("edge", &Value::Null)],
            "False NoResourceSelected field \"spec\" not found in resource \"edge\"",
        ),
    ] {
        assert_eq!(message(kind, spec, objects), expected);
    }
}

/// V-102, V-103: errors for invalid injection points.
#[test]
fn points_that_are_wrong() {
    let maybe = SITE.replace("required", "maybe");
    let error =
        mutated(&[("Kptfile", KPTFILE), ("a.yaml", SITE), ("b.yaml", &maybe)], &json!({}), Vec::new())
            .unwrap_err();
    assert_eq!(
        (error.reason(), error.to_string().as_str()),
        (
            "InjectionError",
            "errors in injection points: b.yaml: Site/site has invalid \"kpt.dev/config-injection\" annotation value of \"maybe\", \
             duplicate injection conditionType \"config.injection.Site.site\" (a.yaml and b.yaml)"
        )
    );
    for (text, expected) in [
        ("- a\n", "l.yaml: failed to extract objects: unhandled node kind 2"),
        ("a\n", "l.yaml: failed to extract objects: unhandled node kind 8"),
    ] {
        let error = mutated(&[("Kptfile", KPTFILE), ("l.yaml", text)], &json!({}), Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let ignored = [("Kptfile", KPTFILE), ("t.yaml", "{{ x }}\n: ["), (".krmignore", "t.yaml\n")];
    assert!(!mutated(&ignored, &json!({}), Vec::new()).unwrap().changed);
}

#[test]
fn without_resources() {
    let variant = PackageVariant::default();
    let mutation =
        Mutation { variant: &variant, namespace: "n", revision: "r", cluster: &Objects(Vec::new()) };
    let error = mutate(None, &mutation).unwrap_err();
    assert_eq!(
        (error.reason(), error.to_string().as_str()),
        ("Error", "nil resources found for PackageRevisionResources 'n/r'")
    );
}

/// V-053: a function of a variant is written with all fields that a Kptfile can have, both for
/// mutators and validators.
#[test]
fn functions_come_whole() {
    let function = json!({
        "name": "f", "image": "set-namespace", "tag": "~0.4", "configPath": "ns.yaml",
        "selectors": [{"apiVersion": "v1", "kind": "Service", "name": "dns", "namespace": "x", "labels": {"a": "b"}}],
        "exclude": [{"kind": "Namespace", "annotations": {"c": "d"}}],
    });
    let other = json!({"exec": "./run.sh", "configMap": {"a": "b"}});
    let spec = json!({"pipeline": {"mutators": [function, other], "validators": [other, function]}});
    let found = mutated(&[("Kptfile", KPTFILE)], &spec, Vec::new()).unwrap();
    let kptfile = groundwork_yaml::from_str(&found.files["Kptfile"]).unwrap();
    for list in ["mutators", "validators"] {
        for (index, wanted) in spec["pipeline"][list].as_array().unwrap().iter().enumerate() {
            let mut wanted = wanted.clone();
            let name = wanted["name"].as_str().unwrap_or_default();
            wanted["name"] = format!("PackageVariant.my-pv.{name}.{index}").into();
            assert_eq!(kptfile["pipeline"][list][index], wanted, "{list} {index}");
        }
    }
}

/// Returns an empty injection point of a kind.
fn point(kind: &str, name: &str) -> String {
    format!(
        "apiVersion: net.example/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    \
         kpt.dev/config-injection: optional\nspec: {{}}\n"
    )
}

/// Returns the names of the objects that fill points of these kinds, in order; empty for a point
/// that stays unchanged.
fn filled(kinds: &[&str], injectors: &Value, objects: &[Value]) -> Vec<String> {
    let mut files = vec![("Kptfile".to_owned(), KPTFILE.to_owned())];
    for (index, kind) in kinds.iter().enumerate() {
        files.push((format!("{index}.yaml"), point(kind, &format!("p{index}"))));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let found = mutated(&files, &json!({"injectors": injectors}), objects.to_vec()).unwrap();
    (0..kinds.len())
        .map(|index| {
            let text = &found.files[&format!("{index}.yaml")];
            let object = groundwork_yaml::from_str(text).unwrap();
            assert_eq!(object["metadata"]["name"], format!("p{index}"), "points keep their names");
            let by = object["metadata"]["annotations"]["kpt.dev/injected-resource-name"].as_str();
            assert_eq!(
                object["spec"]["from"].as_str(),
                by,
                "the annotation names what is in the spec: {text}"
            );
            by.unwrap_or_default().to_owned()
        })
        .collect()
}

fn of_kind(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {"from": name}})
}

/// V-078 to V-080, V-082, V-105, V-106: selectors are tried in order. The fields of a selector must
/// match both the object and the point. An object must have the same version as the point.
#[test]
fn selectors_of_injectors() {
    const API: &str = "net.example/v1";
    let all: Vec<Value> = ["K1", "K2"]
        .into_iter()
        .flat_map(|kind| ["foo", "bar"].map(|name| of_kind(API, kind, name)))
        .collect();
    let two = ["K1", "K2"];
    for (injectors, expected) in [
        // The vector of `packagevariants.md` 3.4.5, and its two entries in the other order.
        (json!([{"kind": "K1", "name": "foo"}, {"kind": "K2", "name": "bar"}]), ["foo", "bar"]),
        (json!([{"kind": "K2", "name": "bar"}, {"kind": "K1", "name": "foo"}]), ["foo", "bar"]),
        (json!([{"name": "foo"}, {"name": "bar"}]), ["foo", "foo"]),
        (json!([{"name": "bar"}, {"name": "foo"}]), ["bar", "bar"]),
        (json!([{"name": "gone"}, {"name": "bar"}]), ["bar", "bar"]),
        // A `foo` of the other kind exists and must not be selected.
        (json!([{"kind": "K1", "name": "foo"}]), ["foo", ""]),
        (json!([{"version": "v2", "name": "foo"}]), ["", ""]),
        (json!([{"group": "other.example", "name": "foo"}]), ["", ""]),
        (json!([{"group": "", "name": "foo"}]), ["", ""]),
        (
            json!([{"group": "net.example", "version": "v2", "kind": "K1", "name": "foo"},
                {"group": "net.example", "version": "v1", "kind": "K1", "name": "bar"}]),
            ["bar", ""],
        ),
    ] {
        assert_eq!(filled(&two, &injectors, &all), expected, "{injectors}");
    }
    let ten = ["K1", "K2", "K1", "K2", "K2", "K2", "K1", "K2", "K2", "K2"];
    let wanted = ten.map(|kind| if kind == "K1" { "foo" } else { "" });
    assert_eq!(filled(&ten, &json!([{"kind": "K1", "name": "foo"}]), &all), wanted);
    let older = [of_kind("net.example/v1beta1", "K1", "foo")];
    assert_eq!(filled(&["K1"], &json!([{"name": "foo"}]), &older), [""]);
}
