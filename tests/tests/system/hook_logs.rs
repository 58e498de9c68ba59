//! Logs of hooks (`helm.md` 9.4, R34). The cluster of the Target has no nodes, so the test acts as
//! the kubelet from which the API server requests logs.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use groundwork_api::DeployItem;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;

use crate::case::Case;
use crate::deploying_charts::{chart, item};
use crate::shared;
use crate::target_cluster::{TargetCluster, cluster, give_job, outcome};

const NODE: &str = "node-of-the-test";

/// Starts a kubelet that answers every request for a log with the same lines.
async fn kubelet(log: &'static str) -> Result<u16> {
    let certified = generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = certified.signing_key.serialize_der().try_into().map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                head.push(byte);
            }
            let head = String::from_utf8_lossy(&head);
            let is_log = head.contains("GET /containerLogs/hook-logs/") && head.contains("tailLines=");
            let (status, body) = if is_log { ("200 OK", log) } else { ("404 Not Found", "") };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            drop(stream.write_all(answer.as_bytes()).await);
            drop(stream.shutdown().await);
        }
    });
    Ok(port)
}

/// Creates a node whose kubelet is the test.
async fn register(cluster: &TargetCluster, port: u16) -> Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    cluster.create("/api/v1/nodes", &node).await?;
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    cluster.change(&format!("/api/v1/nodes/{NODE}/status"), &status).await?;
    Ok(())
}

fn hook(name: &str, policies: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations:\n    helm.sh/hook: pre-install\n    \
         helm.sh/hook-output-log-policy: {policies}\nspec:\n  \
         nodeName: {NODE}\n  automountServiceAccountToken: false\n  containers: [{{name: migrate, image: i}}]\n"
    )
}

/// Runs a release whose hook is a pod that ends in this phase. Returns phase and message of the
/// item afterwards.
async fn run(
    case: &Case<'_>,
    cluster: &TargetCluster,
    name: &str,
    policies: &str,
    phase: &str,
) -> Result<(String, String)> {
    let hook = hook(name, policies);
    let chart = chart("0.1.0", &[("templates/hook.yaml", hook.as_str())])?;
    let release = json!({"name": name});
    case.create::<DeployItem>(name, &item(case, &chart, "hook-logs", &release)).await?;
    give_job(case, name, "1").await?;
    let path = format!("/api/v1/namespaces/hook-logs/pods/{name}");
    cluster.until("the hook runs", &path, |found| found.is_some()).await?;
    cluster.change(&format!("{path}/status"), &json!({"status": {"phase": phase}})).await?;
    // A failed release is retried until the item's timeout, so wait for the message instead of the
    // end.
    let told =
        |item: &DeployItem| outcome(item).0 == "Succeeded" || outcome(item).1.contains("failed pre-install");
    Ok(outcome(&case.until("the hook has ended", name, told).await?))
}

/// R34: if the chart asks for it, the output of a hook is in the item's error after a failure, and
/// in an Event after a success.
#[tokio::test(flavor = "multi_thread")]
async fn logs_of_hooks_reach_people() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "hook-logs").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("hook-logs").await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    drop(cluster.create("/api/v1/namespaces/hook-logs/serviceaccounts", &account).await);
    register(&cluster, kubelet("step 1\nstep 2: no such table\n").await?).await?;

    let (_, error) = run(&case, &cluster, "broken", "hook-failed", "Failed").await?;
    let told = "log of container migrate of pod broken:\nstep 1\nstep 2: no such table";
    ensure!(error.contains("pod broken failed") && error.contains(told), "{error}");

    let fine = run(&case, &cluster, "fine", "hook-succeeded", "Succeeded").await?;
    ensure!(fine.0 == "Succeeded", "{fine:?}");
    let event = logs_told(&case, "fine").await?.pop().context("an Event with the log")?;
    ensure!(event["type"] == "Normal", "{event}");
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(message == "log of container migrate of pod fine:\nstep 1\nstep 2: no such table", "{message}");

    // If the chart does not ask for it, the output appears nowhere.
    let silent = run(&case, &cluster, "silent", "hook-succeeded", "Failed").await?;
    ensure!(silent.1.contains("pod silent failed") && !silent.1.contains("step 1"), "{silent:?}");
    ensure!(logs_told(&case, "silent").await?.is_empty(), "a log was told");
    Ok(())
}

async fn logs_told(case: &Case<'_>, item: &str) -> Result<Vec<Value>> {
    let events = case.list::<k8s_openapi::api::core::v1::Event>("").await?;
    let events = events.iter().map(|event| json!(event));
    Ok(events
        .filter(|event| event["reason"] == "HookLog" && event["involvedObject"]["name"] == item)
        .collect())
}
