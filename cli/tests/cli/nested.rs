//! Tests of nested installations, of exports, and of values that users give beside manifests.

use super::*;

/// Root with one nested installation, whose deploy item has unknown exports.
const TREE: &str = r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {name: root, namespace: team}
spec:
  exports: {data: [{name: address, dataRef: root-address}]}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          imports: [{name: size, required: false, schema: {type: integer}}]
          exports: [{name: address, schema: {type: string}}]
          exportExecutions:
          - {name: e, type: Spiff, template: {exports: {address: (( dataobjects.inner ))}}}
          subinstallations:
          - name: leaf
            exports: {data: [{name: host, dataRef: inner}]}
            blueprint:
              filesystem:
                blueprint.yaml:
                  $type: yaml
                  value:
                    exports: [{name: host, schema: {type: string}}]
                    deployExecutions:
                    - name: d
                      type: GoTemplate
                      template: |
                        deployItems: [{name: chart, type: landscaper.gardener.cloud/helm, config: {pw: {{ dig "pw" (randAlphaNum 8) .state }}}}]
                        state: {pw: {{ dig "pw" "first" .state }}}
                    exportExecutions:
                    - {name: e, type: GoTemplate, template: "exports: {host: {{ .deployitems.chart.host }}}"}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {name: user, namespace: team}
spec:
  imports: {data: [{name: address, dataRef: root-address}]}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          imports: [{name: address, schema: {type: string}}]
          deployExecutions:
          - {name: d, type: GoTemplate, template: "deployItems: [{name: i, type: t, config: {a: {{ .imports.address }}}}]"}
"#;

/// An export that only a deployer knows shows as unknown. This is not an error.
#[test]
fn unknown_exports_are_shown() {
    let run = groundwork(&["render", "-"], TREE);
    assert_eq!(run.code, 0, "{}", run.err);
    let reason =
        "only the deployer of deploy item root/leaf/chart knows its exports; give them with --exports FILE";
    assert!(run.out.contains("Installation team/root/leaf\n"), "{}", run.out);
    assert_eq!(run.out.matches(&format!("Exports not known: {reason}")).count(), 2, "{}", run.out);
    assert!(
        run.out.contains(&format!("not rendered: the import \"address\" is not known: {reason}")),
        "{}",
        run.out
    );
}

/// Given exports of an item reach the child's export, the parent's export and another root. B-05,
/// B-06, B-77, B-82, B-85, B-94.
#[test]
fn given_exports_go_all_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exports.yaml");
    for key in ["chart", "root/leaf/chart"] {
        fs::write(&file, format!("{key}: {{host: example.org}}\nnobody: 1\n")).unwrap();
        let run = groundwork(&["render", "-", "--exports", file.to_str().unwrap()], TREE);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.contains("a: example.org"), "{}", run.out);
        assert!(run.err.contains("--exports: deploy item \"nobody\" does not exist"), "{}", run.err);
    }
    fs::write(&file, "- a").unwrap();
    let run = groundwork(&["render", "-", "--exports", file.to_str().unwrap()], TREE);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("a map is expected"), "{}", run.err);
}

/// I-04: the next run has the state that executions stored (`blueprints.md` 4.6).
#[test]
fn state_is_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.yaml");
    let render = || groundwork(&["render", "-", "--state", file.to_str().unwrap()], TREE);
    assert!(!render().out.contains("pw: first"));
    let stored = fs::read_to_string(&file).unwrap();
    assert!(stored.contains("deployd:\n    pw: first"), "{stored}");
    assert!(render().out.contains("pw: first"));
    let lost = groundwork(&["render", "-"], TREE);
    assert!(lost.err.contains("--state FILE keeps it for the next run"), "{}", lost.err);
}

/// Stored state stays when a later step fails, and one warning says that it gets lost
/// (`blueprints.md` 4.6).
#[test]
fn state_outlives_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.yaml");
    let broken = TREE.replace("type: landscaper.gardener.cloud/helm, ", "");
    let run = groundwork(&["render", "-", "--state", file.to_str().unwrap()], &broken);
    assert_eq!(run.code, 1);
    assert!(fs::read_to_string(&file).unwrap().contains("deployd:\n    pw: first"), "{}", run.err);
    let lost = groundwork(&["render", "-"], TREE);
    assert_eq!(lost.err.matches("--state FILE keeps it for the next run").count(), 1, "{}", lost.err);
}

