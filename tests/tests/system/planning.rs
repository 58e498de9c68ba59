//! A plan agrees with the changes that a cluster makes when the input is applied.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DataObject, DeployItem, Installation};
use groundwork_testkit::made_up::Random;
use groundwork_tests::{System, wait_for};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::{Case, job};
use crate::command::run;
use crate::shared;
use crate::support::PATIENCE;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Returns a root that imports the seed and the export of the root before it, with some items and
/// nested installations.
fn root(at: usize, numbers: &mut Random) -> Value {
    let data = |name: &str| json!({"name": name, "type": "data", "schema": {"type": "string"}});
    let mut imports = vec!["seed".to_owned()];
    if at > 0 {
        imports.push(format!("x{}", NAMES[at - 1]));
    }
    let export = format!("x{}", NAMES[at]);
    let config = "apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1, kind: ProviderConfiguration";
    let mut items = "deployItems:\n".to_owned();
    for number in 0..=numbers.below(2) {
        let (name, size) = (format!("i{}{number}", numbers.below(2)), numbers.below(2));
        items.push_str(&format!(
            "- {{name: {name}, type: landscaper.gardener.cloud/mock, config: {{{config}, \
             export: {{got: '{{{{ .imports.seed }}}}{size}', pass: '{{{{ .imports.pass | b64enc }}}}'}}}}}}\n"
        ));
    }
    let children: Vec<Value> = ["x", "y"]
        .iter()
        .filter_map(|name| {
            if numbers.below(2) == 1 {
                return None;
            }
            let blueprint = json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint", "imports": [data("seed")],
                "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": format!(
                    "deployItems:\n- {{name: n{}, type: landscaper.gardener.cloud/mock, config: {{{config}, export: {{of: '{{{{ .imports.seed }}}}'}}}}}}\n",
                    numbers.below(2)
                )}],
            });
            Some(json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": name,
                "blueprint": {"filesystem": {"blueprint.yaml": blueprint.to_string()}},
                "imports": {"data": [{"name": "seed", "dataRef": "seed"}]},
            }))
        })
        .collect();
    let blueprint = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": imports.iter().map(|name| data(name)).chain([data("pass")]).collect::<Vec<_>>(),
        "exports": [data(&export)],
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": items}],
        "exportExecutions": [{"name": "default", "type": "GoTemplate", "template":
            format!("exports:\n  {export}: '{{{{ range $name, $of := .values.deployitems }}}}{{{{ $of.got }}}}{{{{ end }}}}'\n")}],
        "subinstallations": children,
    });
    let mut data: Vec<Value> = imports.iter().map(|name| json!({"name": name, "dataRef": name})).collect();
    data.push(json!({"name": "pass", "secretRef": {"name": "login", "key": "password"}}));
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": NAMES[at], "annotations": {"landscaper.gardener.cloud/reconcile-if-changed": "true"}},
        "spec": {
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
            "imports": {"data": data}, "exports": {"data": [{"name": export, "dataRef": export}]},
        },
    })
}

/// Returns items and exports of the namespace by kind and name, with UID and spec, or with the
/// value.
async fn objects(case: &Case<'_>) -> Result<BTreeMap<(&'static str, String), Value>> {
    let items = case.list::<DeployItem>("").await?.into_iter();
    let items = items.map(|item| {
        let content = json!([item.uid(), item.spec]);
        (("item", item.name_any()), content)
    });
    let exports =
        case.list::<DataObject>("data.landscaper.gardener.cloud/sourceType=export").await?.into_iter();
    let exports =
        exports.map(|object| (("export", object.name_any()), object.data.get().cloned().unwrap_or_default()));
    Ok(items.chain(exports).collect())
}

