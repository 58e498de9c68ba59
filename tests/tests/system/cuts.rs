//! A service is killed after each of its writes in turn: the write is stored, but the service never
//! gets the answer. The final state must be the same as without a kill.
//!
//! Every run tests a few of these points, and `cargo xtask faults` tests all of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use groundwork_api::{DataObject, DeployItem, Execution, Installation};
use groundwork_tests::{System, SystemOptions};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::case::Case;
use crate::herd::dump;
use crate::support::PATIENCE;

/// Environment variable that makes the test try every point, with any value.
const ALL_POINTS: &str = "GROUNDWORK_ALL_CUTS";
/// Number of points per service without the variable.
const FEW: [(&str, usize); 2] = [("renderer", 6), ("deployer", 2)];

/// Returns a child that imports and exports texts, with one item.
fn child(name: &str, imports: &[&str], export: &str) -> Value {
    let refs = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, "dataRef": name})).collect()
    };
    let text = |name: &&str| json!({"name": name, "type": "data", "schema": {"type": "string"}});
    let items = "deployItems:\n- name: item\n  type: landscaper.gardener.cloud/mock\n  config:\n    \
                 apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1\n    kind: ProviderConfiguration\n    \
                 export: {got: {{ values .imports | sortAlpha | join \",\" | quote }}}\n";
    let template = format!(
        "exports:\n  {export}: {{{{ printf \"{name}(%s)\" .values.deployitems.item.got | quote }}}}\n"
    );
    let document = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": imports.iter().map(text).collect::<Vec<_>>(),
        "exports": [text(&export)],
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": items}],
        "exportExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
    });
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": name,
        "blueprint": {"filesystem": {"blueprint.yaml": document.to_string()}},
        "imports": {"data": refs(imports)},
        "exports": {"data": refs(&[export])},
    })
}

/// Returns a root with two children, one of which imports from the other, and a second root that
/// imports the first one's export.
pub(crate) fn landscape(namespace: &str) -> Vec<Value> {
    let root = |name: &str, blueprint: &Value, imports: Value, exports: Value| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": name, "namespace": namespace,
                "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
            "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
                "imports": {"data": imports}, "exports": {"data": exports}},
        })
    };
    let text = |name: &str| json!([{"name": name, "type": "data", "schema": {"type": "string"}}]);
    let shop = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "exports": text("result"),
        "subinstallations": [child("db", &[], "access"), child("web", &["access"], "url")],
        "exportExecutions": [{"name": "default", "type": "GoTemplate",
            "template": "exports:\n  result: {{ .values.dataobjects.url | quote }}\n"}],
    });
    let mut sink = child("sink", &["result"], "seen")["blueprint"]["filesystem"]["blueprint.yaml"].clone();
    let sink: Value = serde_json::from_str(sink.take().as_str().unwrap_or_default()).unwrap_or_default();
    vec![
        root("shop", &shop, json!([]), json!([{"name": "result", "dataRef": "result"}])),
        root(
            "sink",
            &sink,
            json!([{"name": "result", "dataRef": "result"}]),
            json!([{"name": "seen", "dataRef": "seen"}]),
        ),
    ]
}

/// Kills a service if its proxy has reached the chosen write.
async fn cut_if_reached(system: &mut System, service: &'static str) -> Result<()> {
    if system.proxy(service)?.take_cut() {
        system.service_mut(service)?.program.kill().await?;
        system.service_mut(service)?.program.start_again()?;
    }
    Ok(())
}

