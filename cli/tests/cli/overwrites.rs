//! Tests of the design document's example and its variants (`components.md` 2.5, 3; requirements
//! O-20 to O-43).

use super::*;

const CONDITION: &str = "ComponentReferenceOverwrite";
const RULE_1: &str = "\
- source:
    repositoryContext:
      type: ociRegistry
      baseUrl: eu.gcr.io/gardener-project/landscaper/tutorials/components
    componentName: github.com/gardener/landscaper/echo-server
  substitution:
    repositoryContext:
      type: ociRegistry
      baseUrl: example.org/my-own-registry/components
    componentName: my-own-echo-server
";
const RULE_2: &str = "\
- source:
    componentName: github.com/gardener/landscaper/echo-server
  substitution:
    componentName: another-echo-server
    version: v1.2.3
";
const RULE_2_WITHOUT_NAME: &str = "\
- source:
    componentName: github.com/gardener/landscaper/echo-server
  substitution:
    version: v1.2.3
";
const SAME_VERSION: &str = "\
- source:
    componentName: github.com/gardener/landscaper/echo-server
  substitution:
    version: v0.2.0
";
const HEADING: &str = "Component reference has been overwritten:\n";
const REPOSITORY: &str = "eu.gcr.io/gardener-project/landscaper/tutorials/components () -> example.org/my-own-registry/components ()\n";
const ORIGINAL_NAME: &str = "github.com/gardener/landscaper/echo-server";

fn with_rules(rules: &[&str]) -> Run {
    let list = if rules.is_empty() {
        "overwrites: []\n".to_owned()
    } else {
        format!("overwrites:\n{}", rules.concat())
    };
    let echo_server = EchoServer::new();
    echo_server.write(
        "component-overwrites.yaml",
        &format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\n\
             metadata: {{name: my-overwrites, namespace: my-namespace}}\n{list}"
        ),
    );
    echo_server.render_json()
}

#[track_caller]
fn check(run: &Run, status: &str, reason: &str, message: &str, text: &str) {
    assert_eq!(run.code, 0, "{}", run.err);
    let condition = run.condition(CONDITION);
    assert_eq!(condition, Some((status.into(), reason.into(), message.into())));
    assert_eq!(run.object("DeployItem")["spec"]["config"]["export"]["text"], text);
}

/// O-30 to O-33, O-35, O-37 to O-41, O-43: the output is byte for byte that of the document, and
/// the overwriting component is rendered.
#[test]
fn the_documents_example() {
    let run = EchoServer::new().render_json();
    let message = format!(
        "{HEADING}{REPOSITORY}{ORIGINAL_NAME} -> my-own-echo-server\nVersion has not been overwritten"
    );
    check(&run, "True", "FoundOverwrite", &message, "good morning from my own echo server");
    assert_eq!(
        run.object("DeployItem")["spec"]["config"]["export"]["component"],
        "my-own-echo-server:v0.2.0"
    );
}

/// O-42: the spec keeps the reference as the user wrote it.
#[test]
fn the_spec_is_left_alone() {
    let run = EchoServer::new().render_json();
    let reference = &run.object("Installation")["spec"]["componentDescriptor"]["ref"];
    assert_eq!(reference["componentName"], ORIGINAL_NAME);
    assert_eq!(
        reference["repositoryContext"]["baseUrl"],
        "eu.gcr.io/gardener-project/landscaper/tutorials/components"
    );
}

/// O-34: the second rule alone changes name and version, and keeps the repository.
#[test]
fn without_the_first_rule() {
    let message = format!(
        "{HEADING}RepositoryContext has not been overwritten\n{ORIGINAL_NAME} -> another-echo-server\nv0.2.0 -> v1.2.3"
    );
    check(
        &with_rules(&[RULE_2]),
        "True",
        "FoundOverwrite",
        &message,
        "good morning from another echo server",
    );
}

/// O-20 to O-24: in the other order the general rule shadows the specific one as a whole.
#[test]
fn rules_swapped() {
    let message = format!(
        "{HEADING}RepositoryContext has not been overwritten\n{ORIGINAL_NAME} -> another-echo-server\nv0.2.0 -> v1.2.3"
    );
    let run = with_rules(&[RULE_2, RULE_1]);
    check(&run, "True", "FoundOverwrite", &message, "good morning from another echo server");
    assert!(run.err.contains("rule 2 of my-overwrites can never apply"), "{}", run.err);
    assert!(run.err.contains("component-overwrites.yaml:10:3"), "{}", run.err);
}

