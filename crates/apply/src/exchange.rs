//! How requests go to a cluster, and what comes of answers that are no success.

use std::time::{Duration, Instant};

use groundwork_controller::{ApiError, Unasked};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use crate::cluster::{Cluster, REQUEST_LIMIT};
use crate::gate::retry_after;

/// Whatever takes longer than this to fail holds others up.
const LATE: Duration = Duration::from_secs(5);
/// How often one request is made that a busy server does not take. The next rest is the item's.
const TRIES: usize = 3;
/// What keeps a write of a busy server from being made again: it does not say that it has not been done.
const BUSY: &str = "it is busy";
/// What server-side apply says of lists in which a key is there twice.
pub(crate) const REPEATED_KEYS: &str = "duplicate entries for key";

impl Cluster {
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Result<Request<Vec<u8>>, ApiError> {
        let request = Request::builder().method(method).uri(path).header("content-type", content).body(body);
        request
            .map_err(|_| ApiError::Invalid { object: path.to_owned(), causes: "it is no address".to_owned() })
    }

    pub(crate) async fn send(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
    ) -> Result<Value, ApiError> {
        let text = self.text(request, verb, object).await?;
        serde_json::from_str(&text)
            .map_err(|error| ApiError::new(&kube::Error::SerdeError(error), verb, object, object))
    }

    /// The same with the fields that the server says it does not know.
    pub(crate) async fn send_with_warnings(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let response = self.exchange(request, verb, object).await?;
        let unknown = unknown_fields(response.headers());
        let text = self.body(response, verb, object).await?;
        let stored = serde_json::from_str(&text)
            .map_err(|error| ApiError::new(&kube::Error::SerdeError(error), verb, object, object))?;
        Ok((stored, unknown))
    }

    /// The text of an answer.
    pub(crate) async fn text(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
    ) -> Result<String, ApiError> {
        let response = self.exchange(request, verb, object).await?;
        self.body(response, verb, object).await
    }

    async fn body(
        &self,
        response: Response<Body>,
        verb: &'static str,
        object: &str,
    ) -> Result<String, ApiError> {
        let bytes = tokio::time::timeout(REQUEST_LIMIT, response.into_body().collect_bytes()).await;
        self.gate.note(bytes.is_ok());
        let text = match bytes {
            Ok(bytes) => {
                bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).map_err(kube::Error::FromUtf8))
            }
            Err(_) => return Err(no_answer(verb, object)),
        };
        text.map_err(|error| meaning(&error, verb, object))
    }

    /// Makes a request, unless the cluster is silent or wants to be left alone. A rest that is short is waited for.
    ///
    /// # Errors
    ///
    /// [`ApiError::Unasked`] if nothing may be asked now, or the server takes no request; otherwise what an answer means that is no success.
    pub(crate) async fn exchange(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
    ) -> Result<Response<Body>, ApiError> {
        let unasked = |why| ApiError::Unasked { verb, object: object.to_owned(), why };
        for _ in 0..TRIES {
            self.gate.pass().await.map_err(unasked)?;
            if !self.gate.may_ask() {
                return Err(unasked(Unasked::Silent));
            }
            let begun = Instant::now();
            let sent = self.client.send(request.clone().map(Body::from));
            let answer = tokio::time::timeout(REQUEST_LIMIT, sent).await;
            // One that refuses connections says so at once, and is not silent.
            self.gate.note(matches!(answer, Ok(Ok(_))) || begun.elapsed() <= LATE);
            let response = match answer {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(meaning(&error, verb, object)),
                Err(_) => return Err(no_answer(verb, object)),
            };
            let status = response.status();
            match rest_of(status, response.headers()) {
                Some(length) => {
                    self.gate.begin_rest(length);
                    // A write may have been done all the same: the next round looks.
                    if status != StatusCode::TOO_MANY_REQUESTS && request.method() != Method::GET {
                        return Err(transient(verb, object, BUSY));
                    }
                }
                None if status.is_client_error() || status.is_server_error() => {
                    return Err(meaning(&refusal(status, response).await, verb, object));
                }
                None => return Ok(response),
            }
        }
        Err(unasked(Unasked::Busy))
    }
}

fn transient(verb: &'static str, object: &str, problem: &str) -> ApiError {
    ApiError::Transient { verb, object: object.to_owned(), problem: problem.to_owned() }
}

fn no_answer(verb: &'static str, object: &str) -> ApiError {
    transient(verb, object, &format!("no answer within {} s", REQUEST_LIMIT.as_secs()))
}

/// How long a busy server wants to be left alone, if it says so: with the statuses that Kubernetes' own client looks at.
fn rest_of(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    retry_after(headers, Timestamp::now()).filter(|_| is_busy)
}

/// Paths of the fields that warnings (`299 - "unknown field \"spec.x\""`) name. Elements of lists come without their places.
fn unknown_fields(headers: &HeaderMap) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for text in headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()) {
        let text = text.replace("\\\"", "\"");
        let Some((_, rest)) = text.split_once("unknown field \"") else { continue };
        let path: String = rest.chars().take_while(|character| *character != '"').collect();
        let path = format!(".{}", without_places(&path));
        if !fields.contains(&path) {
            fields.push(path);
        }
    }
    fields
}

/// `containers[0].x` as `containers[].x`.
fn without_places(path: &str) -> String {
    let mut told = String::new();
    for (index, part) in path.split('[').enumerate() {
        if index == 0 {
            told.push_str(part);
        } else {
            told.push_str("[]");
            told.push_str(part.split_once(']').map_or("", |(_, rest)| rest));
        }
    }
    told
}

/// The status that an answer holds. Who stands before the API server answers in words of its own.
async fn refusal(status: StatusCode, response: Response<Body>) -> kube::Error {
    let read = tokio::time::timeout(REQUEST_LIMIT, response.into_body().collect_bytes()).await;
    let bytes = read.ok().and_then(Result::ok).unwrap_or_default();
    let said = serde_json::from_slice::<Status>(&bytes).ok().filter(|said| said.code != 0);
    let plain = || Status::failure(&String::from_utf8_lossy(&bytes), "").with_code(status.as_u16());
    kube::Error::Api(said.unwrap_or_else(plain).boxed())
}

fn meaning(error: &kube::Error, verb: &'static str, object: &str) -> ApiError {
    match error {
        kube::Error::Api(status) if status.message.contains(REPEATED_KEYS) => {
            ApiError::Invalid { object: object.to_owned(), causes: REPEATED_KEYS.to_owned() }
        }
        error => ApiError::new(error, verb, object, object),
    }
}

#[cfg(test)]
mod tests;
