//! Items with a secret value in every possible place, in objects, charts, checks and credentials.
//! Some items fail because of the value.

use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::System;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{archive, item};
use crate::target_cluster::{cluster, configuration, outcome, run_job, target};

/// Namespace in the cluster of the Target.
const THERE: &str = "secrecy-target";

/// Returns a chart with one template and this schema.
fn chart(template: &str, schema: &str) -> Result<String> {
    archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("values.schema.json", schema),
        ("templates/t.yaml", template),
    ])
}

fn objects(case: &Case<'_>, members: &Value) -> Value {
    json!({"spec": {
        "type": "landscaper.gardener.cloud/kubernetes-manifest", "target": {"name": "dev", "namespace": case.namespace}, "timeout": "2s",
        "config": configuration(members),
    }})
}

/// Returns names of items, their specs, and the phases in which their jobs end.
fn items(case: &Case<'_>, canary: &str) -> Result<Vec<(&'static str, Value, &'static str)>> {
    let named = |kind: &str, name: &str, more: Value| {
        let mut object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": THERE}});
        for (member, value) in more.as_object().into_iter().flatten() {
            object[member] = value.clone();
        }
        json!({"manifest": object})
    };
    let secret = named("Secret", "good", json!({"stringData": {"password": canary}}));
    let map = named("ConfigMap", "good", json!({"data": {"password": canary}}));
    let good = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "good", "namespace": THERE});
    let exports =
        json!({"exports": [{"key": "password", "jsonPath": ".data.password", "fromResource": good}]});
    let check = json!({"custom": [{"name": "never", "resourceSelector": [good], "requirements": [
        {"jsonPath": ".data.password", "operator": "==", "values": [{"value": format!("not-{canary}")}]}]}]});
    let port = json!({"spec": {"ports": [{"port": canary}]}});
    let mut items = vec![
        ("objects", objects(case, &json!({"manifests": [secret, map], "exports": exports})), "Succeeded"),
        ("refused-objects", objects(case, &json!({"manifests": [named("Service", "bad", port)]})), "Failed"),
        (
            "refused-label",
            objects(case, &json!({"manifests": [named("ConfigMap", "bad", json!({"immutable": canary}))]})),
            "Failed",
        ),
        ("unready-objects", objects(case, &json!({"manifests": [map], "readinessChecks": check})), "Failed"),
        ("no-objects", objects(case, &json!({"manifests": canary})), "Failed"),
    ];
    let none = "{}";
    let pattern = "{\"properties\": {\"password\": {\"pattern\": \"^[0-9]+$\"}}}";
    let stored = "apiVersion: v1\nkind: Secret\nmetadata: {name: chart}\nstringData: {password: {{ .Values.password }}}\n";
    let look = "{{ fail (print (lookup \"v1\" \"Secret\" .Release.Namespace \"good\").data) }}";
    for (name, template, schema, phase) in [
        ("chart", stored, none, "Succeeded"),
        ("failing", "{{ fail (printf \"%s is too short\" .Values.password) }}", none, "Failed"),
        ("failing-lookup", look, none, "Failed"),
        ("failing-tpl", "{{ tpl (print \"{{ \" .Values.password \" }}\") . }}", none, "Failed"),
        ("no-yaml", "a: {{ print \"*\" .Values.password }}\n", none, "Failed"),
        ("no-fit", stored, pattern, "Failed"),
        (
            "odd-hook",
            "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {helm.sh/hook: {{ .Values.password }}}}\n",
            none,
            "Succeeded",
        ),
        (
            "refused-chart",
            "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: {{ .Values.password }}}]}\n",
            none,
            "Failed",
        ),
    ] {
        let exports = json!({"exports": [{"key": "password", "jsonPath": ".Values.password"}]});
        let more = json!({"name": name, "values": {"password": canary}, "exports": exports});
        let mut object = item(case, &chart(template, schema)?, THERE, &more);
        object["spec"]["timeout"] = json!("2s");
        items.push((name, object, phase));
    }
    Ok(items)
}

/// Runs jobs of all items in an existing namespace.
pub(crate) async fn deploy(system: &System, namespace: &str, canary: &str) -> Result<()> {
    let (case, cluster) = (Case::existing(system, namespace).await?, cluster().await?);
    cluster.plane.create_namespace(THERE).await?;
    let mut config = cluster.kubeconfig()?;
    if let Some(users) = config["users"].as_array_mut() {
        users.push(json!({"name": "other", "user": {"token": canary}}));
    }
    case.create::<Target>("dev", &target(&json!({"kubeconfig": config.to_string()}))).await?;
    for (name, object, expected) in items(&case, canary)? {
        case.create::<DeployItem>(name, &object).await?;
        let found = run_job(&case, name, "1").await?;
        let (phase, error) = outcome(&found);
        ensure!(phase == expected && !error.contains(canary), "{name}: {phase} {error}");
        ensure!((phase == "Failed") != error.is_empty(), "{name}: {phase} {error}");
    }
    // The errors contain reasons that users can act on.
    for (name, part) in [
        ("failing", "[...] is too short"),
        ("no-fit", "'[...]' does not match pattern '^[0-9]+$'"),
        ("odd-hook", "skipping unknown hook"),
    ] {
        let warnings = case.warnings::<DeployItem>(name).await?;
        ensure!(warnings.iter().any(|(_, message)| message.contains(part)), "{name}: {warnings:?}");
    }
    Ok(())
}
