//! Mapping of errors of a Porch server to failures of a variant (`packagevariants.md` 2.10, 2.11,
//! 6.13).

use std::time::Duration;

use groundwork_api::RenderStatus;
use groundwork_controller::ReconcileError;
use groundwork_fleet::{CreationError, Package, VariantError};
use groundwork_packages::porch::{Meaning, PorchError};

use super::NO_SERVER;
use crate::packages::progress::Failure;

/// Pause after a missing right: a retry before would fail again, and no event reports a new right.
const DENIED_PAUSE: Duration = Duration::from_secs(60);

/// Maps an error about a revision of the downstream package.
pub(super) fn told(error: &PorchError, package: Package<'_>, revision: &str) -> Failure {
    let cause = error.text.clone();
    let unavailable = |retry_after| VariantError::StoreUnavailable { cause: cause.clone(), retry_after };
    let told = match error.meaning {
        // These errors mean that the state on the server has changed: the next attempt decides
        // again on the new state.
        Meaning::Busy
        | Meaning::Conflict
        | Meaning::AlreadyExists
        | Meaning::NotDraft
        | Meaning::DeletionNotProposed => return conflict(cause),
        Meaning::DownstreamExists => exists(package),
        Meaning::RenderFailed => {
            let results = error.results.as_deref().and_then(|results| serde_json::from_str(results).ok());
            let status = RenderStatus { error: Some(cause.clone()), ..results.unwrap_or_default() };
            let error = VariantError::RenderFailed { downstream: revision.to_owned(), cause };
            return Failure::Told(error, Some(Box::new(status)));
        }
        Meaning::Permanent | Meaning::Invalid => VariantError::Rejected(cause),
        Meaning::IsUpstream => VariantError::DeletionBlocked(vec![(revision.to_owned(), cause)]),
        Meaning::Denied => unavailable(Some(DENIED_PAUSE)),
        Meaning::OtherVersion => unavailable(None),
        Meaning::Unavailable => unavailable(error.retry_after),
        Meaning::NotFound | Meaning::Other => VariantError::Other(cause),
    };
    told.into()
}

/// Maps an error of a list. A kind that the API server does not serve means that there is no store.
pub(super) fn told_of_list(error: &PorchError, package: Package<'_>) -> Failure {
    if error.meaning == Meaning::NotFound {
        let cause = NO_SERVER.to_owned();
        return VariantError::StoreUnavailable { cause, retry_after: None }.into();
    }
    told(error, package, package.path)
}

/// Maps an error found in a draft before the server is asked for it.
pub(super) fn refused(error: &CreationError, package: Package<'_>) -> Failure {
    let text = error.to_string();
    match error {
        CreationError::WorkspaceExists { .. } => conflict(text),
        CreationError::PackageExists { .. } => exists(package).into(),
        CreationError::NotFound(_) => VariantError::Other(text).into(),
        _ => VariantError::Rejected(text).into(),
    }
}

/// Returns the failure that makes the next attempt decide on the current state.
pub(super) fn conflict(message: String) -> Failure {
    Failure::Retry(ReconcileError { message, is_conflict: true })
}

fn exists(package: Package<'_>) -> VariantError {
    VariantError::DownstreamExists { package: package.path.to_owned(), repo: package.repository.to_owned() }
}

#[cfg(test)]
mod tests {
    use groundwork_fleet::Retry;

    use super::*;

    /// Reason and time of the next attempt for each meaning of an error (`packagevariants.md` 2.10,
    /// 2.11, 6.13).
    #[test]
    fn every_meaning() {
        let package = Package { repository: "edge", path: "dns" };
        let seconds = Duration::from_secs;
        let backoff =
            |first, longest| Some(Retry::Backoff { first: seconds(first), longest: seconds(longest) });
        for (meaning, retry_after, expected) in [
            (Meaning::Busy, None, ("again", None)),
            (Meaning::Conflict, None, ("again", None)),
            (Meaning::AlreadyExists, None, ("again", None)),
            (Meaning::NotDraft, None, ("again", None)),
            (Meaning::DeletionNotProposed, None, ("again", None)),
            (Meaning::DownstreamExists, None, ("DownstreamExists", Some(Retry::Events))),
            (Meaning::RenderFailed, None, ("RenderFailed", backoff(30, 1800))),
            (Meaning::Permanent, None, ("Error", Some(Retry::Events))),
            (Meaning::Invalid, None, ("Error", Some(Retry::Events))),
            (Meaning::IsUpstream, None, ("DeletionBlocked", backoff(1, 300))),
            (Meaning::Denied, None, ("StoreUnavailable", Some(Retry::After(DENIED_PAUSE)))),
            (Meaning::OtherVersion, None, ("StoreUnavailable", backoff(1, 60))),
            (Meaning::Unavailable, None, ("StoreUnavailable", backoff(1, 60))),
            (Meaning::Unavailable, Some(7), ("StoreUnavailable", Some(Retry::After(seconds(7))))),
            (Meaning::NotFound, None, ("Error", backoff(1, 300))),
            (Meaning::Other, None, ("Error", backoff(1, 300))),
        ] {
            let retry_after = retry_after.map(seconds);
            let error = PorchError {
                meaning,
                text: "text".to_owned(),
                retry_after,
                is_unanswered: false,
                results: None,
            };
            let found = match told(&error, package, "edge.dns.w") {
                Failure::Told(error, _) => (error.reason(), Some(error.retry())),
                Failure::Retry(error) => {
                    assert!(error.is_conflict);
                    ("again", None)
                }
            };
            assert_eq!(found, expected, "{meaning:?}");
        }
    }

    /// The results of the functions are reported with the failure, as far as the server gives them.
    #[test]
    fn results_of_functions_are_kept() {
        let package = Package { repository: "edge", path: "dns" };
        for (results, expected) in [
            (Some(r#"{"result": {"exitCode": 1, "items": [{"image": "i", "exitCode": 1}]}}"#), 1),
            (Some("{"), 0),
            (None, 0),
        ] {
            let results = results.map(str::to_owned);
            let text = "text".to_owned();
            let error = PorchError {
                meaning: Meaning::RenderFailed,
                text,
                retry_after: None,
                is_unanswered: false,
                results,
            };
            let Failure::Told(_, Some(status)) = told(&error, package, "edge.dns.w") else {
                panic!("no status")
            };
            assert_eq!(status.error.as_deref(), Some("text"));
            assert_eq!(status.result.map_or(0, |result| result.items.len()), expected);
        }
    }

    /// A list addresses a kind, not an object, so "not found" means that no server serves the kind.
    #[test]
    fn no_server_is_no_store() {
        let package = Package { repository: "edge", path: "dns" };
        let text = "the server could not find the requested resource".to_owned();
        let error = PorchError {
            meaning: Meaning::NotFound,
            text,
            retry_after: None,
            is_unanswered: false,
            results: None,
        };
        let Failure::Told(error, _) = told_of_list(&error, package) else { panic!("nobody is told") };
        assert_eq!(error.reason(), "StoreUnavailable");
        assert!(error.to_string().contains("is the Porch server installed"), "{error}");
    }
}
