//! Errors of template executions, with excerpts of the template (`blueprints.md` 5.6, 5.7).

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::io::Write as _;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_gotemplate::ErrorKind;
use groundwork_spiff::Error as SpiffError;
use groundwork_yaml as yaml;
use serde_json::Value;

use super::ExecutionKind;
use super::go;
use super::spiff::TEMPLATE;
use crate::bindings::{Bindings, Bound, is_sensitive};
use crate::filesystem::{PathError, shown_path};
use crate::redaction::REDACTED;

/// Text that Go prints for an absent value.
pub(super) const NO_VALUE: &str = "<no value>";

const LINES_AROUND: usize = 5;
/// Largest number of absent values that are listed with their place.
const MOST_PLACES: usize = 1_000;
/// Width of line number, colon and padding, in characters.
const PREFIX_WIDTH: usize = 6;
const MARKER: &str = "\u{2c6}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}";
/// Maximum depth up to which the input is shown.
const DEEPEST_INPUT: usize = 10;
/// Maximum bytes of a binding that is shown in full. A longer one is compressed, because it would
/// not be readable in a condition.
const LONGEST_INPUT: usize = 512;
/// Place in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// File of the blueprint, or the member of `blueprint.yaml` that contains the template.
    pub origin: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column from 1, in characters; absent if only the line is known.
    pub column: Option<usize>,
    /// The text of the line.
    pub text: String,
}

impl Excerpt {
    /// Creates an excerpt. `column` is a byte offset in the line. A line beyond the end is replaced
    /// by the last one.
    pub(super) fn new(origin: &str, source: &str, line: usize, column: Option<usize>) -> Self {
        let lines: Vec<&str> = source.lines().collect();
        let line = line.clamp(1, lines.len().max(1));
        let text = lines.get(line - 1).copied().unwrap_or_default();
        let column =
            column.map(|column| text.get(..column).map_or(column, |before| before.chars().count()) + 1);
        Self { origin: origin.to_owned(), line, column, text: text.to_owned() }
    }
}

/// Report of a failed template: the message of its engine, with context for users (`blueprints.md`
/// 5.6, 5.7, 6.2).
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateReport {
    /// Message of the engine, without values of bindings.
    pub message: String,
    /// Lines of the template, or of its output, around the place.
    pub snippet: Option<String>,
    /// Each binding as one line. Leaves of sensitive ones are replaced by their type.
    pub input: BTreeMap<String, String>,
    /// Place in the template, if it is known.
    pub excerpt: Option<Excerpt>,
    /// Complete text, in the format of Landscaper.
    text: String,
    /// Length of the message's prefix without values: positions, and text of the template.
    place: usize,
}

impl TemplateReport {
    /// Splits the message into its prefix without values and the part that may contain values.
    pub(super) fn split(&self) -> (&str, &str) {
        self.message.split_at(self.place)
    }

    /// Replaces the part that may contain values.
    pub(super) fn reword(&mut self, problem: &str) {
        let message = format!("{}{problem}", &self.message[..self.place]);
        if let Some(rest) = self.text.strip_prefix(&self.message) {
            self.text = format!("{message}{rest}");
        }
        self.message = message;
    }
}

impl fmt::Display for TemplateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Error of an execution: TPL-001 to TPL-008 (`blueprints.md` 10).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TemplateError {
    #[error("unknown template type {0}")]
    UnknownType(String),
    #[error("no template found in execution {executor:?}: set file or template")]
    NoTemplate { executor: String },
    #[error("the template of execution {executor:?} is not a text")]
    NoText { executor: String },
    #[error("unable to read template file {file:?} of execution {executor:?}: {cause}")]
    File { executor: String, file: String, cause: PathError },
    /// The template itself failed.
    #[error("{0}")]
    Failed(Box<TemplateReport>),
    #[error("{}{cause} (execution {executor:?})", kind.decoding())]
    Output { kind: ExecutionKind, executor: String, cause: String },
    /// The stored state of the execution is not YAML.
    #[error("unable to load state: {cause} (execution {executor:?})")]
    LoadState { executor: String, cause: String },
}

