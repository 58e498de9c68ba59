//! Inputs built to take memory or time without end. Each gives an error message, in a process that
//! may have only some hundred MiB of address space: an unlimited allocation would end the process.
//!
//! The engines count work (`crates/budget`), not time. The limit on processor time is only there to
//! end a test that fails.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Address space of a case, in KiB. Up to 300 MiB of it are stacks and the program itself, which is
/// large in a build without optimization and with all features. The rest covers the limit on live
/// values, and a little more.
const ADDRESS_SPACE: u32 = 700_000;
/// Processor time of a case, in seconds of a build without optimization.
const SECONDS: u32 = 120;

/// Runs the command on a file with this content; `FILE` among the arguments is replaced by its
/// path.
fn run(arguments: &[&str], content: &str) -> (Option<i32>, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("input.yaml");
    std::fs::write(&file, content).unwrap();
    let limits = format!("ulimit -v {ADDRESS_SPACE}; ulimit -t {SECONDS}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits, env!("CARGO_BIN_EXE_groundwork")]);
    command.args(arguments).arg(&file).env("RUST_BACKTRACE", "0");
    // The engine's own limit has to end the work, not the wall behind it.
    command.env("GROUNDWORK_WORKER_CPU_SECONDS", SECONDS.to_string());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Checks that every input ends in exit code 1 or 2 with one of the messages, and not in a signal.
fn refused(arguments: &[&str], cases: &[(&str, String, &str)]) {
    for (name, content, words) in cases {
        let (code, message) = run(arguments, content);
        let shown: String = message.chars().take(300).collect();
        assert!(matches!(code, Some(1 | 2)), "{name}: {code:?} {shown}");
        assert!(message.contains(words), "{name}: {shown}");
    }
}

/// Returns an Installation with these files as its inline blueprint.
fn installation(files: &Value) -> Value {
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "hostile", "namespace": "demo"},
        "spec": {"blueprint": {"inline": {"filesystem": files}}},
    })
}

fn blueprint(parts: &Value) -> Value {
    let mut blueprint = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint"});
    for (key, value) in parts.as_object().unwrap() {
        blueprint[key] = value.clone();
    }
    blueprint
}

fn template(text: &str) -> String {
    let executions = json!([{"name": "x", "type": "GoTemplate", "template": text}]);
    let files = json!({
        "blueprint.yaml": blueprint(&json!({"deployExecutions": executions})).to_string(),
        "long.txt": "x".repeat(1 << 20),
        "comment.tpl": format!("{{{{/* {} */}}}}", "x".repeat(1 << 20)),
    });
    installation(&files).to_string()
}

const HELD: &str = "template values hold more than the limit of";
const STEPS: &str = "template execution exceeds the limit of 50000000 steps";

#[test]
fn go_templates() {
    let doubled = "{{ $d := list 1 }}{{ range until 60 }}{{ $d = list $d $d }}{{ end }}";
    let long = |head: &str, tail: &str| format!("{{{{ {head} (repeat 60000000 \"a\"){tail} | len }}}}");
    refused(
        &["template", "go"],
        &[
            ("deep copy of doubled lists", format!("{doubled}{{{{ deepCopy $d | len }}}}"), HELD),
            ("doubled by concat", doubled.replace("list $d $d", "concat $d $d"), HELD),
            (
                "long texts in a list",
                "{{ $l := list }}{{ range until 1000 }}{{ $l = append $l (repeat 60000000 \"x\") }}{{ end }}"
                    .to_owned(),
                HELD,
            ),
            ("matches of one byte", long("regexFindAll \"a\"", " -1"), HELD),
            ("splits at nothing", long("regexSplit \"\"", " -1"), HELD),
            ("parts of a list", long("splitList \"\"", ""), HELD),
            ("parts of a map", long("splitn \"\" 10000000", ""), HELD),
            ("letters of words", long("snakecase", ""), HELD),
            ("escapes", long("js", ""), HELD),
            (
                "references in a replacement",
                "{{ regexReplaceAll \"(a*)\" (repeat 60000 \"a\") (repeat 50000 \"$1\") | len }}".to_owned(),
                "limit",
            ),
            ("passwords", "{{ range until 1000 }}{{ htpasswd \"a\" \"b\" }}{{ end }}".to_owned(), STEPS),
            (
                "derived passwords",
                "{{ range until 10000 }}{{ derivePassword 1 \"long\" \"a\" \"b\" \"c\" }}{{ end }}"
                    .to_owned(),
                STEPS,
            ),
            ("keys", "{{ range until 1000 }}{{ genPrivateKey \"rsa\" | len }}{{ end }}".to_owned(), STEPS),
            (
                "parts of an address",
                "{{ urlJoin (dict \"host\" (repeat 60000000 \"%\") \"scheme\" \"http\") | len }}".to_owned(),
                HELD,
            ),
        ],
    );
}

