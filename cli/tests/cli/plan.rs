//! Tests of `groundwork plan` on files.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::*;

fn repositories() -> String {
    examples().join("echo-server/components/repositories.yaml").display().to_string()
}

fn plan(files: &str, from: &str, arguments: &[&str]) -> Run {
    let repositories = repositories();
    let mut all = vec!["plan", "-f", files, "--from", from, "--repositories", &repositories];
    all.extend(arguments);
    groundwork(&all, "")
}

fn written(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// Exit code 0: no change; 1: a change; 2: the input cannot be used.
#[test]
fn exit_codes() {
    let shop = examples().join("shop").display().to_string();
    let same = plan(&shop, &shop, &[]);
    assert_eq!((same.code, same.out.as_str()), (0, "no changes\n"), "{}", same.err);
    let empty = written("");
    let new = plan(&shop, &empty.1, &[]);
    assert_eq!(new.code, 1, "{}", new.err);
    for line in [
        "+ DataObject prod/shop-settings",
        "Installation prod/shop: a job runs",
        "  because it is new",
        "  + Installation prod/shop/web",
        "    + item server",
        "  + export shop-url (DataObject shop-url), imported by monitor",
        "jobs: 2 now, 0 after others, 0 on request; items: 3 created; exports: 3 created",
    ] {
        assert!(new.out.lines().any(|found| found == line), "{line}\n{}", new.out);
    }
    for (files, from) in [("/nowhere", shop.as_str()), (&shop, "/nowhere")] {
        let wrong = plan(files, from, &[]);
        assert!(wrong.code == 2 && wrong.out.is_empty() && wrong.err.contains("/nowhere"), "{}", wrong.err);
    }
    assert_eq!(groundwork(&["plan", "--from", &shop], "").code, 2);
}

/// Objects that a plan cannot be about give an error message.
#[test]
fn what_is_not_planned_is_refused() {
    let shop = examples().join("shop").display().to_string();
    for (text, problem) in [
        (
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\nmetadata: {name: a}\nspec: {type: x}\n",
            "DeployItem \"a\": jobs create objects of this kind; remove it from the input",
        ),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "unknown kind \"Deployment\""),
        (
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {name: a}\nspec: {blueprint: 1}\n",
            "Installation \"a\"",
        ),
    ] {
        let (_folder, path) = written(text);
        let run = plan(&path, &shop, &[]);
        assert!(run.code == 2 && run.out.is_empty() && run.err.contains(problem), "{}", run.err);
    }
}

/// O-20: a changed list of rules redirects Installations with their next job, but starts no job.
#[test]
fn overwrites_redirect() {
    let example = EchoServer::new();
    let (_folder, rules) = written(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ComponentVersionOverwrites\n\
         metadata: {name: my-overwrites, namespace: my-namespace}\noverwrites: []\n",
    );
    let run = plan(&rules, &example.path(), &["-o", "json"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let plan_of = run.json();
    assert_eq!(plan_of["applied"][0]["change"], "changed");
    let server = &plan_of["installations"][0];
    assert_eq!((&server["path"][0], &server["start"]), (&Value::from("server"), &Value::from("nextJob")));
    assert_eq!(server["reasons"][0]["reason"], "redirected");
    let place = &server["redirected"][0];
    assert_eq!(
        (&place["path"], &place["before"]["componentName"], &place["after"]["componentName"]),
        (
            &Value::from(""),
            &Value::from("my-own-echo-server"),
            &Value::from("github.com/gardener/landscaper/echo-server")
        )
    );
    let text = plan(&rules, &example.path(), &[]).out;
    assert!(text.contains("server: with its next job, which this change does not request"), "{text}");
    // A Context that no longer names the overwrites has the same effect.
    let context = fs::read_to_string(examples().join("echo-server/context.yaml")).unwrap();
    let (_folder, context) = written(&context.replace("componentVersionOverwrites: my-overwrites\n", ""));
    let run = plan(&context, &example.path(), &["-o", "json"]);
    assert_eq!(run.json()["installations"][0]["redirected"][0], *place, "{}", run.err);
}

/// Values of Secrets show in no format, unless `--show-values` is given.
#[test]
fn secrets_are_hidden() {
    let secret = |password: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData: {{password: {password}}}\n"
        )
    };
    let installation = "---\napiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {name: a}\nspec:\n  \
        blueprint:\n    inline:\n      filesystem:\n        blueprint.yaml: |\n          \
        apiVersion: landscaper.gardener.cloud/v1alpha1\n          kind: Blueprint\n          \
        imports: [{name: login, type: data, schema: {type: string}}]\n          \
        exports: [{name: out, type: data, schema: {type: string}}]\n          \
        exportExecutions: [{name: d, type: GoTemplate, template: \"exports: {out: '{{ .imports.login | b64enc }}'}\"}]\n  \
        imports: {data: [{name: login, secretRef: {name: login, key: password}}]}\n  \
        exports: {data: [{name: out, dataRef: out}]}\n";
    let export = "---\napiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DataObject\nmetadata:\n  name: out\n  labels:\n    \
        data.landscaper.gardener.cloud/source: Installation.default.a\n    \
        data.landscaper.gardener.cloud/sourceType: export\ndata: aHVudGVyMg==\n";
    let (_folder, present) = written(&format!("{}{installation}{export}", secret("hunter2")));
    let (_other, applied) = written(&secret("sesame4"));
    for format in ["text", "json"] {
        let run = plan(&applied, &present, &["-o", format]);
        assert_eq!(run.code, 1, "{}", run.err);
        for value in ["hunter2", "sesame4", "aHVudGVyMg", "c2VzYW1lNA"] {
            assert!(!run.out.contains(value) && !run.err.contains(value), "{value}\n{}", run.out);
        }
    }
    let run = plan(&applied, &present, &[]);
    let line = r#"      data: "[hidden]" -> "[hidden, another one]""#;
    assert!(
        run.out.contains("its import login changes (Secret login)") && run.out.contains(line),
        "{}",
        run.out
    );
    let shown = plan(&applied, &present, &["--show-values"]);
    assert!(shown.out.contains(r#"data: "aHVudGVyMg==" -> "c2VzYW1lNA==""#), "{}", shown.out);
}

/// Sets are planned as `variants plan` does.
#[test]
fn sets_are_planned() {
    let fleet = examples().join("fleet").display().to_string();
    let alone = groundwork(&["variants", "plan", "-f", &fleet, "-o", "json"], "").json();
    let text = fs::read_dir(&fleet)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect::<Vec<_>>()
        .join("\n---\n");
    let set = text.split("\n---\n").find(|document| document.contains("kind: PackageVariantSet")).unwrap();
    let (_folder, set) = written(set);
    let run = groundwork(&["plan", "-f", &set, "--from", &fleet, "-o", "json"], "");
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(run.json()["variants"], alone);
    let text = groundwork(&["plan", "-f", &set, "--from", &fleet], "").out;
    assert!(text.starts_with("PackageVariantSet fleet/logging: 4 created"), "{text}");
}
