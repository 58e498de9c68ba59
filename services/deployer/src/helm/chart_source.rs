//! Sources of charts: fetches the archive that an item names (`helm.md` 1).
//!
//! ```text
//! archive.raw ────────────────────────────────────────────────┐
//! archive.remote ──────────────────────────get──┐             │
//! helmChartRepo ──index──find_in_index──────────┤             ├──> archive, kept for a while
//! ref, helmChartRepo with oci:// ──────────────pull, by the pull secrets of the Context
//! resourceRef, fromResource ──component_chart──┘ (or helmChartRepo, if the resource lies in one)
//! ```

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use groundwork_api::metadata::annotation;
use groundwork_api::{ComponentVersionOverwrites, Context, DEFAULT_CONTEXT, ErrorCode, ResourceExt};
use groundwork_component::shown;
use groundwork_controller::{ApiError, Stored};
use groundwork_deploy::Round;
use groundwork_helm::IndexError;
use groundwork_lifecycle::{ObjectSet, OperationError, Reason};
use groundwork_registry::sources::{ContextRepositories, MapFile, PullSecrets};
use groundwork_registry::{
    Allowance, AnswerMemory, Authorization, ChartClient, ChartError, Holding, Keyring, LARGEST_CHART,
    NetworkOptions, RepositoryChartError, repository_url,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use moka::sync::Cache;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::component_chart::{ComponentChart, Found, Surroundings};
use super::configuration::{Archive, ChartRepository, ChartSource, Remote};

/// Size limit of an archive in bytes (`helm.md` 11).
pub(super) const LARGEST: u64 = LARGEST_CHART;
/// Size in bytes of each of the two caches of archives: one keeps them for `KNOWN`, the other for
/// `KNOWN_LONG`.
const KEPT_BYTES: u64 = 32 << 20;
/// Bytes of memory for the answers of all registries and chart repositories.
const MEMORY: usize = 96 << 20;
/// Share of `MEMORY` for one item, and for all items of a namespace together.
const MEMORY_SHARE: usize = 64 << 20;
/// Time for which a fetched archive is cached: a tag or a version may lead to another archive
/// later.
const KNOWN: Duration = Duration::from_secs(60);
/// Time for which an archive is cached if the item has the annotation to cache charts.
const KNOWN_LONG: Duration = Duration::from_secs(24 * 3600);

/// Flag that limits the time for fetching a chart, for error messages.
const FETCH_TIMEOUT: &str = "--chart-fetch-timeout";

/// Client that fetches and caches the archives of charts.
#[derive(Clone)]
pub(crate) struct ChartSources {
    client: ChartClient,
    /// Maps repository contexts to the stores of components.
    map: Arc<MapFile>,
    /// Archives by a hash over the source and the credentials, so that an item never gets an
    /// archive that its own credentials could not fetch.
    known: Cache<[u8; 32], Arc<Vec<u8>>>,
    known_long: Cache<[u8; 32], Arc<Vec<u8>>>,
    /// Time limit for all requests for one chart; `None` for no limit.
    fetch_time: Option<Duration>,
    memory: AnswerMemory,
}

/// The archive of a chart, with the memory reserved for it.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) archive: Vec<u8>,
    pub(super) held: Arc<Holding>,
}

impl std::fmt::Debug for ChartSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChartSources").finish_non_exhaustive()
    }
}

/// Entry of `configurations.helmChartRepoCredentials.auths` of a Context.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RepositoryAuth {
    url: String,
    #[serde(default, rename = "customCAData")]
    custom_ca_data: Option<String>,
    #[serde(default)]
    auth_header: Option<String>,
    #[serde(default)]
    secret_ref: Option<SecretKey>,
}

#[derive(Deserialize)]
struct SecretKey {
    name: String,
    #[serde(default)]
    key: Option<String>,
}