#[test]
fn spiff_templates() {
    let doubled = |next: fn(usize) -> String| {
        (1..60).fold("a0: x\n".to_owned(), |mut text, level| {
            let _ = writeln!(text, "{}", next(level));
            text
        })
    };
    let lists = doubled(|level| format!("a{level}: (( [a{0}, a{0}] ))", level - 1));
    let nodes = "a value has more than";
    let work = "the evaluation takes more than";
    let long = "x".repeat(1 << 20);
    refused(
        &["template", "spiff"],
        &[
            ("doubled lists", lists, nodes),
            (
                "doubled maps",
                doubled(|level| format!("a{level}:\n  l: (( a{0} ))\n  r: (( a{0} ))", level - 1)),
                nodes,
            ),
            (
                "cubes",
                "a: (( map[[1..1000]|x|->map[[1..1000]|y|->map[[1..1000]|z|->1]]] ))\n".to_owned(),
                nodes,
            ),
            ("each other", "a: (( intersect([1..1000000],[1..1000000]) ))\n".to_owned(), work),
            ("only once", "a: (( uniq([1..1000000]) ))\n".to_owned(), work),
            (
                "parts of a text",
                format!("x: \"{}\"\na: (( split(\"\", x) ))\n", "a".repeat(3_000_000)),
                "split: the result would have more than",
            ),
            (
                "matches of a text",
                format!("x: \"{}\"\na: (( match(\"a\", x, true) ))\n", "a".repeat(3_000_000)),
                "match: the result would have more than",
            ),
            (
                "a template for each match",
                format!(
                    "x: \"{}\"\ny: \"{}\"\na: (( replace_match(x, \"\", y) ))\n",
                    "a".repeat(100_000),
                    "$0".repeat(100_000)
                ),
                work,
            ),
            (
                "sums of long lists",
                "a: (( sum[[1..1000]|[]|s,x|->s [[1..1000000]]] ))\n".to_owned(),
                "more than",
            ),
            (
                "long texts that are padded",
                "a: (( map[[1..1000]|x|->format(\"%10000000d\", x)] ))\n".to_owned(),
                nodes,
            ),
            ("passwords", "a: (( map[[1..1000]|x|->bcrypt(\"x\", 14)] ))\n".to_owned(), work),
            ("digests", format!("s: \"{long}\"\na: (( map[[1..100000]|x|->md5(s x)] ))\n"), work),
            ("hashes", format!("s: \"{long}\"\na: (( map[[1..100000]|x|->hash(s x, \"sha512\")] ))\n"), work),
            (
                "replacements",
                format!("s: \"{long}\"\na: (( map[[1..100000]|x|->replace(s,\"ab\",x)] ))\n"),
                nodes,
            ),
        ],
    );
}

