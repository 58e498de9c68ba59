use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use groundwork_api::{DataObject, DeployItem, Installation};
use groundwork_tests::{ALL, System, SystemOptions, wait_for};
use kube::ResourceExt;
use kube::api::{Api, PostParams, WatchParams};
use kube::core::WatchEvent;
use serde_json::{Map, Value, json};

use crate::load::{self, Meter};
use crate::process::{Usage, usage};
use crate::requests::AuditLog;
use crate::watch;

type Figures = Map<String, Value>;

const NAMESPACE: &str = "bench";
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// Number of concurrent requests while the objects are created.
const CREATORS: usize = 16;

const BLUEPRINT: &str = "apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
deployExecutions:
- name: default
  type: GoTemplate
  template: |
    deployItems:
    - name: item
      type: landscaper.gardener.cloud/mock
      config:
        apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1
        kind: ProviderConfiguration
";

/// Running system and the figures measured on it.
pub(crate) struct Bench {
    pub(crate) system: System,
    installations: Api<Installation>,
}

impl Bench {
    pub(crate) async fn start(binaries: PathBuf) -> Result<Option<Self>> {
        let options = SystemOptions { binaries: Some(binaries), ..SystemOptions::default() };
        let Some(system) = System::start(options).await? else { return Ok(None) };
        Self::of(system, NAMESPACE).await.map(Some)
    }

    /// Prepares a new namespace of a running system for measurements.
    pub(crate) async fn of(system: System, namespace: &str) -> Result<Self> {
        system.plane.create_namespace(namespace).await?;
        let installations = Api::namespaced(system.client().await?, namespace);
        let bench = Self { system, installations };
        bench.until_context(namespace).await?;
        Ok(bench)
    }

