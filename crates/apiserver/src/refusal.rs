//! Refusals of requests: Status objects in the words of Kubernetes' own servers.

use http::StatusCode;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// A refused request.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub code: u16,
    /// Reason for programs, such as `NotFound`.
    pub reason: &'static str,
    /// Sentence for people.
    pub message: String,
    pub(crate) causes: Vec<Cause>,
    /// Resource or kind with its group, and name of the object.
    pub(crate) subject: Option<(String, String)>,
    /// Seconds until another attempt makes sense.
    pub(crate) retry_after: Option<u32>,
}

/// Fault of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field, such as `spec.lifecycle`.
    pub field: String,
    /// Reason for programs, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// Sentence for people, without the path.
    pub message: String,
}

impl Cause {
    /// Returns the fault of a value. `value` is shown to people.
    pub fn invalid(field: &str, value: &str, why: &str) -> Self {
        let message = format!("Invalid value: {value:?}: {why}");
        Self { field: field.to_owned(), reason: "FieldValueInvalid", message }
    }

    /// Returns the fault of a field that users may not set.
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self { field: field.to_owned(), reason: "FieldValueForbidden", message: format!("Forbidden: {why}") }
    }

    /// Returns the fault of a field that is missing.
    pub fn required(field: &str, why: &str) -> Self {
        let message = format!("Required value: {why}");
        Self { field: field.to_owned(), reason: "FieldValueRequired", message }
    }
}

impl Refusal {
    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { code: code.as_u16(), reason, message, causes: Vec::new(), subject: None, retry_after: None }
    }

    /// Returns the refusal with its object, which is shown to people even if they do not see the
    /// sentence.
    fn about(self, resource: &str, name: &str) -> Self {
        let subject = (!resource.is_empty()).then(|| (resource.to_owned(), name.to_owned()));
        Self { subject, ..self }
    }

    /// Returns the refusal of a request that no server could understand.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", why.into())
    }

    /// Returns the refusal of a client that nobody has authenticated.
    pub fn unauthorized(why: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", why.to_owned())
    }

    /// Returns the refusal of what the user, or the state of the object, does not allow.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource} {name:?} is forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource} {name:?} not found");
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    /// Returns the refusal of a path that names no resource.
    pub fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message.to_owned())
    }

    pub fn already_exists(resource: &str, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// Returns the refusal of a write that is based on another state of the object.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// Returns the refusal of an object with faults. `kind` includes the group.
    pub fn invalid(kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let faults: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let faults = match faults.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let message = format!("{kind} {name:?} is invalid: {faults}");
        let refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(kind, name);
        Self { causes, ..refusal }
    }

    /// Returns the refusal of a version that the server has forgotten.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {asked} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns the refusal of a version that the server has not seen yet.
    pub fn too_new(asked: u64, newest: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {newest}");
        Self { retry_after: Some(1), ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message) }
    }

    /// Returns the failure of an operation, with the prefix that Kubernetes' servers give it.
    pub fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    pub fn unavailable(why: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why.into());
        Self { retry_after: Some(2), ..refusal }
    }

    /// Returns the refusal of a verb that a resource does not have.
    pub fn method_not_allowed(resource: &str, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {resource:?}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub fn unsupported_media_type(why: &str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", why.to_owned())
    }

    pub fn not_acceptable() -> Self {
        let message = "only application/json is served, also as a Table or as PartialObjectMetadata";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message.to_owned())
    }

    pub fn too_large(bytes: usize) -> Self {
        let message = format!("the request has more than the allowed {bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Returns the failure of a review by the API server.
    pub fn of_review(status: &Status, resource: &str, name: &str) -> Self {
        match status.code() {
            Code::PermissionDenied => Self::forbidden(resource, name, status.message()),
            Code::Unauthenticated => Self::unauthorized(status.message()),
            _ => Self::unavailable(status.message()),
        }
    }

    /// Reports whether the write is based on another state of the object.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Returns the same refusal with another sentence.
    #[must_use]
    pub fn saying(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// Adds a cause that programs know by its reason.
    pub fn with_cause(mut self, reason: &'static str, message: String) -> Self {
        self.causes.push(Cause { field: String::new(), reason, message });
        self
    }

    pub fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }

    /// Returns the Status object.
    pub fn body(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        let mut details = json!({});
        if let Some((resource, name)) = &self.subject {
            let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
            for (member, text) in [("group", group), ("kind", kind), ("name", name)] {
                if !text.is_empty() {
                    details[member] = json!(text);
                }
            }
        }
        if !self.causes.is_empty() {
            let cause = |cause: &Cause| json!({"field": cause.field, "reason": cause.reason, "message": cause.message});
            details["causes"] = self.causes.iter().map(cause).collect();
        }
        if let Some(seconds) = self.retry_after {
            details["retryAfterSeconds"] = json!(seconds);
        }
        if details.as_object().is_some_and(|details| !details.is_empty()) {
            status["details"] = details;
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_kubernetes() {
        let resource = "packagerevisions.porch.kpt.dev";
        for (refusal, code, message) in [
            (Refusal::not_found(resource, "a"), 404, "packagerevisions.porch.kpt.dev \"a\" not found"),
            (
                Refusal::conflict(resource, "a", "the object has been modified"),
                409,
                "Operation cannot be fulfilled on packagerevisions.porch.kpt.dev \"a\": the object has been modified",
            ),
            (
                Refusal::invalid("X.g", "a", vec![Cause::invalid("spec.b", "c", "no")]),
                422,
                "X.g \"a\" is invalid: spec.b: Invalid value: \"c\": no",
            ),
            (
                Refusal::invalid("X.g", "", vec![Cause::forbidden("a", "b"), Cause::required("c", "d")]),
                422,
                "X.g \"\" is invalid: [a: Forbidden: b, c: Required value: d]",
            ),
            (Refusal::expired(3, 7), 410, "too old resource version: 3 (7)"),
        ] {
            assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
            assert_eq!(refusal.body()["message"], message);
            assert_eq!(refusal.body()["code"], code);
        }
        assert_eq!(
            Refusal::invalid("X.g.h", "a", vec![Cause::forbidden("b", "c")]).body()["details"],
            json!({"group": "g.h", "kind": "X", "name": "a",
                "causes": [{"field": "b", "reason": "FieldValueForbidden", "message": "Forbidden: c"}]}),
        );
        assert_eq!(Refusal::not_found("pods", "a").body()["details"], json!({"kind": "pods", "name": "a"}));
        // kubectl leaves the sentence out if it finds a kind and no faults.
        assert_eq!(Refusal::invalid("", "a", Vec::new()).saying("x".into()).body().get("details"), None);
        assert_eq!(Refusal::unavailable("x").body()["details"]["retryAfterSeconds"], 2);
        assert_eq!(Refusal::bad_request("x").body().get("details"), None);
    }
}
