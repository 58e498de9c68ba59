//! Values that flow between Installations: from root to root, from parent to child, and back up
//! through exports.

use anyhow::{Context, Result, ensure};
use groundwork_api::{DataObject, Installation, Target};
use groundwork_tests::{System, SystemOptions, workspace};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::case::{Case, error, job};
use crate::command::run;
use crate::shared;
use crate::support::outcome;

const SUCCEEDED: (&str, &str) = ("Succeeded", "");

fn ended(installation: &Installation) -> (String, String) {
    outcome(installation)
}

#[track_caller]
fn assert_succeeded(installation: &Installation) {
    let (phase, message) = ended(installation);
    assert_eq!((phase.as_str(), message.as_str()), SUCCEEDED, "{}", installation.name_any());
}

fn data(object: &DataObject) -> Value {
    object.data.get().cloned().unwrap_or_default()
}

/// Returns a blueprint that imports data and exports one text, made of its name and the imports.
/// `state` is placed before its items.
fn blueprint(name: &str, imports: &[&str], exports: &[&str]) -> String {
    let declare = |names: &[&str]| {
        let one = |name: &&str| json!({"name": name, "type": "data", "schema": {"type": "string"}});
        names.iter().map(one).collect::<Vec<_>>()
    };
    let mut template = "exports:\n".to_owned();
    for export in exports {
        template.push_str(&format!(
            "  {export}: {{{{ printf \"{name}(%s)\" .values.deployitems.item.got | quote }}}}\n"
        ));
    }
    let export_executions = match exports {
        [] => json!([]),
        _ => json!([{"name": "default", "type": "GoTemplate", "template": template}]),
    };
    let items = "deployItems:\n- name: item\n  type: landscaper.gardener.cloud/mock\n  config:\n    \
                 apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1\n    kind: ProviderConfiguration\n    \
                 export: {got: {{ values .imports | sortAlpha | join \",\" | quote }}}\n";
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "imports": declare(imports),
        "exports": declare(exports),
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": items}],
        "exportExecutions": export_executions,
    })
    .to_string()
}

fn refs(names: &[&str]) -> Value {
    json!({"data": names.iter().map(|name| json!({"name": name, "dataRef": name})).collect::<Vec<_>>()})
}

/// Returns the spec of a root with these imports and exports.
fn spec(imports: &[&str], exports: &[&str]) -> Value {
    json!({"imports": refs(imports), "exports": refs(exports)})
}

/// The command compares files with the cluster. Unchanged files give no difference. A changed value
/// gives a difference for every object that it reaches, under the object's name in the cluster.
/// Objects that exist only in the cluster are listed as well.
async fn compared_with_files(system: &System, children: &[Installation]) -> Result<()> {
    let example = workspace().join("examples/shop").display().to_string();
    let render = ["render", &example, "--diff", "cluster"];
    let (code, text, problem) = run(system, &render).await?;
    assert_eq!((code, text.as_str()), (0, ""), "{problem}");
    let (code, text, _) =
        run(system, &[&render[..], &["--set", "settings={domain: x.org}"]].concat()).await?;
    let web = children.iter().map(ResourceExt::name_any).find(|name| name.starts_with("web-"));
    let web = web.context("the shop has a nested installation web")?;
    ensure!(code == 1 && !text.contains(" added") && !text.contains(" removed"), "{text}");
    for line in [
        "DataObject prod/shop-url changed",
        "+ data: https://www.x.org",
        &format!("Execution prod/{web} changed"),
        &format!("DeployItem prod/{web}-server-"),
    ] {
        ensure!(text.contains(line), "{line}\n{text}");
    }
    let folder = tempfile::tempdir()?;
    let blueprint = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n";
    let empty = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}}},
    });
    let path = folder.path().join("shop.yaml");
    std::fs::write(&path, empty.to_string())?;
    let path = path.display().to_string();
    let (code, text, problem) = run(system, &["render", &path, "--diff", "cluster"]).await?;
    ensure!(code == 1 && text.contains(&format!("Installation prod/{web} removed")), "{text} {problem}");
    Ok(())
}

