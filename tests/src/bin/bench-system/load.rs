//! Benchmark of thousands of Installations with data flow: created, updated and deleted, compared
//! with a client without a controller that writes the same objects.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use groundwork_api::Installation;
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::WatchEvent;
use serde_json::{Map, Value, json};

use crate::process::{Usage, usage};
use crate::requests::AuditLog;
use crate::scenario::{Bench, per, rounded};

type Figures = Map<String, Value>;

/// Number of concurrent requests.
pub(crate) const CLIENTS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(600);

/// Blueprint with one data import, one mock item with an export, and one export computed from that.
const BLUEPRINT: &str = r#"apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
jsonSchema: "https://json-schema.org/draft/2019-09/schema"
imports:
- name: settings
  type: data
  schema:
    type: object
    properties:
      size: {type: integer}
      text: {type: string}
exports:
- name: result
  type: data
  schema: {type: string}
deployExecutions:
- name: main
  type: GoTemplate
  template: |
    deployItems:
    - name: item
      type: landscaper.gardener.cloud/mock
      config:
        apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1
        kind: ProviderConfiguration
        export:
          result: {{ printf "%s-%v" .imports.settings.text .imports.settings.size }}
exportExecutions:
- name: main
  type: GoTemplate
  template: |
    exports:
      result: {{ .values.deployitems.item.result }}
"#;

/// Returns an Installation of the load. It imports from the ConfigMap `in-<index>`.
pub(crate) fn installation(namespace: &str, index: usize) -> Installation {
    let object = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {
            "name": format!("inst-{index}"), "namespace": namespace,
            "annotations": {"landscaper.gardener.cloud/operation": "reconcile"},
        },
        "spec": {
            "context": "default",
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": BLUEPRINT}}},
            "imports": {"data": [{"name": "settings", "configMapRef": {"name": format!("in-{index}"), "key": "settings"}}]},
            "exports": {"data": [{"name": "result", "dataRef": format!("out-{index}")}]},
        },
    });
    serde_json::from_value(object).expect("the object above is an Installation")
}

fn settings(index: usize, size: usize) -> String {
    json!({"size": size, "text": format!("t{index}")}).to_string()
}

/// Resources used since the meter was started.
pub(crate) struct Meter {
    log: AuditLog,
    services: Vec<(&'static str, Usage)>,
    api_server: Usage,
    start: Instant,
}

impl Meter {
    pub(crate) fn start(bench: &Bench) -> Result<Self> {
        let log = AuditLog::open(&bench.system.plane.audit_log().context("there is an audit log")?)?;
        let api_server = usage(bench.system.plane.api_server_pid()?)?;
        Ok(Self { log, services: bench.usages()?, api_server, start: Instant::now() })
    }

    /// Returns the figures of `count` Installations under `name`.
    pub(crate) fn stop(mut self, bench: &Bench, name: &str, count: usize) -> Result<Figures> {
        let seconds = self.start.elapsed().as_secs_f64();
        let mut figures = Figures::new();
        let mut tell =
            |what: &str, figure: f64| drop(figures.insert(format!("{name}.{what}"), rounded(figure)));
        tell("seconds", seconds);
        let mut total = 0;
        for (request, times) in self.log.counts()? {
            total += times;
            tell(&format!("requests.{request}"), per(times, count));
        }
        tell("requests_each", per(total, count));
        let after = bench.usages()?;
        let spent =
            |(before, after): (&(&str, Usage), &(&str, Usage))| after.1.cpu_seconds - before.1.cpu_seconds;
        let cpu: f64 = self.services.iter().zip(&after).map(spent).sum();
        tell("cpu_ms_each", cpu * 1000.0 / per(count, 1));
        tell("peak_mib", after.iter().map(|(_, usage)| usage.peak).sum());
        let api_server = usage(bench.system.plane.api_server_pid()?)?;
        let cpu = api_server.cpu_seconds - self.api_server.cpu_seconds;
        tell("api_server_cpu_ms_each", cpu * 1000.0 / per(count, 1));
        tell("api_server_peak_mib", api_server.peak);
        Ok(figures)
    }
}

/// Returns the median of each figure over several rounds.
fn medians(rounds: &[Figures]) -> Figures {
    let mut all: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, figure) in rounds.iter().flatten() {
        all.entry(name).or_default().extend(figure.as_f64());
    }
    let median = |figures: &mut Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    all.iter_mut().map(|(name, figures)| ((*name).clone(), rounded(median(figures)))).collect()
}

