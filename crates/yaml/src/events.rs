//! The events of a YAML text: the parser, and the additions that all readers of Go's YAML need.

use std::fmt;

use granit_parser::{ErrorKind, Event, Parser, ScanError, Span, StrInput};

use crate::error::Error;
use crate::node::Position;
use crate::plain::{self, Positioned};

/// The events of a text, each with its position. A composer calls [`Events::begins_document`], then
/// reads the events of one node, then calls [`Events::end_document`].
pub struct Events<'input>(Source<'input>);

enum Source<'input> {
    /// The remaining events of a plain text.
    Plain(std::vec::IntoIter<Positioned<'input>>),
    /// The parser for any text.
    Parser(Box<Parsed<'input>>),
}

struct Parsed<'input> {
    text: &'input str,
    parser: Parser<'input, StrInput<'input>>,
}

/// Leaves out the text, which may be a Secret.
impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl<'input> Events<'input> {
    /// Starts the events of a text. Comments are left out, and a byte order mark at the beginning
    /// is skipped.
    pub fn new(text: &'input str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self(match plain::events(text) {
            Some(events) => Source::Plain(events.into_iter()),
            None => Source::Parser(Box::new(Parsed::new(text))),
        })
    }

    /// Starts the events with the parser, even if the text is plain.
    #[cfg(test)]
    pub(crate) fn parsed(text: &'input str) -> Self {
        Self(Source::Parser(Box::new(Parsed::new(text))))
    }

    /// Returns the next event. The end of the stream is returned repeatedly.
    ///
    /// # Errors
    ///
    /// The text is not YAML.
    pub fn next_event(&mut self) -> Result<(Event<'input>, Position), Error> {
        match &mut self.0 {
            Source::Plain(events) => Ok(events.next().unwrap_or(END)),
            Source::Parser(parsed) => parsed.next_event(),
        }
    }

    /// Goes to the first event of the next document; returns false at the end of the stream.
    ///
    /// # Errors
    ///
    /// The text is not YAML.
    pub fn begins_document(&mut self) -> Result<bool, Error> {
        loop {
            match self.next_event()?.0 {
                Event::StreamEnd => return Ok(false),
                Event::DocumentStart(..) => return Ok(true),
                _ => {}
            }
        }
    }

    /// Passes the end of a document. Reading the end finds out whether the text continues with
    /// content that does not belong to it.
    ///
    /// # Errors
    ///
    /// The document continues.
    pub fn end_document(&mut self) -> Result<(), Error> {
        match self.next_event()? {
            (Event::DocumentEnd, _) => Ok(()),
            (_, position) => Err(Error::new(position, "the document continues after its value")),
        }
    }
}

const END: Positioned<'static> = (Event::StreamEnd, Position { line: 1, column: 1 });

impl<'input> Parsed<'input> {
    fn new(text: &'input str) -> Self {
        let mut options = granit_parser::Options::default();
        options.set_emit_comments(false);
        Self { text, parser: Parser::new_from_str_with_options(text, options) }
    }

    fn next_event(&mut self) -> Result<Positioned<'input>, Error> {
        match self.parser.next() {
            Some(Ok((Event::DocumentEnd, span))) if self.ends_at_directive(&span) => {
                // The parser would begin another document here, and the rest of this one would be
                // lost.
                Err(Error::new(position_of(&span.start), "a value may not begin with % unless it is quoted"))
            }
            Some(Ok((event, span))) => Ok((event, position_of(&span.start))),
            Some(Err(error)) => Err(Error::new(position_of(error.marker()), message_of(&error))),
            None => Ok(END),
        }
    }

    /// Reports whether the only end of a document is a `%` at the start of a line.
    fn ends_at_directive(&self, end: &Span) -> bool {
        end.start
            .byte_offset()
            .and_then(|offset| self.text.get(offset..))
            .is_some_and(|rest| rest.starts_with('%'))
    }
}

pub(crate) fn position_of(marker: &granit_parser::Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// The parser's message about a line of a quoted text that is not indented enough. Go's reader
/// accepts such a line.
pub(crate) const UNINDENTED: &str = "invalid indentation in multiline quoted scalar";

/// Returns the parser's message. All its texts are constants except for one, which quotes a
/// character of the document and is replaced.
pub(crate) fn message_of(error: &ScanError) -> String {
    match error.kind() {
        ErrorKind::UnexpectedCharacter { .. } => "unexpected character".to_owned(),
        ErrorKind::InvalidQuotedScalarIndent => UNINDENTED.to_owned(),
        ErrorKind::Custom(_) => "malformed YAML".to_owned(),
        _ => error.info(),
    }
}