/// A value in place of an import is checked like the import.
#[test]
fn values_can_be_set() {
    let run = groundwork(&["render", "-", "--set", "size=5"], TREE);
    assert_eq!(run.code, 0, "{}", run.err);
    let run = groundwork(&["render", "-", "--set", "size=five"], TREE);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("root.size: imported datatype does not have the expected schema"),
        "{}",
        run.err
    );
    let run = groundwork(&["render", "-", "--set", "sise=5", "--set", "size"], TREE);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("a name, =, and a value are expected"), "{}", run.err);
}

/// B-08: a cycle is reported before anything is rendered (`installations.md` 5.5).
#[test]
fn cycles_of_roots() {
    let root = |name: &str, imports: &str, exports: &str| {
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {{name: {name}}}\nspec:\n  blueprint: \
             {{inline: {{filesystem: {{}}}}}}\n  imports: {{data: [{{name: i, dataRef: {imports}}}]}}\n  exports: {{data: [{{name: e, \
             dataRef: {exports}}}]}}\n---\n"
        )
    };
    let run = groundwork(&["render", "-"], &(root("a", "from-b", "from-a") + &root("b", "from-a", "from-b")));
    assert_eq!(run.code, 1);
    assert!(run.err.contains("a -{depends_on}-> b -{depends_on}-> a"), "{}", run.err);
    assert_eq!(run.out, "");
}

/// A component whose blueprint contains itself ends at the limit of levels.
#[test]
fn endless_nesting_ends() {
    let mut blueprint = serde_json::json!({});
    for _ in 0..40 {
        blueprint = serde_json::json!({"subinstallations": [{
            "name": "again", "blueprint": {"filesystem": {"blueprint.yaml": {"$type": "yaml", "value": blueprint}}},
        }]});
    }
    let installation = serde_json::json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "metadata": {"name": "a"},
        "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": {"$type": "yaml", "value": blueprint}}}}},
    });
    let run = groundwork(&["render", "-"], &installation.to_string());
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("nested installations are more than 32 levels deep"), "{}", run.err);
}

