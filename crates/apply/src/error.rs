//! Errors of applying objects.

use groundwork_controller::ApiError;

/// Reason why a round failed. The texts never quote a value of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The configuration is wrong; the same request would get the same answer.
    #[error("{0}")]
    Configuration(String),
    /// The error may go away by itself.
    #[error("{0}")]
    Retry(String),
    /// A process in the cluster has failed, such as the Job of a hook. The next attempt may
    /// succeed.
    #[error("{0}")]
    Failed(String),
    /// The item's time is over; the text names the next step.
    #[error("timeout at: {0:?}")]
    Timeout(String),
}

impl From<ApiError> for ApplyError {
    fn from(error: ApiError) -> Self {
        match error {
            // The text of `ApiError` is about the home cluster, so write one about the Target's
            // cluster.
            ApiError::Forbidden { verb, resource } => Self::Retry(format!(
                "the user of the Target may not {verb} {resource}: its credentials are wrong, or it lacks a permission \
                 in that cluster"
            )),
            error @ (ApiError::Invalid { .. } | ApiError::Undeclared { .. } | ApiError::TooLarge(_)) => {
                Self::Configuration(error.to_string())
            }
            other => Self::Retry(other.to_string()),
        }
    }
}

impl ApplyError {
    /// Combines several errors into one.
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
