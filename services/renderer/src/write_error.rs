//! Why a write was not made.

use groundwork_controller::ApiError;
use groundwork_lifecycle::machine::Need;
use groundwork_lifecycle::{OperationError, Reason, Taken};

use crate::handler::AttemptError;

/// Why a write was not made: the API server has answered, or it was never asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// An export under the name of something that is another's.
    #[error(transparent)]
    Taken(#[from] Taken),
}

impl WriteError {
    /// True if the same write would fail for ever.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Api(error) => error.is_final(),
            Self::Taken(_) => true,
        }
    }

    /// True if a job that has this need is over.
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
