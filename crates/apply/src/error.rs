//! Why objects could not be applied.

use groundwork_controller::ApiError;

/// Why a round ended without what it was for. No text quotes a value of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// What is written is wrong, and the same request would get the same answer.
    #[error("{0}")]
    Configuration(String),
    /// It may go away by itself.
    #[error("{0}")]
    Retry(String),
    /// Something that was started has failed, such as the job of a hook; the next try may end otherwise.
    #[error("{0}")]
    Failed(String),
    /// The time of the item is over; names the step that was next.
    #[error("timeout at: {0:?}")]
    Timeout(String),
}

impl From<ApiError> for ApplyError {
    fn from(error: ApiError) -> Self {
        match error {
            // The text of the error is made for the home cluster.
            ApiError::Forbidden { verb, resource } => Self::Retry(format!(
                "the Target's user may not {verb} {resource}: its credentials are wrong, or it lacks a right in that cluster"
            )),
            error @ (ApiError::Invalid { .. } | ApiError::Undeclared { .. } | ApiError::TooLarge(_)) => {
                Self::Configuration(error.to_string())
            }
            other => Self::Retry(other.to_string()),
        }
    }
}

impl ApplyError {
    /// One error of several.
    pub fn of_all(errors: Vec<Self>) -> Option<Self> {
        let is_final = errors.iter().all(|error| matches!(error, Self::Configuration(_)));
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            if let Self::Timeout(_) = error {
                return Some(error);
            }
            texts.push(error.to_string());
        }
        texts.sort();
        let text = texts.join("; ");
        match (text.is_empty(), is_final) {
            (true, _) => None,
            (false, true) => Some(Self::Configuration(text)),
            (false, false) => Some(Self::Retry(text)),
        }
    }
}