impl ChartSources {
    /// Creates the client. `map` maps repository contexts to the stores of components whose
    /// resources are charts.
    pub(crate) fn new(options: NetworkOptions, map: MapFile, fetch_time: Option<Duration>) -> Self {
        let cache = |time| {
            let weigh =
                |_: &[u8; 32], archive: &Arc<Vec<u8>>| u32::try_from(archive.len()).unwrap_or(u32::MAX);
            Cache::builder().weigher(weigh).max_capacity(KEPT_BYTES).time_to_live(time).build()
        };
        Self {
            client: ChartClient::new(options),
            map: Arc::new(map),
            known: cache(KNOWN),
            known_long: cache(KNOWN_LONG),
            fetch_time,
            memory: AnswerMemory::new(MEMORY, MEMORY_SHARE),
        }
    }

    /// Returns the time limit for fetching a chart, and the reservation of memory for its answers.
    fn allowance(&self, round: &Round<'_>) -> Allowance {
        let allowance =
            self.fetch_time.map_or_else(Allowance::default, |time| Allowance::of(time, FETCH_TIMEOUT));
        allowance.holding(&self.begin(round))
    }

    fn begin(&self, round: &Round<'_>) -> Arc<Holding> {
        self.memory.begin(&round.item.namespace().unwrap_or_default())
    }

    /// Fetches the archive from the first source that the item gives, in the order of `helm.md` 1.
    pub(super) async fn fetch(
        &self,
        source: &ChartSource,
        round: &Round<'_>,
    ) -> Result<Fetched, OperationError> {
        let archive = self.archive(source, round).await?;
        let (held, size) = (self.begin(round), archive.len());
        // The archive may come from the cache or from the fetch of another item, so memory is
        // reserved for this item anew.
        let holding = Arc::clone(&held);
        blocking(move || {
            holding.take(size, "the chart").map_err(|error| {
                OperationError::transient("TemplateChart", Reason::GetHelmChart, error.to_string())
            })
        })
        .await?;
        let archive = (*archive).clone();
        Ok(Fetched { archive, held })
    }

    async fn archive(&self, source: &ChartSource, round: &Round<'_>) -> Result<Arc<Vec<u8>>, OperationError> {
        match source {
            ChartSource { archive: Some(Archive { raw: Some(raw), .. }), .. } if !raw.is_empty() => {
                unpacked(raw).map(Arc::new)
            }
            ChartSource { archive: Some(Archive { remote: Some(Remote { url }), .. }), .. } => {
                let (client, url, allowance) = (self.client.clone(), url.clone(), self.allowance(round));
                self.known(round, &json!(["get", url]), move || {
                    let fetched = client.get(&url, &Authorization::default(), LARGEST, &allowance);
                    fetched.map_err(|error| match error {
                        ChartError::NoAddress { .. } => {
                            broken(format!("chart.archive.remote.url cannot be used: {error}"))
                        }
                        error => {
                            unreachable(format!("unable to fetch helm chart from {url:?}: {error}"), &error)
                        }
                    })
                })
                .await
            }
            ChartSource { reference: Some(reference), .. } if !reference.is_empty() => {
                self.pull(round, reference.clone()).await
            }
            ChartSource { helm_chart_repo: Some(repository), .. } => {
                self.of_repository(round, repository, None).await
            }
            ChartSource { from_resource: Some(resource), .. } if !resource.is_null() => {
                self.of_component(round, ComponentChart::of_resource(resource)?).await
            }
            ChartSource { resource_ref, .. } => {
                let key = resource_ref.as_deref().unwrap_or_default();
                self.of_component(round, ComponentChart::of_key(key)?).await
            }
        }
    }

    /// Returns the cache that fits the item. A waiting item has many rounds, and each needs its
    /// chart.
    fn cache(&self, round: &Round<'_>) -> &Cache<[u8; 32], Arc<Vec<u8>>> {
        let asked = round.item.annotations().get(annotation::CACHE_HELM_CHARTS);
        if asked.is_some_and(|value| value == "true") { &self.known_long } else { &self.known }
    }

