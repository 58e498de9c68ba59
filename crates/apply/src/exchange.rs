//! Requests to a cluster, and the meaning of unsuccessful answers.
//!
//! The cluster is a foreign server. So each answer has a size limit by its type, ends with the time
//! limit of its request, and counts as memory as long as the values made from it live
//! ([`groundwork_client::answer`]).

use std::time::{Duration, Instant};

use groundwork_client::answer::{self, AnswerError, Held, Limit};
use groundwork_client::weight::weight;
use groundwork_controller::{ApiError, Unasked};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::gate::retry_after;

/// Time after which a failing request counts as one to a hanging server, because it would hold up
/// other work.
const LATE: Duration = Duration::from_secs(5);
/// Maximum attempts of one request to a busy server. After that the item itself retries.
const TRIES: usize = 3;
/// Error text for a write to a busy server, which is not repeated because the answer does not say
/// that the write was not done.
const BUSY: &str = "the server is busy";
/// Limit for an object. API servers accept 3 MiB and store half of that; they add the managed
/// fields.
pub(crate) const OBJECT: Limit = Limit { what: "an object", bytes: 8 << 20 };
pub(crate) const KINDS: Limit = Limit { what: "a list of kinds", bytes: 2 << 20 };
pub(crate) const GROUPS: Limit = Limit { what: "a list of groups", bytes: 1 << 20 };
pub(crate) const VERSION: Limit = Limit { what: "a version", bytes: 64 << 10 };
/// Limit for a token or a kubeconfig.
pub(crate) const GRANT: Limit = Limit { what: "a grant of access", bytes: 1 << 20 };
/// Limit for a refusal. A longer one is reported without the server's text.
const REFUSAL: Limit = Limit { what: "a refusal", bytes: 256 << 10 };
/// Memory limit for parsing a refusal, which is needed for its text only.
const MOST_OF_REFUSAL: usize = 4 << 20;

