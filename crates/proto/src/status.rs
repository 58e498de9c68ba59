//! Errors on the wire: a gRPC status with details of `google.rpc`.
//!
//! Every status carries an `ErrorInfo` with [`DOMAIN`] and a reason in `UPPER_SNAKE_CASE`. Programs decide by code and
//! reason; the message is a sentence for people and may change. Callers see to it that no value of an imported object and no
//! token is part of a message.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// Who gives the reasons.
pub const DOMAIN: &str = "groundwork.dev";

/// All reasons that services give, and their codes.
pub mod reasons {
    /// `NOT_FOUND`: the Installation of the request does not exist.
    pub const INSTALLATION_NOT_FOUND: &str = "INSTALLATION_NOT_FOUND";
    /// `NOT_FOUND`: the PackageVariantSet of the request does not exist.
    pub const SET_NOT_FOUND: &str = "SET_NOT_FOUND";
    /// `NOT_FOUND`: the package store, or the Porch server, has no such revision or repository.
    pub const PACKAGE_NOT_FOUND: &str = "PACKAGE_NOT_FOUND";
    /// `ALREADY_EXISTS`: a package, or a revision of it, has the name.
    pub const PACKAGE_EXISTS: &str = "PACKAGE_EXISTS";
    /// `ABORTED`: the package revision is not of the version that the request was made from.
    pub const PACKAGE_REVISION_CHANGED: &str = "PACKAGE_REVISION_CHANGED";
    /// `FAILED_PRECONDITION`: the rules of packages do not allow it, which the message tells.
    pub const PACKAGE_REFUSED: &str = "PACKAGE_REFUSED";
    /// `FAILED_PRECONDITION`: a function of the package failed, or cannot be had.
    pub const RENDER_FAILED: &str = "RENDER_FAILED";
    /// `FAILED_PRECONDITION`: this service works with no packages.
    pub const PACKAGE_STORE_OFF: &str = "PACKAGE_STORE_OFF";
    /// `UNAVAILABLE`: the remote of a repository of packages, or the Porch server, cannot be used.
    pub const PACKAGE_STORE_UNAVAILABLE: &str = "PACKAGE_STORE_UNAVAILABLE";
    /// `NOT_FOUND`: the component version has no such content.
    pub const BLOB_NOT_FOUND: &str = "BLOB_NOT_FOUND";
    /// `NOT_FOUND`: the repository of the request does not hold the component version.
    pub const COMPONENT_VERSION_NOT_FOUND: &str = "COMPONENT_VERSION_NOT_FOUND";
    /// `FAILED_PRECONDITION`: the Installation has another job by now.
    pub const JOB_SUPERSEDED: &str = "JOB_SUPERSEDED";
    /// `FAILED_PRECONDITION`: what is asked to be explained ends with an error in a job, which the message tells.
    pub const JOB_WOULD_FAIL: &str = "JOB_WOULD_FAIL";
    /// `FAILED_PRECONDITION`: nobody watches the kind.
    pub const KIND_NOT_WATCHED: &str = "KIND_NOT_WATCHED";
    /// `FAILED_PRECONDITION`: the repository map does not hold the repository, or its type cannot be read.
    pub const REPOSITORY_UNKNOWN: &str = "REPOSITORY_UNKNOWN";
    /// `FAILED_PRECONDITION`: the store is not in the format that it should have.
    pub const REPOSITORY_MALFORMED: &str = "REPOSITORY_MALFORMED";
    /// A registry does not let the service read.
    pub const REPOSITORY_DENIED: &str = "REPOSITORY_DENIED";
    /// `DATA_LOSS`: the content of the store is not that of its digest.
    pub const DIGEST_MISMATCH: &str = "DIGEST_MISMATCH";
    /// `INVALID_ARGUMENT`: fields of the request are missing or wrong; the details name them.
    pub const INVALID_REQUEST: &str = "INVALID_REQUEST";
    /// `UNAUTHENTICATED`: there is no bearer token, or it is not valid.
    pub const TOKEN_INVALID: &str = "TOKEN_INVALID";
    /// `PERMISSION_DENIED`: the user of the token may not get the object, or its Secrets.
    pub const ACCESS_DENIED: &str = "ACCESS_DENIED";
    /// `PERMISSION_DENIED`: the user for whom a program asks lacks a right, which the message names.
    pub const ASKER_DENIED: &str = "ASKER_DENIED";
    /// `PERMISSION_DENIED`: the service itself lacks a right in the cluster; the message names it.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// `PERMISSION_DENIED`: the Installation that the request names does not lead to the component version.
    pub const COMPONENT_NOT_REACHED: &str = "COMPONENT_NOT_REACHED";
    /// `UNAVAILABLE`: the API server gives no answer.
    pub const API_SERVER_UNAVAILABLE: &str = "API_SERVER_UNAVAILABLE";
    /// `UNAVAILABLE`: a repository of components gives no answer.
    pub const REPOSITORY_UNAVAILABLE: &str = "REPOSITORY_UNAVAILABLE";
    /// `UNAVAILABLE`: the bus gives no answer.
    pub const BUS_UNAVAILABLE: &str = "BUS_UNAVAILABLE";
    /// `UNAVAILABLE`: the resolver gives no answer.
    pub const RESOLVER_UNAVAILABLE: &str = "RESOLVER_UNAVAILABLE";
    /// `UNAVAILABLE`: another replica leads.
    pub const NOT_LEADER: &str = "NOT_LEADER";
    /// `RESOURCE_EXHAUSTED`: the caller's address has too many calls, or too many bytes in them; `UNAVAILABLE`: all callers
    /// together have.
    pub const TOO_MANY_CALLS: &str = "TOO_MANY_CALLS";
    /// `RESOURCE_EXHAUSTED`: too many tokens that nobody knows came from the caller's address; `UNAVAILABLE`: from all.
    pub const TOO_MANY_TOKENS: &str = "TOO_MANY_TOKENS";
    /// `RESOURCE_EXHAUSTED`: the caller, or all callers together, have as many interests as there may be.
    pub const TOO_MANY_INTERESTS: &str = "TOO_MANY_INTERESTS";
    /// `RESOURCE_EXHAUSTED`: the replica shows as many Installations to callers as it may.
    pub const TOO_MANY_WATCHES: &str = "TOO_MANY_WATCHES";
    /// `RESOURCE_EXHAUSTED`: namespaces hold more objects than one call may read.
    pub const LANDSCAPE_TOO_LARGE: &str = "LANDSCAPE_TOO_LARGE";
    /// `RESOURCE_EXHAUSTED`: content of a store is larger than what is read of one.
    pub const CONTENT_TOO_LARGE: &str = "CONTENT_TOO_LARGE";
    /// `RESOURCE_EXHAUSTED`: the request is larger than a message may be ([`crate::MAX_MESSAGE`]).
    pub const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";
    /// `DEADLINE_EXCEEDED`: the request did not come in time.
    pub const REQUEST_TOO_SLOW: &str = "REQUEST_TOO_SLOW";
    /// `RESOURCE_EXHAUSTED`: the answer does not fit into a message ([`crate::MAX_MESSAGE`]).
    pub const ANSWER_TOO_LARGE: &str = "ANSWER_TOO_LARGE";
    /// `RESOURCE_EXHAUSTED`: the work of the call took longer than it may, or more memory or processor time.
    pub const WORK_TOO_LONG: &str = "WORK_TOO_LONG";
    /// `INTERNAL`: the work of the call broke down, which is a defect.
    pub const WORK_INTERRUPTED: &str = "WORK_INTERRUPTED";
    /// `INTERNAL`: the answer cannot be written as JSON, which is a defect.
    pub const ENCODE_FAILED: &str = "ENCODE_FAILED";
}