    /// Waits for the Context that the resolver creates, because jobs need it.
    pub(crate) async fn until_context(&self, namespace: &str) -> Result<()> {
        let contexts: Api<groundwork_api::Context> = Api::namespaced(self.system.client().await?, namespace);
        wait_for("the default Context", PATIENCE, async || {
            contexts.get("default").await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    pub(crate) fn usages(&self) -> Result<Vec<(&'static str, Usage)>> {
        ALL.into_iter().map(|name| Ok((name, usage(self.system.service(name)?.program.pid()?)?))).collect()
    }

    pub(crate) async fn create_many(&self, prefix: &str, count: usize) -> Result<HashSet<String>> {
        let names: HashSet<String> = (0..count).map(|index| format!("{prefix}-{index:04}")).collect();
        let parameters = PostParams::default();
        stream::iter(&names)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(CREATORS, async |name| {
                self.installations.create(&parameters, &installation(name)).await.map(drop)
            })
            .await?;
        Ok(names)
    }

    /// Measures `count` Installations beside one with many items that started before them.
    pub(crate) async fn beside(&mut self, count: usize, items: usize) -> Result<Figures> {
        let alone = Instant::now();
        let names = self.create_many("alone", count).await?;
        self.until_succeeded(&names).await.map_err(|error| self.system.explained(error))?;
        let alone = alone.elapsed().as_secs_f64();
        let large = large_installation("large", items);
        self.installations.create(&PostParams::default(), &large).await?;
        let start = Instant::now();
        let names = self.create_many("beside", count).await?;
        self.until_succeeded(&names).await.map_err(|error| self.system.explained(error))?;
        let beside = start.elapsed().as_secs_f64();
        self.until_succeeded(&HashSet::from(["large".to_owned()]))
            .await
            .map_err(|error| self.system.explained(error))?;
        let large = start.elapsed().as_secs_f64();
        Ok(Figures::from_iter([
            ("beside.items_of_the_large_one".to_owned(), json!(items)),
            ("beside.alone_seconds".to_owned(), rounded(alone)),
            ("beside.seconds".to_owned(), rounded(beside)),
            ("beside.ratio".to_owned(), rounded(beside / alone)),
            ("beside.large_one_seconds".to_owned(), rounded(large)),
        ]))
    }

    /// Measures the cost of one item in an Installation with `items` of them, over several
    /// Installations one after the other.
    pub(crate) async fn items(&mut self, items: usize, runs: usize) -> Result<Figures> {
        let renderer = self.system.service("renderer")?.program.pid()?;
        let before = usage(renderer)?.cpu_seconds;
        let start = Instant::now();
        for run in 0..runs {
            let name = format!("items-{items}-{run}");
            let object = large_installation(&name, items);
            self.installations.create(&PostParams::default(), &object).await?;
            self.until_succeeded(&HashSet::from([name]))
                .await
                .map_err(|error| self.system.explained(error))?;
        }
        let all = per(items * runs, 1);
        Ok(Figures::from_iter([
            (
                format!("items.{items}.wall_ms_per_item"),
                rounded(start.elapsed().as_secs_f64() * 1000.0 / all),
            ),
            (
                format!("items.{items}.renderer_cpu_ms_per_item"),
                rounded((usage(renderer)?.cpu_seconds - before) * 1000.0 / all),
            ),
        ]))
    }

    /// Watches until all these Installations have succeeded.
    pub(crate) async fn until_succeeded(&self, names: &HashSet<String>) -> Result<()> {
        watch::until(&self.installations, names.len(), PATIENCE, |installation| {
            let phase = installation.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Succeeded") && names.contains(&installation.name_any())
        })
        .await
    }

    /// Measures a minute without work.
    pub(crate) async fn idle(&mut self) -> Result<Figures> {
        // Let the follow-up work of the load finish first, so that it does not count as idle time.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let mut log = AuditLog::open(&self.system.plane.audit_log().context("there is an audit log")?)?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut figures = Figures::new();
        figures.insert("idle.requests_in_60_s".into(), json!(log.counts()?));
        for (name, usage) in self.usages()? {
            figures.insert(format!("idle.resident_mib.{name}"), rounded(usage.resident));
        }
        Ok(figures)
    }

    /// Measures Installations without data, as the first versions supported them: a burst of them,
    /// and then one after the other. Serves comparisons with old builds.
    pub(crate) async fn plain(&mut self, count: usize, runs: usize) -> Result<Figures> {
        let meter = Meter::start(self)?;
        let names = self.create_many("plain", count).await?;
        self.until_succeeded(&names).await.map_err(|error| self.system.explained(error))?;
        let mut figures = meter.stop(self, "plain", count)?;
        let objects: Vec<_> = (0..runs).map(|run| installation(&format!("one-{run:04}"))).collect();
        let reaction = self.reaction_to("plain", NAMESPACE, &objects).await;
        figures.extend(reaction.map_err(|error| self.system.explained(error))?);
        Ok(figures)
    }

    /// Measures Installations with imports and exports, one after the other.
    pub(crate) async fn reaction(&mut self, runs: usize) -> Result<Figures> {
        let namespace = "reaction";
        self.prepare(namespace, 0..runs).await?;
        let objects: Vec<_> = (0..runs).map(|run| load::installation(namespace, run)).collect();
        self.reaction_to("reaction", namespace, &objects).await.map_err(|error| self.system.explained(error))
    }

    /// Measures two times per Installation, one after the other: from its creation to the event of
    /// its DeployItem, and to the end of its job.
    async fn reaction_to(&self, prefix: &str, namespace: &str, objects: &[Installation]) -> Result<Figures> {
        let items: Api<DeployItem> = Api::namespaced(self.system.client().await?, namespace);
        let installations = self.installations(namespace).await?;
        let before = self.reactions().await?;
        let runs = objects.len();
        let (mut seen, mut finished) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
        for object in objects {
            let name = object.name_any();
            let labels = format!("execution.landscaper.gardener.cloud/managed-by={name}");
            let mut of_item = items.watch(&WatchParams::default().labels(&labels), "0").await?.boxed();
            let field = format!("metadata.name={name}");
            let mut of_job = installations.watch(&WatchParams::default().fields(&field), "0").await?.boxed();
            let start = Instant::now();
            installations.create(&PostParams::default(), object).await?;
            let is_made = |event: &WatchEvent<DeployItem>| matches!(event, WatchEvent::Added(_));
            watch::first(&mut of_item, is_made).await.with_context(|| format!("the item of {name}"))?;
            seen.push(start.elapsed().as_secs_f64() * 1000.0);
            let is_finished = |event: &WatchEvent<Installation>| matches!(event, WatchEvent::Modified(installation) if load::is_finished(installation));
            watch::first(&mut of_job, is_finished).await.with_context(|| format!("the end of {name}"))?;
            finished.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        let mut figures = Figures::new();
        figures.insert(format!("{prefix}.runs"), json!(runs));
        for (what, times) in [("deploy_item", &mut seen), ("finished", &mut finished)] {
            times.sort_by(f64::total_cmp);
            figures.insert(format!("{prefix}.apply_to_{what}_ms.median"), rounded(times[runs / 2]));
            figures.insert(format!("{prefix}.apply_to_{what}_ms.p99"), rounded(times[runs * 99 / 100]));
        }
        for ((service, (fast_before, all_before)), (_, (fast, all))) in
            before.into_iter().zip(self.reactions().await?)
        {
            let share = (fast - fast_before) / (all - all_before).max(1.0);
            figures.insert(format!("{prefix}.watch_to_handler_within_10_ms.{service}"), json!(share));
        }
        Ok(figures)
    }

    /// Returns for each service the number of events that were handled within 10 ms of their
    /// arrival, and the number of all handled events.
    async fn reactions(&self) -> Result<Vec<(&'static str, (f64, f64))>> {
        let mut all = Vec::new();
        for service in ["renderer", "deployer"] {
            let (_, metrics) = self.system.admin(service, "/metrics").await?;
            all.push((service, observations(&metrics, "groundwork_reaction_seconds", "0.01")));
        }
        Ok(all)
    }

    pub(crate) async fn restart_renderer(&mut self) -> Result<Figures> {
        let seconds = self.restart("renderer").await?;
        let resident = usage(self.system.service("renderer")?.program.pid()?)?.resident;
        Ok(Figures::from_iter([
            ("restart.renderer_ready_seconds".to_owned(), rounded(seconds)),
            ("restart.renderer_resident_mib".to_owned(), rounded(resident)),
        ]))
    }

    /// Measures the restart of the watcher with many objects on the stream.
    pub(crate) async fn restart_watcher(&mut self, count: usize) -> Result<Figures> {
        let objects: Api<DataObject> = Api::namespaced(self.system.client().await?, NAMESPACE);
        let parameters = PostParams::default();
        stream::iter(0..count)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(CREATORS, async |index| {
                let object = json!({
                    "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DataObject",
                    "metadata": {"name": format!("data-{index:05}"), "namespace": NAMESPACE}, "data": index,
                });
                let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
                objects.create(&parameters, &object).await.map(drop)
            })
            .await?;
        let last = format!("{count}");
        wait_for("the stream holds all objects", PATIENCE, async || {
            let (_, metrics) =
                self.system.admin("watcher", "/metrics").await.map_err(|error| error.to_string())?;
            let stored = sum(&metrics, "groundwork_watcher_objects{kind=\"dataobjects");
            if stored >= per(count, 1) { Ok(()) } else { Err(format!("{stored} of {last}")) }
        })
        .await?;
        let seconds = self.restart("watcher").await?;
        let (_, metrics) = self.system.admin("watcher", "/metrics").await?;
        let mut figures = Figures::new();
        figures.insert("restart.watcher_objects".into(), json!(count));
        figures.insert("restart.watcher_ready_seconds".into(), rounded(seconds));
        figures.insert(
            "restart.watcher_published".into(),
            json!(sum(&metrics, "groundwork_watcher_published_total")),
        );
        let resident = usage(self.system.service("watcher")?.program.pid()?)?.resident;
        figures.insert("restart.watcher_resident_mib".into(), rounded(resident));
        Ok(figures)
    }

    /// Returns the seconds from the start of a killed service until it is ready.
    async fn restart(&mut self, service: &'static str) -> Result<f64> {
        self.system.service_mut(service)?.program.kill().await?;
        let start = Instant::now();
        self.system.service_mut(service)?.program.start_again()?;
        self.system.until_ready(service).await?;
        Ok(start.elapsed().as_secs_f64())
    }
}

fn installation(name: &str) -> Installation {
    with_blueprint(name, BLUEPRINT)
}

/// Returns an Installation with `items` independent items.
fn large_installation(name: &str, items: usize) -> Installation {
    let item = "    - name: item\n";
    let loops = format!("    {{{{- range until {items} }}}}\n    - name: item-{{{{ . }}}}\n");
    with_blueprint(name, &(BLUEPRINT.replace(item, &loops) + "    {{- end }}\n"))
}

fn with_blueprint(name: &str, blueprint: &str) -> Installation {
    let object = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "annotations": {"landscaper.gardener.cloud/reconcile-if-changed": "true"},
        },
        "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}}},
    });
    serde_json::from_value(object).expect("the object above is an Installation")
}

#[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
pub(crate) fn per(total: usize, count: usize) -> f64 {
    total as f64 / count as f64
}

pub(crate) fn rounded(figure: f64) -> Value {
    json!((figure * 100.0).round() / 100.0)
}

/// Returns the sum of a metric over all its labels.
pub(crate) fn sum(metrics: &str, name: &str) -> f64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name));
    samples
        .filter_map(|sample| sample.rsplit(' ').next()?.parse::<f64>().ok())
        .fold(0.0, |sum, sample| sum + sample)
}

/// Returns two counts of a histogram over all its labels: the observations up to the bound, and all
/// observations.
fn observations(metrics: &str, name: &str, bound: &str) -> (f64, f64) {
    let of = |suffix: &str, label: &str| {
        let samples = metrics.lines().filter(|line| line.starts_with(&format!("{name}_{suffix}")));
        let samples = samples.filter(|line| line.contains(label));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    (of("bucket", &format!("le=\"{bound}\"")), of("count", ""))
}