/// Messages show values only with `--show-values`.
#[test]
fn values_in_messages() {
    let input = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {name: a}\nspec:\n  blueprint: {inline: \
                 {filesystem: {blueprint.yaml: \"imports: [{name: secret, schema: {}}]\\ndeployExecutions: [{name: d, type: GoTemplate, \
                 template: '{{ fail .imports.secret }}'}]\"}}}\n";
    let render =
        |more: &[&str]| groundwork(&[&["render", "-", "--set", "secret=hunter22"], more].concat(), input);
    assert!(!render(&[]).err.contains("hunter22"));
    assert!(render(&["--show-values"]).err.contains("hunter22"));
}

/// C-17: `--explain` shows the source of everything, and why something is missing.
#[test]
fn explanations() {
    let explain = |example: &str| {
        groundwork(&["render", &examples().join(example).display().to_string(), "--explain"], "").out
    };
    let shop = explain("shop");
    for line in [
        "domain: importDataMappings.domain",
        "database: DataObject databaseAccess",
        "deploy item database: deployExecutions[database] (deployExecutions[database].template, line 2)",
        "nested installation web: subinstallations[0] (web.yaml)",
        "export url: exportExecutions[url] (exportExecutions[url].template, line 2)",
    ] {
        assert!(shop.contains(line), "{line}\n{shop}");
    }
    let dropped = "subinstallation \"child\": data import \"internalBar\" is dropped: import \"bar\" of the parent has no value and is \
                   conditional on \"foo\"";
    assert!(explain("conditional").contains(dropped));
}

/// `-o dir=` writes a folder of objects, and `--diff` shows the effect of a change on it.
#[test]
fn folders_and_differences() {
    let folder = tempfile::tempdir().unwrap();
    let (shop, path) = (examples().join("shop").display().to_string(), folder.path().display().to_string());
    let run = groundwork(&["render", &shop, "-o", &format!("dir={path}")], "");
    assert_eq!((run.code, run.out.as_str()), (0, format!("13 objects written to {path}\n").as_str()));
    let item = fs::read_to_string(folder.path().join("prod/deployitem-monitor-probe-q7ilp.yaml")).unwrap();
    assert!(item.contains("https://www.shop.example.org/healthz"), "{item}");
    let same = groundwork(&["render", &shop, "--diff", &path], "");
    assert_eq!((same.code, same.out.as_str()), (0, ""));
    let changed = groundwork(&["render", &shop, "--diff", &path, "--set", "settings={domain: x.org}"], "");
    assert_eq!(changed.code, 1);
    for line in [
        "DataObject prod/shop-url changed",
        "- data: https://www.shop.example.org",
        "+ data: https://www.x.org",
    ] {
        assert!(changed.out.contains(line), "{line}\n{}", changed.out);
    }
    fs::remove_file(folder.path().join("prod/execution-monitor.yaml")).unwrap();
    let added = groundwork(&["render", &shop, "--diff", &path], "");
    assert!(added.code == 1 && added.out.contains("Execution prod/monitor added"), "{}", added.out);
    assert_eq!(groundwork(&["render", &shop, "--diff", "/nowhere"], "").code, 2);
    assert_eq!(groundwork(&["render", &shop, "-o", "csv"], "").code, 2);
}

/// C-13 to C-15: the example in its four combinations.
#[test]
fn conditional_imports() {
    let example = examples().join("conditional").display().to_string();
    let run = groundwork(&["render", &example, "-o", "json"], "");
    assert_eq!(run.code, 1);
    let list = run.json();
    let objects = list["items"].as_array().unwrap();
    let imports = |parent: &str| -> Option<Vec<&str>> {
        let label = "landscaper.gardener.cloud/encompassed-by";
        let child = objects.iter().find(|object| object["metadata"]["labels"][label] == parent)?;
        let data = child["spec"]["imports"]["data"].as_array().into_iter().flatten();
        Some(data.map(|import| import["name"].as_str().unwrap()).collect())
    };
    assert_eq!(imports("both"), Some(vec!["internalFoo", "internalBar"]));
    assert_eq!(imports("neither"), Some(vec![]));
    assert_eq!(imports("only-bar"), Some(vec![]));
    assert_eq!(imports("only-foo"), None);
    assert!(
        run.err.contains("blueprint defines import \"bar\" of type data, which is not satisfied"),
        "{}",
        run.err
    );
    // The README of the example gives this command.
    assert_eq!(groundwork(&["render", &example, "--set", "bar=given"], "").code, 0);
}

/// C-22: if the child needs an import that was left out, the child fails, and with it the parent's
/// exports.
#[test]
fn left_out_imports_are_missed_where_they_are_required() {
    let input = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {name: root}\nspec:\n  blueprint: {inline: \
                 {filesystem: {blueprint.yaml: \"{imports: [{name: a, required: false, schema: {}}], subinstallations: [{name: leaf, imports: {data: \
                 [{name: b, dataRef: a}]}, blueprint: {filesystem: {blueprint.yaml: 'imports: [{name: b, schema: {}}]'}}}]}\"}}}\n";
    let run = groundwork(&["render", "-"], input);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("Installation default/root/leaf"), "{}", run.out);
    assert!(run.err.contains("root/leaf: Op: CreateImportsAndSubobjects"), "{}", run.err);
    assert!(run.err.contains("ImportNotFound"), "{}", run.err);
    assert_eq!(groundwork(&["render", "-", "--set", "a=1"], input).code, 0);
}

/// B-07: siblings run in the order of their exports, not in that of the blueprint.
#[test]
fn siblings_run_in_the_order_of_their_exports() {
    let run = groundwork(&["render", &examples().join("shop").display().to_string()], "");
    let at = |title: &str| run.out.find(title).unwrap_or_else(|| panic!("{title}\n{}", run.out));
    assert!(at("Installation prod/shop/database") < at("Installation prod/shop/web"));
    assert!(at("Installation prod/shop/web") < at("Installation prod/monitor"));
}

/// A conflict of names that a cluster would refuse is an error offline, too (`installations.md`
/// 4.3).
#[test]
fn an_export_that_would_take_over_an_object_of_the_input_is_an_error() {
    let input = |metadata: &str| {
        format!(
            r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {{name: root, namespace: team}}
spec:
  exports: {{data: [{{name: port, dataRef: port}}]}}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          exports: [{{name: port, schema: {{type: integer}}}}]
          exportExecutions:
          - {{name: e, type: GoTemplate, template: "exports: {{port: 1}}"}}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: DataObject
metadata: {{name: port, namespace: team, {metadata}}}
data: 8080
"#
        )
    };
    let run = groundwork(&["render", "-"], &input(""));
    assert_eq!(run.code, 1, "{}", run.err);
    let told = "the data object port cannot be exported: an object of this name exists that this installation did not \
                export";
    assert!(run.err.contains(told), "{}", run.err);
    let labels = "labels: {data.landscaper.gardener.cloud/source: Inst.root, data.landscaper.gardener.cloud/sourceType: export}";
    for metadata in ["annotations: {landscaper.gardener.cloud/adopt: 'true'}", labels] {
        let run = groundwork(&["render", "-"], &input(metadata));
        assert_eq!(run.code, 0, "{}", run.err);
    }
}