/// A field of a request that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path in the request, such as `installation.name`.
    pub field: String,
    /// What is expected there.
    pub description: String,
}

impl Violation {
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

/// `INVALID_ARGUMENT`: the request can never be answered; the violations say which fields are to blame.
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

/// `NOT_FOUND`: what the request names does not exist.
pub fn not_found(reason: &str, message: impl Into<String>) -> Status {
    status(Code::NotFound, reason, message)
}

/// `UNAUTHENTICATED`: nobody knows who is calling.
pub fn unauthenticated(reason: &str, message: impl Into<String>) -> Status {
    status(Code::Unauthenticated, reason, message)
}

/// `PERMISSION_DENIED`: the caller is known, but may not do this.
pub fn denied(reason: &str, message: impl Into<String>) -> Status {
    status(Code::PermissionDenied, reason, message)
}

/// `FAILED_PRECONDITION`: the state of the cluster does not allow it; the same call fails until that changes.
pub fn failed_precondition(reason: &str, message: impl Into<String>) -> Status {
    status(Code::FailedPrecondition, reason, message)
}

/// `RESOURCE_EXHAUSTED`: a limit was reached.
pub fn exhausted(reason: &str, message: impl Into<String>) -> Status {
    status(Code::ResourceExhausted, reason, message)
}

/// `UNAVAILABLE`: it may work later; the same call can be tried again.
pub fn unavailable(reason: &str, message: impl Into<String>) -> Status {
    status(Code::Unavailable, reason, message)
}

/// `INTERNAL`: an invariant does not hold.
pub fn internal(reason: &str, message: impl Into<String>) -> Status {
    status(Code::Internal, reason, message)
}

/// Work that was begun for a caller and gave nothing: it took too long (`RESOURCE_EXHAUSTED`), or it is a fault of ours (`INTERNAL`).
pub fn interrupted(took_too_long: bool, message: impl Into<String>) -> Status {
    match took_too_long {
        true => exhausted(reasons::WORK_TOO_LONG, message),
        false => internal(reasons::WORK_INTERRUPTED, message),
    }
}

/// A status of any code with a reason.
pub fn status(code: Code, reason: &str, message: impl Into<String>) -> Status {
    Status::with_error_details(code, message, info(reason))
}

fn info(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
}

/// The reason of a status of ours; `None` for one that comes from elsewhere, such as the transport.
pub fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason)
}

/// The fields that a status blames; empty when it blames none.
pub fn violations(status: &Status) -> Vec<Violation> {
    let Some(request) = status.get_details_bad_request() else { return Vec::new() };
    let violations = request.field_violations.into_iter();
    violations.map(|violation| Violation::new(violation.field, violation.description)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status as a client sees it: through the headers of HTTP/2.
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

    /// Statuses of other programs, and broken details, have no reason and are no failure.
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
