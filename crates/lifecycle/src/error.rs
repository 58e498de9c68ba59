//! Errors of jobs, in the form of `status.lastError` (`installations.md` 1.0, 2.2).

use std::borrow::Cow;

use groundwork_api::{ErrorCode, LastError, Time};
use serde::{Deserialize, Serialize};

use crate::message::bounded;
use crate::reason::Reason;

/// Text of an operation or a reason: borrowed for the constants of this crate, owned for texts in a
/// response of the resolver.
type Word = Cow<'static, str>;

/// Failed operation with the reason for the failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct OperationError {
    pub operation: Word,
    pub reason: Reason,
    pub message: String,
    pub codes: Vec<ErrorCode>,
}

impl OperationError {
    /// Creates an error in the user's input, which a retry cannot fix.
    pub fn new(operation: impl Into<Word>, reason: Reason, message: impl Into<String>) -> Self {
        let codes = vec![ErrorCode::ConfigurationProblem];
        Self { operation: operation.into(), reason, message: message.into(), codes }
    }

    /// Creates the error of an object that is set aside because processes of the service died while
    /// they handled it (`installations.md` 7.7).
    pub fn set_aside(words: impl Into<String>) -> Self {
        let codes = vec![ErrorCode::InternalProblem];
        Self { operation: "Reconcile".into(), reason: Reason::SetAside, message: words.into(), codes }
    }

    /// Creates an error without codes, for a failure of an object below, whose own error has the
    /// codes.
    pub(crate) fn child(operation: impl Into<Word>, reason: Reason, message: impl Into<String>) -> Self {
        Self { operation: operation.into(), reason, message: message.into(), codes: Vec::new() }
    }

    /// Creates an error that may go away by itself, such as a server that does not answer.
    pub fn transient(operation: impl Into<Word>, reason: Reason, message: impl Into<String>) -> Self {
        Self::child(operation, reason, message)
    }

    /// Creates an entry for `status.lastError` that is not an error: it shows the objects that the
    /// job waits for, in the field where users look first (`installations.md` 2.2, 2.3).
    pub(crate) fn waiting(operation: impl Into<Word>, reason: Reason, message: impl Into<String>) -> Self {
        let codes = vec![ErrorCode::Unfinished, ErrorCode::ForInfoOnly, ErrorCode::NoRetry];
        Self { operation: operation.into(), reason, message: message.into(), codes }
    }

    /// Wraps an error in another one. The message starts with operation and reason of the inner
    /// error.
    pub(crate) fn caused_by(
        operation: impl Into<Word>,
        reason: Reason,
        inner: (&str, &Reason),
        cause: impl std::fmt::Display,
    ) -> Self {
        Self::new(operation, reason, format!("Op: {} - Reason: {} - Message: {cause}", inner.0, inner.1))
    }

    /// Converts the error to the status field and truncates a long message. `lastTransitionTime` of
    /// the previous error is kept unless the operation changes.
    pub fn to_last_error(&self, previous: Option<&LastError>, now: &Time) -> LastError {
        let message = bounded(&self.message);
        let codes: Vec<String> = self.codes.iter().map(|code| code.as_str().to_owned()).collect();
        let same_operation = previous.filter(|previous| previous.operation == self.operation);
        let unchanged = same_operation.filter(|previous| {
            previous.reason == self.reason.as_str()
                && previous.message == message
                && previous.codes[..] == codes[..]
        });
        LastError {
            operation: self.operation.clone().into_owned(),
            reason: self.reason.as_str().to_owned(),
            message: message.into_owned(),
            last_transition_time: same_operation
                .map_or_else(|| Some(now.clone()), |previous| previous.last_transition_time.clone()),
            last_update_time: unchanged
                .map_or_else(|| Some(now.clone()), |previous| previous.last_update_time.clone()),
            codes: codes.into(),
            ..LastError::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_same_error_stay() {
        let time = |second: i64| -> Time {
            serde_json::from_value(format!("2026-01-01T00:00:0{second}Z").into()).unwrap()
        };
        let first = OperationError::new("a", Reason::Deleting, "c").to_last_error(None, &time(1));
        assert_eq!(
            OperationError::new("a", Reason::Deleting, "c").to_last_error(Some(&first), &time(2)),
            first
        );
        let changed = OperationError::new("a", Reason::Deleting, "d").to_last_error(Some(&first), &time(3));
        assert_eq!((changed.last_transition_time, changed.last_update_time), (Some(time(1)), Some(time(3))));
        let other = OperationError::new("x", Reason::Deleting, "d").to_last_error(Some(&first), &time(4));
        assert_eq!((other.last_transition_time, other.last_update_time), (Some(time(4)), Some(time(4))));
        assert_eq!(first.codes[..], ["ERR_CONFIGURATION_PROBLEM".to_owned()]);
    }
}
