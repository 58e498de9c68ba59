//! Overlays of `k8s/` under the conditions of a cluster: the API server accepts them, their pods
//! satisfy the profile `restricted`, and their programs run with the arguments, variables, files
//! and probes of the manifests, under their accounts and their NATS users.

mod network;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use groundwork_testkit::{Server, find, skipped};
use groundwork_tests::{System, SystemOptions, documents, get, wait_for, workspace};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::shared;
use network::Policies;
use pods::{Running, Workload};

const NAMESPACE: &str = "groundwork-system";
const PATIENCE: Duration = Duration::from_secs(90);

/// Overlay as kustomize renders it.
struct Overlay {
    folder: String,
    documents: Vec<Value>,
}

impl Overlay {
    async fn build(system: &System, name: &str) -> Result<Self> {
        let folder = format!("k8s/overlays/{name}");
        let documents = documents(&system.kubectl(&["kustomize", &folder]).await?)?;
        Ok(Self { folder, documents })
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.documents.iter().filter(move |document| document["kind"] == kind)
    }

    fn workloads(&self) -> Vec<Workload> {
        let all = self.of_kind("Deployment").chain(self.of_kind("StatefulSet"));
        all.map(|document| Workload { document: document.clone() }).collect()
    }
}

/// The monitor scrapes the metrics port of every service, and the dashboard is a ConfigMap with the
/// label that Grafana looks for.
#[tokio::test]
async fn metrics_are_asked_for_where_they_are() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let observed = documents(&system.kubectl(&["kustomize", "k8s/components/observability"]).await?)?;
    let of_kind = |kind: &str| observed.iter().find(|document| document["kind"] == kind).cloned();
    let monitor = of_kind("PodMonitor").context("there is a PodMonitor")?;
    let wanted = monitor.pointer("/spec/selector/matchLabels").cloned().context("it selects pods")?;
    let port = monitor.pointer("/spec/podMetricsEndpoints/0/port").cloned().context("it names a port")?;
    for workload in Overlay::build(system, "dev").await?.of_kind("Deployment") {
        let template = &workload["spec"]["template"];
        let labels = template["metadata"]["labels"].as_object().context("pods have labels")?;
        let is_service = labels.contains_key("groundwork.dev/service");
        let is_selected = wanted
            .as_object()
            .is_some_and(|wanted| wanted.iter().all(|(name, value)| labels.get(name) == Some(value)));
        ensure!(is_selected == is_service, "{labels:?}");
        let ports = template["spec"]["containers"][0]["ports"].as_array().context("it has ports")?;
        ensure!(!is_service || ports.iter().any(|open| open["name"] == port), "{ports:?}");
    }
    let dashboard = of_kind("ConfigMap").context("there is a dashboard")?;
    ensure!(dashboard["metadata"]["labels"]["grafana_dashboard"] == "1", "{}", dashboard["metadata"]);
    Ok(())
}

#[tokio::test]
async fn one_of_each() -> Result<()> {
    let services =
        [&groundwork_tests::ALL[..], &["deployer-manifest", "deployer-helm", "target-sync", "console"]]
            .concat();
    check("dev", 1, &services).await
}

#[tokio::test]
async fn replicas_with_tls_and_a_stream_on_three_servers() -> Result<()> {
    // The overlay `ha` contains no deployer.
    check("ha", 3, &["watcher", "resolver", "renderer", "variant"]).await
}

async fn check(name: &str, bus_servers: usize, services: &[&str]) -> Result<()> {
    let Some(system) = System::servers(SystemOptions::default()).await? else { return Ok(()) };
    for component in ["manifest-deployer", "helm-deployer", "target-sync", "console"] {
        system.kubectl(&["apply", "-k", &format!("k8s/components/{component}")]).await?;
    }
    let overlay = Overlay::build(&system, name).await?;
    system
        .kubectl(&["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", &overlay.folder])
        .await?;
    let workloads = overlay.workloads();
    ensure!(workloads.len() == services.len() + 1, "a service or NATS is missing in {name}");
    restricted_pods(&system, name, &workloads).await?;
    network::check(&Policies::of(overlay.of_kind("NetworkPolicy")), &workloads)?;
    disruption_budgets(&overlay)?;
    tokens_are_for_one_service(&workloads)?;

    secrets(&system)?;
    if name == "ha" && !tls_secrets(&system)? {
        return Ok(());
    }
    let files = Files::read(&system, &overlay).await?;
    let mut running = Running::new(workloads, files.0, bus_servers)?;
    running.start_bus()?;
    for index in 0..bus_servers {
        running.until_probed("groundwork-nats", index, PATIENCE).await?;
    }
    for service in services {
        running.start_service(&system, service).await?;
    }
    for service in services {
        running.until_probed(&format!("groundwork-{service}"), 0, PATIENCE).await?;
    }
    kept_on(&running, bus_servers, services).await?;
    for (pod, log) in running.logs() {
        ensure!(!log.contains("the NATS server denied a request"), "{pod} may not do what it needs: {log}");
    }
    Ok(())
}

