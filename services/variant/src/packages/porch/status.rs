//! gRPC status for errors of a Porch server (`packagevariants.md` 6.13).

use groundwork_packages::porch::{Meaning, PorchError};
use groundwork_proto::status::{self, reasons};
use tonic::{Code, Status};

use super::NO_SERVER;

/// Returns the status of an error: a code and a reason for programs, and a sentence for users.
pub(super) fn of_porch(error: &PorchError) -> Status {
    let text = error.sentence();
    match error.meaning {
        Meaning::NotFound => status::not_found(reasons::PACKAGE_NOT_FOUND, text),
        Meaning::AlreadyExists | Meaning::DownstreamExists => {
            status::status(Code::AlreadyExists, reasons::PACKAGE_EXISTS, text)
        }
        Meaning::Conflict => status::status(Code::Aborted, reasons::PACKAGE_REVISION_CHANGED, text),
        Meaning::RenderFailed => status::failed_precondition(reasons::RENDER_FAILED, text),
        Meaning::NotDraft
        | Meaning::Permanent
        | Meaning::Invalid
        | Meaning::IsUpstream
        | Meaning::DeletionNotProposed => status::failed_precondition(reasons::PACKAGE_REFUSED, text),
        // The caller has the right; the account of this service lacks it.
        Meaning::Denied => status::denied(reasons::FORBIDDEN, text),
        Meaning::Busy | Meaning::OtherVersion | Meaning::Unavailable | Meaning::Other => {
            status::unavailable(reasons::PACKAGE_STORE_UNAVAILABLE, text)
        }
    }
}

/// Returns the status of an error of a list: a kind that is not found is one that the API server
/// does not serve.
pub(super) fn of_list(error: &PorchError) -> Status {
    if error.meaning == Meaning::NotFound {
        return status::unavailable(reasons::PACKAGE_STORE_UNAVAILABLE, NO_SERVER);
    }
    of_porch(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each meaning has a code and a reason, and the text contains the words of the server.
    #[test]
    fn every_meaning_has_a_code() {
        for (meaning, code, reason) in [
            (Meaning::NotFound, Code::NotFound, "PACKAGE_NOT_FOUND"),
            (Meaning::Busy, Code::Unavailable, "PACKAGE_STORE_UNAVAILABLE"),
            (Meaning::Conflict, Code::Aborted, "PACKAGE_REVISION_CHANGED"),
            (Meaning::AlreadyExists, Code::AlreadyExists, "PACKAGE_EXISTS"),
            (Meaning::DownstreamExists, Code::AlreadyExists, "PACKAGE_EXISTS"),
            (Meaning::RenderFailed, Code::FailedPrecondition, "RENDER_FAILED"),
            (Meaning::NotDraft, Code::FailedPrecondition, "PACKAGE_REFUSED"),
            (Meaning::Permanent, Code::FailedPrecondition, "PACKAGE_REFUSED"),
            (Meaning::Invalid, Code::FailedPrecondition, "PACKAGE_REFUSED"),
            (Meaning::IsUpstream, Code::FailedPrecondition, "PACKAGE_REFUSED"),
            (Meaning::DeletionNotProposed, Code::FailedPrecondition, "PACKAGE_REFUSED"),
            (Meaning::Denied, Code::PermissionDenied, "FORBIDDEN"),
            (Meaning::OtherVersion, Code::Unavailable, "PACKAGE_STORE_UNAVAILABLE"),
            (Meaning::Unavailable, Code::Unavailable, "PACKAGE_STORE_UNAVAILABLE"),
            (Meaning::Other, Code::Unavailable, "PACKAGE_STORE_UNAVAILABLE"),
        ] {
            let text = "Internal error occurred: words of the server".to_owned();
            let error = PorchError { meaning, text, retry_after: None, is_unanswered: false, results: None };
            let found = of_porch(&error);
            assert_eq!(
                (found.code(), status::reason(&found).as_deref()),
                (code, Some(reason)),
                "{meaning:?}"
            );
            assert!(found.message().starts_with("words of the server"), "{found:?}");
        }
    }

    #[test]
    fn a_list_of_nothing_is_no_server() {
        let text = "the server could not find the requested resource".to_owned();
        let error = PorchError {
            meaning: Meaning::NotFound,
            text,
            retry_after: None,
            is_unanswered: false,
            results: None,
        };
        let found = of_list(&error);
        assert_eq!(found.code(), Code::Unavailable);
        assert!(found.message().contains("is the Porch server installed"), "{found:?}");
    }
}
