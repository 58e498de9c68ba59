//! Errors of template executions, with the lines they are about (`blueprints.md` 5.6, 5.7).

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::io::Write as _;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_gotemplate::ErrorKind;
use groundwork_spiff::Error as SpiffError;
use serde_json::Value;

use super::ExecutionKind;
use super::go;
use super::spiff::TEMPLATE;
use crate::bindings::{Bindings, Bound, is_sensitive};
use crate::filesystem::{PathError, shown_path};
use crate::redaction::REDACTED;

/// What an absent value prints.
pub(super) const NO_VALUE: &str = "<no value>";

const LINES_AROUND: usize = 5;
/// Places of absent values that are told one by one.
const MOST_PLACES: usize = 1_000;
/// Width of line number, colon and padding.
const PREFIX_WIDTH: usize = 6;
const MARKER: &str = "\u{2c6}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}";
/// Structure below this depth is not shown.
const DEEPEST_INPUT: usize = 10;
/// Longer bindings are compressed; a reader of a condition has no use for them.
const LONGEST_INPUT: usize = 512;
/// A place in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// File of the blueprint, or the member of `blueprint.yaml` that holds the template.
    pub origin: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters; absent when only the line is known.
    pub column: Option<usize>,
    /// The text of the line.
    pub text: String,
}

impl Excerpt {
    /// `column` is a byte offset in the line; lines beyond the end are taken for the last one.
    pub(super) fn new(origin: &str, source: &str, line: usize, column: Option<usize>) -> Self {
        let lines: Vec<&str> = source.lines().collect();
        let line = line.clamp(1, lines.len().max(1));
        let text = lines.get(line - 1).copied().unwrap_or_default();
        let column =
            column.map(|column| text.get(..column).map_or(column, |before| before.chars().count()) + 1);
        Self { origin: origin.to_owned(), line, column, text: text.to_owned() }
    }
}

/// A template that failed: the message of its engine, and what people need to understand it (`blueprints.md` 5.6, 5.7, 6.2).
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateReport {
    /// The engine's own words, without values of bindings.
    pub message: String,
    /// Lines of the template, or of what it printed, around the place.
    pub snippet: Option<String>,
    /// Each binding as one line, leaves of sensitive ones as their type.
    pub input: BTreeMap<String, String>,
    /// The place in the template, where it is known.
    pub excerpt: Option<Excerpt>,
    /// All of it, as Landscaper prints it.
    text: String,
    /// Length of the begin of the message that holds no values: positions, and text of the template.
    place: usize,
}

impl TemplateReport {
    /// Where it happened, and what may hold values.
    pub(super) fn split(&self) -> (&str, &str) {
        self.message.split_at(self.place)
    }

    /// Says something else instead of what may hold values.
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

/// Why an execution gave no result. TPL-001 to TPL-008.
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
    /// What is stored for the execution is no YAML.
    #[error("unable to load state: {cause} (execution {executor:?})")]
    LoadState { executor: String, cause: String },
}

impl TemplateError {
    /// What is known of a template that failed itself.
    pub fn report(&self) -> Option<&TemplateReport> {
        match self {
            Self::Failed(report) => Some(report),
            _ => None,
        }
    }

    /// The place in the template, where it is known.
    pub fn excerpt(&self) -> Option<&Excerpt> {
        self.report()?.excerpt.as_ref()
    }

    /// What is wrong and nothing else: no lines of the template, no input, not which execution it is.
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

    /// The sentence without the lines of the template and the input.
    pub fn summary(&self) -> String {
        match self {
            Self::Failed(report) => report.message.clone(),
            other => other.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// A running template, as its errors show it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Name of the execution.
    pub(super) executor: &'a str,
    pub(super) origin: &'a str,
    pub(super) source: &'a str,
    /// Whether the source is a text that people can be shown lines of, not a structure in `blueprint.yaml`.
    pub(super) has_lines: bool,
    pub(super) bindings: &'a Bindings<'a>,
    /// Whether messages may hold values of bindings.
    pub(super) show_values: bool,
}

impl Place<'_> {
    /// The engine's message followed by the template's lines and the input.
    pub(super) fn go_error(&self, error: &go::RenderError) -> TemplateError {
        let (place, error, broken) = match error {
            go::RenderError::Parse(error) => (error.to_string().len(), error, None),
            go::RenderError::Execute(error, broken) => (place_length(error), error, broken.as_ref()),
        };
        let mut message = error.to_string();
        let mut place = place;
        if error.kind() == ErrorKind::Limit {
            // The original has no limits, so these are our words: people ask which execution it is.
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

    /// All lines of the output that print an absent value, each with its surroundings.
    ///
    /// The output may hold secrets, so of each line only what the template itself says is shown.
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

    /// The report of unresolved nodes, or another message, followed by the input.
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
            // Columns are counted in characters here already.
            let shown = self.source.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
            Excerpt { origin: self.origin.to_owned(), line, column: Some(column), text: shown }
        });
        let place = if matches!(error, SpiffError::Limit { .. }) { message.len() } else { 0 };
        let report = TemplateReport { message, snippet: None, input, excerpt, text, place };
        TemplateError::Failed(Box::new(report))
    }
}

/// The language's own words, except where the original's host has others.
pub(super) fn spiff_words(error: &SpiffError) -> String {
    match error {
        SpiffError::SeveralDocuments(_) => "multi document not possible".to_owned(),
        other => other.to_string(),
    }
}

/// Where the first unresolved node of the template stands, or the node that reached a limit.
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

/// How much of an engine's error holds no values: what leads to the problem, and `error calling NAME: ` at its begin. Functions such as
/// `fail` put values behind that.
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

/// What of an output line stands in the template literally, and marks for the rest.
fn mask(line: &str, template: &[Literals<'_>]) -> String {
    let shown = template.iter().filter_map(|literals| literals.mask(line));
    let best = shown.max_by_key(|(literal, _)| *literal).map(|(_, shown)| shown);
    best.unwrap_or_else(|| rest_of(line).to_owned())
}

/// What stands for a text that the template has made.
fn rest_of(made: &str) -> &'static str {
    match made {
        "" => "",
        made if made.contains(NO_VALUE) => NO_VALUE,
        _ => REDACTED,
    }
}

/// The texts between the actions of a line of a template.
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

    /// How much of a line is literal, and the line as it may be shown, if it can come from this line of the template.
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

/// Up to five lines before and after, numbered, with a mark under the column.
pub(crate) fn snippet(source: &str, line: usize, column: usize) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    snippet_of(lines.len(), &mut |index| lines[index].to_owned(), line, column)
}

/// The same of so many lines, each of which is asked for by its number from 0.
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

/// Each binding on one line; leaves of sensitive ones show their type only.
fn input(bindings: &Bindings<'_>) -> BTreeMap<String, String> {
    let shown = |(name, value): (&'static str, Bound<'_>)| {
        let value = value.to_value();
        let json = if is_sensitive(name) { redact(&value, 0).to_string() } else { value.to_string() };
        let text = as_go_writes(&json);
        (name.to_owned(), if text.len() > LONGEST_INPUT { compressed(&text) } else { text })
    };
    bindings.iter().map(shown).collect()
}

/// Go writes JSON so that it can stand in a page of HTML; these characters occur in strings only.
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