impl Bench {
    /// Creates `count` Installations, changes their imports, and deletes half of them. With
    /// `floor`, a plain client writes the same objects for comparison.
    pub(crate) async fn load(&mut self, count: usize, rounds: usize, with_floor: bool) -> Result<Figures> {
        let mut all = Vec::new();
        for round in 0..rounds {
            let namespace = format!("load-{round}");
            self.prepare(&namespace, 0..count).await?;
            let mut figures = self.create(&namespace, 0..count, "load.create").await?;
            figures.extend(self.update(&namespace, count).await?);
            if with_floor {
                figures.extend(self.floor(&namespace, &format!("floor-{round}"), count).await?);
                for part in ["create", "update"] {
                    let seconds = |name: &str| figures[name].as_f64().unwrap_or(f64::NAN);
                    let ratio = seconds(&format!("load.{part}.seconds")) / seconds("floor.seconds");
                    figures.insert(format!("load.{part}.to_floor"), rounded(ratio));
                }
            }
            figures.extend(self.delete(&namespace, count / 2).await?);
            eprintln!("round {round}: {}", Value::Object(figures.clone()));
            all.push(figures);
        }
        let mut figures = medians(&all);
        figures.insert("load.installations".into(), json!(count));
        figures.insert("load.rounds".into(), json!(rounds));
        Ok(figures)
    }

    /// Creates the same number of Installations repeatedly in one namespace, to compare the last
    /// batch with the first.
    pub(crate) async fn growth(&mut self, count: usize, times: usize) -> Result<Figures> {
        let namespace = "growth";
        let mut seconds = Vec::new();
        for time in 0..times {
            let range = time * count..(time + 1) * count;
            self.prepare(namespace, range.clone()).await?;
            let figures = self.create(namespace, range, "growth").await?;
            seconds.push(figures["growth.seconds"].as_f64().unwrap_or(f64::NAN));
            eprintln!("{} in the namespace: {}", (time + 1) * count, Value::Object(figures));
        }
        let ratio = seconds.last().copied().unwrap_or(f64::NAN) / seconds[0];
        Ok(Figures::from_iter([
            ("growth.seconds".to_owned(), json!(seconds)),
            ("growth.last_to_first".to_owned(), rounded(ratio)),
        ]))
    }

    /// Measures a cluster of many finished Installations: the delay until a restarted renderer does
    /// new work, and the memory and CPU of the services.
    pub(crate) async fn standing(&mut self, count: usize) -> Result<Figures> {
        let namespace = "standing";
        self.prepare(namespace, 0..1).await?;
        let api = self.installations(namespace).await?;
        let parameters = PostParams::default();
        stream::iter(1..=count)
            .map(Ok::<_, anyhow::Error>)
            .try_for_each_concurrent(CLIENTS, async |index| {
                let mut object = installation(namespace, index);
                object.metadata.annotations = None;
                object.metadata.finalizers =
                    Some(vec![groundwork_api::metadata::FINALIZER.to_owned()]);
                let mut stored = api.create(&parameters, &object).await?;
                let status = json!({"phase": "Succeeded", "jobID": "j", "jobIDFinished": "j", "observedGeneration": 1});
                stored.status = Some(serde_json::from_value(status)?);
                api.replace_status(&stored.name_any(), &parameters, &stored).await?;
                Ok(())
            })
            .await?;
        wait_for("the stream holds all Installations", PATIENCE, async || {
            let (_, metrics) =
                self.system.admin("watcher", "/metrics").await.map_err(|error| error.to_string())?;
            let stored = crate::scenario::sum(&metrics, "groundwork_watcher_objects{kind=\"installations");
            if stored >= per(count, 1) { Ok(()) } else { Err(format!("{stored} of {count}")) }
        })
        .await?;
        self.system.service_mut("renderer")?.program.kill().await?;
        let start = Instant::now();
        self.system.service_mut("renderer")?.program.start_again()?;
        api.create(&parameters, &installation(namespace, 0)).await?;
        self.until(namespace, HashSet::from([installation(namespace, 0).name_any()]), is_finished).await?;
        let seconds = start.elapsed().as_secs_f64();
        let resident: f64 = self.usages()?.iter().map(|(_, usage)| usage.resident).sum();
        Ok(Figures::from_iter([
            ("standing.installations".to_owned(), json!(count)),
            ("standing.restart_to_finished_seconds".to_owned(), rounded(seconds)),
            ("standing.resident_mib".to_owned(), rounded(resident)),
        ]))
    }

    pub(crate) async fn installations(&self, namespace: &str) -> Result<Api<Installation>> {
        Ok(Api::namespaced(self.system.client().await?, namespace))
    }

