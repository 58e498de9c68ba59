//! Requests: verb, object and options, from method, path and query.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use groundwork_grpc::User;
use http::{HeaderMap, Method, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::refusal::Refusal;

/// Kind of a request, as RBAC names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Reports whether the verb changes something.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete)
    }
}

/// Treatment of fields that the server does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options in the query of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    pub label_selector: String,
    pub field_selector: String,
    /// Version that a list must have reached, or from which a watch continues; `None` if any will
    /// do.
    pub resource_version: Option<u64>,
    /// True if a watch begins with all objects, and a bookmark after them.
    pub sends_initial_events: bool,
    pub allows_bookmarks: bool,
    /// Time after which a watch ends.
    pub timeout: Option<Duration>,
    /// True if nothing is to be written.
    pub is_dry_run: bool,
    pub field_validation: FieldValidation,
}

/// A request that was authenticated and authorized.
#[derive(Debug)]
pub struct Request {
    pub user: std::sync::Arc<User>,
    pub verb: Verb,
    /// Plural of the kind.
    pub resource: String,
    /// Part of the object, such as `approval`; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for all namespaces.
    pub namespace: String,
    /// Name of the object; empty for a list, a watch or a create.
    pub name: String,
    pub options: Options,
    /// Program that sends the request, as it names itself.
    pub user_agent: String,
    pub(crate) body: Bytes,
    pub(crate) content_type: String,
}

impl Request {
    /// Parses the body as JSON.
    ///
    /// # Errors
    ///
    /// The body is not such an object.
    pub fn json(&self) -> Result<Value, Refusal> {
        read(&self.body)
    }

    /// Returns the preconditions of a delete: UID and resourceVersion.
    ///
    /// # Errors
    ///
    /// The body is not an object.
    pub fn preconditions(&self) -> Result<(Option<String>, Option<String>), Refusal> {
        if self.body.is_empty() {
            return Ok((None, None));
        }
        let options: Value = read(&self.body)?;
        let text = |path: &str| options.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Ok((text("/preconditions/uid"), text("/preconditions/resourceVersion")))
    }

    /// Reports whether a delete asks for a dry run in its body, which is where kubectl puts it.
    pub(crate) fn deletes_dry(&self) -> bool {
        let options = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        options["dryRun"].as_array().is_some_and(|values| values.iter().any(|value| value == "All"))
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("the body of the request is not valid JSON: {error}")))
}

/// Returns the verb of a request for an object or, without a name, for a collection.
pub(crate) fn verb(method: &Method, has_name: bool, is_watch: bool) -> Option<Verb> {
    match (method, has_name) {
        (&Method::GET, true) => Some(Verb::Get),
        (&Method::GET, false) => Some(if is_watch { Verb::Watch } else { Verb::List }),
        (&Method::POST, false) => Some(Verb::Create),
        (&Method::PUT, true) => Some(Verb::Update),
        (&Method::PATCH, true) => Some(Verb::Patch),
        (&Method::DELETE, true) => Some(Verb::Delete),
        _ => None,
    }
}

/// Query of a request, parsed.
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        Self(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    fn is_true(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "1")
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.is_true("watch")
    }

    pub(crate) fn options(&self) -> Result<Options, Refusal> {
        let resource_version = match self.text("resourceVersion") {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                let why = format!("resourceVersion: Invalid value: {text:?}: it is not one of this server");
                Refusal::bad_request(why)
            })?),
        };
        let seconds = self.text("timeoutSeconds").parse().ok().filter(|seconds: &u64| *seconds > 0);
        let field_validation = match self.text("fieldValidation") {
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            _ => FieldValidation::Warn,
        };
        let is_dry_run = match self.text("dryRun") {
            "" => false,
            "All" => true,
            other => {
                return Err(Refusal::bad_request(format!(
                    "dryRun: Unsupported value: {other:?}: supported values: \"All\""
                )));
            }
        };
        Ok(Options {
            label_selector: self.text("labelSelector").to_owned(),
            field_selector: self.text("fieldSelector").to_owned(),
            resource_version,
            sends_initial_events: self.is_true("sendInitialEvents"),
            allows_bookmarks: self.is_true("allowWatchBookmarks"),
            timeout: seconds.map(Duration::from_secs),
            is_dry_run,
            field_validation,
        })
    }
}

/// Returns the media type of a body.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs() {
        for (method, has_name, is_watch, expected) in [
            (Method::GET, true, false, Some("get")),
            (Method::GET, false, false, Some("list")),
            (Method::GET, false, true, Some("watch")),
            (Method::POST, false, false, Some("create")),
            (Method::POST, true, false, None),
            (Method::PUT, true, false, Some("update")),
            (Method::PUT, false, false, None),
            (Method::PATCH, true, false, Some("patch")),
            (Method::DELETE, true, false, Some("delete")),
            (Method::DELETE, false, false, None),
        ] {
            assert_eq!(verb(&method, has_name, is_watch).map(Verb::as_str), expected, "{method} {has_name}");
        }
    }

    #[test]
    fn queries() {
        let query =
            Query::parse(Some("labelSelector=a%3Db&resourceVersion=12&watch=1&timeoutSeconds=5&dryRun=All"));
        let options = query.options().unwrap();
        assert!(query.is_watch() && options.is_dry_run);
        assert_eq!((options.label_selector.as_str(), options.resource_version), ("a=b", Some(12)));
        assert_eq!(options.timeout, Some(Duration::from_secs(5)));
        assert_eq!(Query::parse(None).options().unwrap(), Options::default());
        for refused in ["resourceVersion=abc", "dryRun=Some"] {
            assert_eq!(Query::parse(Some(refused)).options().unwrap_err().code, 400);
        }
    }
}
