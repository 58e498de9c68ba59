//! A chart rendered for a cluster (`helm.md` 6): in a process with limits, which asks this one for
//! what is in the cluster.

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
use super::work::{Answer, Described, Input, Question, Said, Step, Task};

/// Archives that are known to be charts.
const MOST_KNOWN: u64 = 10_000;
const UNUSED: Duration = Duration::from_secs(3600);
/// How often a chart may ask the cluster in one rendering.
const MOST_LOOKUPS: usize = 500;

/// Has charts rendered.
#[derive(Debug, Clone)]
pub(super) struct Rendering {
    workers: Pool,
    limits: TemplateLimits,
    /// By digest.
    known: Cache<String, ()>,
}

/// The archive of a chart.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    archive: Arc<[u8]>,
    /// Memory for it.
    _held: Arc<Holding>,
    /// The namespace of the item that it is for.
    tenant: String,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub(super) digest: String,
}

/// Why there are no manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RenderingError {
    /// In the words of Helm.
    Chart(String),
    /// It was, or would be, too much.
    Work(String),
    /// Something else than the chart is amiss.
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

/// A rendering, and whether the chart has asked the cluster for something.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) result: Result<Said, RenderingError>,
    pub(super) is_cluster_dependent: bool,
}

impl Rendering {
    pub(super) fn new(workers: Pool, limits: TemplateLimits) -> Self {
        let known = Cache::builder().max_capacity(MOST_KNOWN).time_to_idle(UNUSED).build();
        Self { workers, limits, known }
    }

    /// An archive that is a chart, for an item of the namespace `tenant`.
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

    pub(super) async fn render(&self, chart: &Loaded, input: Input, cluster: Arc<Cluster>) -> Outcome {
        let Asked { result, is_cluster_dependent } =
            self.ask(chart, Step::Render(input), Some(cluster)).await;
        Outcome { result, is_cluster_dependent }
    }

    /// The values of the whole tree, without any template.
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

/// What came of a task.
struct Asked<T> {
    result: Result<T, RenderingError>,
    is_cluster_dependent: bool,
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

/// What a worker may ask for.
struct Surroundings {
    archive: Arc<[u8]>,
    /// None while nothing is rendered.
    cluster: Option<Arc<Cluster>>,
    /// Different questions: work that begins anew asks the same once more.
    asked: Mutex<HashSet<[String; 4]>>,
    was_asked: AtomicBool,
}

impl Host for Surroundings {
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let answer = match unpack(&question) {
                Ok((Question::Archive, _)) => return packed(&Answer::Archive, &self.archive),
                Ok((Question::LookUp { api_version, kind, namespace, name }, _)) => {
                    self.look_up(&api_version, &kind, &namespace, &name).await
                }
                Err(error) => Err(error.to_string()),
            };
            packed(&answer.map_or_else(Answer::Failed, Answer::Found), &[])
        })
    }
}

/// An object that cannot be written is an answer of a form that no worker knows: `lookup` fails.
fn packed(answer: &Answer, body: &[u8]) -> Vec<u8> {
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
        let Some(cluster) = &self.cluster else { return Err("there is no cluster to look into".to_owned()) };
        self.was_asked.store(true, Ordering::Relaxed);
        {
            let question = [api_version, kind, namespace, name].map(str::to_owned);
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.len() >= MOST_LOOKUPS && !asked.contains(&question) {
                return Err("lookup limit reached".to_owned());
            }
            asked.insert(question);
        }
        // Objects that are found go to the worker, and are not held for the round.
        let found = look_up(&cluster.for_work(), api_version, kind, namespace, name).await;
        found.map_err(|error| error.to_string())
    }
}

/// As the function `lookup` of charts asks for it.
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
