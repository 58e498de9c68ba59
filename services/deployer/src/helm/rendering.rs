//! Renders charts for a cluster (`helm.md` 6) in worker processes with limits. The workers ask this
//! process for objects of the cluster.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use groundwork_apply::{Cluster, Reference, Versions};
use groundwork_budget::TemplateLimits;
use groundwork_helm::{Capabilities, KubeVersion};
use groundwork_registry::Holding;
use groundwork_sandbox::{ExchangeError, Host, Pool, pack, unpack};
use moka::sync::Cache;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::chart_source::Fetched;
use super::work::{Described, Input, Question, Said, ServiceAnswer, Step, Task};

/// Number of remembered archives that are valid charts.
const MOST_KNOWN: u64 = 10_000;
const UNUSED: Duration = Duration::from_secs(3600);
/// Number of different questions that one rendering may ask the cluster.
const MOST_LOOKUPS: usize = 500;

/// Sends the work on charts to the workers.
#[derive(Debug, Clone)]
pub(super) struct Rendering {
    workers: Pool,
    limits: TemplateLimits,
    /// Digests of archives that are valid charts.
    known: Cache<String, ()>,
}

/// The archive of a valid chart.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    archive: Arc<[u8]>,
    /// Memory reserved for the archive, released when the chart is dropped.
    _held: Arc<Holding>,
    /// Namespace of the item that the chart is for.
    tenant: String,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub(super) digest: String,
}

/// Reason why a chart could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RenderingError {
    /// An error of the chart, in the words of Helm.
    Chart(String),
    /// The rendering exceeded a limit.
    Work(String),
    /// An error outside the chart, which a retry may solve.
    Fault(String),
}

impl From<ExchangeError> for RenderingError {
    fn from(error: ExchangeError) -> Self {
        match error.is_limit() {
            true => Self::Work(error.to_string()),
            false => Self::Fault(error.to_string()),
        }
    }
}

/// Result of a rendering, with whether the chart has read the cluster.
#[derive(Debug)]
pub(super) struct RenderOutcome {
    pub(super) result: Result<Said, RenderingError>,
    pub(super) is_cluster_dependent: bool,
}

impl Rendering {
    pub(super) fn new(workers: Pool, limits: TemplateLimits) -> Self {
        let known = Cache::builder().max_capacity(MOST_KNOWN).time_to_idle(UNUSED).build();
        Self { workers, limits, known }
    }

    /// Checks that an archive is a chart. `tenant` is the namespace of the item.
    pub(super) async fn load(&self, fetched: Fetched, tenant: String) -> Result<Loaded, RenderingError> {
        let Fetched { archive, held } = fetched;
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&archive));
        let loaded = Loaded { archive: archive.into(), _held: held, tenant, digest };
        if !self.known.contains_key(&loaded.digest) {
            self.ask::<()>(&loaded, Step::Load, None).await.result?;
            self.known.insert(loaded.digest.clone(), ());
        }
        Ok(loaded)
    }

    pub(super) async fn render(&self, chart: &Loaded, input: Input, cluster: Arc<Cluster>) -> RenderOutcome {
        let Asked { result, is_cluster_dependent } =
            self.ask(chart, Step::Render(input), Some(cluster)).await;
        RenderOutcome { result, is_cluster_dependent }
    }

    /// Returns the values of the whole tree of charts, without running a template.
    pub(super) async fn describe(&self, chart: &Loaded, input: Input) -> Result<Described, RenderingError> {
        self.ask(chart, Step::Describe(input), None).await.result
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        chart: &Loaded,
        step: Step,
        cluster: Option<Arc<Cluster>>,
    ) -> Asked<T> {
        let host = Surroundings {
            archive: Arc::clone(&chart.archive),
            cluster,
            asked: Mutex::default(),
            was_asked: AtomicBool::new(false),
        };
        let task = Task { digest: chart.digest.clone(), limits: self.limits, step };
        let result = match self.workers.exchange::<Result<T, String>>(&chart.tenant, &task, &[], &host).await
        {
            Ok((result, _)) => result.map_err(RenderingError::Chart),
            Err(error) => Err(error.into()),
        };
        Asked { result, is_cluster_dependent: host.was_asked.load(Ordering::Relaxed) }
    }
}

/// Result of a task.
struct Asked<T> {
    result: Result<T, RenderingError>,
    is_cluster_dependent: bool,
}

/// Returns the capabilities of a cluster as charts see them (`helm.md` 6.3).
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

/// Answers the questions of a worker during one task.
struct Surroundings {
    archive: Arc<[u8]>,
    /// Cluster that the worker may ask about; `None` while no template runs.
    cluster: Option<Arc<Cluster>>,
    /// Different questions so far. A worker that is restarted repeats its questions, which count
    /// once.
    asked: Mutex<HashSet<[String; 4]>>,
    was_asked: AtomicBool,
}

impl Host for Surroundings {
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let answer = match unpack(&question) {
                Ok((Question::Archive, _)) => return packed(&ServiceAnswer::Archive, &self.archive),
                Ok((Question::LookUp { api_version, kind, namespace, name }, _)) => {
                    self.look_up(&api_version, &kind, &namespace, &name).await
                }
                Err(error) => Err(error.to_string()),
            };
            packed(&answer.map_or_else(ServiceAnswer::Failed, ServiceAnswer::Found), &[])
        })
    }
}

/// Encodes an answer. If an object cannot be encoded, the worker gets an empty answer and its
/// `lookup` fails.
fn packed(answer: &ServiceAnswer, body: &[u8]) -> Vec<u8> {
    pack(answer, body).unwrap_or_default()
}

impl Surroundings {
    async fn look_up(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, String> {
        let Some(cluster) = &self.cluster else {
            return Err("lookup has no cluster to read from".to_owned());
        };
        self.was_asked.store(true, Ordering::Relaxed);
        {
            let question = [api_version, kind, namespace, name].map(str::to_owned);
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.len() >= MOST_LOOKUPS && !asked.contains(&question) {
                return Err("lookup limit reached".to_owned());
            }
            asked.insert(question);
        }
        // The objects are passed on to the worker at once, so their memory is not reserved for the
        // whole round.
        let found = look_up(&cluster.for_work(), api_version, kind, namespace, name).await;
        found.map_err(|error| error.to_string())
    }
}

/// Reads objects for the function `lookup` of charts.
async fn look_up(
    cluster: &Cluster,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Value, LookupError> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let Some(known) = cluster.kind(api_version, kind).await? else {
        let versions = cluster.versions().await?;
        return match versions.kinds.iter().any(|known| known.api_version == api_version) {
            true => Ok(json!({})),
            false => Err(LookupError::NoVersion(format!(
                "unable to get apiresource from unstructured: {api_version}, Kind={kind}: the server could not find the \
                     requested resource"
            ))),
        };
    };
    if name.is_empty() {
        let items = cluster.list(&known, namespace, "").await?;
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
    Ok(cluster.get_of(&known, &reference).await?.unwrap_or_else(|| json!({})))
}
