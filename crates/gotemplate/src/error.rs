//! Errors in the wording of Go (chapter gotemplate, sections 4 and 9), with their position as data.

use std::fmt;

use crate::budget::LimitError;
use crate::grants::DeniedError;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The source is not a template.
    Parse,
    /// The template failed while it ran.
    Execution,
    /// A configured limit stopped the template.
    Limit,
    /// A function needs what the host does not grant.
    Denied,
}

/// Why a template could not be parsed or rendered.
///
/// `Display` is the complete text as Go words it:
/// `template: NAME:LINE: MESSAGE` for parse errors and
/// `template: NAME:LINE:COLUMN: executing "TEMPLATE" at <SOURCE>: MESSAGE` for execution errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    template: String,
    line: usize,
    place: Option<Place>,
    message: String,
}

/// Where an execution error happened, beyond the line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    column: usize,
    executing: String,
    source: String,
}

impl Error {
    pub(crate) fn parse(template: &str, line: usize, message: String) -> Error {
        Error { kind: ErrorKind::Parse, template: template.to_string(), line, place: None, message }
    }

    /// An execution error that has no place in any source.
    pub(crate) fn unplaced(template: &str, message: String) -> Error {
        Error { kind: ErrorKind::Execution, template: template.to_string(), line: 0, place: None, message }
    }

    /// A limit was reached before there was a place.
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
        let place = Some(Place { column, executing, source });
        Error { kind, template: template.to_string(), line, place, message }
    }

    /// The same with the middle of its message left out: it keeps so many bytes of either end. For errors that hold those of many
    /// nested renders.
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

    /// The name under which the source was parsed.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The 1-based line in the source; 0 when the error has no place in it.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The 0-based byte offset in the line; parse errors have none.
    pub fn column(&self) -> Option<usize> {
        self.place.as_ref().map(|place| place.column)
    }

    /// The message without name and position.
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
            Some(Place { column, executing, source }) => {
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

/// Why a function or method failed. The engine reports it as `error calling NAME: TEXT`.
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
    /// The same with something in front of it.
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