    /// Creates the objects that the Installations import.
    pub(crate) async fn prepare(&self, namespace: &str, range: std::ops::Range<usize>) -> Result<()> {
        let client = self.system.client().await?;
        if range.start == 0 {
            self.system.plane.create_namespace(namespace).await?;
            self.until_context(namespace).await?;
        }
        let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
        let parameters = PostParams::default();
        stream::iter(range)
            .map(Ok::<_, anyhow::Error>)
            .try_for_each_concurrent(CLIENTS, async |index| {
                let map = json!({"metadata": {"name": format!("in-{index}")}, "data": {"settings": settings(index, 1)}});
                maps.create(&parameters, &serde_json::from_value(map)?).await?;
                Ok(())
            })
            .await
    }

    async fn create(&self, namespace: &str, range: std::ops::Range<usize>, name: &str) -> Result<Figures> {
        let api = self.installations(namespace).await?;
        let count = range.len();
        let names = range.clone().map(|index| format!("inst-{index}")).collect();
        let meter = Meter::start(self)?;
        let parameters = PostParams::default();
        stream::iter(range)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(CLIENTS, async |index| {
                api.create(&parameters, &installation(namespace, index)).await.map(drop)
            })
            .await?;
        self.until(namespace, names, is_finished).await?;
        meter.stop(self, name, count)
    }

    /// Changes the imports of all Installations and requests jobs.
    async fn update(&self, namespace: &str, count: usize) -> Result<Figures> {
        let client = self.system.client().await?;
        let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
        let api = self.installations(namespace).await?;
        let former: BTreeMap<String, Option<String>> = api
            .list(&kube::api::ListParams::default())
            .await?
            .into_iter()
            .map(|installation| (installation.name_any(), job(&installation)))
            .collect();
        let parameters = PatchParams::default();
        let request =
            json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}}});
        let meter = Meter::start(self)?;
        stream::iter(0..count)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(CLIENTS, async |index| {
                let change = json!({"data": {"settings": settings(index, 2)}});
                maps.patch(&format!("in-{index}"), &parameters, &Patch::Merge(change)).await?;
                api.patch(&format!("inst-{index}"), &parameters, &Patch::Merge(&request)).await.map(drop)
            })
            .await?;
        let is_done = |installation: &Installation| {
            is_finished(installation) && former.get(&installation.name_any()) != Some(&job(installation))
        };
        self.until(namespace, former.keys().cloned().collect(), is_done).await?;
        meter.stop(self, "load.update", count)
    }

    async fn delete(&self, namespace: &str, count: usize) -> Result<Figures> {
        let api = self.installations(namespace).await?;
        let version = api.list(&kube::api::ListParams::default().limit(1)).await?.metadata.resource_version;
        let meter = Meter::start(self)?;
        let parameters = DeleteParams::default();
        stream::iter(0..count)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(CLIENTS, async |index| {
                api.delete(&format!("inst-{index}"), &parameters).await.map(drop)
            })
            .await?;
        let mut left: HashSet<String> = (0..count).map(|index| format!("inst-{index}")).collect();
        let mut events = api.watch(&WatchParams::default(), &version.unwrap_or_default()).await?.boxed();
        while !left.is_empty() {
            let event = tokio::time::timeout(PATIENCE, events.try_next()).await??;
            if let Some(WatchEvent::Deleted(installation)) = &event {
                left.remove(&installation.name_any());
            }
            ensure!(event.is_some(), "the watch ended with {} left", left.len());
        }
        meter.stop(self, "load.delete", count)
    }

    /// Watches until all these Installations satisfy the condition.
    async fn until(
        &self,
        namespace: &str,
        mut left: HashSet<String>,
        is_done: impl Fn(&Installation) -> bool,
    ) -> Result<()> {
        let api = self.installations(namespace).await?;
        let end = tokio::time::Instant::now() + PATIENCE;
        let mut version = "0".to_owned();
        while !left.is_empty() {
            let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
            while !left.is_empty() {
                let event = tokio::time::timeout_at(end, events.next()).await;
                let event =
                    event.with_context(|| format!("{} are left: {}", left.len(), self.system.logs()))?;
                let Some(Ok(event)) = event else { break };
                if let WatchEvent::Added(installation) | WatchEvent::Modified(installation) = event {
                    version = installation.resource_version().unwrap_or_default();
                    if is_done(&installation) {
                        left.remove(&installation.name_any());
                    }
                }
            }
        }
        Ok(())
    }
}

fn job(installation: &Installation) -> Option<String> {
    installation.status.as_ref()?.job_id.clone()
}

/// Reports whether the last job of the Installation has succeeded.
pub(crate) fn is_finished(installation: &Installation) -> bool {
    installation.status.as_ref().is_some_and(|status| {
        status.phase.as_deref() == Some("Succeeded")
            && status.job_id.is_some()
            && status.job_id == status.job_id_finished
    })
}
