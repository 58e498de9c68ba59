//! Values of Secrets and other imports reach no user without the right to read them: they are not
//! on the bus, in logs, traces, metrics, conditions or Events.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_tests::{ALL, System, SystemOptions, files_below};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::deploying_secrecy::deploy;
use crate::support::{blueprint, finished, installation, outcome};
use crate::traces::Collector;

const CANARY: &str = "canary-5cb7e1d0-sings";
const NAMESPACE: &str = "secrets";

/// Returns an Installation that imports the Secret entry `key` as `value`, with this schema and
/// template in its blueprint.
fn importing(name: &str, key: &str, schema: &Value, template: &str) -> Result<Installation> {
    let text = format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n\
         imports: [{{name: value, type: data, schema: {schema}}}]\n\
         deployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    {template}\n"
    );
    let mut object = serde_json::to_value(installation(NAMESPACE, name, &text))?;
    object["spec"]["imports"] =
        json!({"data": [{"name": "value", "secretRef": {"name": "credentials", "key": key}}]});
    Ok(serde_json::from_value(object)?)
}

fn holds_canary(path: &Path) -> Result<bool> {
    let content = std::fs::read(path).unwrap_or_default();
    Ok(content.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()))
}

/// No value leaves its place (`blueprints.md` 5.7 and 10, acceptance item 12; `helm.md` 11).
#[tokio::test(flavor = "multi_thread")]
async fn no_value_leaves_its_place() -> Result<()> {
    let collector = Collector::default();
    let variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), collector.start().await?),
        ("GROUNDWORK_LOG".to_owned(), "debug,h2=info,hyper=info,tower=info".to_owned()),
    ];
    let Some(system) = System::start(SystemOptions { variables, ..SystemOptions::default() }).await? else {
        return Ok(());
    };
    system.plane.create_namespace(NAMESPACE).await?;
    let folder = system.service("watcher")?.program.folder().to_owned();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credentials", "namespace": NAMESPACE},
        "stringData": {"good": CANARY, "broken": format!("a: {{{CANARY}")},
    });
    let data = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DataObject",
        "metadata": {"name": "data", "namespace": NAMESPACE}, "data": CANARY,
    });
    // Apply with kubectl, which copies the whole object into an annotation.
    for (name, object) in [("secret.json", secret), ("data.json", data)] {
        let file = folder.join(name);
        std::fs::write(&file, object.to_string())?;
        system.kubectl(&["apply", "-f", &file.display().to_string()]).await?;
        std::fs::remove_file(&file)?;
    }
    let api: Api<Installation> = Api::namespaced(system.client().await?, NAMESPACE);
    let text = json!({"type": "string"});
    let good = "deployItems: [{name: item, type: landscaper.gardener.cloud/mock, config: {apiVersion: \
                mock.deployer.landscaper.gardener.cloud/v1alpha1, kind: ProviderConfiguration, export: {value: {{ .imports.value }}}}}]";
    let cases = [
        ("rendered", importing("rendered", "good", &text, good)?, "Succeeded"),
        ("broken", importing("broken", "broken", &text, good)?, "Failed"),
        ("wrong-type", importing("wrong-type", "good", &json!({"type": "integer"}), good)?, "Failed"),
        ("wrong-length", importing("wrong-length", "good", &json!({"maxLength": 3}), good)?, "Failed"),
        ("failing", importing("failing", "good", &text, "{{ fail .imports.value }}")?, "Failed"),
        ("no-yaml", importing("no-yaml", "good", &text, "deployItems: {{{ .imports.value }}")?, "Failed"),
        ("no-items", importing("no-items", "good", &text, "deployItems: [{{ .imports.value }}]")?, "Failed"),
    ];
    for (_, object, _) in &cases {
        api.create(&PostParams::default(), object).await?;
    }
    for (name, _, phase) in &cases {
        let found = finished(&system, NAMESPACE, name).await?;
        assert_eq!(outcome(&found).0, *phase, "{name}: {:?}", outcome(&found));
        let status = serde_json::to_string(&found.status)?;
        ensure!(!status.contains(CANARY), "the status of {name} shows the value: {status}");
    }
    // A mock item with an invalid configuration.
    let bad = blueprint(&[("item", json!({"phase": CANARY}))]);
    api.create(&PostParams::default(), &installation(NAMESPACE, "bad-item", &bad)).await?;
    finished(&system, NAMESPACE, "bad-item").await?;
    deploy(&system, NAMESPACE, CANARY).await?;
    let items =
        system.kubectl(&["get", "deployitems", "-n", NAMESPACE, "-o", "jsonpath={.items[*].status}"]).await?;
    ensure!(!items.contains(CANARY), "the status of an item shows the value");

    let events = system.kubectl(&["get", "events", "-n", NAMESPACE, "-o", "json"]).await?;
    ensure!(events.contains("Warning"), "failures are told as Events");
    ensure!(!events.contains(CANARY), "an Event shows the value");
    for service in ALL {
        let log = system.service(service)?.program.log();
        ensure!(!holds_canary(&log)?, "the log of {service} shows the value");
        let (_, metrics) = system.admin(service, "/metrics").await?;
        ensure!(!metrics.contains(CANARY), "the metrics of {service} show the value");
    }
    ensure!(!collector.text().contains(CANARY), "a trace shows the value");
    let files = files_below(system.nats.folder())?;
    ensure!(files.len() > 3, "NATS keeps its stream in files");
    for file in files {
        ensure!(!holds_canary(&file)?, "{} of NATS holds the value", file.display());
    }
    // Prove that the search works: the rendered Execution must contain the value.
    let executions = system.kubectl(&["get", "executions", "-n", NAMESPACE, "-o", "json"]).await;
    ensure!(executions.context("executions")?.contains(CANARY), "the canary was rendered");
    Ok(())
}