/// I-01, I-58, I-89, I-96, I-101, C-21: the example without changes has two children, one of which
/// imports from the other, mappings, exports, and a root that imports these. No object is left
/// after its deletion.
#[tokio::test(flavor = "multi_thread")]
async fn the_shop_runs_in_a_cluster() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    system.kubectl(&["apply", "-f", "examples/shop"]).await?;
    let case = Case::existing(system, "prod").await?;
    let shop = case.finished("shop").await?;
    assert_succeeded(&shop);
    case.until("it has run after the shop", "monitor", |monitor: &Installation| {
        let status = monitor.status.clone().unwrap_or_default();
        status.phase.as_deref() == Some("Succeeded") && status.job_id == status.job_id_finished
    })
    .await?;
    let url: DataObject = case.get("shop-url").await?;
    assert_eq!(data(&url), json!("https://www.shop.example.org"));
    let labels = url.labels();
    let label =
        |name: &str| labels.get(&format!("data.landscaper.gardener.cloud/{name}")).map(String::as_str);
    assert_eq!(
        (label("context"), label("key"), label("source"), label("sourceType")),
        (None, Some("shop-url"), Some("Installation.prod.shop"), Some("export"))
    );
    let probe = case.item("monitor", "probe").await?;
    let status = probe.status.unwrap_or_default().provider_status;
    let probes = status.get().and_then(|status| status.get("probes")).cloned();
    assert_eq!(probes, Some(json!("https://www.shop.example.org/healthz")));
    let children = case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=shop").await?;
    assert_eq!(children.len(), 2);
    for child in &children {
        assert_succeeded(child);
        assert_eq!(job(child), job(&shop));
        let owner = &child.owner_references()[0];
        assert_eq!((owner.name.as_str(), owner.controller), ("shop", Some(true)));
    }
    let status = shop.status.clone().unwrap_or_default();
    let names: Vec<&str> = status.installation_refs.iter().map(|child| child.name.as_str()).collect();
    assert_eq!(names, ["database", "web"]);
    compared_with_files(system, &children).await?;

    // The imports of `monitor` stay until `monitor` is gone (`installations.md` 8.2).
    case.delete::<Installation>("shop").await?;
    case.until("it waits for the monitor", "shop", |shop: &Installation| error(shop).1 == "SiblingImport")
        .await?;
    case.delete::<Installation>("monitor").await?;
    for name in ["monitor", "shop"] {
        case.gone::<Installation>(name).await?;
    }
    case.gone::<DataObject>("shop-url").await?;
    ensure!(case.list::<Installation>("").await?.is_empty());
    Ok(())
}

