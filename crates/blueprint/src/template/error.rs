//! Errors of template executions, with the lines they are about (`blueprints.md` 5.6, 5.7).

use std::fmt::Write as _;
use std::io::Write as _;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};

use super::NO_VALUE;
use crate::filesystem::PathError;
use crate::redaction::{REDACTED, Redaction};

const LINES_AROUND: usize = 5;
/// Width of line number, colon and padding.
const PREFIX_WIDTH: usize = 6;
const MARKER: &str = "\u{2c6}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}";
/// Structure below this depth is not shown.
const DEEPEST_INPUT: usize = 10;
/// Longer bindings are compressed; a reader of a condition has no use for them.
const LONGEST_INPUT: usize = 512;
/// Bindings whose values must not be seen (`blueprints.md` 5.7).
const SENSITIVE: [&str; 6] = ["imports", "values", "state", "deployitems", "dataobjects", "targets"];

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

/// Why an execution gave no result. TPL-001 to TPL-007.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TemplateError {
    #[error("unknown template type {0}")]
    UnknownType(String),
    #[error("no template found in execution {executor:?}: set file or template")]
    NoTemplate { executor: String },
    #[error(
        "execution {executor:?} is a Spiff template, which this version cannot run; write it as GoTemplate"
    )]
    SpiffNotSupported { executor: String },
    #[error("the template of execution {executor:?} is not a text")]
    NoText { executor: String },
    #[error("unable to read template file {file:?} of execution {executor:?}: {cause}")]
    File { executor: String, file: String, cause: PathError },
    /// The message of the engine with the template's lines and the redacted input.
    #[error("{report}")]
    GoTemplate { message: String, report: String, excerpt: Excerpt },
    #[error("{0}")]
    NoValue(String),
    #[error("error while decoding templated execution: {cause} (execution {executor:?})")]
    Output { executor: String, cause: String },
}

impl TemplateError {
    /// The place in the template, where it is known.
    pub fn excerpt(&self) -> Option<&Excerpt> {
        match self {
            Self::GoTemplate { excerpt, .. } => Some(excerpt),
            _ => None,
        }
    }

    /// The sentence without the lines of the template and the input.
    pub fn summary(&self) -> String {
        match self {
            Self::GoTemplate { message, .. } => message.clone(),
            other => other.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// The engine's message followed by the template's lines and the input.
pub(super) fn enrich(
    message: &str,
    (line, column): (usize, usize),
    source: &str,
    bindings: &Map<String, Value>,
) -> String {
    let snippet = snippet(source, line, column);
    format!("{message}\ntemplate source:\n{snippet}\ntemplate input:\n{}", input(bindings))
}

/// An engine's error without the values of sensitive bindings: functions such as `fail` put them there.
///
/// What leads to the problem (positions, text of the template) holds none, and stays readable.
pub(super) fn without_values(
    error: &groundwork_gotemplate::Error,
    source: &str,
    bindings: &Map<String, Value>,
) -> String {
    let message = error.to_string();
    let place = message.strip_suffix(error.message()).unwrap_or_default().len();
    let (place, problem) = message.split_at(place + call_length(error.message()));
    let sensitive = SENSITIVE.iter().filter_map(|name| bindings.get(*name));
    format!("{place}{}", Redaction::of(sensitive, source).apply(problem))
}

/// The length of `error calling NAME: ` at the begin of a problem.
fn call_length(problem: &str) -> usize {
    let call = problem.strip_prefix("error calling ").and_then(|rest| rest.split_once(": "));
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    call.filter(|(name, _)| is_name(name))
        .map_or(0, |(_, problem_of_function)| problem.len() - problem_of_function.len())
}

/// All lines of the output that print an absent value, each with its surroundings.
///
/// The output may hold secrets, so of each line only what the template itself says is shown.
pub(super) fn no_value(context: &str, output: &str, source: &str, bindings: &Map<String, Value>) -> String {
    let masked: Vec<String> = output.split('\n').map(|line| mask(line, source)).collect();
    let masked = masked.join("\n");
    let mut text = format!("template \"{context}\" contains fields with \"no value\":\n");
    for (index, line) in output.split('\n').enumerate() {
        if let Some(column) = line.find(NO_VALUE) {
            let _ = write!(text, "\nline {}:{column}\n{}\n", index + 1, snippet(&masked, index + 1, column));
        }
    }
    let _ = write!(text, "\ntemplate input:\n{}", input(bindings));
    text
}

/// The part of an output line that stands in the template literally, and the mark of an absent value.
fn mask(line: &str, source: &str) -> String {
    let literal = |source_line: &str| source_line.find("{{").unwrap_or(source_line.len());
    if source.lines().any(|source_line| source_line == line) {
        return line.to_owned();
    }
    let prefix = source
        .lines()
        .map(|source_line| &source_line[..literal(source_line)])
        .filter(|prefix| line.starts_with(prefix))
        .max_by_key(|prefix| prefix.len())
        .unwrap_or_default();
    let rest = &line[prefix.len()..];
    let shown = match rest {
        "" => "",
        rest if rest.contains(NO_VALUE) => NO_VALUE,
        _ => REDACTED,
    };
    format!("{prefix}{shown}")
}

/// Up to five lines before and after, numbered, with a mark under the column.
pub(crate) fn snippet(source: &str, line: usize, column: usize) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    let line = line.clamp(1, lines.len());
    let first = line.saturating_sub(LINES_AROUND).max(1);
    let last = (line + LINES_AROUND).min(lines.len());
    let mut shown = Vec::new();
    for number in first..=last {
        let prefix = format!("{:<PREFIX_WIDTH$}", format!("{number}:"));
        shown.push(format!("{prefix}{}", lines[number - 1]));
        if number == line {
            shown.push(format!("{}{MARKER}", " ".repeat(prefix.len() + column)));
        }
    }
    shown.join("\n")
}

/// One line a binding; leaves of sensitive ones show their type only.
fn input(bindings: &Map<String, Value>) -> String {
    let line = |(name, value): (&String, &Value)| {
        let text =
            if SENSITIVE.contains(&name.as_str()) { redact(value, 0).to_string() } else { value.to_string() };
        let shown = if text.len() > LONGEST_INPUT { compressed(&text) } else { text };
        format!("\t{name}: {shown}\n")
    };
    bindings.iter().map(line).collect()
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