/// Waits until `is_so`, while the service may be killed.
async fn until(
    system: &mut System,
    service: &'static str,
    what: &str,
    is_so: impl AsyncFn(&Case<'_>) -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        cut_if_reached(system, service).await?;
        let case = Case::existing(system, NAMESPACE).await?;
        if is_so(&case).await? {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("{what}: not after {PATIENCE:?}\n{}", system.logs());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

const NAMESPACE: &str = "cuts";

/// Runs the landscape from its creation to its deletion, and kills the service after the write of
/// this number. Returns the state in between, and the number of the service's writes.
async fn life(
    system: &mut System,
    service: &'static str,
    cut: Option<usize>,
) -> Result<(BTreeMap<String, Value>, usize)> {
    system.proxy(service)?.cut_after(cut);
    let case = Case::existing(system, NAMESPACE).await?;
    for object in landscape(NAMESPACE) {
        case.api::<Installation>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    until(system, service, "all have succeeded", async |case| {
        let all = case.list::<Installation>("").await?;
        let succeeded = |installation: &Installation| {
            let status = installation.status.clone().unwrap_or_default();
            status.phase.as_deref() == Some("Succeeded")
                && status.job_id == status.job_id_finished
                && status.dependents_to_trigger.is_empty()
                && !installation.annotations().contains_key("landscaper.gardener.cloud/operation")
        };
        // The end of the shop's job triggers a job of the sink.
        Ok(all.len() == 4 && all.iter().all(succeeded))
    })
    .await?;
    let found = end_state(system).await?;
    let case = Case::existing(system, NAMESPACE).await?;
    for name in ["sink", "shop"] {
        case.delete::<Installation>(name).await?;
    }
    until(system, service, "nothing is left", async |case| {
        Ok(case.list::<Installation>("").await?.is_empty()
            && case.list::<Execution>("").await?.is_empty()
            && case.list::<DeployItem>("").await?.is_empty())
    })
    .await?;
    Ok((found, system.proxy(service)?.writes()))
}

/// Returns the objects without the differences between two runs: names that depend on UIDs are
/// replaced by those of the templates.
async fn end_state(system: &System) -> Result<BTreeMap<String, Value>> {
    let case = Case::existing(system, NAMESPACE).await?;
    let mut text = json!(dump(system, NAMESPACE).await?).to_string();
    let mut data = Vec::new();
    for object in case.list::<DataObject>("").await? {
        let labels = object.metadata.labels.unwrap_or_default();
        let label = |name: &str| labels.get(&format!("data.landscaper.gardener.cloud/{name}")).cloned();
        let who = json!([label("context"), label("key"), label("source"), label("sourceType")]);
        data.push(format!("{who} {}", json!(object.data)));
    }
    let mut data = data.join("\n");
    for child in case.list::<Installation>("landscaper.gardener.cloud/encompassed-by").await? {
        let template = child.annotations().get("landscaper.gardener.cloud/subinstallation-name");
        let (name, template) = (child.name_any(), template.cloned().unwrap_or_default());
        text = text.replace(&name, &format!("shop.{template}"));
        data = data.replace(&name, &format!("shop.{template}"));
    }
    let mut found: BTreeMap<String, Value> = serde_json::from_str(&text)?;
    let mut data: Vec<&str> = data.lines().collect();
    data.sort_unstable();
    found.insert("data".to_owned(), json!(data));
    Ok(found)
}

/// O-24, I-15: another process can finish the work that a process began.
#[tokio::test(flavor = "multi_thread")]
async fn every_write_may_be_the_last_of_a_process() -> Result<()> {
    let options = SystemOptions { proxied: true, ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    system.plane.create_namespace(NAMESPACE).await?;
    let is_long = std::env::var_os(ALL_POINTS).is_some();
    let mut points = 0;
    for (service, few) in FEW {
        let (calm, writes) = life(&mut system, service, None).await?;
        ensure!(calm.len() == 11 && writes > 0, "{} objects, {writes} writes of the {service}", calm.len());
        let step = if is_long { 1 } else { writes.div_ceil(few) };
        for cut in (0..writes).step_by(step) {
            let cut_life = life(&mut system, service, Some(cut)).await;
            let (found, _) = cut_life.with_context(|| format!("{service} killed after write {cut}"))?;
            for (name, object) in &calm {
                ensure!(
                    found.get(name) == Some(object),
                    "{service} killed after write {cut}: {name} differs:\n{object}\n{:?}",
                    found.get(name)
                );
            }
            ensure!(found.len() == calm.len(), "{service} killed after write {cut}: too many objects");
            points += 1;
        }
        println!("{service}: killed after {} of {writes} writes, no divergence", writes.div_ceil(step));
    }
    ensure!(points >= 5, "only {points} points were tried");
    Ok(())
}
