//! Errors in the wording of Go (`gotemplate.md` 4 and 9), with their position as data.

use std::fmt;

use crate::budget::LimitError;
use crate::grants::DeniedError;

/// The kind of failure that an [`Error`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The source is not a template.
    Parse,
    /// The template failed while it ran.
    Execution,
    /// A configured limit stopped the template.
    Limit,
    /// The template called a function that needs a source which the host does not grant.
    Denied,
}

/// A failure to parse or to render a template.
///
/// `Display` is the complete text as Go words it: `template: NAME:LINE: MESSAGE` for parse errors
/// and `template: NAME:LINE:COLUMN: executing "TEMPLATE" at <SOURCE>: MESSAGE` for execution
/// errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    template: String,
    line: usize,
    place: Option<ErrorPosition>,
    message: String,
}

/// Details of the place of an execution error, besides its line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorPosition {
    column: usize,
    executing: String,
    source: String,
}

impl Error {
    pub(crate) fn parse(template: &str, line: usize, message: String) -> Error {
        Error { kind: ErrorKind::Parse, template: template.to_string(), line, place: None, message }
    }

    /// Creates an execution error without a place in any source.
    pub(crate) fn unplaced(template: &str, message: String) -> Error {
        Error { kind: ErrorKind::Execution, template: template.to_string(), line: 0, place: None, message }
    }

    /// Creates the error of a limit that was reached before the evaluator was at any place.
    pub(crate) fn limit(template: &str, limit: LimitError) -> Error {
        let message = limit.to_string();
        Error { kind: ErrorKind::Limit, ..Error::unplaced(template, message) }
    }

    pub(crate) fn execution(
        kind: ErrorKind,
        template: &str,
        (line, column): (usize, usize),
        executing: String,
        source: String,
        message: String,
    ) -> Error {
        let place = Some(ErrorPosition { column, executing, source });
        Error { kind, template: template.to_string(), line, place, message }
    }

    /// Returns the error with the middle of its message left out, keeping `keep` bytes at each end.
    /// For messages that contain those of many nested renders.
    #[must_use]
    pub fn shortened(mut self, keep: usize) -> Error {
        if self.message.len() > keep.saturating_mul(2) {
            let head = self.message.floor_char_boundary(keep);
            let tail = self.message.ceil_char_boundary(self.message.len() - keep);
            self.message = format!("{} … {}", &self.message[..head], &self.message[tail..]);
        }
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the name under which the source was parsed.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Returns the 1-based line in the source, or 0 if the error has no place in it.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the 0-based byte offset in the line; parse errors have none.
    pub fn column(&self) -> Option<usize> {
        self.place.as_ref().map(|place| place.column)
    }

    /// Returns the message without name and position.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { template, line, message, .. } = self;
        match &self.place {
            None if *line == 0 => write!(f, "template: {message}"),
            None => write!(f, "template: {template}:{line}: {message}"),
            Some(ErrorPosition { column, executing, source }) => {
                let executing = crate::text::quote(executing.as_bytes());
                write!(
                    f,
                    "template: {template}:{line}:{column}: executing {executing} at <{source}>: {message}"
                )
            }
        }
    }
}

impl std::error::Error for Error {}

/// A failure of a function or method. The engine reports it as `error calling NAME: TEXT`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    #[error("{0}")]
    Message(String),
    /// A limit stopped the whole render.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The host does not grant what the function needs.
    #[error(transparent)]
    Denied(#[from] DeniedError),
    /// A nested render failed.
    #[error(transparent)]
    Template(Box<Error>),
    /// A nested render failed, and the function put text in front of its error.
    #[error("{prefix}{error}")]
    Wrapped { prefix: String, error: Box<Error> },
}

impl CallError {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            CallError::Message(_) => ErrorKind::Execution,
            CallError::Limit(_) => ErrorKind::Limit,
            CallError::Denied(_) => ErrorKind::Denied,
            CallError::Template(error) | CallError::Wrapped { error, .. } => match error.kind() {
                ErrorKind::Parse | ErrorKind::Execution => ErrorKind::Execution,
                kind @ (ErrorKind::Limit | ErrorKind::Denied) => kind,
            },
        }
    }
}

impl From<String> for CallError {
    fn from(message: String) -> CallError {
        CallError::Message(message)
    }
}

impl From<&str> for CallError {
    fn from(message: &str) -> CallError {
        CallError::Message(message.to_string())
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::Template(Box::new(error))
    }
}
