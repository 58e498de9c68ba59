//! Errors of the store and of the cluster as refusals, in Porch's words where it has some.

use groundwork_apiserver::Refusal;
use groundwork_controller::ApiError;
use groundwork_packages::git::StoreError;
use groundwork_packages::porch::RENDER_STATUS;

use super::kinds::REVISIONS_OF_GROUP;

/// Text before the message of a failed function, word for word as Porch has it
/// (`packagevariants.md` 8.1).
const NOT_PUSHED: &str = "Error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn \
                          render' succeeds) and retry. Details: ";

/// Limit for the results of functions in a refusal, in bytes: clients read short ones only.
const MAX_RESULTS: usize = 32 << 10;

pub(super) fn missing(name: &str) -> Refusal {
    Refusal::not_found(REVISIONS_OF_GROUP, name)
}

/// Returns the refusal for an error of the store. Porch answers broken rules with status 500, which
/// its clients recognize by the text; a rule of ours has the status that fits.
pub(super) fn of_store(error: &StoreError, name: &str) -> Refusal {
    let text = error.to_string();
    match error {
        StoreError::NotFound(_) => missing(name).saying(text),
        StoreError::AlreadyExists(_) => Refusal::already_exists(REVISIONS_OF_GROUP, name).saying(text),
        StoreError::Conflict => Refusal::conflict(REVISIONS_OF_GROUP, name, &text),
        StoreError::Refused(_) if !text.contains("package must be Draft") => {
            Refusal::invalid("", name, Vec::new()).saying(text)
        }
        StoreError::Refused(_) | StoreError::DownstreamExists(_) | StoreError::Merge(_) => {
            Refusal::internal(&text)
        }
        StoreError::Render { status, .. } => {
            let refusal = Refusal::internal(&format!("{NOT_PUSHED}{text}"));
            match serde_json::to_string(status) {
                Ok(results) if results.len() <= MAX_RESULTS => refusal.with_cause(RENDER_STATUS, results),
                _ => refusal,
            }
        }
        StoreError::Unavailable(_) | StoreError::Interrupted => Refusal::unavailable(text),
    }
}

/// Returns the refusal for an error of the API server of the cluster.
pub(super) fn of_api(error: &ApiError, name: &str) -> Refusal {
    let text = error.to_string();
    match error {
        ApiError::NotFound(_) => missing(name),
        ApiError::AlreadyExists(_) => Refusal::already_exists(REVISIONS_OF_GROUP, name),
        ApiError::Conflict(_) => {
            Refusal::conflict(REVISIONS_OF_GROUP, name, &StoreError::Conflict.to_string())
        }
        ApiError::Invalid { .. } | ApiError::TooLarge(_) => Refusal::internal(&text),
        _ => Refusal::unavailable(text),
    }
}
