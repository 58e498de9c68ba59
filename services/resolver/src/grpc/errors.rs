//! Mapping of call failures to statuses. The failure of a job is not a status: it is part of the
//! answer.

use groundwork_component::{Access, Reference, RepositoryError};
use groundwork_controller::{ApiError, WorkError};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::status::{self, reasons};
use groundwork_sandbox::ExchangeError;
use tonic::{Code, Status};

pub(super) fn api(error: &ApiError) -> Status {
    if let ApiError::Forbidden { .. } = error {
        // The caller cannot fix a missing right of this service, so log it for the operator.
        tracing::error!(%error, "the service lacks a permission");
    }
    status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.to_string())
}

pub(super) fn no_installation(name: &ObjectName) -> Status {
    let text = format!("installation {}/{} does not exist", name.namespace, name.name);
    status::not_found(reasons::INSTALLATION_NOT_FOUND, text)
}

pub(super) fn superseded(name: &ObjectName) -> Status {
    let text = format!("installation {}/{} has another job in the meantime", name.namespace, name.name);
    status::failed_precondition(reasons::JOB_SUPERSEDED, text)
}

pub(super) fn beyond(name: &ObjectName, reference: &Reference) -> Status {
    let text = format!(
        "installation {}/{} does not lead to component {:?} in version {:?} of that repository: name an installation \
         that refers to it",
        name.namespace, name.name, reference.name, reference.version
    );
    status::denied(reasons::COMPONENT_NOT_REACHED, text)
}

pub(super) fn not_named(name: &ObjectName, reference: &Reference, access: &Access) -> Status {
    let text = format!(
        "component {:?} in version {:?}, as installation {}/{} leads to it, has no resource with the content {access}",
        reference.name, reference.version, name.namespace, name.name
    );
    status::denied(reasons::COMPONENT_NOT_REACHED, text)
}

pub(super) fn contended(name: &ObjectName) -> Status {
    let text =
        format!("installation {}/{} was changed during each attempt to read it", name.namespace, name.name);
    status::unavailable(reasons::API_SERVER_UNAVAILABLE, text)
}

pub(super) fn interrupted() -> Status {
    status::interrupted(false, WorkError::Panicked.to_string())
}

pub(crate) fn of_work(error: &ExchangeError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

pub(super) fn too_large(what: &str) -> Status {
    status::exhausted(reasons::ANSWER_TOO_LARGE, format!("{what} is too large for a message"))
}

pub(super) fn no_version() -> Status {
    status::not_found(
        reasons::COMPONENT_VERSION_NOT_FOUND,
        "the repository does not contain this component version",
    )
}

pub(super) fn repository(error: &RepositoryError) -> Status {
    let (code, reason) = match error {
        RepositoryError::Missing { .. } => (Code::NotFound, reasons::BLOB_NOT_FOUND),
        RepositoryError::Denied { .. } => (Code::FailedPrecondition, reasons::REPOSITORY_DENIED),
        RepositoryError::Unreadable { .. }
        | RepositoryError::Unreachable { .. }
        | RepositoryError::NoRoom { .. } => (Code::Unavailable, reasons::REPOSITORY_UNAVAILABLE),
        RepositoryError::Digest { .. } => (Code::DataLoss, reasons::DIGEST_MISMATCH),
        RepositoryError::TooLarge { .. } | RepositoryError::TooMuch { .. } => {
            (Code::ResourceExhausted, reasons::CONTENT_TOO_LARGE)
        }
        RepositoryError::Malformed { .. } => (Code::FailedPrecondition, reasons::REPOSITORY_MALFORMED),
        RepositoryError::UnknownType { .. }
        | RepositoryError::NotMapped { .. }
        | RepositoryError::NotPermitted { .. }
        | RepositoryError::Offline { .. }
        | RepositoryError::Elsewhere { .. } => (Code::FailedPrecondition, reasons::REPOSITORY_UNKNOWN),
    };
    status::status(code, reason, error.to_string())
}
