//! Errors of writes.

use groundwork_controller::ApiError;
use groundwork_lifecycle::machine::Need;
use groundwork_lifecycle::{OperationError, Reason, Taken};

use crate::handler::AttemptError;

/// Reason why a write failed: an answer of the API server, or a check before the request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Another owner's object has the name of an export.
    #[error(transparent)]
    Taken(#[from] Taken),
}

impl WriteError {
    /// Returns true if the same write would always fail.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Api(error) => error.is_final(),
            Self::Taken(_) => true,
        }
    }

    /// Returns true if this error ends a job that needs the write.
    pub(crate) fn ends_job(&self, need: Need) -> bool {
        self.is_final() || need == Need::Exports && matches!(self, Self::Api(ApiError::NotFound(_)))
    }
}

impl From<WriteError> for AttemptError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Api(error) => Self::Api(error),
            WriteError::Taken(taken) => {
                let message = taken.to_string();
                Self::Transient(OperationError::transient(
                    "Reconcile",
                    Reason::CreateOrUpdateExports,
                    message,
                ))
            }
        }
    }
}