/// Uses a lower limit of work than usual, since each step takes long in a build without
/// optimization.
#[test]
fn replacements_of_spiff() {
    let long = "x".repeat(1 << 20);
    let template =
        format!("s: \"{long}\"\na: (( sum[[1..100000]|0|n,x|->n + length(replace(s, \"x\", \"y\"))] ))\n");
    let work = "the evaluation takes more than 5000000 steps";
    refused(&["template", "spiff", "--template-work", "5"], &[("a million matches", template, work)]);
}

#[test]
fn templates_of_blueprints() {
    let doubled = "{{ $d := dict }}{{ range until 60 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}";
    let nest: String = (0..250).map(|level| format!("&a{level} [")).collect();
    let nested = format!("{nest}{{{{ repeat 300000 \"x,\" }}}}{}", "]".repeat(250));
    refused(
        &["render"],
        &[
            ("toYaml of doubled maps", template(&format!("{doubled}{{{{ toYaml $d | len }}}}")), "limit"),
            (
                "resources of doubled maps",
                template(&format!("{doubled}{{{{ getResource $d \"a\" \"b\" }}}}")),
                "limit",
            ),
            (
                "contexts of doubled maps",
                template(&format!("{doubled}{{{{ getRepositoryContext $d }}}}")),
                "limit",
            ),
            (
                "a file again and again",
                template(
                    "{{ $l := list }}{{ range until 1000 }}{{ $l = append $l (readFile \"long.txt\") }}{{ end }}",
                ),
                HELD,
            ),
            ("a path without end", template("{{ readFile (repeat 30000000 \"a/\") }}"), HELD),
            (
                "long lists in YAML",
                template("{{ fromYaml (printf \"[%s]\" (repeat 30000000 \"1,\")) | len }}"),
                "limit",
            ),
            ("anchors over long lists", template(&format!("a: {nested}\nb: *a0\n")), "bytes of memory"),
            (
                "anchors over long lists in a text",
                template(
                    "{{ $s := \"\" }}{{ range until 250 }}{{ $s = print $s \"&a\" . \" [\" }}{{ end }}\
                     {{ fromYaml (print \"- \" $s (repeat 300000 \"x,\") (repeat 250 \"]\") \"\\n- *a0\\n\") | len }}",
                ),
                "bytes of memory",
            ),
            (
                "two thousand executions",
                many_executions(),
                "all templates together take more than the limit of 50000000 steps",
            ),
            (
                "a file that is parsed again and again",
                template("{{ range until 100000 }}{{ $x := include \"comment.tpl\" . }}{{ end }}"),
                STEPS,
            ),
            (
                "absent values in each line",
                template("{{ repeat 5000000 \"<no value>\\n\" }}"),
                "contains fields with \"no value\"",
            ),
            ("a circle of items", template(&circle(9_000)), "error validating deployitem templates"),
            (
                "many items",
                template(&many("deployItems")),
                "at most 10000 entries are expected, found 100000",
            ),
            ("many nested installations", nested_installations(), "bytes of memory"),
            ("a link without end", linked(&"a/".repeat(5_000_000)), "is too long"),
        ],
    );
}

fn many(list: &str) -> String {
    format!(
        "{list}:\n{{{{ range until 100000 }}}}- {{name: a{{{{.}}}}, type: t, dependsOn: [a{{{{add1 .}}}}]}}\n{{{{ end }}}}"
    )
}

fn nested_installations() -> String {
    let one = "{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: InstallationTemplate, name: a{{.}}, blueprint: {ref: r}, \
               imports: {data: [{name: x, dataRef: x}]}, exports: {data: [{name: y, dataRef: y{{.}}}]}}";
    let template = format!("subinstallations:\n{{{{ range until 100000 }}}}- {one}\n{{{{ end }}}}");
    let execution = json!({"name": "default", "type": "GoTemplate", "template": template});
    let blueprint = blueprint(&json!({"subinstallationExecutions": [execution]}));
    installation(&json!({"blueprint.yaml": blueprint.to_string()})).to_string()
}