    async fn known(
        &self,
        round: &Round<'_>,
        what: &Value,
        fetch: impl FnOnce() -> Result<Vec<u8>, OperationError> + Send + 'static,
    ) -> Result<Arc<Vec<u8>>, OperationError> {
        let (cache, key) = (self.cache(round).clone(), key(what));
        // Items that ask for the same archive at the same time share one fetch.
        let together = move || cache.try_get_with(key, || fetch().map(Arc::new));
        blocking(move || together().map_err(|error| (*error).clone())).await
    }

    /// Fetches a chart that is a resource of a component, with the repositories, credentials and
    /// overwrites of the item's Context.
    async fn of_component(
        &self,
        round: &Round<'_>,
        chart: ComponentChart,
    ) -> Result<Arc<Vec<u8>>, OperationError> {
        let context = context(round).await?;
        let keyring = Arc::new(keyring(round, context.as_ref()).await?);
        let overwrites = context.as_ref().and_then(Context::overwrites);
        let overwrites = object::<ComponentVersionOverwrites>(round, overwrites).await?;
        let mut objects = ObjectSet::default();
        let config = context.as_ref().and_then(Context::ocm_config_map);
        if let Some(config) = object::<ConfigMap>(round, config).await? {
            objects.add_config_map(config);
        }
        let (identity, own) = (keyring.identity().to_owned(), Arc::clone(&keyring));
        let repositories =
            ContextRepositories { map: self.map.map(), keyring, allowance: self.allowance(round) };
        let namespace = round.item.namespace().unwrap_or_default();
        let around = Surroundings { namespace, context, overwrites, objects, repositories };
        let (cache, key) = (self.cache(round), key(&json!(["component", chart.identity(&around), identity])));
        if let Some(known) = cache.get(&key) {
            return Ok(known);
        }
        match blocking(move || chart.fetch(&around)).await? {
            Found::InRepository(repository) => self.of_repository(round, &repository, Some(&own)).await,
            Found::Archive(archive) => {
                let archive = Arc::new(archive);
                cache.insert(key, Arc::clone(&archive));
                Ok(archive)
            }
        }
    }

    async fn pull(&self, round: &Round<'_>, reference: String) -> Result<Arc<Vec<u8>>, OperationError> {
        check_scheme(&reference)?;
        let context = context(round).await?;
        let keyring = Arc::new(keyring(round, context.as_ref()).await?);
        let (client, allowance) = (self.client.clone(), self.allowance(round));
        let what = json!(["pull", reference, keyring.identity()]);
        self.known(round, &what, move || {
            let pulled = client.pull(&reference, &keyring, LARGEST, &allowance);
            pulled.map_err(|error| match error {
                ChartError::NoTag(_) | ChartError::NoReference(_) => {
                    broken(format!("the chart cannot be fetched: {error}"))
                }
                error => {
                    unreachable(format!("unable to fetch helm chart from {reference:?}: {error}"), &error)
                }
            })
        })
        .await
    }