/// C-11 to C-23: the example of the chapter in its four combinations.
#[tokio::test(flavor = "multi_thread")]
async fn conditional_imports_in_a_cluster() -> Result<()> {
    let repositories = workspace().join("examples/conditional/components/repositories.yaml");
    let options = SystemOptions { repositories: Some(repositories), ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    system.kubectl(&["apply", "-f", "examples/conditional"]).await?;
    let case = Case::existing(&system, "conditions").await?;
    for (name, imports) in
        [("both", &["internalBar", "internalFoo"][..]), ("neither", &[]), ("only-bar", &[])]
    {
        let parent = case.finished(name).await?;
        assert_succeeded(&parent);
        let labels = format!("landscaper.gardener.cloud/encompassed-by={name}");
        let children = case.list::<Installation>(&labels).await?;
        let [child] = &children[..] else { anyhow::bail!("{name} has {} children", children.len()) };
        let mut found: Vec<&str> =
            child.spec.data_imports().iter().map(|import| import.name.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, imports, "{name}");
    }
    let failed = case.finished("only-foo").await?;
    assert_eq!(ended(&failed).0, "Failed");
    assert!(error(&failed).2.contains("bar"), "{:?}", error(&failed));
    ensure!(case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=only-foo").await?.is_empty());
    Ok(())
}

/// I-101, I-102, I-133: in a chain of roots, created in the wrong order, an importer runs again
/// after its exporter, even if that failed (`installations.md` 5.6). Exports are deleted while
/// their exporter runs.
#[tokio::test(flavor = "multi_thread")]
async fn roots_follow_one_another() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "chain").await?;
    case.create::<DataObject>("seed", &json!({"data": "seed"})).await?;
    for (name, imports, exports) in [
        ("last", &["two"][..], &["three"][..]),
        ("middle", &["one"], &["two"]),
        ("first", &["seed"], &["one"]),
    ] {
        case.begin_with(name, &blueprint(name, imports, exports), &spec(imports, exports)).await?;
    }
    let value = async |expected: &str| {
        case.until("the value has come through", "three", |three: &DataObject| data(three) == json!(expected))
            .await
    };
    value("last(middle(first(seed)))").await?;
    case.change::<DataObject>("seed", &json!({"data": "corn"})).await?;
    case.ask("first", "reconcile").await?;
    value("last(middle(first(corn)))").await?;
    let last: Installation = case.get("last").await?;
    ensure!(last.status.clone().unwrap_or_default().dependents_to_trigger.is_empty());

    let before = job(&case.finished("last").await?);
    case.delete::<DataObject>("seed").await?;
    let failed = case.reconcile("first").await?;
    assert_eq!((ended(&failed).0.as_str(), error(&failed).1.as_str()), ("Failed", "ImportsSatisfied"));
    let failed = case
        .until("it has failed with the others", "last", |last: &Installation| {
            job(last) != before && ended(last).0 == "Failed"
        })
        .await?;
    assert_eq!(error(&failed).1, "AllPredecessorsSucceeded");
    for name in ["one", "two", "three"] {
        case.gone::<DataObject>(name).await?;
    }
    Ok(())
}

/// Installations that can never run together get an error (`installations.md` 4.3 and 5.5).
#[tokio::test(flavor = "multi_thread")]
async fn circles_and_conflicts_are_told() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "circles").await?;
    case.begin_with("a", &blueprint("a", &["two"], &["one"]), &spec(&["two"], &["one"])).await?;
    case.begin_with("b", &blueprint("b", &["one"], &["two"]), &spec(&["one"], &["two"])).await?;
    // The first Installation may have run before the other existed. In that case the last one
    // reports the cycle.
    let told =
        case.until("one of them tells of the circle", "b", |b: &Installation| ended(b).0 == "Failed").await?;
    assert_eq!(error(&told).1, "CyclicDependencies", "{:?}", error(&told));
    assert!(error(&told).2.contains("a -{depends_on}-> b -{depends_on}-> a"));

    let one = case.install_with("c", &blueprint("c", &[], &["x1"]), &spec(&[], &["x1"])).await?;
    assert_succeeded(&one);
    let other = case.install_with("d", &blueprint("d", &[], &["x1"]), &spec(&[], &["x1"])).await?;
    let (operation, reason, message) = error(&other);
    assert_eq!((operation.as_str(), reason.as_str()), ("handlePhaseCompleting", "CreateOrUpdateExports"));
    let told = "the data object x1 cannot be exported: it conflicts with an existing one that the installation c owns; \
                export under another name, or stop that installation from exporting it";
    assert_eq!(message, told);
    Ok(())
}

