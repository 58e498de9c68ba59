//! One request to the API server: its span, its time limit, its metric, and the meaning of its
//! failure.
//!
//! The asynchronous part is boxed and independent of the object's type, so that it is compiled once
//! and not for each kind in every service.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use kube::core::request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::objects::Stored;

/// Time limit of one request. It also detects a connection that died silently.
const LIMIT: Duration = Duration::from_secs(30);

/// A request that was built, or the error of building it.
pub(crate) type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// A request, as spans, metrics and errors name it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    verb: &'static str,
    group: Cow<'static, str>,
    plural: Cow<'static, str>,
    subresource: &'static str,
    namespace: &'a str,
    /// Name of the object, or the selector of the objects.
    name: &'a str,
}

impl<'a> Call<'a> {
    pub(crate) fn of<K: Stored>(verb: &'static str, namespace: &'a str, name: &'a str) -> Self {
        Self { verb, group: K::group(&()), plural: K::plural(&()), subresource: "", namespace, name }
    }

    pub(crate) fn on_status(self) -> Self {
        Self { subresource: "/status", ..self }
    }

    fn resource(&self) -> String {
        format!("{}{}", self.plural, self.subresource)
    }

    fn object(&self) -> String {
        format!("{} {}/{}", self.plural, self.namespace, self.name)
    }

    fn failed(&self, error: &kube::Error) -> ApiError {
        let mut right = self.resource();
        if !self.group.is_empty() {
            right = format!("{right}.{}", self.group);
        }
        let right = format!("{right} in namespace {}", self.namespace);
        ApiError::new(error, self.verb, &self.object(), &right)
    }

    /// Decodes the answer of the API server.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, ApiError> {
        serde_json::from_str(text).map_err(|error| self.failed(&kube::Error::SerdeError(error)))
    }

    /// Encodes an object as the body of a request.
    pub(crate) fn write(&self, object: &impl Serialize) -> Result<Vec<u8>, ApiError> {
        serde_json::to_vec(object).map_err(|error| self.failed(&kube::Error::SerdeError(error)))
    }

    /// Sends the request and returns the text of the answer.
    #[expect(clippy::disallowed_methods, reason = "the home API server is our own")]
    pub(crate) fn send(&self, client: &Client, request: Built) -> BoxFuture<'_, Result<String, ApiError>> {
        let client = client.clone();
        Box::pin(async move {
            let resource = self.resource();
            let span = tracing::info_span!(
                "api",
                otel.name = format!("{} {resource}", self.verb),
                otel.kind = "client",
                verb = self.verb,
                resource,
                namespace = self.namespace,
                name = self.name
            );
            let asking = async {
                let request = request.map_err(kube::Error::BuildRequest)?;
                client.request_text(request).await
            };
            match tokio::time::timeout(LIMIT, asking.instrument(span)).await {
                Ok(answer) => answer.map_err(|error| self.failed(&error)),
                Err(_) => Err(ApiError::Transient {
                    verb: self.verb,
                    object: self.object(),
                    problem: format!("no answer within {} s", LIMIT.as_secs()),
                }),
            }
        })
    }

    /// Counts the outcome of the request.
    pub(crate) fn count(&self, error: Option<&ApiError>, metrics: &Metrics) {
        let outcome = match error {
            None => "ok",
            Some(ApiError::Conflict(_) | ApiError::AlreadyExists(_)) => "conflict",
            Some(ApiError::NotFound(_)) => "not_found",
            Some(ApiError::Forbidden { .. } | ApiError::Refused { .. }) => "forbidden",
            Some(_) => "failed",
        };
        metrics.request(self.verb, &self.resource(), outcome);
    }
}