/// Text of server-side apply about a list in which a key occurs twice.
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
        request.map_err(|_| ApiError::Invalid {
            object: path.to_owned(),
            causes: "not a valid URL path".to_owned(),
        })
    }

    pub(crate) async fn send(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
        limit: Limit,
    ) -> Result<Value, ApiError> {
        let read = self.read(request, verb, object, limit).await?;
        let (value, held) = read.map_err(|error| self.unread(verb, object, &error))?;
        held.keep();
        Ok(value)
    }

    /// Sends a request and returns the parsed answer with the memory that it holds. Exceeding the
    /// size limit or the memory budget is an inner error, which the caller handles.
    pub(crate) async fn read(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
        limit: Limit,
    ) -> Result<Result<(Value, Held), AnswerError>, ApiError> {
        let answer = self.exchange(request, verb, object).await?;
        let read = self.body(answer, limit).await.ok_or_else(|| self.no_answer(verb, object))?;
        let (text, _of_text) = match read {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        let held = match self.holding.take(weight(&text)).await {
            Ok(held) => held,
            Err(error) => return Ok(Err(error)),
        };
        let value = serde_json::from_slice(&text)
            .map_err(|error| ApiError::new(&kube::Error::SerdeError(error), verb, object, object))?;
        Ok(Ok((value, held)))
    }

    /// Sends a request and returns the parsed answer, with the fields that the server says it does
    /// not know.
    pub(crate) async fn send_with_warnings(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let answer = self.exchange(request, verb, object).await?;
        let unknown = unknown_fields(answer.response.headers());
        let text = self.body(answer, OBJECT).await.ok_or_else(|| self.no_answer(verb, object))?;
        let (text, _held) = text.map_err(|error| self.unread(verb, object, &error))?;
        let held = self.holding.take(weight(&text)).await;
        held.map_err(|error| self.unread(verb, object, &error))?.keep();
        let stored = serde_json::from_slice(&text)
            .map_err(|error| ApiError::new(&kube::Error::SerdeError(error), verb, object, object))?;
        Ok((stored, unknown))
    }

    /// Returns the text of an answer.
    pub(crate) async fn text(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
        limit: Limit,
    ) -> Result<String, ApiError> {
        let answer = self.exchange(request, verb, object).await?;
        let text = self.body(answer, limit).await.ok_or_else(|| self.no_answer(verb, object))?;
        let (text, held) = text.map_err(|error| self.unread(verb, object, &error))?;
        held.keep();
        String::from_utf8(text).map_err(|error| meaning(&kube::Error::FromUtf8(error), verb, object))
    }

    /// Reads the body of an answer within the time limit of its request; `None` if that time is
    /// over.
    async fn body(&self, answer: ResponseHead, limit: Limit) -> Option<Result<(Vec<u8>, Held), AnswerError>> {
        let left = self.bounds.answers.request.saturating_sub(answer.begun.elapsed());
        let read = answer::read(answer.response.into_body(), limit, &self.holding);
        let read = tokio::time::timeout(left, read).await;
        self.gate.note(read.is_ok());
        read.ok()
    }

    /// Returns the error for an answer that could not be read. The error is transient: the server
    /// is faulty, or another one answers soon.
    pub(crate) fn unread(&self, verb: &'static str, object: &str, error: &AnswerError) -> ApiError {
        self.transient(verb, object, &format!("{} {error}", self.bounds.server.address))
    }

    /// Adds the server's address to a connection error, which does not name it.
    fn named(&self, error: ApiError) -> ApiError {
        match error {
            ApiError::Transient { verb, object, problem } => {
                self.transient(verb, &object, &format!("{}: {problem}", self.bounds.server.address))
            }
            other => other,
        }
    }

    fn transient(&self, verb: &'static str, object: &str, problem: &str) -> ApiError {
        ApiError::Transient { verb, object: object.to_owned(), problem: problem.to_owned() }
    }

    fn no_answer(&self, verb: &'static str, object: &str) -> ApiError {
        let (server, seconds) = (&self.bounds.server.address, self.bounds.answers.request.as_secs());
        self.transient(verb, object, &format!("{server}: no answer within {seconds} s"))
    }

    /// Sends a request, unless the cluster hangs or has asked for a pause. A short pause is waited
    /// for.
    ///
    /// # Errors
    ///
    /// [`ApiError::Unasked`] if no request may be sent now, or the server accepts none. Otherwise
    /// the meaning of an unsuccessful answer.
    pub(crate) async fn exchange(
        &self,
        request: Request<Vec<u8>>,
        verb: &'static str,
        object: &str,
    ) -> Result<ResponseHead, ApiError> {
        let unasked = |why| ApiError::Unasked { verb, object: object.to_owned(), why };
        for _ in 0..TRIES {
            self.gate.pass().await.map_err(unasked)?;
            if !self.gate.may_ask() {
                return Err(unasked(Unasked::Silent));
            }
            let begun = Instant::now();
            let sent = self.client.send(request.clone().map(Body::from));
            let answer = tokio::time::timeout(self.bounds.answers.request, sent).await;
            // A server that refuses connections does so at once, which does not count as hanging.
            self.gate.note(matches!(answer, Ok(Ok(_))) || begun.elapsed() <= LATE);
            let response = match answer {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(self.named(meaning(&error, verb, object))),
                Err(_) => return Err(self.no_answer(verb, object)),
            };
            let answer = ResponseHead { response, begun };
            let (status, headers) = (answer.response.status(), answer.response.headers());
            if let Some(problem) = unwanted(status, headers) {
                return Err(self.transient(
                    verb,
                    object,
                    &format!("{} {problem}", self.bounds.server.address),
                ));
            }
            match rest_of(status, headers) {
                Some(length) => {
                    self.gate.begin_rest(length);
                    // The write may have been done all the same; the next round reads the object.
                    if status != StatusCode::TOO_MANY_REQUESTS && request.method() != Method::GET {
                        return Err(self.transient(verb, object, BUSY));
                    }
                }
                None if status.is_client_error() || status.is_server_error() => {
                    return Err(meaning(&self.refusal(status, answer).await, verb, object));
                }
                None => return Ok(answer),
            }
        }
        Err(unasked(Unasked::Busy))
    }

    /// Returns the status in an answer. A proxy in front of the API server answers in another
    /// format, so its text is used as it is.
    async fn refusal(&self, status: StatusCode, answer: ResponseHead) -> kube::Error {
        let read = self.body(answer, REFUSAL).await.and_then(Result::ok);
        let (bytes, _held) = read.unzip();
        let bytes = bytes.unwrap_or_default();
        let is_small = weight(&bytes) <= MOST_OF_REFUSAL;
        let said = serde_json::from_slice::<Status>(&bytes).ok().filter(|said| is_small && said.code != 0);
        let plain = || Status::failure(&String::from_utf8_lossy(&bytes), "").with_code(status.as_u16());
        kube::Error::Api(said.unwrap_or_else(plain).boxed())
    }
}

/// The head of an answer, with the time of its request.
pub(crate) struct ResponseHead {
    pub(crate) response: Response<Body>,
    begun: Instant,
}

/// Returns the reason why the body of an answer must not be read.
fn unwanted(status: StatusCode, headers: &HeaderMap) -> Option<&'static str> {
    // A redirection would lead to a server that the Target does not name.
    if status.is_redirection() {
        return Some(
            "answers with a redirection, which is not followed: the server of the kubeconfig must be the API server \
             itself",
        );
    }
    let is_plain = |encoding: &[u8]| encoding.eq_ignore_ascii_case(b"identity");
    let is_encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| !is_plain(value.as_bytes()));
    is_encoded.then_some("uses a Content-Encoding that the request did not accept")
}

/// Returns the pause that a busy server asks for, for the statuses that Kubernetes' own client
/// checks.
fn rest_of(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    retry_after(headers, Timestamp::now()).filter(|_| is_busy)
}

/// Returns the paths of the fields in warnings (`299 - "unknown field \"spec.x\""`), without the
/// indices of list elements.
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

/// Writes `containers[0].x` as `containers[].x`.
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