/// I-15, B-57: lists and maps of Targets (`targetListRef`, `targetMapRef`, `secretRef`) reach
/// children, whole or as elements, and the state of executions is kept.
#[tokio::test(flavor = "multi_thread")]
async fn targets_and_state_reach_children() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "targets").await?;
    case.create::<Secret>("login", &json!({"stringData": {"kubeconfig": "{}"}})).await?;
    for name in ["blue", "green", "red"] {
        let spec = match name {
            "red" => json!({"type": "landscaper.gardener.cloud/mock", "secretRef": {"name": "login"}}),
            _ => json!({"type": "landscaper.gardener.cloud/mock", "config": {"name": name}}),
        };
        case.create::<Target>(name, &json!({"spec": spec})).await?;
    }
    let target = |name: &str, kind: &str| json!({"name": name, "type": kind, "targetType": "landscaper.gardener.cloud/mock"});
    let items = "state: {runs: {{ add1 (default 0 .state.runs) }}}\ndeployItems:\n\
                 {{ range $index, $one := .imports.list }}\n- name: list{{ $index }}\n  type: landscaper.gardener.cloud/mock\n  \
                 target: {import: list, index: {{ $index }}}\n{{ end }}\n\
                 - {name: one, type: landscaper.gardener.cloud/mock, target: {import: one}}\n\
                 - {name: keyed, type: landscaper.gardener.cloud/mock, target: {import: map, key: r}}\n";
    let items = items
        .replace(
            "type: landscaper.gardener.cloud/mock\n  target",
            "type: landscaper.gardener.cloud/mock\n  config: CONFIG\n  target",
        )
        .replace(
            "landscaper.gardener.cloud/mock, target",
            "landscaper.gardener.cloud/mock, config: CONFIG, target",
        )
        .replace(
            "CONFIG",
            "{apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1, kind: ProviderConfiguration}",
        );
    let child = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [target("list", "targetList"), target("map", "targetMap"), target("one", "target")],
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": items}],
    });
    let parent = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [target("all", "targetList"), target("named", "targetMap")],
        "subinstallations": [{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": "child",
            "blueprint": {"filesystem": {"blueprint.yaml": child.to_string()}},
            "imports": {"targets": [
                {"name": "list", "targetListRef": "all"}, {"name": "map", "targetMapRef": "named"},
                {"name": "one", "target": "all[1]"},
            ]},
        }],
    });
    let imports = json!({"imports": {"targets": [
        {"name": "all", "targets": ["green", "blue"]}, {"name": "named", "targetMap": {"r": "red", "b": "blue"}},
    ]}});
    let installation = case.install_with("server", &parent.to_string(), &imports).await?;
    assert_succeeded(&installation);
    let children = case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=server").await?;
    let child = children.first().context("there is a child")?.name_any();
    for (template, source) in [("list0", "green"), ("list1", "blue"), ("one", "blue"), ("keyed", "red")] {
        let item = case.item(&child, template).await?;
        let name = item.spec.target.context("the item has a target")?.name;
        let copy: Target = case.get(&name).await?;
        let original: Target = case.get(source).await?;
        assert_eq!(copy.spec, original.spec, "{template}");
        assert_eq!(copy.labels()["data.landscaper.gardener.cloud/sourceType"], "import");
    }
    assert_succeeded(&case.reconcile("server").await?);
    let kept = case.list::<Secret>("").await?;
    let kept = kept.iter().find(|secret| secret.owner_references().iter().any(|owner| owner.name == child));
    let entry = kept.and_then(|secret| secret.data.as_ref()?.get("config")).context("the state is kept")?;
    assert_eq!(String::from_utf8_lossy(&entry.0), "runs: 2\n");
    Ok(())
}

