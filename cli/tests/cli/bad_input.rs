//! Errors in the input: messages name the problem, its place and its reason, and standard output
//! never has half of a result.

use super::*;

/// Runs a variant of the echo-server example that cannot be used: exit code 2, empty standard
/// output, and messages with file and line.
#[track_caller]
fn unusable(change: impl FnOnce(&EchoServer) -> &EchoServer, messages: &[&str]) {
    let echo_server = EchoServer::new();
    change(&echo_server);
    let run = echo_server.render(&[]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
    let err = run.err.replace(&format!("{}/", echo_server.path()), "");
    for message in messages {
        assert!(err.contains(message), "{message:?} is missing in\n{err}");
    }
}

/// Runs a variant that can be read but not rendered: exit code 1, and the Installation with its
/// error on standard output.
#[track_caller]
fn failing(
    change: impl FnOnce(&EchoServer) -> &EchoServer,
    operation: &str,
    reason: &str,
    messages: &[&str],
) {
    let echo_server = EchoServer::new();
    change(&echo_server);
    let run = echo_server.render_json();
    assert_eq!(run.code, 1, "{}\n{}", run.out, run.err);
    let error = run.object("Installation")["status"]["lastError"].clone();
    assert_eq!((&error["operation"], &error["reason"]), (&operation.into(), &reason.into()), "{error:#}");
    let err = run.err.replace(&format!("{}/", echo_server.path()), "");
    for message in messages {
        assert!(err.contains(message), "{message:?} is missing in\n{err}");
    }
}

#[test]
fn malformed_yaml() {
    unusable(|input| input.write("broken.yaml", "a: [1\nb: 2\n"), &["malformed YAML", "broken.yaml:"]);
    unusable(
        |input| input.replace("context.yaml", "  name: default", "  name: [default"),
        &[
            "malformed YAML",
            "illegal placement of ':' indicator",
            "context.yaml:5:12",
            "5 |   namespace: my-namespace",
            "^",
        ],
    );
    unusable(
        |input| input.write("list.yaml", "- 1\n"),
        &["a Kubernetes object is expected here", "list.yaml:1:1"],
    );
    unusable(
        |input| input.write("x.yaml", "kind: Context\n"),
        &["the object has no apiVersion", "x.yaml:1:1"],
    );
}

#[test]
fn unknown_kinds() {
    unusable(
        |input| input.write("x.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"),
        &[
            "unknown kind \"Deployment\" of apiVersion \"apps/v1\"",
            "x.yaml:2:1",
            "rendering takes Installations, Contexts",
        ],
    );
    unusable(
        |input| input.replace("context.yaml", "v1alpha1", "v1"),
        &[
            "unknown kind \"Context\"",
            "the kind Context has apiVersion landscaper.gardener.cloud/v1alpha1",
            "context.yaml:2:1",
        ],
    );
}

/// Reports all problems of all files at once, each with its line and a caret.
#[test]
fn unknown_fields_and_wrong_types() {
    unusable(
        |input| {
            input
                .replace("installation.yaml", "  context: default\n", "  contxt: default\n  context: 5\n")
                .replace(
                    "component-overwrites.yaml",
                    "    version: v1.2.3",
                    "    version: [v1]\n    versoin: x",
                )
                .replace("context.yaml", "  name: default", "  name: default\n  lables: {}")
        },
        &[
            "Installation \"server\": unknown field \"spec.contxt\"",
            "installation.yaml:10:3",
            "  contxt: default",
            "Installation \"server\": spec.context: expected string, found number",
            "overwrites[1].substitution.version: expected string, found list",
            "unknown field \"overwrites[1].substitution.versoin\"",
            "unknown field \"metadata.lables\"",
            "^",
        ],
    );
    unusable(
        |input| {
            input.replace(
                "component-overwrites.yaml",
                "- source:\n    componentName",
                "- sources:\n    componentName",
            )
        },
        &["missing required field \"overwrites[1].source\"", "unknown field \"overwrites[1].sources\""],
    );
}

#[test]
fn two_objects_of_one_name() {
    unusable(
        |input| {
            let text = fs::read_to_string(input.folder.path().join("installation.yaml")).unwrap();
            input.write("second.yaml", &text)
        },
        &[
            "Installation \"server\" of namespace \"my-namespace\" is defined twice; the first one is at installation.yaml:1",
        ],
    );
}

#[test]
fn nothing_to_render() {
    unusable(|input| input.remove("installation.yaml"), &["the input contains no Installation"]);
    let run = groundwork(&["render", "does-not-exist"], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("cannot read does-not-exist"), "{}", run.err);
    assert_eq!(groundwork(&["render"], "").code, 2);
    assert_eq!(groundwork(&["render", "-", "-o", "xml"], "").code, 2);
}

#[test]
fn malformed_repository_map() {
    let echo_server = EchoServer::new();
    let map = echo_server.folder.path().join("repositories.yaml");
    fs::write(&map, "repositories:\n- {context: {type: oci}, dir: x}\n").unwrap();
    let run = groundwork(&["render", &echo_server.path()], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(
        run.err.contains("unknown field \"dir\"") && run.err.contains("repositories.yaml:2:26"),
        "{}",
        run.err
    );
}

/// I-19, I-20: a missing Context is error E1 (`components.md` 8).
#[test]
fn missing_context() {
    failing(
        |input| input.replace("installation.yaml", "context: default", "context: mine"),
        "InitPrerequisites",
        "CalculateContext",
        &["context \"my-namespace/mine\" not found", "installation.yaml:10:3", "  context: mine"],
    );
    failing(
        |input| {
            input.replace("installation.yaml", "context: default", "context: mine");
            input.replace(
                "context.yaml",
                "name: default\n  namespace: my-namespace",
                "name: mine\n  namespace: other",
            )
        },
        "InitPrerequisites",
        "CalculateContext",
        &["context \"my-namespace/mine\" not found"],
    );
}

/// A cluster creates a Context `default` in every namespace, so offline there is one, too. A note
/// helps users who forgot their own file.
#[test]
fn the_default_context_is_assumed() {
    let echo_server = EchoServer::new();
    echo_server.remove("context.yaml");
    let run = echo_server.render(&[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.err
            .contains("warning: Installation my-namespace/server: the input contains no Context \"default\""),
        "{}",
        run.err
    );
    assert!(!run.out.contains("my-own-echo-server"), "no overwrites apply: {}", run.out);
}

/// A missing version is error E7 (`components.md` 8), and so is a repository without a store.
#[test]
fn missing_component() {
    failing(
        |input| {
            input.replace("installation.yaml", "version: v0.2.0", "version: v9.9.9").write("component-overwrites.yaml", "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\nmetadata: {name: my-overwrites, namespace: my-namespace}\n")
        },
        "InitPrerequisites",
        "InitInstallationOperation",
        &[
            "unable to create installation operation: component version \"github.com/gardener/landscaper/echo-server:v9.9.9\" not found in eu.gcr.io/gardener-project/landscaper/tutorials/components",
            "installation.yaml:11:3",
        ],
    );
    failing(
        |input| {
            input.replace(
                "component-overwrites.yaml",
                "example.org/my-own-registry/components",
                "example.org/nowhere",
            )
        },
        "InitPrerequisites",
        "InitInstallationOperation",
        &[
            "cannot load component version \"my-own-echo-server:v0.2.0\": no store is configured for the repository context {\"baseUrl\":\"example.org/nowhere\",\"type\":\"ociRegistry\"}; add it to",
        ],
    );
}

#[test]
fn missing_resource_and_import() {
    failing(
        |input| input.replace("installation.yaml", "echo-server-blueprint", "nope"),
        "InitPrerequisites",
        "ResolveBlueprint",
        &[
            "failed to get resource with name \"nope\" of component my-own-echo-server:v0.2.0: not found; the component has \"echo-server-blueprint\", \"echo-server-image\"",
        ],
    );
    failing(
        |input| input.remove("greeting.yaml"),
        "init",
        "ImportsSatisfied",
        &[
            "data import \"greeting\": unable to fetch data object greeting (greeting): not found in namespace my-namespace",
        ],
    );
}

#[test]
fn schema_that_refuses() {
    failing(
        |input| input.replace("greeting.yaml", "good morning", "12345678"),
        "handlePhaseInit",
        "CreateImportsAndSubobjects",
        &[
            "server.greeting: imported datatype does not have the expected schema: (root): Invalid value: <redacted>: Invalid type. Expected: string, given: integer",
        ],
    );
}

/// Reports all rules that an Installation breaks, each at its line.
#[test]
fn rules_of_installations() {
    failing(
        |input| {
            input.replace(
                "installation.yaml",
                "    - name: greeting\n      dataRef: greeting\n",
                "    - name: greeting\n      dataRef: greeting\n      secretRef: {name: s}\n    - name: greeting\n      dataRef: x\n    targets:\n    - name: t\n      targetMap: {UPPER: x}\n",
            )
        },
        "InitPrerequisites",
        "ValidateInstallation",
        &[
            "spec.imports.data[0]: Invalid value: null: exactly one of [dataRef, secretRef, configMapRef] must be set (currently set: [dataRef, secretRef])",
            "installation.yaml:23:7",
            "spec.imports.data[1].name: Duplicate value: \"greeting\"",
            "spec.imports.targets[0].targetMap[UPPER]: Invalid value: \"UPPER\"",
        ],
    );
}

/// I-32: an empty name counts as missing, and is not looked up.
#[test]
fn a_component_without_a_name() {
    failing(
        |input| {
            let name = "componentName: github.com/gardener/landscaper/echo-server";
            input.replace("installation.yaml", name, "componentName: \"\"")
        },
        "InitPrerequisites",
        "ValidateInstallation",
        &[
            "spec.componentDescriptor.ref.componentName: Required value: componentName must not be empty",
            "installation.yaml:16:7",
        ],
    );
}

fn with_blueprint<'a>(input: &'a EchoServer, blueprint: &str) -> &'a EchoServer {
    let indented: String = blueprint.lines().map(|line| format!("          {line}\n")).collect();
    input.replace(
        "installation.yaml",
        "    ref:\n      resourceName: echo-server-blueprint\n",
        &format!("    inline:\n      filesystem:\n        blueprint.yaml: |\n{indented}"),
    )
}

#[test]
fn templates_with_errors() {
    let executor = |template: &str| {
        format!(
            "deployExecutions:\n- name: main\n  type: GoTemplate\n  template: |\n    deployItems:\n    {template}\n"
        )
    };
    for (template, messages) in [
        (
            "- name: {{ .imports.greeting.x.y }}",
            [
                "template: execution:2:",
                "deployExecutions[main].template (blueprint of Installation my-namespace/server):2:20",
                "- name: {{ .imports.greeting.x.y }}",
            ],
        ),
        (
            "- name: {{ nope }}",
            [
                "function \"nope\" not defined",
                "deployExecutions[main].template (blueprint of Installation my-namespace/server):2",
                "- name: {{ nope }}",
            ],
        ),
        (
            "- name: {{ .imports.missing }}",
            ["contains fields with \"no value\"", "installation.yaml:4:3", "name: server"],
        ),
        (
            "- {name: a, type: t, timeout: 300}",
            [
                "deployItems[0].timeout: a duration such as 5m or none, as a text, is expected, found a number",
                "",
                "",
            ],
        ),
        ("- {name: a}", ["deployExecutions[0][a].type: Required value: type must not be empty", "", ""]),
        (
            "- {name: a, type: t, dependsOn: [b]}",
            ["deployExecutions[0][a]: Invalid value: \"b\": depends on undefined deploy item", "", ""],
        ),
        (
            "- {name: a, type: t, target: {import: c}}",
            ["invalid deployitem specification \"a\": target import \"c\" not found", "", ""],
        ),
    ] {
        failing(
            |input| with_blueprint(input, &executor(template)),
            "handlePhaseInit",
            "CreateImportsAndSubobjects",
            &messages,
        );
    }
}

/// BP-010: every finding with its line in `blueprint.yaml`.
#[test]
fn invalid_blueprints() {
    failing(
        |input| {
            with_blueprint(
                input,
                "imports:\n- name: a\n  type: foo\n- name: b\n  type: data\n- name: b\n  schema: {type: nonsense}\ndeployExecutions:\n- {name: x, type: Helm, file: a, template: b}\n",
            )
        },
        "InitPrerequisites",
        "ResolveBlueprint",
        &[
            "imports[0][a].type: Unsupported value: \"foo\": supported values: \"data\", \"target\", \"targetList\", \"targetMap\"",
            "blueprint.yaml (blueprint of Installation my-namespace/server):3:3",
            "imports[1][b]: Required value: Schema must not be empty for type data",
            "imports[2][b]: Duplicate value: \"duplicate import name\"",
            "imports[2][b].schema: Invalid value: {\"type\":\"nonsense\"}: schema is not a valid JSON schema",
            "deployExecutions[0][x].type: Unsupported value: \"Helm\": supported values: \"GoTemplate\", \"Spiff\"",
            "exactly one of [file, template] must be set",
        ],
    );
    failing(
        |input| with_blueprint(input, "apiVersion: v2\n"),
        "InitPrerequisites",
        "ResolveBlueprint",
        &["apiVersion must be \"landscaper.gardener.cloud/v1alpha1\" if it is given"],
    );
}

/// Typical mistakes of new users: messages give the place and the expected content.
#[test]
fn common_mistakes() {
    unusable(
        |input| {
            input
                .replace("installation.yaml", "reconcile-if-changed: \"true\"", "reconcile-if-changed: true")
                .replace("context.yaml", "  namespace: my-namespace", "  namespace: 5\n  labels: [a]")
                .replace("greeting.yaml", "metadata:", "spec:\nmetadata:")
        },
        &[
            "metadata.annotations.landscaper.gardener.cloud/reconcile-if-changed: expected string, found boolean; put it in quotes",
            "installation.yaml:8:53",
            "metadata.namespace: expected string, found number",
            "metadata.labels: expected object, found list",
            "unknown field \"spec\"",
        ],
    );
    unusable(
        |input| input.replace("context.yaml", "metadata:", "componentVersionOverwrites: a\nmetadata:"),
        &["malformed YAML: the key is already used on line 3", "context.yaml:7:1"],
    );
    unusable(
        |input| {
            input.replace(
                "installation.yaml",
                "  blueprint:\n    ref:\n      resourceName: echo-server-blueprint",
                "  blueprint:",
            )
        },
        &["spec.blueprint: expected object, found null", "installation.yaml:18:12"],
    );
    unusable(
        |input| {
            let automatic = "spec:\n  automaticReconcile: {failedReconcile: {interval: soon}}\n";
            input.replace("installation.yaml", "spec:\n", automatic)
        },
        &["spec.automaticReconcile.failedReconcile.interval", "installation.yaml:10:"],
    );
    unusable(
        |input| input.replace("context.yaml", "  name: default", "  generateName: a-"),
        &["the Context has no metadata.name; without a cluster no name can be generated for it"],
    );
    assert_eq!(groundwork(&["render", "-", "-n", "Bad Name"], "").code, 2);
}

/// Escape sequences in the input must not reach the terminal.
#[test]
fn escapes_of_terminals_are_shown() {
    let echo_server = EchoServer::new();
    echo_server.replace("installation.yaml", "name: server", "name: \"ser\\e[2Jver\"");
    let run = echo_server.render(&[]);
    let both = format!("{}{}", run.out, run.err);
    assert!(!both.contains('\u{1b}'), "{both:?}");
    assert!(run.out.contains("ser\\u{1b}[2Jver") && run.err.contains("ser\\u{1b}[2Jver"), "{both}");
}

/// Features that are not supported give a message; they are not ignored silently.
#[test]
fn signatures_and_pull_secrets() {
    failing(
        |input| {
            let exports = "spec:\n  exports: {data: [{name: a, dataRef: b}]}\n";
            input.replace("installation.yaml", "spec:\n", exports)
        },
        "handlePhaseCompleting",
        "ConstructExports",
        &["(inst: server).internalExports.exports.data.a: data export is not defined"],
    );
    failing(
        |input| {
            input.replace("installation.yaml", "spec:\n", "spec:\n  verification: {signatureName: release}\n")
        },
        "InitPrerequisites",
        "ExtractVerifyInfo",
        &["context.VerificationSignatures does not contain a key for signature name 'release'"],
    );
    let echo_server = EchoServer::new();
    echo_server.replace("context.yaml", "metadata:", "configurations: {notes: 1}\nmetadata:");
    // Only deployers read these configurations, so their names are not checked.
    let run = echo_server.render(&[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn repository_maps_of_several_paths() {
    let (one, two) = (EchoServer::new(), EchoServer::new());
    let stores = examples().join("echo-server/components").canonicalize().unwrap();
    let entry = |base_url: &str, directory: &str| {
        format!(
            "repositories:\n- context: {{type: ociRegistry, baseUrl: {base_url}}}\n  directory: {}\n",
            stores.join(directory).display()
        )
    };
    one.write("repositories.yaml", &entry("example.org/my-own-registry/components", "own"));
    two.write(
        "repositories.yaml",
        &entry("eu.gcr.io/gardener-project/landscaper/tutorials/components", "released"),
    );
    for file in ["00-namespace.yaml", "context.yaml", "greeting.yaml", "component-overwrites.yaml"] {
        two.remove(file);
    }
    two.replace("installation.yaml", "name: server", "name: second").replace(
        "installation.yaml",
        "v0.2.0",
        "v0.2.0",
    );
    let run = groundwork(&["render", &one.path(), &two.path()], "");
    assert_eq!(run.code, 0, "{}", run.err);
    two.write("repositories.yaml", &entry("example.org/my-own-registry/components", "released"));
    let run = groundwork(&["render", &one.path(), &two.path()], "");
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains(
            "another file already maps the repository context example.org/my-own-registry/components to another \
             directory"
        ),
        "{}",
        run.err
    );
    one.remove("repositories.yaml");
    let run = groundwork(&["render", &one.path()], "");
    assert!(
        run.code == 1 && run.err.contains("add it to a repositories.yaml beside the input (none was found)"),
        "{}",
        run.err
    );
}

/// A full disk is an error, unlike a closed pipe.
#[test]
fn output_that_cannot_be_written() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let example = examples().join("echo-server").display().to_string();
    for arguments in [&["render", &example][..], &["version"], &["completion", "bash"]] {
        let out = fs::OpenOptions::new().write(true).open(full).unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_groundwork"))
            .args(arguments)
            .stdout(out)
            .stderr(Stdio::null())
            .status();
        assert_eq!(status.unwrap().code(), Some(2), "{arguments:?}");
    }
}

/// An argument that would have no effect is an error.
#[test]
fn all_namespaces_are_released_and_not_restored() {
    let run = groundwork(&["restore", "-A", "landscape.jsonl"], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
    assert!(run.err.contains("--all-namespaces"), "{}", run.err);
}
