//! Runs pods as local processes, with the settings that a node would take from their templates.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use groundwork_testkit::{Program, Server, find};
use groundwork_tests::{System, get, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NAMESPACE, mount_folder};

/// Deployment or StatefulSet.
#[derive(Clone)]
pub(super) struct Workload {
    pub(super) document: Value,
}

impl Workload {
    pub(super) fn name(&self) -> &str {
        self.document["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn template(&self) -> &Value {
        &self.document["spec"]["template"]
    }

    pub(super) fn labels(&self) -> &Value {
        &self.template()["metadata"]["labels"]
    }

    fn container(&self) -> &Value {
        &self.template()["spec"]["containers"][0]
    }

    /// Returns audience and file of each mounted token.
    pub(super) fn tokens(&self) -> Vec<(String, String)> {
        let volumes = self.template()["spec"]["volumes"].as_array().into_iter().flatten();
        let sources = volumes.filter_map(|volume| volume.pointer("/projected/sources")?.as_array()).flatten();
        let token = |source: &Value| {
            let text = |field| source["serviceAccountToken"][field].as_str().map(str::to_owned);
            Some((text("audience")?, text("path")?))
        };
        sources.filter_map(token).collect()
    }

    /// Returns the container's environment variables with literal values.
    pub(super) fn variables(&self) -> BTreeMap<&str, &str> {
        let all = self.container()["env"].as_array().into_iter().flatten();
        all.filter_map(|variable| Some((variable["name"].as_str()?, variable["value"].as_str()?))).collect()
    }

    /// Returns the pod that a controller would create.
    pub(super) fn pod(&self) -> Value {
        let mut spec = self.template()["spec"].clone();
        for claim in self.document["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
            let name = &claim["metadata"]["name"];
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
            if let Some(volumes) = spec["volumes"].as_array_mut() {
                volumes.push(volume);
            }
        }
        json!({"metadata": {"name": self.name(), "labels": self.labels()}, "spec": spec})
    }
}

type Content = BTreeMap<(&'static str, String), BTreeMap<String, String>>;

/// Running programs, and the local replacements for addresses that exist only in a cluster.
pub(super) struct Running {
    workloads: Vec<Workload>,
    files: Content,
    bus_servers: usize,
    /// Local port by workload, replica and container port.
    ports: BTreeMap<(String, usize, u16), u16>,
    programs: Vec<(String, usize, Program)>,
    folder: TempDir,
}

impl Running {
    pub(super) fn new(workloads: Vec<Workload>, files: Content, bus_servers: usize) -> Result<Self> {
        let mut ports = BTreeMap::new();
        // Keep all listeners open until every port is chosen, so that no port is chosen twice.
        let mut listeners = Vec::new();
        for workload in &workloads {
            let is_bus = workload.name() == "groundwork-nats";
            for index in 0..if is_bus { bus_servers } else { 1 } {
                for port in workload.container()["ports"].as_array().into_iter().flatten() {
                    let number = port["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok());
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    let own = listener.local_addr()?.port();
                    listeners.push(listener);
                    ports.insert((workload.name().to_owned(), index, number.context("a port")?), own);
                }
            }
        }
        let folder = tempfile::tempdir()?;
        Ok(Self { workloads, files, bus_servers, ports, programs: Vec::new(), folder })
    }

    pub(super) fn port(&self, workload: &str, index: usize, port: u16) -> Result<u16> {
        let key = (workload.to_owned(), index, port);
        self.ports.get(&key).copied().with_context(|| format!("{workload} has no port {port}"))
    }

    fn workload(&self, name: &str) -> Result<Workload> {
        self.workloads
            .iter()
            .find(|workload| workload.name() == name)
            .cloned()
            .with_context(|| name.to_owned())
    }

    /// Starts all NATS servers.
    pub(super) fn start_bus(&mut self) -> Result<()> {
        let program = find(Server::NatsServer)?.path;
        for index in 0..self.bus_servers {
            let command = Command::new(&program);
            self.start("groundwork-nats", index, command)?;
        }
        Ok(())
    }

    /// Starts a service under its account. The kubeconfig replaces the token and the address that a
    /// pod would get.
    pub(super) async fn start_service(&mut self, system: &System, service: &str) -> Result<()> {
        let name = format!("groundwork-{service}");
        let account = self.workload(&name)?.template()["spec"]["serviceAccountName"].clone();
        let account = account.as_str().context("an account")?.to_owned();
        for (audience, path) in self.workload(&name)?.tokens() {
            let token = system.plane.service_account_token_for(NAMESPACE, &account, Some(&audience)).await?;
            self.files.insert(("serviceAccountToken", audience), BTreeMap::from([(path, token)]));
        }
        let path = system.plane.service_account_kubeconfig(NAMESPACE, &account).await?;
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        config["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
        std::fs::write(&path, config.to_string())?;
        // Several workloads may run the same program, so the image gives its name.
        let image = self.workload(&name)?.container()["image"].as_str().unwrap_or_default().to_owned();
        let program = image.split(':').next().unwrap_or_default().replace('/', "-");
        let mut command = Command::new(system.binary(&program)?);
        command.env("KUBECONFIG", path);
        self.start(&name, 0, command)
    }

    fn start(&mut self, name: &str, index: usize, mut command: Command) -> Result<()> {
        let workload = self.workload(name)?;
        let pod = format!("{name}-{index}");
        let container = workload.container();
        ensure!(container.get("command").is_none(), "{name}: the entry point of the image is not known here");
        let places = self.places(&workload, index)?;
        self.mount(&workload, &places, &pod)?;
        for argument in container["args"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            command.arg(replace(argument, &places));
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().context("a variable has a name")?;
            let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
                Some("metadata.name") => pod.clone(),
                Some(other) => anyhow::bail!("{name}: {other} is not known here"),
                None => replace(variable["value"].as_str().context("a variable has a value")?, &places),
            };
            command.env(name, value);
        }
        self.programs.push((name.to_owned(), index, Program::start(&pod, &command)?));
        Ok(())
    }

    /// Returns replacements for folders, ports and names, longer ones first.
    fn places(&self, workload: &Workload, index: usize) -> Result<Vec<(String, String)>> {
        let mut places = Vec::new();
        let root = self.folder.path().join(format!("{}-{index}", workload.name()));
        for mount in workload.container()["volumeMounts"].as_array().into_iter().flatten() {
            let path = mount["mountPath"].as_str().context("a mount has a path")?;
            places.push((path.to_owned(), mount_folder(&root, path).display().to_string()));
        }
        for ((name, replica, port), own) in &self.ports {
            if name == workload.name() && *replica == index {
                places.push((format!("0.0.0.0:{port}"), format!("127.0.0.1:{own}")));
            }
            let local = format!("localhost:{own}");
            for suffix in ["", ".groundwork-system.svc"] {
                places.push((format!("//{name}-{replica}.{name}{suffix}:{port}"), format!("//{local}")));
                if *replica == 0 {
                    places.push((format!("//{name}{suffix}:{port}"), format!("//{local}")));
                }
            }
        }
        places.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Ok(places)
    }

    /// Writes the content of a pod's volumes.
    fn mount(&self, workload: &Workload, places: &[(String, String)], pod: &str) -> Result<()> {
        let volumes = workload.template()["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        for mount in workload.container()["volumeMounts"].as_array().into_iter().flatten() {
            let path = mount["mountPath"].as_str().context("a mount has a path")?;
            let folder = PathBuf::from(replace(path, places));
            std::fs::create_dir_all(&folder)?;
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else {
                continue;
            };
            let projected = volume.pointer("/projected/sources").and_then(Value::as_array);
            for source in projected.cloned().unwrap_or_else(|| vec![volume.clone()]) {
                for (name, text) in self.content(&source).with_context(|| pod.to_owned())? {
                    std::fs::write(folder.join(name), replace(&text, places))?;
                }
            }
        }
        Ok(())
    }

    fn content(&self, source: &Value) -> Result<Vec<(String, String)>> {
        if source.get("emptyDir").is_some() {
            return Ok(Vec::new());
        }
        if let Some(audience) = source.pointer("/serviceAccountToken/audience").and_then(Value::as_str) {
            let key = ("serviceAccountToken", audience.to_owned());
            return Ok(self.files.get(&key).context("a token")?.clone().into_iter().collect());
        }
        let (kind, value) = match (&source["secret"], &source["configMap"]) {
            (Value::Null, map) => ("configMap", map),
            (secret, _) => ("secret", secret),
        };
        let name =
            value["secretName"].as_str().or(value["name"].as_str()).context("a volume has a source")?;
        let data =
            self.files.get(&(kind, name.to_owned())).with_context(|| format!("there is no {kind} {name}"))?;
        let Some(items) = value["items"].as_array() else { return Ok(data.clone().into_iter().collect()) };
        let pick = |item: &Value| {
            let (key, path) = (item["key"].as_str()?, item["path"].as_str()?);
            Some((path.to_owned(), data.get(key)?.clone()))
        };
        items
            .iter()
            .map(|item| pick(item).with_context(|| format!("{kind} {name} has no {}", item["key"])))
            .collect()
    }

    /// Returns the output of each program by pod.
    pub(super) fn logs(&self) -> impl Iterator<Item = (String, String)> {
        let log = |program: &Program| std::fs::read_to_string(program.log()).unwrap_or_default();
        self.programs.iter().map(move |(name, index, program)| (format!("{name}-{index}"), log(program)))
    }

    /// Waits until every probe of a pod succeeds.
    pub(super) async fn until_probed(&self, name: &str, index: usize, limit: Duration) -> Result<()> {
        let workload = self.workload(name)?;
        let container = workload.container();
        let program = self.programs.iter().find(|(other, replica, _)| other == name && *replica == index);
        let (.., program) = program.context("it was started")?;
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let http = &container[probe]["httpGet"];
            let path = http["path"].as_str().with_context(|| format!("{name} has no {probe}"))?;
            let ports = container["ports"].as_array().into_iter().flatten();
            let port =
                ports.into_iter().find(|port| port["name"] == http["port"]).context("the port of a probe")?;
            let port =
                port["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok()).context("a port")?;
            let port = self.port(name, index, port)?;
            wait_for(&format!("{probe} {path} of {name} {index}"), limit, async || {
                let log = || std::fs::read_to_string(program.log()).unwrap_or_default();
                if !program.is_running() {
                    return Err(format!("it ended: {}", log()));
                }
                match get(port, path).await {
                    Ok((200, _)) => Ok(()),
                    Ok((code, body)) => Err(format!("{code} {body}\n{}", log())),
                    Err(error) => Err(error.to_string()),
                }
            })
            .await?;
        }
        Ok(())
    }
}

fn replace(text: &str, places: &[(String, String)]) -> String {
    places.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
