//! Errors on the wire: a gRPC status with details of `google.rpc`.
//!
//! Every status has an `ErrorInfo` with [`DOMAIN`] and a reason in `UPPER_SNAKE_CASE`. Programs
//! decide by code and reason; the message is a sentence for people and may change. Callers have to
//! keep values of imported objects and tokens out of messages.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// Domain of the reasons.
pub const DOMAIN: &str = "groundwork.dev";

/// All reasons of the services, with their codes.
pub mod reasons {
    /// `NOT_FOUND`: the Installation of the request does not exist.
    pub const INSTALLATION_NOT_FOUND: &str = "INSTALLATION_NOT_FOUND";
    /// `NOT_FOUND`: the Target of the request does not exist.
    pub const TARGET_NOT_FOUND: &str = "TARGET_NOT_FOUND";
    /// `FAILED_PRECONDITION`: the Target does not lead to a cluster; the message gives the reason.
    pub const TARGET_UNUSABLE: &str = "TARGET_UNUSABLE";
    /// `FAILED_PRECONDITION`: the cluster of the Target refuses the request; the message gives the
    /// reason.
    pub const CLUSTER_REFUSED: &str = "CLUSTER_REFUSED";
    /// `UNAVAILABLE`: the cluster of the Target does not answer.
    pub const CLUSTER_UNAVAILABLE: &str = "CLUSTER_UNAVAILABLE";
    /// `NOT_FOUND`: the PackageVariantSet of the request does not exist.
    pub const SET_NOT_FOUND: &str = "SET_NOT_FOUND";
    /// `NOT_FOUND`: the package store, or the Porch server, does not have the revision or
    /// repository.
    pub const PACKAGE_NOT_FOUND: &str = "PACKAGE_NOT_FOUND";
    /// `ALREADY_EXISTS`: the name is that of an existing package or revision.
    pub const PACKAGE_EXISTS: &str = "PACKAGE_EXISTS";
    /// `ABORTED`: the package revision has changed since the version that the request is based on.
    pub const PACKAGE_REVISION_CHANGED: &str = "PACKAGE_REVISION_CHANGED";
    /// `FAILED_PRECONDITION`: a rule of packages forbids it; the message names the rule.
    pub const PACKAGE_REFUSED: &str = "PACKAGE_REFUSED";
    /// `FAILED_PRECONDITION`: a function of the package failed, or is not available.
    pub const RENDER_FAILED: &str = "RENDER_FAILED";
    /// `FAILED_PRECONDITION`: packages are not enabled in this service.
    pub const PACKAGE_STORE_OFF: &str = "PACKAGE_STORE_OFF";
    /// `UNAVAILABLE`: the remote of a repository of packages, or the Porch server, cannot be used.
    pub const PACKAGE_STORE_UNAVAILABLE: &str = "PACKAGE_STORE_UNAVAILABLE";
    /// `NOT_FOUND`: the component version does not have the content.
    pub const BLOB_NOT_FOUND: &str = "BLOB_NOT_FOUND";
    /// `NOT_FOUND`: the repository of the request does not have the component version.
    pub const COMPONENT_VERSION_NOT_FOUND: &str = "COMPONENT_VERSION_NOT_FOUND";
    /// `FAILED_PRECONDITION`: the Installation has a newer job.
    pub const JOB_SUPERSEDED: &str = "JOB_SUPERSEDED";
    /// `FAILED_PRECONDITION`: the job to be explained would fail; the message has its error.
    pub const JOB_WOULD_FAIL: &str = "JOB_WOULD_FAIL";
    /// `FAILED_PRECONDITION`: the watcher does not watch the kind.
    pub const KIND_NOT_WATCHED: &str = "KIND_NOT_WATCHED";
    /// `FAILED_PRECONDITION`: the repository map does not have the repository, or its type is not
    /// supported.
    pub const REPOSITORY_UNKNOWN: &str = "REPOSITORY_UNKNOWN";
    /// `FAILED_PRECONDITION`: the store does not have the expected format.
    pub const REPOSITORY_MALFORMED: &str = "REPOSITORY_MALFORMED";
    /// `FAILED_PRECONDITION`: a registry does not let the service read.
    pub const REPOSITORY_DENIED: &str = "REPOSITORY_DENIED";
    /// `DATA_LOSS`: content of a store does not match its digest.
    pub const DIGEST_MISMATCH: &str = "DIGEST_MISMATCH";
    /// `INVALID_ARGUMENT`: fields of the request are missing or wrong; the details name them.
    pub const INVALID_REQUEST: &str = "INVALID_REQUEST";
    /// `UNAUTHENTICATED`: there is no bearer token, or it is not valid.
    pub const TOKEN_INVALID: &str = "TOKEN_INVALID";
    /// `PERMISSION_DENIED`: the user of the token may not get the object, or its Secrets.
    pub const ACCESS_DENIED: &str = "ACCESS_DENIED";
    /// `PERMISSION_DENIED`: the user on whose behalf a program asks lacks a permission; the message
    /// names it.
    pub const ASKER_DENIED: &str = "ASKER_DENIED";
    /// `PERMISSION_DENIED`: the service itself lacks a permission in the cluster; the message names
    /// it.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// `PERMISSION_DENIED`: the Installation in the request does not refer to the component
    /// version.
    pub const COMPONENT_NOT_REACHED: &str = "COMPONENT_NOT_REACHED";
    /// `UNAVAILABLE`: the API server does not answer.
    pub const API_SERVER_UNAVAILABLE: &str = "API_SERVER_UNAVAILABLE";
    /// `UNAVAILABLE`: a repository of components does not answer.
    pub const REPOSITORY_UNAVAILABLE: &str = "REPOSITORY_UNAVAILABLE";
    /// `UNAVAILABLE`: the bus does not answer.
    pub const BUS_UNAVAILABLE: &str = "BUS_UNAVAILABLE";
    /// `UNAVAILABLE`: the resolver does not answer.
    pub const RESOLVER_UNAVAILABLE: &str = "RESOLVER_UNAVAILABLE";
    /// `UNAVAILABLE`: another replica is the leader.
    pub const NOT_LEADER: &str = "NOT_LEADER";
    /// `RESOURCE_EXHAUSTED`: the caller's address has too many running calls, or too many bytes in
    /// them. `UNAVAILABLE`: all callers together have too many running calls or too many bytes in
    /// them.
    pub const TOO_MANY_CALLS: &str = "TOO_MANY_CALLS";
    /// `RESOURCE_EXHAUSTED`: too many unknown tokens came from the caller's address. `UNAVAILABLE`:
    /// from all addresses together.
    pub const TOO_MANY_TOKENS: &str = "TOO_MANY_TOKENS";
    /// `RESOURCE_EXHAUSTED`: the caller, or all callers together, have reached the limit of
    /// interests.
    pub const TOO_MANY_INTERESTS: &str = "TOO_MANY_INTERESTS";
    /// `RESOURCE_EXHAUSTED`: the replica has reached the limit of watched Installations.
    pub const TOO_MANY_WATCHES: &str = "TOO_MANY_WATCHES";
    /// `RESOURCE_EXHAUSTED`: the namespaces have more objects than one call may read.
    pub const LANDSCAPE_TOO_LARGE: &str = "LANDSCAPE_TOO_LARGE";
    /// `RESOURCE_EXHAUSTED`: content of a store is over the limit.
    pub const CONTENT_TOO_LARGE: &str = "CONTENT_TOO_LARGE";
    /// `RESOURCE_EXHAUSTED`: the request is larger than a message may be ([`crate::MAX_MESSAGE`]).
    pub const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";
    /// `DEADLINE_EXCEEDED`: the request did not arrive in time.
    pub const REQUEST_TOO_SLOW: &str = "REQUEST_TOO_SLOW";
    /// `RESOURCE_EXHAUSTED`: the answer does not fit into a message ([`crate::MAX_MESSAGE`]).
    pub const ANSWER_TOO_LARGE: &str = "ANSWER_TOO_LARGE";
    /// `RESOURCE_EXHAUSTED`: the work of the call exceeded its time, memory or processor time.
    pub const WORK_TOO_LONG: &str = "WORK_TOO_LONG";
    /// `INTERNAL`: the work of the call crashed, which is a defect.
    pub const WORK_INTERRUPTED: &str = "WORK_INTERRUPTED";
    /// `INTERNAL`: the answer cannot be written as JSON, which is a defect.
    pub const ENCODE_FAILED: &str = "ENCODE_FAILED";
}

