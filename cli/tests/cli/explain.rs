//! Tests of `groundwork explain overwrites`: the rules that match at each reference, and the
//! redirections of a change (O-06, O-20 to O-43).

use super::*;

const MAP: &str = "echo-server/components/repositories.yaml";

fn explain(folder: &EchoServer, more: &[&str]) -> Run {
    let (path, map) = (folder.path(), examples().join(MAP).display().to_string());
    groundwork(&[&["explain", "overwrites", "-f", &path, "--repositories", &map], more].concat(), "")
}

/// Example of the design document: rule 1 blocks rule 2 on the name.
#[test]
fn the_documents_example() {
    let run = explain(&EchoServer::new(), &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        run.out,
        "\
Installation my-namespace/server

  component my-own-echo-server:v0.2.0 from example.org/my-own-registry/components
    written: github.com/gardener/landscaper/echo-server:v0.2.0 from eu.gcr.io/gardener-project/landscaper/tutorials/components
    rule 1: applied (repositoryContext = example.org/my-own-registry/components, componentName = my-own-echo-server)
    rule 2: ignored (componentName has been set by rule 1; a rule applies as a whole or not at all)
"
    );
    let run = explain(&EchoServer::new(), &["-o", "json"]);
    let references = &run.json()[0]["references"];
    assert_eq!(
        references[0]["rules"][1]["conflicts"],
        serde_json::json!([{"attribute": "componentName", "rule": 1}])
    );
    assert_eq!(references[0]["effective"]["componentName"], "my-own-echo-server");
    assert_eq!(run.json()[0]["condition"].as_str().unwrap().lines().count(), 4);
}

/// A transitive reference that is redirected, and one whose target does not exist.
#[test]
fn transitive_references() {
    let folder = tempfile::tempdir().unwrap();
    let descriptor = |name: &str, version: &str, references: &str| {
        format!(
            "meta: {{schemaVersion: v2}}\ncomponent: {{name: example.org/{name}, version: {version}, provider: p, sources: [], resources: [], \
             repositoryContexts: [], componentReferences: [{references}]}}\n"
        )
    };
    let reference = |name: &str, version: &str| {
        format!("{{name: {name}, componentName: example.org/{name}, version: {version}}}")
    };
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("stored")).unwrap();
    let references = format!(
        "{}, {}, {}",
        reference("db", "1.0.0"),
        reference("cache", "1.0.0"),
        reference("gone", "1.0.0")
    );
    write("stored/shop.yaml", &descriptor("shop", "1.0.0", &references));
    write("stored/db1.yaml", &descriptor("db", "1.0.0", ""));
    write("stored/db2.yaml", &descriptor("db", "2.0.0", ""));
    write("stored/cache.yaml", &descriptor("cache", "1.0.0", &reference("db", "1.0.0")));
    let context = "{type: local, filePath: stored}";
    write("repositories.yaml", &format!("repositories:\n- context: {context}\n  directory: stored\n"));
    write(
        "objects.yaml",
        &format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {{name: default}}\nrepositoryContext: {context}\ncomponentVersionOverwrites: pins\n---\n\
             apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\nmetadata: {{name: pins}}\noverwrites:\n- source: {{componentName: example.org/db}}\n  substitution: {{version: 2.0.0}}\n---\n\
             apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {{name: shop}}\nspec:\n  componentDescriptor: {{ref: {{componentName: example.org/shop, version: 1.0.0}}}}\n  blueprint: {{ref: {{resourceName: bp}}}}\n"
        ),
    );
    let path = folder.path().display().to_string();
    let run = |more: &[&str]| groundwork(&[&["explain", "overwrites", "-f", &path], more].concat(), "");
    let all = run(&[]);
    assert_eq!(all.code, 1, "{}", all.err);
    assert_eq!(
        all.out,
        "\
Installation default/shop

  component example.org/shop:1.0.0 from stored
    db: example.org/db:2.0.0 from stored
      written: example.org/db:1.0.0 from stored
      rule 1: applied (version = 2.0.0)
    cache: example.org/cache:1.0.0 from stored
      db: example.org/db:2.0.0 from stored (as above)
        written: example.org/db:1.0.0 from stored
        rule 1: applied (version = 2.0.0)
    gone: example.org/gone:1.0.0 from stored failed: component version \"example.org/gone:1.0.0\" not found in stored
"
    );

    // A changed list of rules shows its redirections before it is applied.
    let change = tempfile::tempdir().unwrap();
    let file = change.path().join("change.yaml");
    let changed = |rules: &str| {
        let text = format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\nmetadata: {{name: pins}}\noverwrites: [{rules}]\n"
        );
        fs::write(&file, text).unwrap();
        run(&["--change", &file.display().to_string()])
    };
    let none = changed("");
    assert_eq!(
        none.out,
        "\
1 of 1 Installations that use pins would be redirected
Installation default/shop
  cache/db: example.org/db:2.0.0 from stored -> example.org/db:1.0.0 from stored
  db: example.org/db:2.0.0 from stored -> example.org/db:1.0.0 from stored
"
    );
    let same = changed(
        "{source: {componentName: example.org/db}, substitution: {version: 2.0.0}}, {source: {componentName: other}, substitution: {version: '1'}}",
    );
    assert_eq!(
        (same.code, same.out.as_str()),
        (0, "0 of 1 Installations that use pins would be redirected\n")
    );
    let all = changed(
        "{source: {componentName: example.org/shop}, substitution: {componentName: example.org/cache}}",
    );
    assert!(
        all.out.contains(
            "  component: example.org/shop:1.0.0 from stored -> example.org/cache:1.0.0 from stored\n"
        ),
        "{}",
        all.out
    );
    assert!(all.out.contains("  gone: no longer used: example.org/gone:1.0.0 from stored\n"), "{}", all.out);
    let wrong = run(&["--change", &format!("{path}/stored/db1.yaml")]);
    assert_eq!(wrong.code, 2);
}

#[test]
fn lint() {
    let folder = EchoServer::new();
    let file = format!("{}/component-overwrites.yaml", folder.path());
    let run = || groundwork(&["explain", "overwrites", "-f", &file, "--lint"], "");
    assert_eq!(run().code, 0, "{}", run().err);
    folder.write(
        "component-overwrites.yaml",
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\nmetadata: {name: o}\noverwrites:\n\
         - {source: {}, substitution: {version: '1'}}\n- {source: {componentName: a}, substitution: {version: '2'}}\n",
    );
    let found = run();
    assert_eq!(found.code, 1);
    assert!(
        found.err.contains("rule 2 of o can never apply") && found.err.contains("yaml:6:3"),
        "{}",
        found.err
    );
    let nothing = groundwork(
        &["explain", "overwrites", "-f", &format!("{}/context.yaml", folder.path()), "--lint"],
        "",
    );
    assert_eq!(nothing.code, 2);
}

/// An error that would keep a job from its component shows here, too.
#[test]
fn errors_of_the_job() {
    let folder = EchoServer::new();
    folder.remove("component-overwrites.yaml");
    let run = explain(&folder, &[]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains(
            "references ComponentVersionOverwrites resource 'my-overwrites', which cannot be found"
        ),
        "{}",
        run.err
    );
    for arguments in
        [&["explain", "overwrites"][..], &["explain", "overwrites", "-f", "x", "--installation", "a/b"]]
    {
        assert_eq!(groundwork(arguments, "").code, 2);
    }
}
