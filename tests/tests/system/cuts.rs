//! A service is killed after each of its writes in turn: the write is stored, but the service never
//! gets the answer. The final state must be the same as without a kill.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use groundwork_api::{DataObject, DeployItem, Execution, Installation};
use groundwork_tests::{System, SystemOptions};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::case::Case;
use crate::cut_points::{self, Cut, Lived};
use crate::many_installations::dump;

/// Services, with the number of points that every run tries.
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

/// Waits until `is_so`, while the service may be killed.
async fn until(
    system: &mut System,
    service: &'static str,
    what: &str,
    is_so: impl AsyncFn(&Case<'_>) -> Result<bool>,
) -> Result<()> {
    let is_reached = |system: &System| Ok(system.proxy(service)?.take_cut());
    cut_points::until(system, (service, NAMESPACE), is_reached, what, is_so).await
}

const NAMESPACE: &str = "cuts";

/// Runs the landscape from its creation to its deletion.
async fn live(
    system: &mut System,
    service: &'static str,
    cut: Option<Cut>,
) -> Result<Lived<BTreeMap<String, Value>>> {
    system.proxy(service)?.cut_after(cut_points::number(cut, "writes"));
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
    let state = end_state(system).await?;
    ensure!(state.len() == 11, "{} objects", state.len());
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
    Ok(Lived { state, changes: vec![("writes", system.proxy(service)?.writes())] })
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
    for (service, few) in FEW {
        let live = async |_, cut| live(&mut system, service, cut).await;
        cut_points::compare(few, &[("writes", few)], live).await.with_context(|| service)?;
    }
    Ok(())
}
