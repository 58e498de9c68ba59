//! What is wrong with the input, where, and the line it is about.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::ops::Range;
use std::rc::Rc;

use anstyle::{AnsiColor, Style};
use groundwork_blueprint::Excerpt;
use groundwork_yaml::Position;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const PLACE: Style = AnsiColor::Blue.on_default().bold();

/// A text that was read, under the name that the user knows it by.
///
/// Messages show lines of it only where it is known to hold no values of Secrets and the like.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    shown: RefCell<Vec<Range<usize>>>,
}

impl Source {
    pub(crate) fn new(name: String, text: String) -> Self {
        Self { name, text, shown: RefCell::default() }
    }

    /// Allows messages to show these lines, counted from 1.
    pub(crate) fn show_lines(&self, lines: Range<usize>) {
        self.shown.borrow_mut().push(lines);
    }

    /// Allows messages to show every line.
    pub(crate) fn show_all(&self) {
        self.show_lines(0..usize::MAX);
    }

    fn line(&self, number: usize) -> Option<&str> {
        let may_show = self.shown.borrow().iter().any(|lines| lines.contains(&number));
        if may_show { self.text.lines().nth(number.checked_sub(1)?) } else { None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// A place that a message is about.
#[derive(Debug, Clone)]
enum Place {
    File(Rc<Source>, Position),
    /// A line of a file inside a component.
    Excerpt {
        owner: String,
        excerpt: Excerpt,
    },
}

/// One message.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic {
    pub(crate) severity: Severity,
    message: String,
    place: Option<Place>,
}

impl Diagnostic {
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), place: None }
    }

    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, message: message.into(), place: None }
    }

    #[must_use]
    pub(crate) fn at(mut self, source: &Rc<Source>, position: Position) -> Self {
        self.place = Some(Place::File(Rc::clone(source), position));
        self
    }

    /// `owner` says which blueprint the excerpt is of.
    #[must_use]
    pub(crate) fn in_blueprint(mut self, owner: impl Into<String>, excerpt: Excerpt) -> Self {
        self.place = Some(Place::Excerpt { owner: owner.into(), excerpt });
        self
    }

    /// The message with colours; printing drops them where there is no terminal.
    fn show(&self) -> String {
        let (style, label) = match self.severity {
            Severity::Error => (ERROR, "error"),
            Severity::Warning => (WARNING, "warning"),
        };
        let mut text = format!("{style}{label}{style:#}: {}\n", self.message);
        match &self.place {
            None => {}
            Some(Place::File(source, position)) => {
                let line = source.line(position.line);
                show_place(&mut text, &source.name, position.line, Some(position.column), line);
            }
            Some(Place::Excerpt { owner, excerpt }) => {
                let name = format!("{} ({owner})", excerpt.origin);
                show_place(&mut text, &name, excerpt.line, excerpt.column, Some(&excerpt.text));
            }
        }
        text
    }
}

fn show_place(text: &mut String, name: &str, line: usize, column: Option<usize>, source: Option<&str>) {
    let at = column.map_or_else(|| format!("{name}:{line}"), |column| format!("{name}:{line}:{column}"));
    let gutter = " ".repeat(line.to_string().len());
    let _ = writeln!(text, "{gutter}{PLACE}-->{PLACE:#} {at}");
    let Some(source) = source else { return };
    let _ = writeln!(text, "{gutter} {PLACE}|{PLACE:#}");
    let _ = writeln!(text, "{PLACE}{line} |{PLACE:#} {}", source.replace('\t', " "));
    if let Some(column) = column {
        let blanks = " ".repeat(column.saturating_sub(1));
        let _ = writeln!(text, "{gutter} {PLACE}|{PLACE:#} {blanks}{ERROR}^{ERROR:#}");
    }
}

/// Prints messages to standard error, in order.
pub(crate) fn print(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        anstream::eprint!("{}", diagnostic.show());
    }
}
