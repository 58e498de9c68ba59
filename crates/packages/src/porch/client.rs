//! Calls of the aggregated API of a Porch server (`packagevariants.md` 6.13, the table of
//! operations).

use std::sync::Arc;
use std::time::Duration;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_client::answer::{self, AnswerError, Limit, Memory};
use groundwork_client::weight::weight;
use groundwork_telemetry::innermost_cause;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method};
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};
use tracing::Instrument as _;

use crate::porch::draft::NewDraft;
use crate::porch::error::{Meaning, PorchError, Request};
use crate::porch::object::{Resources, Revision};

/// Reason of the cause that has the results of a failed rendering (`packagevariants.md` 6.14).
pub const RENDER_STATUS: &str = "RenderStatus";
/// Category in the discovery of our package store, by which it is told from other servers of the
/// same API.
pub const STORE_CATEGORY: &str = "groundwork";
const GROUP: &str = "/apis/porch.kpt.dev/v1alpha1";
/// Resource names in paths.
const REVISIONS: &str = "packagerevisions";
const RESOURCES: &str = "packagerevisionresources";
/// Time limit for a request. The API server ends a request after about 34 s, so only a dead
/// connection reaches this limit.
const REQUEST_LIMIT: Duration = Duration::from_secs(45);
/// Limit for a list in bytes, enough for some ten thousand revisions. The parsed list takes several
/// times as much.
const MAX_LIST: usize = 32 << 20;
/// Limit for any other answer in bytes; a Porch server accepts packages of 6 MiB.
const MAX_ANSWER: usize = 16 << 20;
/// Limit for the body of a refusal, in bytes.
const MAX_REFUSAL: usize = 64 << 10;
/// Memory for all answers while they are read and parsed, in bytes.
const MEMORY: usize = 256 << 20;
/// Memory for one answer, and for all answers of one namespace, in bytes.
const MEMORY_SHARE: usize = 192 << 20;
/// Longest wait of an answer for memory that others release.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a call is repeated because another call on the same package was running.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Number of repetitions of a call that meets another call on the same package.
const BUSY_ATTEMPTS: usize = 5;

/// Client of a Porch server, through the API server.
///
/// The HTTP client may itself retry after 429, 503 and 504, as `Retry-After` says. If the first
/// attempt had succeeded, the retry fails with [`Meaning::AlreadyExists`] or [`Meaning::Conflict`];
/// the next reconcile reads the current state and finds the change.
#[derive(Clone)]
pub struct Porch {
    client: Client,
    count: Count,
    memory: Memory,
    /// Lock for lists. A Porch server lists from maps that all its lists share and write to, so two
    /// lists at a time can end it (`fatal error: concurrent map writes`). `None` for servers that
    /// list at once.
    lists: Option<Arc<tokio::sync::Mutex<()>>>,
}

/// Counter of requests, with verb, resource and result.
type Count = Arc<dyn Fn(&'static str, &'static str, &'static str) + Send + Sync>;

impl std::fmt::Debug for Porch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Porch").finish_non_exhaustive()
    }
}

impl Porch {
    pub fn new(client: Client) -> Self {
        let memory = Memory::new(MEMORY, MEMORY_SHARE, PATIENCE);
        Self { client, count: Arc::new(|_, _, _| {}), memory, lists: Some(Arc::default()) }
    }

    /// Allows several lists at a time.
    #[must_use]
    pub fn listing_at_once(self) -> Self {
        Self { lists: None, ..self }
    }

