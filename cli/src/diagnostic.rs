//! Messages about the input: the problem, its place, and the line in question.

use std::fmt::Write as _;
use std::io::Write as _;
use std::rc::Rc;

use anstyle::{AnsiColor, Style};
use groundwork_blueprint::Excerpt;
use groundwork_yaml::Position;

use crate::terminal::shown;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const PLACE: Style = AnsiColor::Blue.on_default().bold();

/// Text that was read, under the name by which the user knows it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    /// True if the text is known to hold no values of Secrets, DataObjects and the like.
    public: bool,
}

/// Kinds whose objects contain no values of users, so that messages may show their lines.
const PUBLIC_KINDS: [(&str, &str); 4] = [
    ("landscaper.gardener.cloud/v1alpha1", "Installation"),
    ("landscaper.gardener.cloud/v1alpha1", "Context"),
    ("landscaper.gardener.cloud/v1alpha1", "ComponentVersionOverwrites"),
    ("config.porch.kpt.dev/v1alpha2", "PackageVariantSet"),
];

impl Source {
    /// Creates a source that may hold secret values.
    pub(crate) fn new(name: String, text: String) -> Self {
        Self { name, text, public: false }
    }

    /// Creates a source without secret values.
    pub(crate) fn public(name: String, text: String) -> Self {
        Self { name, text, public: true }
    }

    /// Returns a line for a message, unless the line might hold a value that must not show.
    ///
    /// Looks at the text, not at the parsed document, because malformed texts must not leak values
    /// either. A line shows only if its document is plainly one object of a public kind.
    fn line(&self, number: usize) -> Option<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let at = number.checked_sub(1)?;
        let line = lines.get(at)?;
        // The kind of the whole document decides, so find its first and last line.
        let separates = |line: &&str| line.starts_with("---");
        let begin = lines[..at].iter().rposition(separates).map_or(0, |separator| separator + 1);
        let end = lines[at..].iter().position(separates).map_or(lines.len(), |separator| at + separator);
        (self.public || is_public(&lines[begin..end.max(begin)])).then_some(line)
    }
}

fn is_public(document: &[&str]) -> bool {
    // Members of the object itself begin at column 1. A document in which one of them occurs twice
    // may be something else than one object, so its lines do not show.
    let values = |member: &str| -> Vec<&str> {
        let values = document.iter().filter_map(|line| line.strip_prefix(member));
        values.map(|value| value.trim().trim_matches(['"', '\''])).collect()
    };
    let (kinds, api_versions) = (values("kind:"), values("apiVersion:"));
    matches!((&api_versions[..], &kinds[..]), (&[version], &[kind]) if PUBLIC_KINDS.contains(&(version, kind)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// Place that a message is about.
#[derive(Debug, Clone)]
enum MessagePlace {
    File(Rc<Source>, Position),
    /// Line of a file of a blueprint.
    Excerpt {
        /// Blueprint that has the file; `None` if the user knows the file by its own name.
        owner: Option<String>,
        excerpt: Excerpt,
    },
}

/// Message about the input.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic {
    pub(crate) severity: Severity,
    message: String,
    place: Option<MessagePlace>,
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
        self.place = Some(MessagePlace::File(Rc::clone(source), position));
        self
    }

    /// Sets a place in a file of a blueprint. `owner` names the blueprint.
    #[must_use]
    pub(crate) fn in_blueprint(mut self, owner: impl Into<String>, excerpt: Excerpt) -> Self {
        self.place = Some(MessagePlace::Excerpt { owner: Some(owner.into()), excerpt });
        self
    }

    /// Sets a place in a file, under the name by which the user knows the file.
    #[must_use]
    pub(crate) fn at_line(mut self, file: impl Into<String>, excerpt: Excerpt) -> Self {
        self.place =
            Some(MessagePlace::Excerpt { owner: None, excerpt: Excerpt { origin: file.into(), ..excerpt } });
        self
    }

    /// Returns the message with colours. Printing drops them where standard error is not a
    /// terminal.
    fn show(&self) -> String {
        let (style, label) = match self.severity {
            Severity::Error => (ERROR, "error"),
            Severity::Warning => (WARNING, "warning"),
        };
        let mut text = format!("{style}{label}{style:#}: {}\n", shown(&self.message));
        match &self.place {
            None => {}
            Some(MessagePlace::File(source, position)) => {
                let line = source.line(position.line);
                show_place(&mut text, &source.name, position.line, Some(position.column), line);
            }
            Some(MessagePlace::Excerpt { owner, excerpt }) => {
                let owner = owner.as_ref().map_or_else(String::new, |owner| format!(" ({owner})"));
                let name = format!("{}{owner}", excerpt.origin);
                show_place(&mut text, &name, excerpt.line, excerpt.column, Some(&excerpt.text));
            }
        }
        text
    }
}

fn show_place(text: &mut String, name: &str, line: usize, column: Option<usize>, source: Option<&str>) {
    let at = column.map_or_else(|| format!("{name}:{line}"), |column| format!("{name}:{line}:{column}"));
    let at = shown(&at);
    let gutter = " ".repeat(line.to_string().len());
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{gutter}{PLACE}-->{PLACE:#} {at}");
    let Some(source) = source else { return };
    let _ = writeln!(text, "{gutter} {PLACE}|{PLACE:#}");
    let _ = writeln!(text, "{PLACE}{line} |{PLACE:#} {}", shown(&source.replace('\t', " ")));
    // Only the beginning of a very long line is kept, so the column may lie behind its end.
    if let Some(column) = column.filter(|column| *column <= source.chars().count() + 1) {
        let blanks = " ".repeat(column.saturating_sub(1));
        let _ = writeln!(text, "{gutter} {PLACE}|{PLACE:#} {blanks}{ERROR}^{ERROR:#}");
    }
}

/// Prints messages to standard error, in order.
pub(crate) fn print(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        // Standard error is the last channel to the user, so a failure to write there cannot be
        // reported.
        let _ = anstream::stderr().write_all(diagnostic.show().as_bytes());
    }
}