/// Creates a bare Pod from every template, in a namespace that accepts only restricted ones.
async fn restricted_pods(system: &System, overlay: &str, workloads: &[Workload]) -> Result<()> {
    let namespace = format!("restricted-{overlay}");
    system.kubectl(&["create", "namespace", &namespace]).await?;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    system.kubectl(&["label", "namespace", &namespace, label]).await?;
    let pods: Api<Pod> = Api::namespaced(system.client().await?, &namespace);
    for workload in workloads {
        let pod = serde_json::from_value(workload.pod())?;
        pods.create(&PostParams::default(), &pod).await.with_context(|| workload.name().to_owned())?;
    }
    // The namespace does reject an unrestricted pod.
    let root = json!({"metadata": {"name": "root"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let refused = pods.create(&PostParams::default(), &serde_json::from_value(root)?).await;
    ensure!(
        refused.is_err_and(|error| error.to_string().contains("violates PodSecurity")),
        "it takes everything"
    );
    Ok(())
}

/// Every workload with replicas has a disruption budget that permits the loss of one.
fn disruption_budgets(overlay: &Overlay) -> Result<()> {
    let budgets: Vec<&Value> = overlay.of_kind("PodDisruptionBudget").collect();
    for workload in overlay.workloads() {
        let selector = &workload.document["spec"]["selector"];
        let has_one = budgets.iter().any(|budget| &budget["spec"]["selector"] == selector);
        let replicas = workload.document["spec"]["replicas"].as_u64().unwrap_or(1);
        ensure!(has_one == (replicas > 1), "{}: {replicas} replicas, budget: {has_one}", workload.name());
    }
    Ok(())
}

/// A service sends another service a token that is valid for that service only, with and without
/// TLS. An impostor therefore gets no token that the API server accepts.
fn tokens_are_for_one_service(workloads: &[Workload]) -> Result<()> {
    let callers = [
        ("groundwork-renderer", ["resolver", "deployer"].as_slice()),
        ("groundwork-variant", &["watcher"]),
        ("groundwork-console", &["resolver", "renderer", "variant"]),
    ];
    for (caller, services) in callers {
        // Some overlays do not contain the console.
        let Some(workload) = workloads.iter().find(|workload| workload.name() == caller) else {
            ensure!(caller == "groundwork-console", "{caller} is missing");
            continue;
        };
        let variables = workload.variables();
        let mut expected = Vec::new();
        for called in services {
            let url = variables.get(format!("GROUNDWORK_{}", called.to_uppercase()).as_str());
            ensure!(url.is_some_and(|url| url.contains(called)), "{caller}: {url:?}");
            let file = variables.get(format!("GROUNDWORK_{}_TOKEN_FILE", called.to_uppercase()).as_str());
            let folder = format!("/var/run/secrets/groundwork/{called}/token");
            ensure!(file == Some(&folder.as_str()), "{caller}: {file:?}");
            expected.push((groundwork_grpc::audience(called), "token".to_owned()));
        }
        ensure!(workload.tokens() == expected, "{caller}: {:?}", workload.tokens());
    }
    Ok(())
}

/// Creates the passwords with the commands of the page about clusters.
fn secrets(system: &System) -> Result<()> {
    let made = Command::new(system.binary("groundwork-bootstrap")?).arg("nats-secrets").output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut kubectl = system.plane.kubectl()?;
    let mut kubectl =
        kubectl.args(["create", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    std::io::Write::write_all(&mut kubectl.stdin.take().context("kubectl reads no input")?, &made.stdout)?;
    ensure!(kubectl.wait()?.success(), "kubectl create");
    Ok(())
}

/// Creates the certificates with the commands of the page about TLS. They are valid for this
/// machine too.
fn tls_secrets(system: &System) -> Result<bool> {
    if !Command::new("openssl").arg("version").output().is_ok_and(|output| output.status.success()) {
        skipped("openssl was not found");
        return Ok(false);
    }
    let page = std::fs::read_to_string(workspace().join("docs/tls.md"))?;
    let (_, script) = page.split_once("```sh\n").context("docs/tls.md has a script")?;
    let (script, _) = script.split_once("```").context("docs/tls.md has a script")?;
    ensure!(script.contains("DNS:%s\\n"), "the script names the certificates");
    let script = script.replace("DNS:%s\\n", "DNS:%s,DNS:localhost\\n");
    let folder = tempfile::tempdir()?;
    // The script of the page calls `kubectl`, so give the test's program that name.
    std::os::unix::fs::symlink(find(Server::Kubectl)?.path, folder.path().join("kubectl"))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-e", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("KUBECONFIG", system.plane.kubeconfig())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for service in ["nats", "watcher", "resolver", "renderer", "deployer", "variant"] {
        usages(folder.path(), service, service == "nats")?;
    }
    Ok(true)
}

/// Checks that a certificate is only valid for the usages in the page's table: only the NATS
/// servers use theirs as clients, to each other.
fn usages(folder: &Path, service: &str, calls: bool) -> Result<()> {
    let output = Command::new("openssl")
        .args(["x509", "-noout", "-ext", "keyUsage,extendedKeyUsage", "-in", &format!("{service}.crt")])
        .current_dir(folder)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let client = if calls { ", TLS Web Client Authentication" } else { "" };
    let usage = format!("TLS Web Server Authentication{client}");
    ensure!(lines.contains(&"Digital Signature") && lines.contains(&&*usage), "{service}: {text}");
    Ok(())
}

/// Content of the Secrets and ConfigMaps that pods mount, by kind and name.
struct Files(BTreeMap<(&'static str, String), BTreeMap<String, String>>);

impl Files {
    async fn read(system: &System, overlay: &Overlay) -> Result<Self> {
        let mut all = BTreeMap::new();
        let secrets: Api<Secret> = Api::namespaced(system.client().await?, NAMESPACE);
        for secret in secrets.list(&ListParams::default()).await? {
            let data = secret.data.unwrap_or_default().into_iter();
            let text = data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned()));
            all.insert(("secret", secret.metadata.name.unwrap_or_default()), text.collect());
        }
        for map in overlay.of_kind("ConfigMap") {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            all.insert(("configMap", name.to_owned()), serde_json::from_value(map["data"].clone())?);
        }
        Ok(Self(all))
    }
}

/// Checks that the stream is on all NATS servers of the overlay, and that exactly the queues exist
/// that the NATS users may create.
async fn kept_on(running: &Running, servers: usize, services: &[&str]) -> Result<()> {
    let users = std::fs::read_to_string(workspace().join("k8s/nats/users.conf"))?;
    let allowed: BTreeSet<&str> = users
        .split("\"$JS.API.CONSUMER.CREATE.GROUNDWORK.")
        .filter_map(|rest| rest.split_once(".groundwork.v1."))
        // The permissions for queues of selectable kinds match any kind, and this test selects
        // none.
        .filter(|(_, kind)| !kind.starts_with('>'))
        .map(|(name, _)| name)
        .filter(|name| {
            let service = match name.split_once('-') {
                // The queue is named after the deployer, whose program this part belongs to.
                Some(("deployer_targetsync", _)) => "target-sync".to_owned(),
                Some((service, _)) => service.replace('_', "-"),
                None => return false,
            };
            services.contains(&service.as_str())
        })
        .collect();
    ensure!(allowed.len() > 5, "{allowed:?}");
    let port = running.port("groundwork-nats", 0, 8222)?;
    let what = format!("the stream is kept on {servers} servers, with {} queues", allowed.len());
    wait_for(&what, PATIENCE, async || {
        let path = "/jsz?streams=true&consumers=true&config=true";
        let (_, body) = get(port, path).await.map_err(|error| error.to_string())?;
        let report: Value = body_json(&body)?;
        let stream = &report["account_details"][0]["stream_detail"][0];
        let consumers = stream["consumer_detail"].as_array().into_iter().flatten();
        let names = consumers.filter_map(|consumer| consumer["config"]["durable_name"].as_str());
        let queues: BTreeSet<&str> = names.collect();
        let replicas = stream["config"]["num_replicas"].as_u64();
        if replicas == u64::try_from(servers).ok() && queues == allowed {
            Ok(())
        } else {
            Err(format!("{replicas:?} replicas, {queues:?}"))
        }
    })
    .await
}

/// Parses the JSON in a body, with or without chunked encoding.
fn body_json(body: &str) -> std::result::Result<Value, String> {
    let start = body.find('{').ok_or("no JSON")?;
    let end = body.rfind('}').ok_or("no JSON")?;
    serde_json::from_str(&body[start..=end]).map_err(|error| error.to_string())
}

/// Returns the local folder of a pod's mount.
fn mount_folder(root: &Path, mount: &str) -> std::path::PathBuf {
    root.join(mount.trim_start_matches('/').replace('/', "-"))
}
