//! Way of a request: path, user, authorization, storage, form of the answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use groundwork_grpc::{Access, ResourceAttributes, User};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::LengthLimitError;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::discovery;
use crate::refusal::Refusal;
use crate::request::{Query, Request, Verb, content_type, verb};
use crate::server::{Connection, Peer};
use crate::storage::{Answer, Kind, Storage};
use crate::view::View;
use crate::watch::Watching;

/// Limit for the body of a request in bytes.
const MAX_BODY: usize = 16 << 20;
/// Memory for all bodies of requests that are being answered, in units of [`BODY_UNIT`].
const BODIES: usize = 256;
/// Unit in which the memory for bodies is given out, in bytes.
const BODY_UNIT: usize = 1 << 20;
/// Longest text of a warning header, in bytes.
const MAX_WARNING: usize = 1000;

/// State of the handlers.
#[derive(Clone)]
pub(crate) struct Handling {
    storage: Arc<dyn Storage>,
    access: Access,
    /// Memory for bodies.
    bodies: Arc<Semaphore>,
    end: CancellationToken,
}

/// Object or collection that a path names.
#[derive(Debug, Default)]
struct Target {
    namespace: String,
    resource: String,
    name: String,
    subresource: String,
}

impl Handling {
    /// Returns the answer of the storage. The API server of the cluster cuts long requests; a write
    /// goes on to its end all the same, so that no half of it is left.
    async fn answered(
        &self,
        kind: &'static Kind,
        request: Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal> {
        if !request.verb.writes() {
            return self.storage.answer(kind, request, warnings).await;
        }
        let storage = Arc::clone(&self.storage);
        let writing = async move {
            let mut warnings = Vec::new();
            let answer = storage.answer(kind, request, &mut warnings).await;
            (answer, warnings)
        };
        let written = tokio::spawn(writing.in_current_span()).await;
        let (answer, said) = written.map_err(|_| {
            Refusal::internal("the request failed with an internal error; see the log of the service")
        })?;
        warnings.extend(said);
        answer
    }

    pub(crate) fn new(storage: Arc<dyn Storage>, access: Access, end: CancellationToken) -> Self {
        Self { storage, access, bodies: Arc::new(Semaphore::new(BODIES)), end }
    }
}

pub(crate) fn router(handling: Handling) -> Router {
    let group = handling.storage.group();
    let base = format!("/apis/{}/{}", group.name, group.version);
    let served = |state: &Handling, document: fn(&dyn Storage) -> Value| document(&*state.storage);
    let document = move |document: fn(&dyn Storage) -> Value| {
        get(
            move |State(state): State<Handling>, ConnectInfo(Connection(peer)): ConnectInfo<Connection>| async move {
                peer.has_asked();
                answer(StatusCode::OK, &served(&state, document))
            },
        )
    };
    let healthy = || get(|| async { "ok" });
    Router::new()
        .route("/healthz", healthy())
        .route("/livez", healthy())
        .route("/readyz", healthy())
        .route("/apis", document(|storage| discovery::groups(storage.group())))
        .route(&format!("/apis/{}", group.name), document(|storage| discovery::group(storage.group())))
        .route(&base, document(discovery::resources))
        .route("/openapi/v3", document(|storage| discovery::open_api_paths(storage.group())))
        .route(&format!("/openapi/v3{base}"), document(discovery::open_api))
        .route(&format!("{base}/{{*path}}"), any(handle))
        .fallback(async || refused(&Refusal::no_resource()))
        .with_state(handling)
}

async fn handle(
    State(state): State<Handling>,
    ConnectInfo(Connection(peer)): ConnectInfo<Connection>,
    Path(path): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    peer.has_asked();
    let span =
        tracing::info_span!("request", otel.name = format!("{method} {}", uri.path()), otel.kind = "server");
    let mut warnings = Vec::new();
    let handled =
        state.handle(&peer, &path, &method, &uri, &headers, body, &mut warnings).instrument(span).await;
    let mut response = handled.unwrap_or_else(|refusal| refused(&refusal));
    for warning in warnings {
        let text: String = warning.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect();
        let text: String = text.chars().take(MAX_WARNING).collect();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

impl Handling {
    #[expect(clippy::too_many_arguments, reason = "the parts of one request, as axum takes it apart")]
    async fn handle(
        &self,
        peer: &Peer,
        path: &str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Body,
        warnings: &mut Vec<String>,
    ) -> Result<Response, Refusal> {
        let proxy = peer.proxy.as_ref().ok_or_else(|| {
            Refusal::unauthorized(
                "this server answers the API server of its cluster only: send the request there, as kubectl does",
            )
        })?;
        let user = proxy.user(headers).ok_or_else(|| Refusal::unauthorized("the request names no user"))?;
        let target = target(path).ok_or_else(Refusal::no_resource)?;
        let kind = self.storage.kinds().iter().find(|kind| kind.plural == target.resource);
        let kind = kind.ok_or_else(Refusal::no_resource)?;
        let query = Query::parse(uri.query());
        let options = query.options()?;
        let verb = verb(method, !target.name.is_empty(), query.is_watch());
        let verb = verb.ok_or_else(|| Refusal::method_not_allowed(kind.plural, method.as_str()))?;
        let verbs = match target.subresource.as_str() {
            "" => kind.verbs,
            subresource => {
                let found = kind.subresources.iter().find(|(name, _)| *name == subresource);
                found.map(|(_, verbs)| *verbs).ok_or_else(Refusal::no_resource)?
            }
        };
        if !verbs.contains(&verb) {
            return Err(Refusal::method_not_allowed(kind.plural, verb.as_str()));
        }
        self.authorize(&user, verb, kind, &target).await?;
        if target.namespace.is_empty() && (verb.writes() || !target.name.is_empty()) {
            return Err(Refusal::bad_request("an empty namespace may not be set during creation"));
        }
        let include = query_value(uri, "includeObject");
        let view = View::of(headers, include.as_deref())?;
        let units = if verb.writes() { units(headers) } else { 0 };
        let _memory = self.bodies.acquire_many(units).await;
        let body = axum::body::to_bytes(body, MAX_BODY).await.map_err(|error| too_large(&error))?;
        let Target { namespace, resource, name, subresource } = target;
        let mut request = Request {
            user: Arc::new(user),
            verb,
            resource,
            subresource,
            namespace,
            name,
            options,
            user_agent: headers
                .get(header::USER_AGENT)
                .and_then(|name| name.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            body,
            content_type: content_type(headers),
        };
        if verb == Verb::Delete {
            request.options.is_dry_run |= request.deletes_dry();
        }
        audit(&request);
        let (options, namespace) = (request.options.clone(), request.namespace.clone());
        let found = self.answered(kind, request, warnings).await?;
        let group = self.storage.group();
        let unwritable = |error: serde_json::Error| Refusal::internal(&error.to_string());
        Ok(match found {
            Answer::Object(object) => answer(StatusCode::OK, &view.object(object, kind)),
            Answer::Created(object) => answer(StatusCode::CREATED, &view.object(object, kind)),
            Answer::List { items, version } => {
                let items = items.iter().map(|item| &*item.json);
                json_response(
                    StatusCode::OK,
                    view.list(items, kind, group, version).map_err(unwritable)?.into(),
                )
            }
            Answer::Done { uid } => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": {"kind": kind.plural, "group": group.name, "uid": uid}});
                answer(StatusCode::OK, &status)
            }
            Answer::Watch(watch) => {
                let end = self.end.clone();
                let watching = Watching { watch, kind, group, namespace, options, view, end };
                json_response(StatusCode::OK, watching.body().await?)
            }
        })
    }

    /// Asks the API server of the cluster whether the user may do this.
    async fn authorize(&self, user: &User, verb: Verb, kind: &Kind, target: &Target) -> Result<(), Refusal> {
        let resource = match target.subresource.as_str() {
            "" => kind.plural.to_owned(),
            subresource => format!("{}/{subresource}", kind.plural),
        };
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (namespace, name) = (some(&target.namespace), some(&target.name));
        let attributes = ResourceAttributes {
            group: self.storage.group().name,
            resource: &resource,
            namespace: namespace.as_deref(),
            name: name.as_deref(),
        };
        let demanded = self.access.demand(user, verb.as_str(), &[attributes]).await;
        let qualified = format!("{resource}.{}", self.storage.group().name);
        demanded.map_err(|status| Refusal::of_review(&status, &qualified, &target.name))
    }
}

/// Returns the memory that the body of a request may take. A body without a length may be as long
/// as any.
fn units(headers: &HeaderMap) -> u32 {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let units = length.unwrap_or(MAX_BODY).min(MAX_BODY).div_ceil(BODY_UNIT).max(1);
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Logs a request that changes something.
fn audit(request: &Request) {
    if request.verb.writes() {
        tracing::info!(
            user = request.user.name,
            verb = request.verb.as_str(),
            resource = request.resource,
            subresource = request.subresource,
            namespace = request.namespace,
            name = request.name,
            is_dry_run = request.options.is_dry_run,
            "a user changes an object"
        );
    }
}

/// Returns the target of a path below the version of the group.
fn target(path: &str) -> Option<Target> {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let text = |at: usize| parts.get(at).map(|part| (*part).to_owned()).unwrap_or_default();
    let of = match parts.as_slice() {
        ["namespaces", _, _] | ["namespaces", _, _, _] | ["namespaces", _, _, _, _] => {
            Target { namespace: text(1), resource: text(2), name: text(3), subresource: text(4) }
        }
        [_] => Target { resource: text(0), ..Target::default() },
        _ => return None,
    };
    parts.iter().all(|part| !part.is_empty()).then_some(of)
}

fn query_value(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn too_large(error: &axum::Error) -> Refusal {
    let is_limit =
        std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<LengthLimitError>);
    if is_limit {
        Refusal::too_large(MAX_BODY)
    } else {
        Refusal::bad_request(format!("the body did not arrive: {error}"))
    }
}

fn answer(code: StatusCode, body: &Value) -> Response {
    json_response(code, Body::from(body.to_string()))
}

fn json_response(code: StatusCode, body: Body) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn refused(refusal: &Refusal) -> Response {
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(code, &refusal.body());
    if let Some(seconds) = refusal.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_bodies() {
        let of =
            |length: &str| units(&HeaderMap::from_iter([(header::CONTENT_LENGTH, length.parse().unwrap())]));
        assert_eq!((of("0"), of("1048577"), of("999999999999")), (1, 2, 16));
        assert_eq!(units(&HeaderMap::new()), 16);
    }

    #[test]
    fn paths() {
        let read = |path: &str| {
            target(path)
                .map(|found| [found.namespace, found.resource, found.name, found.subresource].join("|"))
        };
        for (path, expected) in [
            ("packagerevisions", Some("|packagerevisions||")),
            ("namespaces/a/packagerevisions", Some("a|packagerevisions||")),
            ("namespaces/a/packagerevisions/b", Some("a|packagerevisions|b|")),
            ("namespaces/a/packagerevisions/b/approval", Some("a|packagerevisions|b|approval")),
            ("packagerevisions/b", None),
            ("namespaces/a", None),
            ("namespaces//packagerevisions", None),
            ("namespaces/a/b/c/d/e", None),
        ] {
            assert_eq!(read(path).as_deref(), expected, "{path}");
        }
    }
}