/// Returns the planned changes of items and exports, and the number of planned items whose
/// generated names are not known yet.
fn told(plan: &Value) -> (BTreeMap<(&'static str, String), String>, usize) {
    let mut changes = BTreeMap::new();
    let mut nameless = 0;
    let mut open: Vec<&Value> = plan["installations"].as_array().into_iter().flatten().collect();
    while let Some(planned) = open.pop() {
        for (kind, list) in [("item", &planned["items"]), ("export", &planned["exports"])] {
            for one in list.as_array().into_iter().flatten().filter(|one| one["change"] != "unchanged") {
                match one["name"].as_str() {
                    Some(name) => {
                        let change = one["change"].as_str().unwrap_or_default();
                        changes.insert((kind, name.to_owned()), change.to_owned());
                    }
                    None => nameless += 1,
                }
            }
        }
        open.extend(planned["nested"].as_array().into_iter().flatten());
    }
    (changes, nameless)
}

/// Waits until these Installations have run a new job, and no job is left to run.
async fn settled(case: &Case<'_>, ran: &BTreeSet<String>, before: &BTreeMap<String, String>) -> Result<()> {
    wait_for("all jobs have run", PATIENCE, async || {
        let installations = case.list::<Installation>("").await.map_err(|error| error.to_string())?;
        let busy = installations.iter().find(|installation| {
            let status = installation.status.clone().unwrap_or_default();
            let is_due = ran.contains(&installation.name_any())
                && before.get(&installation.name_any()) == Some(&job(installation));
            let has_run = status.job_id.is_some() && status.job_id == status.job_id_finished;
            let is_asked = installation.annotations().contains_key("landscaper.gardener.cloud/operation");
            is_due || !has_run || is_asked || !status.dependents_to_trigger.is_empty()
        });
        let missing = ran.iter().find(|name| !installations.iter().any(|found| found.name_any() == **name));
        match (busy, missing) {
            (None, None) => Ok(()),
            (busy, missing) => Err(format!("{:?} {missing:?}", busy.map(ResourceExt::name_any))),
        }
    })
    .await
    .map_err(|error| case.system.explained(error))
}

/// Plans one change, applies it and compares the results.
async fn round(system: &System, case: &Case<'_>, objects_of_change: &[Value]) -> Result<usize> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("change.yaml");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects_of_change});
    std::fs::write(&path, list.to_string())?;
    let path = path.display().to_string();
    let (code, text, problem) = run(system, &["plan", "-n", "planning", "-f", &path, "-o", "json"]).await?;
    ensure!(code == 0 || code == 1, "{code} {text} {problem}");
    ensure!(!text.contains("hunter") && !text.contains("aHVudGVy"), "{text}");
    let plan: Value = serde_json::from_str(&text)?;
    let before = objects(case).await?;
    let installations = case.list::<Installation>("").await?;
    let jobs =
        installations.iter().map(|installation| (installation.name_any(), job(installation))).collect();

    system.kubectl(&["apply", "-n", "planning", "-f", &path]).await?;
    let mut ran = BTreeSet::new();
    for planned in plan["installations"].as_array().context("a list")? {
        ensure!(planned["error"].is_null() && planned["waitsFor"].is_null(), "{planned:#}");
        let name = planned["name"].as_str().context("roots have names")?.to_owned();
        if planned["start"] == "nextJob" {
            case.ask(&name, "reconcile").await?;
        }
        ran.insert(name);
    }
    settled(case, &ran, &jobs).await?;

    let after = objects(case).await?;
    let mut happened: BTreeMap<(&'static str, String), String> = BTreeMap::new();
    for key in before.keys().chain(after.keys()) {
        let change = match (before.get(key), after.get(key)) {
            (None, _) => "created",
            (_, None) => "deleted",
            (former, now) if former == now => continue,
            _ => "changed",
        };
        happened.insert(key.clone(), change.to_owned());
    }
    let (told, nameless) = told(&plan);
    let differing = happened.iter().filter(|(key, change)| told.get(*key) != Some(*change));
    let differing: Vec<_> = differing.collect();
    ensure!(
        differing.iter().all(|((kind, _), change)| *kind == "item" && *change == "created")
            && differing.len() == nameless,
        "happened beside the plan: {differing:?}\n{text}"
    );
    let absent: Vec<_> = told.iter().filter(|(key, change)| happened.get(*key) != Some(*change)).collect();
    ensure!(absent.is_empty(), "planned, and did not happen: {absent:?}\n{happened:?}\n{text}");
    // After the change, another plan is empty.
    let (code, text, _) = run(system, &["plan", "-n", "planning", "-f", &path]).await?;
    ensure!(code == 0 && text == "no changes\n", "{text}");
    Ok(happened.len())
}

/// Random changes of specs, values and Secrets, for new and existing Installations: the cluster
/// makes exactly the planned changes.
#[tokio::test(flavor = "multi_thread")]
async fn plans_agree_with_the_cluster() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "planning").await?;
    let mut numbers = Random::new(7);
    let seed = |value: usize| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DataObject", "metadata": {"name": "seed"},
            "data": format!("corn{value}"),
        })
    };
    let secret = |value: usize| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": format!("hunter{value}")},
        })
    };
    let first = [seed(0), secret(0), root(0, &mut numbers), root(1, &mut numbers), root(2, &mut numbers)];
    // The last root is applied in a second step.
    let mut changes = round(system, &case, &first[..4]).await?;
    changes += round(system, &case, &first[4..]).await?;
    for _ in 0..4 {
        let mut objects = Vec::new();
        if numbers.below(3) == 0 {
            objects.push(seed(numbers.below(3)));
        }
        if numbers.below(3) == 0 {
            objects.push(secret(numbers.below(3)));
        }
        for at in 0..NAMES.len() {
            let changed = root(at, &mut numbers);
            if numbers.below(2) == 0 {
                objects.push(changed);
            }
        }
        if objects.is_empty() {
            objects.push(seed(9));
        }
        changes += round(system, &case, &objects).await?;
    }
    ensure!(changes > 20, "{changes} changes are few");
    Ok(())
}