/// Returns items each of which depends on the next one, and the last on the first.
fn circle(items: usize) -> String {
    format!(
        "deployItems:\n{{{{ range until {items} }}}}- {{name: a{{{{.}}}}, type: t, dependsOn: [a{{{{mod (add1 .) {items}}}}}], \
         config: {{apiVersion: a, kind: b}}}}\n{{{{ end }}}}"
    )
}

fn linked(target: &str) -> String {
    let link = json!({"$type": "symlink", "value": target});
    installation(&json!({"a": link, "blueprint.yaml": blueprint(&json!({})).to_string()})).to_string()
}

/// Returns executions each of which stays within its own limits.
fn many_executions() -> String {
    let execution = |number| json!({"name": format!("x{number}"), "type": "GoTemplate", "template": "{{ range 3000000 }}{{ end }}"});
    let executions: Vec<Value> = (0..2_000).map(execution).collect();
    let blueprint = blueprint(&json!({"deployExecutions": executions}));
    installation(&json!({"blueprint.yaml": blueprint.to_string()})).to_string()
}

#[test]
fn schemas() {
    let with = |schema: Value, value: &str, local: Value| {
        let imports = json!([{"name": "v", "type": "data", "schema": schema}]);
        let blueprint = blueprint(&json!({"imports": imports, "localTypes": local}));
        let mut installation = installation(&json!({"blueprint.yaml": blueprint.to_string()}));
        installation["spec"]["imports"] = json!({"data": [{"name": "v", "dataRef": "v"}]});
        let kind = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DataObject";
        format!("{installation}\n---\n{kind}\nmetadata: {{name: v, namespace: demo}}\ndata: {value}\n")
    };
    let doubling = |keyword: &str| {
        let mut rules = serde_json::Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            rules.insert(format!("a{level}"), json!({keyword: [next, next]}));
        }
        rules.insert("a60".to_owned(), json!({"type": "object"}));
        json!({"$defs": rules, "$ref": "#/$defs/a0", "unevaluatedProperties": false})
    };
    let nested = |around: &str, keyword: &str| {
        (0..40).fold(json!({}), |inner, _| json!({around: [inner], keyword: false}))
    };
    let numbers =
        format!("[{}]", (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
    let references = vec![json!({"$ref": "local://a"}); 5_000];
    let values: Vec<String> = (0..5_000).map(|number| format!("{number:050}")).collect();
    let steps = "the check would take more than";
    refused(
        &["render"],
        &[
            ("allOf", with(doubling("allOf"), "{a: 1}", json!({})), steps),
            ("anyOf", with(doubling("anyOf"), "{a: 1}", json!({})), steps),
            ("oneOf", with(doubling("oneOf"), "{a: 1}", json!({})), steps),
            (
                "what is left in maps",
                with(nested("anyOf", "unevaluatedProperties"), "{a: 1}", json!({})),
                steps,
            ),
            ("what is left in lists", with(nested("allOf", "unevaluatedItems"), "[1]", json!({})), steps),
            (
                "violations",
                with(json!({"items": {"type": "string"}}), &numbers, json!({})),
                "Invalid type. Expected: string, given: integer",
            ),
            (
                "references to one type",
                with(json!({"allOf": references}), "1", json!({"a": {"enum": values}})),
                "must be one of the following",
            ),
        ],
    );
}

#[test]
fn manifests() {
    let nest: String = (0..250).map(|level| format!("&n{level} [")).collect();
    let ends = "]".repeat(250);
    refused(
        &["render"],
        &[
            ("anchors that nobody asks for", format!("{nest}{}{ends}", "x,".repeat(300_000)), "error"),
            (
                "anchors over long lists",
                format!("- {nest}{}{ends}\n- *n0\n", "x,".repeat(300_000)),
                "bytes of memory",
            ),
        ],
    );
}

#[test]
fn expressions_of_sets() {
    let ten = "[1,2,3,4,5,6,7,8,9,10]";
    let set = |pattern: &str| {
        let call = format!("'a'.matches({pattern}) ? 'a' : 'b'");
        let expression = format!("{ten}.map(a, {ten}.map(b, {call})).size() > 0 ? 'a' : 'b'");
        let set = json!({
            "apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet",
            "metadata": {"name": "s", "namespace": "f"},
            "spec": {
                "upstream": {"repo": "c", "package": "p", "revision": "v1"},
                "targets": [{"repositories": [{"name": "r"}], "template": {"downstream": {"packageExpr": expression}}}],
            },
        });
        let repository = json!({
            "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "Repository",
            "metadata": {"name": "r", "namespace": "f"},
            "spec": {"type": "git", "git": {"repo": "https://example.com/r.git"}},
        });
        format!("{set}\n---\n{repository}\n")
    };
    let many = set(r"'\\pL{1,' + string(10 * a + b) + '}'");
    let names: Vec<String> = (0..100_000).map(|number| format!("p{number}")).collect();
    let targets = set("'a'").replace(
        "{\"name\":\"r\"}],\"template\"",
        &format!("{{\"name\":\"r\",\"packageNames\":{}}}],\"template\"", json!(names)),
    );
    refused(
        &["variants", "expand", "-f"],
        &[
            ("patterns", many, "the patterns of this set are too many"),
            ("targets", targets, "the set targets more than"),
        ],
    );
}

/// A store with a single descriptor whose size in memory is over the limit.
#[test]
fn descriptors() {
    const TOO_LARGE: &str = "the text takes more than the limit of 67108864 bytes of memory";
    let nest: String = (0..250).map(|level| format!("&n{level} [")).collect();
    let anchors = format!("[]\n  x: {nest}{}{}\n  y: *n0", "x,".repeat(300_000), "]".repeat(250));
    let resource = |number| {
        format!("{{name: r{number}, version: v1.0.0, type: t, relation: local, access: {{type: none}}}}")
    };
    let resources = format!("[{}]", (0..100_000).map(resource).collect::<Vec<_>>().join(","));
    let reference =
        json!({"repositoryContext": context(), "componentName": "example.org/c", "version": "v1.0.0"});
    let mut installation = installation(&json!({}));
    installation["spec"] = json!({
        "componentDescriptor": {"ref": reference}, "blueprint": {"ref": {"resourceName": "blueprint"}},
    });
    for (name, resources, words) in [
        ("anchors over long lists", anchors, TOO_LARGE),
        (
            "lists in lists",
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
            "each file here must be one: component descriptor is not valid YAML: ",
        ),
        ("100,000 resources", resources, TOO_LARGE),
    ] {
        let folder = TempDir::new().unwrap();
        let store = folder.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let head =
            "meta: {schemaVersion: v2}\ncomponent:\n  name: example.org/c\n  version: v1.0.0\n  provider: x";
        let lists = "repositoryContexts: []\n  sources: []\n  componentReferences: []";
        let descriptor = format!("{head}\n  {lists}\n  resources: {resources}\n");
        std::fs::write(store.join("component-descriptor.yaml"), descriptor).unwrap();
        let map = json!({"repositories": [{"context": context(), "directory": "store"}]});
        let path = folder.path().join("repositories.yaml");
        std::fs::write(&path, map.to_string()).unwrap();
        let arguments = ["render", "--repositories", path.to_str().unwrap()];
        refused(&arguments, &[(name, installation.to_string(), words)]);
    }
}

/// Returns a repository context that `repositories.yaml` maps to a store of the test.
fn context() -> Value {
    json!({"type": "ociRegistry", "baseUrl": "example.org/r"})
}

/// Returns an Installation of this component in that store, with a template as its blueprint.
fn of_component(name: &str, text: &str) -> String {
    let executions = json!([{"name": "x", "type": "GoTemplate", "template": text}]);
    let files = json!({"blueprint.yaml": blueprint(&json!({"deployExecutions": executions})).to_string()});
    let mut installation = installation(&files);
    installation["spec"]["componentDescriptor"] =
        json!({"ref": {"repositoryContext": context(), "componentName": name, "version": "v1.0.0"}});
    installation.to_string()
}

/// Returns a descriptor as JSON, with these references and resources.
fn descriptor(name: &str, references: &Value, resources: &Value) -> String {
    let component = json!({
        "name": name, "version": "v1.0.0", "provider": "x", "repositoryContexts": [], "sources": [],
        "componentReferences": references, "resources": resources,
    });
    json!({"meta": {"schemaVersion": "v2"}, "component": component}).to_string()
}

/// Each of 300 components refers to all others, so the number of paths is beyond counting.
#[test]
fn components_that_refer_to_each_other() {
    let folder = TempDir::new().unwrap();
    let name = |number: usize| format!("example.org/c{number}");
    for number in 0..300 {
        let reference =
            |other| json!({"name": format!("r{other}"), "componentName": name(other), "version": "v1.0.0"});
        let references: Vec<Value> = (0..300).filter(|other| *other != number).map(reference).collect();
        let source = folder.path().join(format!("sources/c{number}"));
        std::fs::create_dir_all(&source).unwrap();
        let text = descriptor(&name(number), &json!(references), &json!([]));
        std::fs::write(source.join("component-descriptor.yaml"), text).unwrap();
    }
    let (sources, archive) = (folder.path().join("sources"), folder.path().join("all.tgz"));
    let mut pack = Command::new(env!("CARGO_BIN_EXE_groundwork"));
    let packed = pack.args(["component", "pack"]).arg(&sources).arg("--to").arg(&archive).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let map = json!({"repositories": [{"context": context(), "archive": "all.tgz"}]});
    let path = folder.path().join("repositories.yaml");
    std::fs::write(&path, map.to_string()).unwrap();
    let installation = of_component(&name(0), "deployItems: []");
    let arguments = ["render", "--repositories", path.to_str().unwrap()];
    refused(&arguments, &[("all of all", installation, "exceeds a depth of 100")]);
}

/// Contents of 255 MiB, as text and as a blueprint. The command reads no more than it can use, and
/// reads nothing twice.
#[test]
fn long_contents() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    std::fs::create_dir_all(store.join("blobs")).unwrap();
    std::fs::File::create(store.join("blobs/long")).unwrap().set_len(255 << 20).unwrap();
    let resource = |name: &str, media_type: &str| {
        let access = json!({"type": "localFilesystemBlob", "fileName": "long", "mediaType": media_type});
        json!({"name": name, "type": name, "version": "v1.0.0", "relation": "local", "access": access})
    };
    let resources = json!([
        resource("text", "text/plain"),
        resource("blueprint", "application/vnd.gardener.landscaper.blueprint.layer.v1.tar"),
    ]);
    let text = descriptor("example.org/c", &json!([]), &resources);
    std::fs::write(store.join("component-descriptor.yaml"), text).unwrap();
    let map = json!({"repositories": [{"context": context(), "directory": "store"}]});
    let path = folder.path().join("repositories.yaml");
    std::fs::write(&path, map.to_string()).unwrap();
    let as_text = of_component("example.org/c", "a: {{ getResourceContent \"cd://resources/text\" | len }}");
    let mut as_blueprint: Value =
        serde_json::from_str(&of_component("example.org/c", "deployItems: []")).unwrap();
    as_blueprint["spec"]["blueprint"] = json!({"ref": {"resourceName": "blueprint"}});
    let arguments = ["render", "--repositories", path.to_str().unwrap()];
    refused(
        &arguments,
        &[
            ("as text", as_text, "is larger than 67108864 bytes"),
            ("as blueprint", as_blueprint.to_string(), "the archive contains more than 67108864 bytes"),
        ],
    );
}
