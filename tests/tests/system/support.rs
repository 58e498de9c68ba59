use std::time::Duration;

use anyhow::{Context, Result};
use groundwork_api::Installation;
use groundwork_tests::{System, wait_for};
use kube::Api;
use serde_json::{Value, json};

/// Time limit for waits, longer than any of them takes on a machine with a build in parallel.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Returns a blueprint with mock items. `config` is the configuration of each item beside type and
/// version.
pub(crate) fn blueprint(items: &[(&str, Value)]) -> String {
    let mut text = String::from(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  \
         template: |\n    deployItems:\n",
    );
    for (name, config) in items {
        let mut config = config.clone();
        config["apiVersion"] = json!("mock.deployer.landscaper.gardener.cloud/v1alpha1");
        config["kind"] = json!("ProviderConfiguration");
        text.push_str(&format!(
            "    - name: {name}\n      type: landscaper.gardener.cloud/mock\n      config: {config}\n"
        ));
    }
    text
}

/// Returns an Installation with an inline blueprint that runs a job on each change of its spec.
pub(crate) fn installation(namespace: &str, name: &str, blueprint: &str) -> Installation {
    let object = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Installation",
        "metadata": {
            "name": name, "namespace": namespace,
            "annotations": {"landscaper.gardener.cloud/reconcile-if-changed": "true"},
        },
        "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}}},
    });
    serde_json::from_value(object).expect("the object above is an Installation")
}

/// Waits until the last job for the current spec of an Installation has ended.
pub(crate) async fn finished(system: &System, namespace: &str, name: &str) -> Result<Installation> {
    let api: Api<Installation> = Api::namespaced(system.client().await?, namespace);
    let what = format!("installation {namespace}/{name} has finished its job");
    wait_for(&what, PATIENCE, async || {
        let installation = api.get(name).await.map_err(|error| error.to_string())?;
        let status = installation.status.clone().unwrap_or_default();
        let is_idle = status.job_id.is_some() && status.job_id == status.job_id_finished;
        if is_idle && Some(status.observed_generation) == installation.metadata.generation {
            return Ok(installation);
        }
        Err(serde_json::to_string(&status).unwrap_or_default())
    })
    .await
    .map_err(|error| system.explained(error))
}

/// Returns the phase of an Installation and the message of its last error.
pub(crate) fn outcome(installation: &Installation) -> (String, String) {
    let status = installation.status.clone().unwrap_or_default();
    let error = status.last_error.map(|error| format!("{}: {}", error.reason, error.message));
    (status.phase.unwrap_or_default(), error.unwrap_or_default())
}

/// Returns the finished requests of the services in the audit log with this verb, or with any verb
/// for `""`.
pub(crate) fn requests(system: &System, verb: &str) -> Result<Vec<Value>> {
    Ok(stages(system, verb)?.into_iter().filter(|request| request["stage"] == "ResponseComplete").collect())
}

/// Returns the requests of the services in the audit log at any stage: a watch is logged when it
/// starts, and ends late.
pub(crate) fn stages(system: &System, verb: &str) -> Result<Vec<Value>> {
    const USER: &str = "system:serviceaccount:groundwork-system:";
    let log = system.plane.audit_log().context("the API server writes an audit log")?;
    let text = std::fs::read_to_string(log)?;
    // Filter by text first, since most lines are about other requests and JSON takes time to parse.
    let verb = format!("\"verb\":\"{verb}");
    let lines = text.lines().filter(|line| line.contains(USER) && line.contains(&verb));
    let requests = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_ours = |request: &Value| {
        let user = request["user"]["username"].as_str();
        user.is_some_and(|user| user.starts_with(USER))
    };
    Ok(requests.filter(is_ours).collect())
}