impl TemplateError {
    /// Returns the report, if the template itself failed.
    pub fn report(&self) -> Option<&TemplateReport> {
        match self {
            Self::Failed(report) => Some(report),
            _ => None,
        }
    }

    /// Returns the place in the template, if it is known.
    pub fn excerpt(&self) -> Option<&Excerpt> {
        self.report()?.excerpt.as_ref()
    }

    /// Returns the problem alone, without lines of the template, input and name of the execution.
    pub fn words(&self) -> String {
        match self {
            Self::Failed(report) => report.message.clone(),
            Self::NoTemplate { .. } => "no template found".to_owned(),
            Self::File { cause, .. } => cause.to_string(),
            Self::Output { kind, cause, .. } => format!("{}{cause}", kind.decoding()),
            Self::LoadState { cause, .. } => format!("unable to load state: {cause}"),
            Self::UnknownType(_) | Self::NoText { .. } => self.to_string(),
        }
    }

    /// Returns the sentence without the lines of the template and the input.
    pub fn summary(&self) -> String {
        match self {
            Self::Failed(report) => report.message.clone(),
            other => other.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// Running template, as its errors show it.
#[derive(Clone, Copy)]
pub(super) struct RunningTemplate<'a> {
    /// Name of the execution.
    pub(super) executor: &'a str,
    pub(super) origin: &'a str,
    pub(super) source: &'a str,
    /// True if the source is a text with lines that can be shown, not a structure in
    /// `blueprint.yaml`.
    pub(super) has_lines: bool,
    pub(super) bindings: &'a Bindings<'a>,
    /// Permits values of bindings in messages.
    pub(super) show_values: bool,
}

/// Functions that Landscaper has removed, each with the function to call instead.
const REMOVED: [(&str, &str); 1] = [("resolve", "getResourceContent")];

/// Returns the message of a Go template's error, with a hint about a removed function.
pub(super) fn go_words(error: &groundwork_gotemplate::Error) -> String {
    let mut words = error.to_string();
    let removed = REMOVED.iter().find(|(name, _)| words.ends_with(&format!("function {name:?} not defined")));
    if let Some((name, instead)) = removed {
        let _ =
            write!(words, "; Landscaper has removed {name}: call {instead} with a reference to the resource");
    }
    words
}

impl RunningTemplate<'_> {
    /// Creates the error of a Go template: the engine's message, the template's lines and the
    /// input.
    pub(super) fn go_error(&self, error: &go::RenderError) -> TemplateError {
        let (place, error, broken) = match error {
            go::RenderError::Parse(error) => (go_words(error).len(), error, None),
            go::RenderError::Execute(error, broken) => (place_length(error), error, broken.as_ref()),
        };
        let mut message = go_words(error);
        let mut place = place;
        if error.kind() == ErrorKind::Limit {
            // Landscaper has no limits, so its format does not apply. The name of the execution
            // helps users to find it.
            let _ = write!(message, " (execution {:?})", self.executor);
            place = message.len();
        }
        let (origin, source, line, column) = match broken {
            Some(broken) => (shown_path(&broken.path), &*broken.source, broken.line, None),
            None => (self.origin, self.source, error.line(), error.column()),
        };
        let snippet = snippet(source, line, column.unwrap_or_default());
        let input = input(self.bindings);
        let text = format!("{message}\ntemplate source:\n{snippet}\ntemplate input:\n{}", lines_of(&input));
        let excerpt = Some(Excerpt::new(origin, source, line, column));
        TemplateError::Failed(Box::new(TemplateReport {
            message,
            snippet: Some(snippet),
            input,
            excerpt,
            text,
            place,
        }))
    }

    /// Creates the error for all lines of the output that print an absent value, each with its
    /// surroundings.
    ///
    /// The output may contain secrets, so the error shows only the parts of a line that the
    /// template contains literally.
    pub(super) fn no_value(&self, context: &str, output: &str) -> TemplateError {
        let lines: Vec<&str> = output.split('\n').collect();
        let literals: Vec<Literals<'_>> = self.source.lines().map(Literals::of).collect();
        let mut masked: HashMap<usize, String> = HashMap::new();
        let mut shown = |index: usize| {
            let mask =
                || if self.show_values { lines[index].to_owned() } else { mask(lines[index], &literals) };
            masked.entry(index).or_insert_with(mask).clone()
        };
        let mut message = format!("template \"{context}\" contains fields with \"no value\":");
        let mut text = format!("{message}\n");
        let mut first = None;
        let mut places =
            lines.iter().enumerate().filter_map(|(index, line)| Some((index, line.find(NO_VALUE)?)));
        for (index, column) in places.by_ref().take(MOST_PLACES) {
            let snippet = snippet_of(lines.len(), &mut shown, index + 1, column);
            let _ =
                write!(message, "{}line {}:{column}", if first.is_none() { " " } else { ", " }, index + 1);
            let _ = write!(text, "\nline {}:{column}\n{snippet}\n", index + 1);
            first.get_or_insert(snippet);
        }
        let others = places.count();
        if others > 0 {
            let _ = write!(message, ", and {others} more");
        }
        let input = input(self.bindings);
        let _ = write!(text, "\ntemplate input:\n{}", lines_of(&input));
        let place = message.len();
        let report = TemplateReport { message, snippet: first, input, excerpt: None, text, place };
        TemplateError::Failed(Box::new(report))
    }

    /// Creates the error for an output that is not YAML, with the lines of the output and of the
    /// template around the place, and the name of the item there.
    ///
    /// The lines are masked as in [`RunningTemplate::no_value`].
    pub(super) fn no_yaml(&self, kind: ExecutionKind, error: &yaml::Error, output: &str) -> TemplateError {
        let lines: Vec<&str> = output.split('\n').collect();
        let literals: Vec<Literals<'_>> = self.source.lines().map(Literals::of).collect();
        let mut shown = |index: usize| match self.show_values {
            true => lines[index].to_owned(),
            false => mask(lines[index], &literals),
        };
        let at = error.position();
        let line = at.line.clamp(1, lines.len());
        let item = (0..line).rev().find_map(|index| {
            let name = shown(index).trim_start().strip_prefix("- name:")?.trim().to_owned();
            (!name.is_empty()).then(|| format!(", item {name}"))
        });
        let message =
            format!("{}{error} (execution {:?}{})", kind.decoding(), self.executor, item.unwrap_or_default());
        let rendered = snippet_of(lines.len(), &mut shown, line, at.column.saturating_sub(1));
        // A line without literal text fits everywhere, and says nothing.
        let origin = made_by(lines[line - 1], &literals).filter(|made| made.literal > 0);
        let origin = origin.map(|made| made.index + 1);
        let source = origin.map(|line| format!("\ntemplate source:\n{}", snippet(self.source, line, 0)));
        let excerpt = origin.map(|line| Excerpt::new(self.origin, self.source, line, None));
        let input = input(self.bindings);
        let text = format!(
            "{message}\nrendered template:\n{rendered}{}\ntemplate input:\n{}",
            source.unwrap_or_default(),
            lines_of(&input)
        );
        let (snippet, place) = (Some(rendered), message.len());
        TemplateError::Failed(Box::new(TemplateReport { message, snippet, input, excerpt, text, place }))
    }

    /// Creates the error of a Spiff template: the report of unresolved nodes, or another message,
    /// and the input.
    pub(super) fn spiff_error(&self, error: &SpiffError) -> TemplateError {
        let position = spiff_position(error).filter(|_| self.has_lines);
        let message = match error {
            SpiffError::Limit { limit, .. } => {
                let line = position.map(|(line, _)| format!(", line {line}")).unwrap_or_default();
                format!("{limit} (execution {:?}{line})", self.executor)
            }
            other => spiff_words(other),
        };
        let input = input(self.bindings);
        let text = format!("{message}\ntemplate input:\n{}", lines_of(&input));
        let excerpt = position.map(|(line, column)| {
            // Columns of Spiff are already in characters.
            let shown = self.source.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
            Excerpt { origin: self.origin.to_owned(), line, column: Some(column), text: shown }
        });
        let place = if matches!(error, SpiffError::Limit { .. }) { message.len() } else { 0 };
        let report = TemplateReport { message, snippet: None, input, excerpt, text, place };
        TemplateError::Failed(Box::new(report))
    }
}

/// Returns the message of Spiff, or Landscaper's own message if it has one.
pub(super) fn spiff_words(error: &SpiffError) -> String {
    match error {
        SpiffError::SeveralDocuments(_) => "multi document not possible".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the position of the first unresolved node, or of the node that reached a limit.
fn spiff_position(error: &SpiffError) -> Option<(usize, usize)> {
    let (line, column) = match error {
        SpiffError::Unresolved(report) => {
            report.nodes.iter().find(|node| node.source() == TEMPLATE)?.position()?
        }
        SpiffError::Limit { at: Some(at), .. } if *at.source == *TEMPLATE => (at.line, at.column),
        _ => return None,
    };
    Some((usize::try_from(line).ok()?, usize::try_from(column).ok()?))
}

/// Returns the length of an engine error's prefix without values: the position, and `error calling
/// NAME: ` at its start. After that, functions such as `fail` insert values.
fn place_length(error: &groundwork_gotemplate::Error) -> usize {
    let (message, problem) = (error.to_string(), error.message());
    if matches!(error.kind(), ErrorKind::Limit | ErrorKind::Denied) {
        return message.len();
    }
    let call = problem.strip_prefix("error calling ").and_then(|rest| rest.split_once(": "));
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let problem = call.filter(|(name, _)| is_name(name)).map_or(problem, |(_, problem)| problem);
    message.len() - problem.len()
}

/// Returns the literal parts of an output line, with marks for the rest.
fn mask(line: &str, template: &[Literals<'_>]) -> String {
    made_by(line, template).map_or_else(|| rest_of(line).to_owned(), |made| made.shown)
}

/// Line of a template that can make a line of the output.
struct Made {
    /// Index of the template's line.
    index: usize,
    /// Bytes of the output line that stand in the template.
    literal: usize,
    /// Output line with marks for the rest.
    shown: String,
}

/// Returns the line of the template that has most in common with an output line.
fn made_by(line: &str, template: &[Literals<'_>]) -> Option<Made> {
    let lines = || template.iter().enumerate();
    let whole = lines().filter_map(|(index, literals)| {
        literals.mask(line).map(|(literal, shown)| Made { index, literal, shown })
    });
    // A line with conditions has literals of which only some are in the output, but it always
    // begins with the first.
    let begun = lines().filter_map(|(index, literals)| literals.begin(line, index));
    let rank = |made: &Made| std::cmp::Reverse(made.literal);
    // The first of equal ones is chosen: a whole line, from the top of the template.
    whole.chain(begun).min_by_key(rank)
}

/// Returns the mark that replaces a generated text.
fn rest_of(made: &str) -> &'static str {
    match made {
        "" => "",
        made if made.contains(NO_VALUE) => NO_VALUE,
        _ => REDACTED,
    }
}

/// Literal texts between the actions of a template line.
struct Literals<'a>(Vec<&'a str>);

impl<'a> Literals<'a> {
    fn of(line: &'a str) -> Self {
        let mut literals = Vec::new();
        let mut rest = line;
        while let Some((literal, after)) = rest.split_once("{{") {
            literals.push(if after.starts_with("- ") { literal.trim_end() } else { literal });
            let Some((action, after)) = after.split_once("}}") else {
                rest = "";
                break;
            };
            rest = if action.ends_with(" -") { after.trim_start() } else { after };
        }
        literals.push(rest);
        Self(literals)
    }

    /// Returns the line with everything masked after the first literal, if it begins with that.
    fn begin(&self, line: &str, index: usize) -> Option<Made> {
        let first = self.0.first().filter(|first| !first.trim().is_empty())?;
        let rest = line.strip_prefix(first)?;
        Some(Made { index, literal: first.len(), shown: format!("{first}{}", rest_of(rest)) })
    }

    /// Returns the number of literal bytes of a line, and the masked line, if this line of the
    /// template can produce it.
    fn mask(&self, line: &str) -> Option<(usize, String)> {
        let (first, others) = self.0.split_first()?;
        let mut rest = line.strip_prefix(first)?;
        let mut shown = (*first).to_owned();
        let mut literal = first.len();
        for (index, text) in others.iter().enumerate() {
            let is_last = index + 1 == others.len();
            let at =
                if is_last { rest.ends_with(text).then(|| rest.len() - text.len()) } else { rest.find(text) };
            let at = at?;
            shown += rest_of(&rest[..at]);
            shown += text;
            literal += text.len();
            rest = &rest[at + text.len()..];
        }
        rest.is_empty().then_some((literal, shown))
    }
}

/// Returns the numbered lines around a place, up to five before and after, with a mark under the
/// column.
pub(crate) fn snippet(source: &str, line: usize, column: usize) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    snippet_of(lines.len(), &mut |index| lines[index].to_owned(), line, column)
}

/// Returns the excerpt of [`snippet`] for a text of `lines` lines; `shown_line` returns a line by
/// its number from 0.
fn snippet_of(
    lines: usize,
    shown_line: &mut dyn FnMut(usize) -> String,
    line: usize,
    column: usize,
) -> String {
    let line = line.clamp(1, lines);
    let first = line.saturating_sub(LINES_AROUND).max(1);
    let last = (line + LINES_AROUND).min(lines);
    let mut shown = Vec::new();
    for number in first..=last {
        let prefix = format!("{:<PREFIX_WIDTH$}", format!("{number}:"));
        shown.push(format!("{prefix}{}", shown_line(number - 1)));
        if number == line {
            shown.push(format!("{}{MARKER}", " ".repeat(prefix.len() + column)));
        }
    }
    shown.join("\n")
}

/// Formats each binding on one line. Leaves of sensitive ones show their type only.
fn input(bindings: &Bindings<'_>) -> BTreeMap<String, String> {
    let shown = |(name, value): (&'static str, Bound<'_>)| {
        let value = value.to_value();
        let json = if is_sensitive(name) { redact(&value, 0).to_string() } else { value.to_string() };
        let text = as_go_writes(&json);
        (name.to_owned(), if text.len() > LONGEST_INPUT { compressed(&text) } else { text })
    };
    bindings.iter().map(shown).collect()
}

/// Escapes JSON as Go does for HTML. These characters occur only in strings.
fn as_go_writes(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            other => text.push(other),
        }
    }
    text
}

fn lines_of(input: &BTreeMap<String, String>) -> String {
    input.iter().map(|(name, text)| format!("\t{name}: {text}\n")).collect()
}

fn compressed(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let bytes = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    let bytes = bytes.expect("writing to a vector does not fail");
    format!(">gzip>base64> {}", BASE64.encode(&bytes))
}

fn redact(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(members) if depth < DEEPEST_INPUT => Value::Object(
            members.iter().map(|(key, value)| (key.clone(), redact(value, depth + 1))).collect(),
        ),
        leaf => Value::from(format!("{REDACTED} ({})", type_name(leaf))),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