/// Children whose template is gone, that were deleted by hand, or that cannot be deleted
/// (`installations.md` 6.2, 8.3 and 8.6).
#[tokio::test(flavor = "multi_thread")]
async fn children_come_and_go() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "children").await?;
    let parent = |children: &[&str]| {
        let child = |name: &&str| {
            json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": name,
                "blueprint": {"filesystem": {"blueprint.yaml": blueprint(name, &[], &[])}},
            })
        };
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
            "subinstallations": children.iter().map(child).collect::<Vec<_>>(),
        })
        .to_string()
    };
    let first = case.install("server", &parent(&["a", "b"])).await?;
    assert_succeeded(&first);
    let of_server = "landscaper.gardener.cloud/encompassed-by=server";
    let names = async || -> Result<Vec<String>> {
        let mut names: Vec<String> =
            case.list::<Installation>(of_server).await?.iter().map(ResourceExt::name_any).collect();
        names.sort();
        Ok(names)
    };
    let before = names().await?;
    assert_eq!(before.len(), 2);
    let spec =
        json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": parent(&["b", "c"])}}}}});
    case.change::<Installation>("server", &spec).await?;
    let second = case.finished_after("server", &job(&first)).await?;
    assert_succeeded(&second);
    let now = names().await?;
    assert!(now.len() == 2 && now.contains(&before[1]) && !now.contains(&before[0]), "{before:?} {now:?}");

    // A child that a user deletes waits for a job, is deleted by it, and is created again.
    let uid = case.get::<Installation>(&now[0]).await?.uid();
    case.delete::<Installation>(&now[0]).await?;
    let third = case.reconcile("server").await?;
    assert_succeeded(&third);
    let anew: Installation = case.get(&now[0]).await?;
    assert!(anew.uid() != uid && anew.metadata.deletion_timestamp.is_none());

    case.delete::<Installation>("server").await?;
    case.gone::<Installation>("server").await?;
    ensure!(names().await?.is_empty());
    Ok(())
}

/// I-118, I-124, I-126: a failed job is repeated automatically, at once and then at its interval,
/// up to its limit. A successful one is repeated at the times of its cron expression.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_begin_by_themselves() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "automatic").await?;
    let count = |installation: &Installation| {
        let status =
            installation.status.as_ref().and_then(|status| status.automatic_reconcile_status.clone());
        status.map(|status| (status.number_of_reconciles, status.on_failed))
    };
    let failing = crate::support::blueprint(&[("item", json!({"phase": "Failed"}))]);
    let rule =
        json!({"automaticReconcile": {"failedReconcile": {"interval": "1s", "numberOfReconciles": 2}}});
    let first = case.begin_with("failing", &failing, &rule).await?;
    assert_eq!(count(&first), None);
    let last = case
        .until("two more jobs have run", "failing", |failing: &Installation| {
            let status = failing.status.clone().unwrap_or_default();
            count(failing) == Some((Some(2), Some(true))) && status.job_id == status.job_id_finished
        })
        .await?;
    let good = crate::support::blueprint(&[("item", json!({}))]);
    let rule = json!({"automaticReconcile": {"succeededReconcile": {"cronSpec": "@every 1s"}}});
    case.begin_with("good", &good, &rule).await?;
    case.until("it has run by itself", "good", |good: &Installation| {
        count(good).is_some_and(|(runs, on_failed)| runs > Some(1) && on_failed == Some(false))
    })
    .await?;
    // The failed Installation has reached its limit, so it has no further job seconds later.
    assert_eq!(job(&case.get("failing").await?), job(&last));
    Ok(())
}

/// A dependent that can never be triggered does not block its Installation.
#[tokio::test(flavor = "multi_thread")]
async fn a_dependent_that_is_none_is_passed_over() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "no-dependent").await?;
    let mut installation = case.install("server", &blueprint("server", &[], &[])).await?;
    let names = ["nobody", "../../configmaps/x"];
    let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    installation.status.get_or_insert_default().dependents_to_trigger = serde_json::from_value(json!(list))?;
    case.api::<Installation>().replace_status("server", &PostParams::default(), &installation).await?;
    assert_succeeded(&case.reconcile("server").await?);
    let status = case.get::<Installation>("server").await?.status.unwrap_or_default();
    ensure!(status.dependents_to_trigger.is_empty(), "{:?}", status.dependents_to_trigger);
    Ok(())
}