/// O-36: without the conflict on the name, the second rule applies, too.
#[test]
fn second_rule_without_the_name() {
    let message = format!("{HEADING}{REPOSITORY}{ORIGINAL_NAME} -> my-own-echo-server\nv0.2.0 -> v1.2.3");
    let run = with_rules(&[RULE_1, RULE_2_WITHOUT_NAME]);
    check(
        &run,
        "True",
        "FoundOverwrite",
        &message,
        "good morning from the next version of my own echo server",
    );
}

#[test]
fn empty_list() {
    let message = "component reference has not been overwritten";
    check(
        &with_rules(&[]),
        "False",
        "No overwrite defined",
        message,
        "good morning from the released echo server",
    );
}

/// Row 16 of the truth table (`components.md` 2.5): an equal value counts as an overwrite, and
/// later rules cannot change the attribute.
#[test]
fn same_value() {
    let message = "Component reference has not been overwritten.";
    let run = with_rules(&[SAME_VERSION, RULE_2_WITHOUT_NAME]);
    check(&run, "True", "FoundOverwrite", message, "good morning from the released echo server");
}

/// O-25, O-29, D-3: overwrites that no Context names have no effect, and an old condition is
/// removed.
#[test]
fn overwrites_need_a_context_that_names_them() {
    let echo_server = EchoServer::new();
    echo_server.replace("context.yaml", "componentVersionOverwrites: my-overwrites\n", "");
    let old = "status:\n  observedGeneration: 1\n  conditions:\n  - {type: ComponentReferenceOverwrite, status: 'True', reason: FoundOverwrite, \
               message: old, lastTransitionTime: '2026-01-01T00:00:00Z', lastUpdateTime: '2026-01-01T00:00:00Z'}\n";
    let text = fs::read_to_string(echo_server.folder.path().join("installation.yaml")).unwrap();
    echo_server.write("installation.yaml", &(text + old));
    let run = echo_server.render_json();
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.condition(CONDITION), None);
    assert_eq!(
        run.object("DeployItem")["spec"]["config"]["export"]["text"],
        "good morning from the released echo server"
    );
}

/// O-27, O-28, I-07, I-17, I-18: the Context is the one that the Installation names, or else
/// `default`.
#[test]
fn the_context_of_the_installation_counts() {
    let other = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {name: other, namespace: my-namespace}\n";
    let echo_server = EchoServer::new();
    echo_server.write("other.yaml", other).replace("installation.yaml", "context: default", "context: other");
    let run = echo_server.render_json();
    // A job that fails has no condition either.
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.condition(CONDITION), None);
    let export = &run.object("DeployItem")["spec"]["config"]["export"];
    assert_eq!(export["text"], "good morning from the released echo server");
    assert_eq!(export["component"], format!("{ORIGINAL_NAME}:v0.2.0"));
    for context in ["", "  context: \"\"\n"] {
        let echo_server = EchoServer::new();
        echo_server.write("other.yaml", other).replace("installation.yaml", "  context: default\n", context);
        assert_eq!(echo_server.render_json().condition(CONDITION).unwrap().0, "True");
    }
}

/// O-09: two Contexts with lists of their own.
#[test]
fn each_context_has_its_own_list() {
    let echo_server = EchoServer::new();
    let second = fs::read_to_string(echo_server.folder.path().join("installation.yaml")).unwrap();
    let second = second.replace("name: server", "name: second").replace("context: default", "context: other");
    echo_server.write("second.yaml", &second).write(
        "other.yaml",
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {name: other, namespace: my-namespace}\n\
         componentVersionOverwrites: others\n---\n\
         apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\n\
         metadata: {name: others, namespace: my-namespace}\noverwrites:\n- {source: {}, substitution: {componentName: another-echo-server, version: v1.2.3}}\n",
    );
    let run = echo_server.render_json();
    let list = run.json();
    let texts: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "DeployItem")
        .map(|item| item["spec"]["config"]["export"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["good morning from another echo server", "good morning from my own echo server"]);
}

/// O-26: overwrites of another namespace are not found, and error E4 (`components.md` 8) names the
/// missing object.
#[test]
fn overwrites_of_another_namespace() {
    let echo_server = EchoServer::new();
    echo_server.replace("component-overwrites.yaml", "namespace: my-namespace", "namespace: elsewhere");
    let run = echo_server.render_json();
    assert_eq!(run.code, 1);
    let error = run.object("Installation")["status"]["lastError"].clone();
    assert_eq!(
        (&error["operation"], &error["reason"]),
        (&"InitPrerequisites".into(), &"CalculateContext".into())
    );
    let message = error["message"].as_str().unwrap();
    let start = "Op: ComponentVersionOverwrites - Reason: GetComponentVersionOverwrites - Message: context 'default' \
                 references ComponentVersionOverwrites resource 'my-overwrites', which cannot be found: ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(run.condition(CONDITION), None);
}