/// Field of a request that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path in the request, such as `installation.name`.
    pub field: String,
    /// Expected content of the field.
    pub description: String,
}

impl Violation {
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

/// Creates `INVALID_ARGUMENT`: the request can never succeed; the violations name the fields.
pub fn invalid(
    reason: &str,
    message: impl Into<String>,
    violations: impl IntoIterator<Item = Violation>,
) -> Status {
    let mut details = info(reason);
    let violations: Vec<FieldViolation> = violations
        .into_iter()
        .map(|violation| FieldViolation::new(violation.field, violation.description))
        .collect();
    if !violations.is_empty() {
        details.set_bad_request(violations);
    }
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// Creates `NOT_FOUND`: an object that the request names does not exist.
pub fn not_found(reason: &str, message: impl Into<String>) -> Status {
    status(Code::NotFound, reason, message)
}

/// Creates `UNAUTHENTICATED`: the caller is not known.
pub fn unauthenticated(reason: &str, message: impl Into<String>) -> Status {
    status(Code::Unauthenticated, reason, message)
}

/// Creates `PERMISSION_DENIED`: the caller is known, but lacks permission.
pub fn denied(reason: &str, message: impl Into<String>) -> Status {
    status(Code::PermissionDenied, reason, message)
}

/// Creates `FAILED_PRECONDITION`: the state of the cluster does not allow the call, which fails
/// until that state changes.
pub fn failed_precondition(reason: &str, message: impl Into<String>) -> Status {
    status(Code::FailedPrecondition, reason, message)
}

/// Creates `RESOURCE_EXHAUSTED`: a limit was reached.
pub fn exhausted(reason: &str, message: impl Into<String>) -> Status {
    status(Code::ResourceExhausted, reason, message)
}

/// Creates `UNAVAILABLE`: the same call may succeed later.
pub fn unavailable(reason: &str, message: impl Into<String>) -> Status {
    status(Code::Unavailable, reason, message)
}

/// Creates `INTERNAL`: an invariant is broken.
pub fn internal(reason: &str, message: impl Into<String>) -> Status {
    status(Code::Internal, reason, message)
}

/// Creates the status of work that ended without a result: it took too long (`RESOURCE_EXHAUSTED`),
/// or it crashed (`INTERNAL`).
pub fn interrupted(took_too_long: bool, message: impl Into<String>) -> Status {
    match took_too_long {
        true => exhausted(reasons::WORK_TOO_LONG, message),
        false => internal(reasons::WORK_INTERRUPTED, message),
    }
}

/// Creates a status of any code with a reason.
pub fn status(code: Code, reason: &str, message: impl Into<String>) -> Status {
    Status::with_error_details(code, message, info(reason))
}

fn info(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
}

/// Returns the reason of one of our statuses; `None` for a status from elsewhere, such as the
/// transport.
pub fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason)
}