    /// Fetches a chart of a chart repository. For one that a component names, `keyring` has further
    /// credentials.
    async fn of_repository(
        &self,
        round: &Round<'_>,
        repository: &ChartRepository,
        keyring: Option<&Keyring>,
    ) -> Result<Arc<Vec<u8>>, OperationError> {
        let ChartRepository { helm_chart_repo_url, helm_chart_name: name, helm_chart_version: version } =
            repository;
        if helm_chart_repo_url.is_empty() || name.is_empty() || version.is_empty() {
            let text =
                "chart.helmChartRepo: helmChartRepoUrl, helmChartName and helmChartVersion must be given";
            return Err(broken(text.to_owned()));
        }
        if helm_chart_repo_url.starts_with("oci://") {
            let is_range = |character: char| "^~<>=*| ,".contains(character);
            if version.contains(is_range) {
                return Err(broken(format!(
                    "chart.helmChartRepo.helmChartVersion: {version:?} is a range, but a registry has only tags: give \
                     one version"
                )));
            }
            let base = helm_chart_repo_url.trim_end_matches('/');
            return self.pull(round, format!("{base}/{name}:{version}")).await;
        }
        let base = repository_url(helm_chart_repo_url);
        if !base.starts_with("http://") && !base.starts_with("https://") {
            let scheme = base.split_once("://").map_or("", |(scheme, _)| scheme);
            let text = format!(
                "cannot get chart repository {:?}: could not find protocol handler for: {scheme}",
                shown(&base)
            );
            return Err(broken(format!("{text}; it must begin with https://, http:// or oci://")));
        }
        let context = context(round).await?;
        let mut authorization = authorization(round, context.as_ref(), &base).await?;
        if authorization.header.is_none() {
            authorization.header = keyring.and_then(|keyring| keyring.chart_repository_header(&base));
        }
        let (client, allowance) = (self.client.clone(), self.allowance(round));
        let (memory, tenant) = (self.memory.clone(), round.item.namespace().unwrap_or_default());
        let (name, version) = (name.clone(), version.clone());
        let identity = json!([authorization.header, authorization.roots]).to_string();
        let what = json!(["repository", base, name, version, identity]);
        self.known(round, &what, move || {
            let allowance = allowance.holding(&memory.begin(&tenant));
            let chart = (name.as_str(), version.as_str());
            let fetched = client.of_repository(&base, chart, &authorization, &allowance);
            fetched.map_err(of_index)
        })
        .await
    }
}

fn key(what: &Value) -> [u8; 32] {
    Sha256::digest(what.to_string()).into()
}

/// Runs work that waits for stores and the network on a thread of its own.
async fn blocking<T: Send + 'static>(
    fetch: impl FnOnce() -> Result<T, OperationError> + Send + 'static,
) -> Result<T, OperationError> {
    let fetched = tokio::task::spawn_blocking(fetch).await;
    fetched.map_err(|_| {
        OperationError::transient("TemplateChart", Reason::GetHelmChart, "fetching the chart did not finish")
    })?
}

/// Returns the error of a chart repository.
fn of_index(error: RepositoryChartError) -> OperationError {
    let text = error.to_string();
    match error {
        RepositoryChartError::Index { source: source @ ChartError::NoAddress { .. }, .. } => {
            broken(format!("chart.helmChartRepo.helmChartRepoUrl cannot be used: {source}"))
        }
        RepositoryChartError::Index { source, .. } | RepositoryChartError::Archive { source, .. } => {
            unreachable(text, &source)
        }
        RepositoryChartError::Entry { source: source @ IndexError::NoName, .. } => {
            for_information(source.to_string())
        }
        RepositoryChartError::Entry { source: source @ IndexError::Constraint(_), .. } => {
            broken(source.to_string())
        }
        RepositoryChartError::Entry { .. } => {
            OperationError::transient("TemplateChart", Reason::GetHelmChart, text)
        }
        RepositoryChartError::Digest { .. } => broken(text),
    }
}

async fn context(round: &Round<'_>) -> Result<Option<Context>, OperationError> {
    let name = round.item.spec.context.as_deref().filter(|name| !name.is_empty());
    object(round, Some(name.unwrap_or(DEFAULT_CONTEXT))).await
}

/// Reads an object of the item's namespace; `None` if it is not named or does not exist.
async fn object<K: Stored>(round: &Round<'_>, name: Option<&str>) -> Result<Option<K>, OperationError> {
    let Some(name) = name else { return Ok(None) };
    let found = round.objects.get::<K>(&round.item.namespace().unwrap_or_default(), name).await;
    found.map_err(|error| not_asked(&error))
}

fn not_asked(error: &ApiError) -> OperationError {
    OperationError::transient("TemplateChart", Reason::GetHelmChart, error.to_string())
}

/// Returns the credentials in the pull secrets of the Context.
async fn keyring(round: &Round<'_>, context: Option<&Context>) -> Result<Keyring, OperationError> {
    let mut secrets = PullSecrets::default();
    let namespace = round.item.namespace().unwrap_or_default();
    secrets.read(&namespace, context, round.objects).await.map_err(|error| not_asked(&error))?;
    for note in &secrets.notes {
        tracing::info!(item = %format_args!("{namespace}/{}", round.item.name_any()), note);
    }
    match secrets.error {
        Some(problem) => Err(broken(problem)),
        None => Ok(secrets.keyring),
    }
}

