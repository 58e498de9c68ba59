//! A chart rendered for a cluster (`helm.md` 6): away from the threads that serve others, with limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use groundwork_apply::{Cluster, Reference, Versions};
use groundwork_blueprint::Capabilities as System;
use groundwork_controller::Workers;
use groundwork_gotemplate::{Deadline, Grants};
use groundwork_helm::{
    Capabilities, Chart, KubeVersion, LoadError, Lookup, Prepared, Release, RenderError, Rendered, Renderer,
    Request, TIME_LIMIT,
};
use moka::sync::Cache;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

/// Bytes of archives whose parsed charts are kept.
const KEPT_BYTES: u64 = 256 << 20;
/// How often a chart may ask the cluster in one rendering.
const MOST_LOOKUPS: usize = 500;
const UNUSED: Duration = Duration::from_secs(3600);

/// Renders charts, and keeps those that it has parsed.
#[derive(Clone)]
pub(super) struct Rendering {
    workers: Workers,
    charts: Cache<[u8; 32], Parsed>,
}

#[derive(Debug, Clone)]
pub(super) struct Parsed {
    pub(super) renderer: Arc<Renderer>,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub(super) digest: String,
    size: u32,
}

impl std::fmt::Debug for Rendering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendering").finish_non_exhaustive()
    }
}

/// Why there are no manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RenderingError {
    Chart(RenderError),
    /// It was, or would be, too much.
    Work(String),
}

/// A rendering, and whether the chart has asked the cluster for something.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) result: Result<(Prepared, Rendered), RenderingError>,
    pub(super) is_cluster_dependent: bool,
}

/// What a chart is rendered with.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) values: Map<String, Value>,
    pub(super) release: Release,
    pub(super) capabilities: Capabilities,
    pub(super) skip_schema: bool,
}

impl Rendering {
    pub(super) fn new() -> Self {
        let weigh = |_: &[u8; 32], parsed: &Parsed| parsed.size;
        let charts = Cache::builder().weigher(weigh).max_capacity(KEPT_BYTES).time_to_idle(UNUSED).build();
        Self { workers: Workers::default(), charts }
    }

    /// The chart of an archive, parsed once.
    pub(super) async fn load(&self, archive: Vec<u8>) -> Result<Parsed, Result<LoadError, String>> {
        let digest: [u8; 32] = Sha256::digest(&archive).into();
        if let Some(known) = self.charts.get(&digest) {
            return Ok(known);
        }
        let size = u32::try_from(archive.len()).unwrap_or(u32::MAX);
        let chart = self.workers.run(move || Chart::from_archive(&archive)).await;
        let chart = chart.map_err(|error| Err(error.to_string()))?.map_err(Ok)?;
        let parsed = Parsed {
            renderer: Arc::new(Renderer::new(chart)),
            digest: data_encoding::HEXLOWER.encode(&digest),
            size,
        };
        self.charts.insert(digest, parsed.clone());
        Ok(parsed)
    }

    pub(super) async fn render(&self, chart: &Parsed, input: Input, cluster: Arc<Cluster>) -> Outcome {
        let lookup = Arc::new(ClusterLookup {
            cluster,
            runtime: Handle::current(),
            count: AtomicUsize::new(0),
            was_asked: AtomicBool::new(false),
        });
        let (renderer, asked) = (Arc::clone(&chart.renderer), Arc::clone(&lookup));
        let work = move || {
            let request = request(input, lookup);
            let prepared = renderer.prepare(&request)?;
            let rendered = renderer.finish(prepared.clone(), &request)?;
            Ok((prepared, rendered))
        };
        let result = match self.workers.run(work).await {
            Ok(result) => result.map_err(RenderingError::Chart),
            Err(error) => Err(RenderingError::Work(error.to_string())),
        };
        Outcome { result, is_cluster_dependent: asked.was_asked.load(Ordering::Relaxed) }
    }

    /// The values of the whole tree, without any template.
    pub(super) async fn prepare(&self, chart: &Parsed, input: Input) -> Result<Prepared, RenderingError> {
        let renderer = Arc::clone(&chart.renderer);
        let work = move || renderer.prepare(&Request { skip_schema: true, ..plain(input) });
        match self.workers.run(work).await {
            Ok(result) => result.map_err(RenderingError::Chart),
            Err(error) => Err(RenderingError::Work(error.to_string())),
        }
    }
}

fn plain(input: Input) -> Request {
    Request {
        values: input.values,
        release: Some(input.release),
        capabilities: input.capabilities,
        skip_schema: input.skip_schema,
        ..Request::default()
    }
}

fn request(input: Input, lookup: Arc<ClusterLookup>) -> Request {
    let system = System::system();
    let end = Instant::now() + TIME_LIMIT;
    Request {
        grants: Grants { clock: system.clock, randomness: system.randomness, ..Grants::default() },
        deadline: Some(Deadline::new(move || Instant::now() >= end)),
        lookup: Some(lookup),
        ..plain(input)
    }
}

/// What charts see of a cluster (`helm.md` 6.3).
pub(super) fn capabilities(versions: &Versions) -> Capabilities {
    let text = |member: &str| versions.server[member].as_str().unwrap_or_default().to_owned();
    let kube_version =
        KubeVersion { version: text("gitVersion"), major: text("major"), minor: text("minor") };
    let mut api_versions: Vec<String> = Vec::new();
    for kind in &versions.kinds {
        if !api_versions.contains(&kind.api_version) {
            api_versions.push(kind.api_version.clone());
        }
        api_versions.push(format!("{}/{}", kind.api_version, kind.kind));
    }
    Capabilities { kube_version, api_versions }
}

#[derive(Debug, thiserror::Error)]
enum LookupError {
    #[error("{0}")]
    NoVersion(String),
    #[error("{0}")]
    Api(#[from] groundwork_controller::ApiError),
}

/// The cluster, as the function `lookup` of charts asks for it.
struct ClusterLookup {
    cluster: Arc<Cluster>,
    runtime: Handle,
    count: AtomicUsize,
    was_asked: AtomicBool,
}

impl Lookup for ClusterLookup {
    fn look_up(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        self.was_asked.store(true, Ordering::Relaxed);
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST_LOOKUPS {
            return Err("lookup limit reached".to_owned());
        }
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let work = async {
            let Some(known) = self.cluster.kind(api_version, kind).await? else {
                let versions = self.cluster.versions().await?;
                return match versions.kinds.iter().any(|known| known.api_version == api_version) {
                    true => Ok(json!({})),
                    false => Err(LookupError::NoVersion(format!(
                        "unable to get apiresource from unstructured: {api_version}, Kind={kind}: the server could not find the \
                         requested resource"
                    ))),
                };
            };
            if name.is_empty() {
                let items = self.cluster.list(&known, namespace, "").await?;
                return Ok(
                    json!({"apiVersion": api_version, "kind": format!("{kind}List"), "metadata": {}, "items": items}),
                );
            }
            let reference = Reference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            };
            Ok(self.cluster.get_of(&known, &reference).await?.unwrap_or_else(|| json!({})))
        };
        self.runtime.block_on(work).map_err(|error: LookupError| error.to_string())
    }
}