/// Returns the fields that a status complains about; may be empty.
pub fn violations(status: &Status) -> Vec<Violation> {
    let Some(request) = status.get_details_bad_request() else { return Vec::new() };
    let violations = request.field_violations.into_iter();
    violations.map(|violation| Violation::new(violation.field, violation.description)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a status as a client sees it, after a trip through HTTP/2 headers.
    fn sent(status: &Status) -> Status {
        let response: tonic::codegen::http::Response<()> = status.clone().into_http();
        Status::from_header_map(response.headers()).unwrap()
    }

    #[test]
    fn reason_and_violations_survive_the_wire() {
        let violation = Violation::new("installation.name", "must be given");
        let status = invalid(reasons::INVALID_REQUEST, "the request has no name", [violation.clone()]);
        let received = sent(&status);
        assert_eq!(received.code(), Code::InvalidArgument);
        assert_eq!(received.message(), "the request has no name");
        assert_eq!(reason(&received).as_deref(), Some("INVALID_REQUEST"));
        assert_eq!(violations(&received), [violation]);
    }

    #[test]
    fn every_constructor_has_its_code() {
        for (status, code) in [
            (not_found("A_B", "m"), Code::NotFound),
            (unauthenticated("A_B", "m"), Code::Unauthenticated),
            (denied("A_B", "m"), Code::PermissionDenied),
            (failed_precondition("A_B", "m"), Code::FailedPrecondition),
            (exhausted("A_B", "m"), Code::ResourceExhausted),
            (unavailable("A_B", "m"), Code::Unavailable),
            (internal("A_B", "m"), Code::Internal),
            (invalid("A_B", "m", []), Code::InvalidArgument),
        ] {
            let received = sent(&status);
            assert_eq!((received.code(), reason(&received).as_deref()), (code, Some("A_B")));
            assert_eq!(violations(&received), []);
        }
    }

    /// Statuses of other programs, and broken details, have no reason, and reading them does not
    /// fail.
    #[test]
    fn foreign_statuses_have_no_reason() {
        let foreign = ErrorDetails::with_error_info("QUOTA", "example.org", HashMap::new());
        for status in [
            Status::unavailable("connection refused"),
            Status::with_error_details(Code::Unavailable, "m", foreign),
            Status::with_details(Code::Unavailable, "m", vec![0xff, 0xff, 0xff].into()),
        ] {
            assert_eq!(reason(&status), None);
            assert_eq!(violations(&status), []);
        }
    }
}