/// Returns the credentials of the Context for a chart repository: those of the entry whose address
/// is the longest prefix of the repository's (`helm.md` 1, R29).
async fn authorization(
    round: &Round<'_>,
    context: Option<&Context>,
    base: &str,
) -> Result<Authorization, OperationError> {
    let Some(auths) = context
        .and_then(|context| context.configurations.get("helmChartRepoCredentials"))
        .and_then(|credentials| credentials.get())
        .map(|credentials| credentials["auths"].clone())
        .filter(|auths| !auths.is_null())
    else {
        return Ok(Authorization::default());
    };
    let auths: Vec<RepositoryAuth> = serde_json::from_value(auths)
        .map_err(|_| broken("helmChartRepoCredentials of the context is not valid".to_owned()))?;
    let fitting = auths.into_iter().filter(|auth| is_below(base, &repository_url(&auth.url)));
    let Some(auth) = fitting.max_by_key(|auth| repository_url(&auth.url).len()) else {
        return Ok(Authorization::default());
    };
    let header = match (auth.auth_header, auth.secret_ref) {
        (Some(_), Some(_)) => {
            return Err(broken(
                "failed to get auth header: auth header and secret ref are both set".to_owned(),
            ));
        }
        (None, None) => {
            return Err(broken(
                "failed to get auth header: neither auth header nor secret ref is set".to_owned(),
            ));
        }
        (Some(header), None) => header,
        (None, Some(reference)) => {
            let key = reference.key.as_deref().filter(|key| !key.is_empty()).unwrap_or("authHeader");
            let found = object::<Secret>(round, Some(&reference.name)).await?;
            let value = found.and_then(|secret| secret.data?.remove(key));
            let value = value
                .ok_or_else(|| broken(format!("failed to get auth header: key {key} not found in secret")))?;
            String::from_utf8_lossy(&value.0).trim().to_owned()
        }
    };
    let roots =
        auth.custom_ca_data.filter(|data| !data.is_empty()).map(|data| match data.contains("-----BEGIN") {
            true => data.into_bytes(),
            false => BASE64.decode(data.trim().as_bytes()).unwrap_or_else(|_| data.into_bytes()),
        });
    Ok(Authorization { header: Some(header), roots })
}

/// Reports whether an address equals another one or is below it. Only whole segments of the path
/// count.
fn is_below(address: &str, other: &str) -> bool {
    let plain = |url: &str| url.split('?').next().unwrap_or(url).trim_end_matches('/').to_owned();
    let (address, other) = (plain(address), plain(other));
    address == other || address.strip_prefix(&other).is_some_and(|rest| rest.starts_with('/'))
}

/// Refuses a reference with a scheme such as `https://`. The scheme would be read as the name of a
/// host.
fn check_scheme(reference: &str) -> Result<(), OperationError> {
    match reference.split_once("://") {
        Some((scheme, _)) if scheme != "oci" => Err(broken(format!(
            "chart.ref begins with {scheme}://, but only oci:// is allowed there: write host/path:tag, or give the \
             address of an archive in chart.archive.remote.url"
        ))),
        _ => Ok(()),
    }
}

fn unpacked(raw: &str) -> Result<Vec<u8>, OperationError> {
    // Base64 encodes three bytes in four letters, so the size is known before decoding.
    if raw.len() as u64 / 4 * 3 > LARGEST {
        return Err(broken(format!("chart archive larger than {LARGEST} bytes")));
    }
    let letters: Vec<u8> = raw.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(&letters).map_err(|_| {
        broken("unable to decode helm archive: chart.archive.raw is not valid base64".to_owned())
    })
}

/// Returns the error of a chart that no retry can fetch.
pub(super) fn broken(message: String) -> OperationError {
    OperationError::new("TemplateChart", Reason::GetHelmChart, message)
}