    /// Adds a counter of requests: verb, resource, and `ok`, `conflict`, `not_found`, `forbidden`
    /// or `failed`.
    #[must_use]
    pub fn counting(
        self,
        count: impl Fn(&'static str, &'static str, &'static str) + Send + Sync + 'static,
    ) -> Self {
        Self { count: Arc::new(count), ..self }
    }

    /// Reports whether a Porch server serves package revisions here. Only Porch also serves their
    /// files, which a CRD of the same group does not (`packagevariants.md` 6.1). Any authenticated
    /// user may read this.
    ///
    /// # Errors
    /// See [`PorchError`]; [`Meaning::Unavailable`] also if the server is registered and does not
    /// answer.
    pub async fn is_served(&self) -> Result<bool, PorchError> {
        Ok(self.served().await?.is_some())
    }

    /// Reports whether another server than our package store serves package revisions here.
    ///
    /// # Errors
    /// As [`Porch::is_served`].
    pub async fn is_of_others(&self) -> Result<bool, PorchError> {
        let is_store = |kind: &Value| {
            let mut categories = kind.get("categories").and_then(Value::as_array).into_iter().flatten();
            categories.any(|category| category == STORE_CATEGORY)
        };
        Ok(self.served().await?.is_some_and(|kind| !is_store(&kind)))
    }

    /// Returns what discovery says about the kind that only Porch's API has.
    async fn served(&self) -> Result<Option<Value>, PorchError> {
        let mut answer = match self.exchange(Method::GET, GROUP, None).await {
            Err(error) if error.meaning == Meaning::NotFound => return Ok(None),
            answer => answer?,
        };
        let resources = answer.get_mut("resources").and_then(Value::as_array_mut).map(std::mem::take);
        let is_it = |found: &Value| found.get("name").is_some_and(|name| name == RESOURCES);
        Ok(resources.unwrap_or_default().into_iter().find(is_it))
    }

    /// Lists the revisions of a repository, or of one package in it. Revisions of a repository that
    /// the server could not read are missing.
    ///
    /// # Errors
    /// See [`PorchError`]; [`Meaning::NotFound`] if no server serves package revisions.
    pub async fn list(
        &self,
        namespace: &str,
        repository: &str,
        package: Option<&str>,
    ) -> Result<Vec<Revision>, PorchError> {
        let mut fields = format!("spec.repository={}", escaped(repository));
        if let Some(package) = package {
            fields.push_str(&format!(",spec.packageName={}", escaped(package)));
        }
        let path = format!("{}?fieldSelector={}", collection(namespace, REVISIONS)?, encoded(&fields));
        let mut answer = {
            let _alone = match &self.lists {
                Some(lists) => Some(lists.lock().await),
                None => None,
            };
            self.send(Method::GET, &path, None).await?
        };
        let items = answer.get_mut("items").map(Value::take).unwrap_or_default();
        let Value::Array(items) = items else { return Ok(Vec::new()) };
        items.into_iter().map(|item| revision(item, namespace)).collect()
    }

    /// Reads a revision; `None` if it does not exist.
    ///
    /// # Errors
    /// See [`PorchError`].
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Revision>, PorchError> {
        // An object with an invalid name cannot exist.
        let Ok(path) = object(namespace, REVISIONS, name) else { return Ok(None) };
        match self.send(Method::GET, &path, None).await {
            Ok(answer) => revision(answer, namespace).map(Some),
            Err(error) if error.meaning == Meaning::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the files of a revision.
    ///
    /// # Errors
    /// See [`PorchError`].
    pub async fn resources(&self, namespace: &str, name: &str) -> Result<Resources, PorchError> {
        let path = object(namespace, RESOURCES, name)?;
        resources(self.send(Method::GET, &path, None).await?)
    }

    /// Creates a draft; the server runs its task and renders it.
    ///
    /// # Errors
    /// See [`PorchError`]. Without an answer, the draft may have been created.
    pub async fn create(&self, draft: &NewDraft) -> Result<Revision, PorchError> {
        let path = collection(&draft.namespace, REVISIONS)?;
        let body = draft.body().map_err(|error| PorchError::unreadable(&error))?;
        let made = self.send(Method::POST, &path, Some(&body)).await?;
        revision(made, &draft.namespace)
    }

    /// Replaces the files of a draft, if it still has the version that was read; the server renders
    /// it.
    ///
    /// # Errors
    /// See [`PorchError`]. Without an answer, the files may have been saved.
    pub async fn save(&self, files: &Resources) -> Result<Resources, PorchError> {
        let (namespace, name) = files.place();
        let path = object(namespace, RESOURCES, name)?;
        resources(self.send(Method::PUT, &path, Some(&files.raw)).await?)
    }

    /// Returns the files of a revision after an upgrade, which is not carried out. A failed
    /// rendering is in the status. Only Groundwork's package store answers this
    /// (`packagevariants.md` 6.14).
    ///
    /// # Errors See [`PorchError`].
    pub async fn preview_upgrade(&self, upgrading: &Resources) -> Result<Resources, PorchError> {
        let (namespace, name) = upgrading.place();
        let path = format!("{}?dryRun=All", object(namespace, RESOURCES, name)?);
        resources(self.send(Method::PUT, &path, Some(&upgrading.raw)).await?)
    }

    /// Replaces a revision: its labels, annotations, owners, and a lifecycle change that needs no
    /// approval.
    ///
    /// # Errors
    /// See [`PorchError`].
    pub async fn replace(&self, changed: &Revision) -> Result<Revision, PorchError> {
        let path = object(changed.namespace(), REVISIONS, changed.name())?;
        let written = self.send(Method::PUT, &path, Some(&changed.raw)).await?;
        revision(written, changed.namespace())
    }

    /// Approves or rejects a revision: sends the whole revision with its new lifecycle. This needs
    /// the right `update` on `packagerevisions/approval`, which users have and services lack.
    ///
    /// # Errors
    /// See [`PorchError`].
    pub async fn decide(&self, changed: &Revision) -> Result<Revision, PorchError> {
        let path = format!("{}/approval", object(changed.namespace(), REVISIONS, changed.name())?);
        let written = self.send(Method::PUT, &path, Some(&changed.raw)).await?;
        revision(written, changed.namespace())
    }

    /// Deletes a revision. Succeeds if the revision is gone already.
    ///
    /// # Errors
    /// See [`PorchError`].
    pub async fn delete(&self, namespace: &str, name: &str) -> Result<(), PorchError> {
        let path = object(namespace, REVISIONS, name)?;
        match self.send(Method::DELETE, &path, None).await {
            Ok(_) => Ok(()),
            Err(error) if error.meaning == Meaning::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, and retries it after a pause while another call on the same package is
    /// running.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, PorchError> {
        let mut attempts = 0;
        loop {
            let answer = self.send_once(method.clone(), path, body).await;
            let is_busy = matches!(&answer, Err(error) if error.meaning == Meaning::Busy);
            attempts += 1;
            if !is_busy || attempts >= BUSY_ATTEMPTS {
                return answer;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    async fn send_once(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, PorchError> {
        let verb = verb(&method, path);
        let answer = self.exchange(method, path, body).await;
        (self.count)(verb, resource(path), outcome(&answer));
        answer
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, PorchError> {
        let changes = method != Method::GET;
        // The API server itself answers requests for its list of groups.
        let unanswered = |problem: &str| {
            PorchError::unanswered(if path == GROUP { "API server" } else { "Porch server" }, problem)
        };
        let request = if method == Method::POST { Request::Create } else { Request::Other };
        let asked = asked(&method, path);
        let limit = match path.contains('?') {
            true => Limit { what: "a list", bytes: MAX_LIST },
            false => Limit { what: "an object", bytes: MAX_ANSWER },
        };
        let holding = self.memory.begin(namespace_of(path));
        let span = tracing::info_span!("porch", otel.name = format!("{method} {path}"), otel.kind = "client");
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let sent = http::Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(bytes))
            .map_err(|error| unanswered(&error.to_string()))?;
        let exchange = async {
            let answer = self.client.send(sent).await?;
            let (head, body) = answer.into_parts();
            let is_success = head.status.is_success();
            let limit = if is_success { limit } else { Limit { what: "a refusal", bytes: MAX_REFUSAL } };
            let read = answer::read(body, limit, &holding).await;
            // Reserve memory for the values before they are parsed.
            let read = match read {
                Ok((bytes, held)) if is_success => match holding.take(weight(&bytes)).await {
                    Ok(room) => Ok((bytes, Some((held, room)))),
                    Err(error) => Err(error),
                },
                read => read.map(|(bytes, _)| (bytes, None)),
            };
            Ok::<_, kube::Error>((head.status.as_u16(), head.headers, read))
        };
        let answer = match tokio::time::timeout(REQUEST_LIMIT, exchange.instrument(span)).await {
            Ok(Ok((status, _, Ok((bytes, _held))))) if (200..300).contains(&status) => {
                serde_json::from_slice(&bytes).map_err(|error| PorchError::unreadable(&error))
            }
            Ok(Ok((_, _, Err(AnswerError::Broken(problem))))) => Err(unanswered(&problem)),
            Ok(Ok((status, _, Err(error)))) if (200..300).contains(&status) => {
                Err(PorchError::not_taken(&asked, &error))
            }
            // A longer body is not a Kubernetes Status object.
            Ok(Ok((status, headers, read))) => {
                let bytes = read.map(|(bytes, _)| bytes).unwrap_or_default();
                Err(refusal(request, status, &headers, &bytes))
            }
            Ok(Err(error)) => Err(unanswered(&innermost_cause(&error))),
            Err(_) => Err(unanswered(&format!("no answer within {} s", REQUEST_LIMIT.as_secs()))),
        };
        // A read changes nothing, so its result never counts as unknown.
        answer.map_err(|error| PorchError { is_unanswered: error.is_unanswered && changes, ..error })
    }
}

/// Returns the namespace of a request's path; empty if there is none.
fn namespace_of(path: &str) -> &str {
    let namespace = path.split_once("/namespaces/").map_or("", |(_, rest)| rest);
    namespace.split(['/', '?']).next().unwrap_or_default()
}

/// Returns the name of a request for messages.
fn asked(method: &Method, path: &str) -> String {
    format!("{} of {}", verb(method, path), resource(path))
}

/// Returns the verb of a request for metrics, as RBAC names it.
fn verb(method: &Method, path: &str) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ if path.contains('?') => "list",
        _ => "get",
    }
}

fn resource(path: &str) -> &'static str {
    match path.contains("/packagerevisionresources/") {
        true => RESOURCES,
        false if path.ends_with("/approval") => "packagerevisions/approval",
        false => REVISIONS,
    }
}

/// Returns the result of a request for metrics.
fn outcome(answer: &Result<Value, PorchError>) -> &'static str {
    match answer.as_ref().map_err(|error| error.meaning) {
        Ok(_) => "ok",
        Err(Meaning::Busy | Meaning::Conflict | Meaning::AlreadyExists) => "conflict",
        Err(Meaning::NotFound) => "not_found",
        Err(Meaning::Denied | Meaning::IsUpstream | Meaning::DeletionNotProposed) => "forbidden",
        Err(_) => "failed",
    }
}

/// Returns the error for an unsuccessful answer.
fn refusal(request: Request, status: u16, headers: &HeaderMap, body: &[u8]) -> PorchError {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |member: &str| said.get(member).and_then(Value::as_str).unwrap_or_default();
    // A proxy in front of the API server answers in plain text.
    let plain =
        if said.is_object() { String::new() } else { String::from_utf8_lossy(body).trim().to_owned() };
    let message = if plain.is_empty() { text("message") } else { &plain };
    let mut error = PorchError::answered(request, status, text("reason"), message);
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let detail =
        said.pointer("/details/retryAfterSeconds").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    error.retry_after = header.or(detail).map(Duration::from_secs);
    let mut causes = said.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let results = causes.find(|cause| cause.get("reason").is_some_and(|reason| reason == RENDER_STATUS));
    error.results = results.and_then(|cause| cause.get("message")?.as_str().map(str::to_owned));
    error
}

/// Adds `apiVersion` and `kind`, which elements of a list lack and a `PUT` needs.
fn revision(mut raw: Value, namespace: &str) -> Result<Revision, PorchError> {
    if let Some(object) = raw.as_object_mut() {
        object.entry("apiVersion").or_insert_with(|| json!("porch.kpt.dev/v1alpha1"));
        object.entry("kind").or_insert_with(|| json!("PackageRevision"));
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.entry("namespace").or_insert_with(|| json!(namespace));
        }
    }
    Revision::new(raw).map_err(|error| PorchError::unreadable(&error))
}

fn resources(raw: Value) -> Result<Resources, PorchError> {
    Resources::new(raw).map_err(|error| PorchError::unreadable(&error))
}

/// Returns the path of a collection. An invalid namespace could change the path, so it is refused.
fn collection(namespace: &str, plural: &str) -> Result<String, PorchError> {
    checked(namespace)?;
    Ok(format!("{GROUP}/namespaces/{namespace}/{plural}"))
}

fn object(namespace: &str, plural: &str, name: &str) -> Result<String, PorchError> {
    checked(name)?;
    Ok(format!("{}/{name}", collection(namespace, plural)?))
}

fn checked(name: &str) -> Result<(), PorchError> {
    if is_dns_subdomain(name) {
        return Ok(());
    }
    let text = format!("{name:?} is not a valid object name; use lower-case letters, digits, `-` and `.`");
    Err(PorchError {
        meaning: Meaning::Invalid,
        text,
        retry_after: None,
        is_unanswered: false,
        results: None,
    })
}

/// Escapes a value for a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// Encodes a value for the query of a URL.
fn encoded(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().fold(String::new(), |mut text, byte| {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

#[cfg(test)]
mod tests;
