//! One request to the API server: its span, its limit of time, its metric, and what it means when it fails.
//!
//! What waits knows no type of object and is boxed, so that it is compiled once, and not for each kind in every service.

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

/// Time for one request; a connection that died silently is noticed after it.
const LIMIT: Duration = Duration::from_secs(30);

/// A request that was built, or why it could not be.
pub(crate) type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// A request, as spans, metrics and errors name it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    verb: &'static str,
    group: Cow<'static, str>,
    plural: Cow<'static, str>,
    subresource: &'static str,
    namespace: &'a str,
    /// Of the object, or what objects are selected by.
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

    /// What the API server has answered.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, ApiError> {
        serde_json::from_str(text).map_err(|error| self.failed(&kube::Error::SerdeError(error)))
    }

    /// The body that an object is sent as.
    pub(crate) fn write(&self, object: &impl Serialize) -> Result<Vec<u8>, ApiError> {
        serde_json::to_vec(object).map_err(|error| self.failed(&kube::Error::SerdeError(error)))
    }

    /// Asks the API server, and gives the text of its answer.
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

    /// Counts how it ended.
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
