//! How requests go to a cluster, and what comes of answers that are no success.
//!
//! The cluster is somebody else's server: each answer has a limit that its kind needs, ends with the time of its request, and counts as
//! memory for as long as what was made of it is there ([`groundwork_client::answer`]).

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

/// Whatever takes longer than this to fail holds others up.
const LATE: Duration = Duration::from_secs(5);
/// How often one request is made that a busy server does not take. The next rest is the item's.
const TRIES: usize = 3;
/// What keeps a write of a busy server from being made again: it does not say that it has not been done.
const BUSY: &str = "it is busy";
/// API servers take 3 MiB of one object, and keep half of it; they add who has set which field.
pub(crate) const OBJECT: Limit = Limit { what: "an object", bytes: 8 << 20 };
pub(crate) const KINDS: Limit = Limit { what: "a list of kinds", bytes: 2 << 20 };
pub(crate) const GROUPS: Limit = Limit { what: "a list of groups", bytes: 1 << 20 };
pub(crate) const VERSION: Limit = Limit { what: "a version", bytes: 64 << 10 };
/// A token, or a kubeconfig.
pub(crate) const GRANT: Limit = Limit { what: "a grant of access", bytes: 1 << 20 };
/// A longer refusal is told without its words.
const REFUSAL: Limit = Limit { what: "a refusal", bytes: 256 << 10 };
/// Of memory, for its words alone.
const MOST_OF_REFUSAL: usize = 4 << 20;

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
        limit: Limit,
    ) -> Result<Value, ApiError> {
        let read = self.read(request, verb, object, limit).await?;
        let (value, held) = read.map_err(|error| self.unread(verb, object, &error))?;
        held.keep();
        Ok(value)
    }

    /// The same; an answer that is too long or takes too much is left to the caller, and what it takes, too.
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

    /// The same with the fields that the server says it does not know.
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

    /// The text of an answer.
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

    /// Reads an answer, as far as the time of its request allows; `None` if it does not.
    async fn body(&self, answer: Answer, limit: Limit) -> Option<Result<(Vec<u8>, Held), AnswerError>> {
        let left = self.bounds.answers.request.saturating_sub(answer.begun.elapsed());
        let read = answer::read(answer.response.into_body(), limit, &self.holding);
        let read = tokio::time::timeout(left, read).await;
        self.gate.note(read.is_ok());
        read.ok()
    }

    /// The error for an answer that could not be read. It may go away by itself: the server is out of order, or is another one soon.
    pub(crate) fn unread(&self, verb: &'static str, object: &str, error: &AnswerError) -> ApiError {
        self.transient(verb, object, &format!("{} {error}", self.bounds.server.address))
    }

    /// An error of a connection does not say with which server.
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
    ) -> Result<Answer, ApiError> {
        let unasked = |why| ApiError::Unasked { verb, object: object.to_owned(), why };
        for _ in 0..TRIES {
            self.gate.pass().await.map_err(unasked)?;
            if !self.gate.may_ask() {
                return Err(unasked(Unasked::Silent));
            }
            let begun = Instant::now();
            let sent = self.client.send(request.clone().map(Body::from));
            let answer = tokio::time::timeout(self.bounds.answers.request, sent).await;
            // One that refuses connections says so at once, and is not silent.
            self.gate.note(matches!(answer, Ok(Ok(_))) || begun.elapsed() <= LATE);
            let response = match answer {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(self.named(meaning(&error, verb, object))),
                Err(_) => return Err(self.no_answer(verb, object)),
            };
            let answer = Answer { response, begun };
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
                    // A write may have been done all the same: the next round looks.
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

    /// The status that an answer holds. Who stands before the API server answers in words of its own.
    async fn refusal(&self, status: StatusCode, answer: Answer) -> kube::Error {
        let read = self.body(answer, REFUSAL).await.and_then(Result::ok);
        let (bytes, _held) = read.unzip();
        let bytes = bytes.unwrap_or_default();
        let is_small = weight(&bytes) <= MOST_OF_REFUSAL;
        let said = serde_json::from_slice::<Status>(&bytes).ok().filter(|said| is_small && said.code != 0);
        let plain = || Status::failure(&String::from_utf8_lossy(&bytes), "").with_code(status.as_u16());
        kube::Error::Api(said.unwrap_or_else(plain).boxed())
    }
}

/// The head of an answer, and when it was asked for.
pub(crate) struct Answer {
    pub(crate) response: Response<Body>,
    begun: Instant,
}

/// Why no part of an answer is read.
fn unwanted(status: StatusCode, headers: &HeaderMap) -> Option<&'static str> {
    // A server that leads elsewhere is none that the Target names.
    if status.is_redirection() {
        return Some(
            "answers with a redirection, which is not followed: the server of the kubeconfig has to be the API server itself",
        );
    }
    let is_plain = |encoding: &[u8]| encoding.eq_ignore_ascii_case(b"identity");
    let is_encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| !is_plain(value.as_bytes()));
    is_encoded.then_some("answers in an encoding that nobody has asked for (Content-Encoding)")
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