/// Returns an error that may pass, without blame for the user or the system.
fn for_information(message: String) -> OperationError {
    OperationError {
        codes: vec![ErrorCode::ForInfoOnly],
        ..OperationError::transient("TemplateChart", Reason::GetHelmChart, message)
    }
}

/// Returns the error of a fetch. A malformed reference is final; any other error is retried.
pub(super) fn unreachable(text: String, error: &ChartError) -> OperationError {
    match error {
        ChartError::NoTag(_) | ChartError::NoReference(_) => broken(text),
        ChartError::Status { status: 404, .. } => for_information(text),
        _ => OperationError::transient("TemplateChart", Reason::GetHelmChart, text),
    }
}

#[cfg(test)]
mod tests {
    use groundwork_testkit::{Honest, HostileServer, Trick};

    use super::*;

    #[test]
    fn archives_in_the_item() {
        assert_eq!(unpacked("YWJj\nZA=="), Ok(b"abcd".to_vec()));
        assert!(unpacked("%").unwrap_err().message.contains("is not valid base64"));
        let large = "A".repeat(usize::try_from(LARGEST).unwrap() / 3 * 4 + 8);
        assert!(unpacked(&large).unwrap_err().message.contains("larger than"));
    }

    #[test]
    fn references_have_no_scheme_but_that_of_registries() {
        for reference in ["host/c:1", "oci://host/c:1", "host:5000/c:1@sha256:00"] {
            assert_eq!(check_scheme(reference), Ok(()), "{reference}");
        }
        for (reference, scheme) in [("http://host/c:1", "http"), ("https://host/c:1", "https")] {
            let error = check_scheme(reference).unwrap_err();
            assert!(error.message.contains(&format!("{scheme}://, but only oci://")), "{error:?}");
            assert_eq!(error.codes, vec![ErrorCode::ConfigurationProblem]);
        }
    }

    #[test]
    fn whose_credentials() {
        for (address, other, expected) in [
            ("https://a/charts", "https://a/charts", true),
            ("https://a/charts/x", "https://a/charts", true),
            ("https://a/charts2", "https://a/charts", false),
            ("https://a/charts?token=x", "https://a", true),
            ("http://a/charts", "https://a", false),
            ("https://a:1/charts", "https://a", false),
        ] {
            assert_eq!(is_below(address, other), expected, "{address} {other}");
        }
    }
    /// A malicious chart repository: each attack on the index or the archive ends within its time
    /// limit, with an error that names the server.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn hostile_chart_repositories() {
        let index = json!({"apiVersion": "v1", "entries": {"web": [
            {"version": "1.0.0", "urls": ["web.tgz"], "digest": "00"},
        ]}});
        for trick in Trick::all() {
            let honest = Honest::json("/index.yaml", "application/json", index.to_string());
            let of_archive = HostileServer::start_beside(trick.clone(), vec![honest]).await.unwrap();
            let of_index = HostileServer::start(trick.clone()).await.unwrap();
            let asking = [of_index.url(), of_archive.url()].map(|url| {
                tokio::task::spawn_blocking(move || {
                    let allowance = Allowance::of(Duration::from_secs(2), FETCH_TIMEOUT);
                    let memory = AnswerMemory::new(MEMORY, MEMORY_SHARE);
                    let client = ChartClient::new(NetworkOptions::default());
                    let (chart, none) = (("web", "1.0.0"), Authorization::default());
                    let found =
                        client.of_repository(&url, chart, &none, &allowance.holding(&memory.begin("a")));
                    assert_eq!(memory.in_use(), 0);
                    (url, found.map_err(super::of_index))
                })
            });
            for asking in asking {
                let ended = tokio::time::timeout(Duration::from_secs(20), asking).await;
                let (url, found) = ended.unwrap_or_else(|_| panic!("{trick:?} has not ended")).unwrap();
                let text = found.unwrap_err().message;
                let host = url.trim_start_matches("http://");
                println!("| {trick:?} | {text} |");
                assert!(text.contains(host) && text.len() < 1000, "{trick:?}: {text}");
            }
        }
    }
}
