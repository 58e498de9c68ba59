//! Go templates, one per line.

use std::sync::Arc;

use anyhow::Result;
use groundwork_budget::TemplateLimits;
use groundwork_gotemplate::{
    Delimiters, Error, ErrorKind, Functions, Limits, MissingKey, NumberMode, Options, Template, Value,
};
use serde::{Deserialize, Serialize};

use crate::grants::{TIME_LIMIT, deadline, grants};
use crate::lines::{answer_lines, parse};

/// Name of a template if its line gives none.
const DEFAULT_NAME: &str = "t";

/// One line of the input. A null member counts as missing, and so does an empty text for a choice.
#[derive(Debug, Deserialize)]
struct Case {
    name: Option<String>,
    template: String,
    #[serde(default)]
    data: serde_json::Value,
    missingkey: Option<MissingKeyName>,
    numbers: Option<Numbers>,
    left: Option<String>,
    right: Option<String>,
    extra: Option<Vec<Extra>>,
    execute: Option<String>,
    sprig: Option<bool>,
}

/// Behaviour of a template for a key that the map does not have.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MissingKeyName {
    #[serde(alias = "invalid", alias = "")]
    Default,
    Zero,
    Error,
}

impl From<MissingKeyName> for MissingKey {
    fn from(name: MissingKeyName) -> MissingKey {
        match name {
            MissingKeyName::Default => MissingKey::Default,
            MissingKeyName::Zero => MissingKey::Zero,
            MissingKeyName::Error => MissingKey::Error,
        }
    }
}

/// Source that is parsed into the same template set before the main one.
#[derive(Debug, Deserialize)]
struct Extra {
    name: String,
    template: String,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Numbers {
    #[default]
    #[serde(alias = "float64", alias = "")]
    Float,
    Int64,
    Int,
    Data,
}

impl From<Numbers> for NumberMode {
    fn from(numbers: Numbers) -> NumberMode {
        match numbers {
            Numbers::Float => NumberMode::Float64,
            Numbers::Int64 => NumberMode::Int64,
            Numbers::Int => NumberMode::Int,
            Numbers::Data => NumberMode::Data,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Output { name: String, output: String },
    Failure { name: Option<String>, error: String, phase: &'static str },
}

pub(crate) fn run(limits: TemplateLimits) -> Result<()> {
    let engine = Engine::new(limits);
    answer_lines(|line| engine.answer(line))
}

/// Function sets, created once for all lines.
struct Engine {
    builtins: Arc<Functions>,
    sprig: Arc<Functions>,
    limits: TemplateLimits,
}

impl Engine {
    fn new(limits: TemplateLimits) -> Engine {
        Engine { builtins: Arc::new(Functions::builtins()), sprig: Arc::new(Functions::sprig()), limits }
    }

    fn answer(&self, line: &[u8]) -> Answer {
        let case: Case = match parse(line) {
            Ok(case) => case,
            Err(error) => return Answer::Failure { name: None, error: error.to_string(), phase: "input" },
        };
        let name = case.name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned());
        match self.render(&name, case) {
            Ok(bytes) => Answer::Output { name, output: text(&bytes) },
            Err(error) => {
                let phase = if error.kind() == ErrorKind::Parse { "parse" } else { "exec" };
                Answer::Failure { name: Some(name), error: error.to_string(), phase }
            }
        }
    }

    fn render(&self, name: &str, case: Case) -> Result<Vec<u8>, Error> {
        let functions = if case.sprig.unwrap_or(true) { &self.sprig } else { &self.builtins };
        let options = Options {
            numbers: case.numbers.unwrap_or_default().into(),
            delimiters: Delimiters {
                left: case.left.unwrap_or_default(),
                right: case.right.unwrap_or_default(),
            },
            missing_key: case.missingkey.unwrap_or(MissingKeyName::Default).into(),
            limits: Limits { deadline: Some(deadline(TIME_LIMIT)), ..self.limits.into() },
            grants: grants(),
        };
        let mut set: Option<Template> = None;
        let main = Extra { name: name.to_owned(), template: case.template };
        for source in case.extra.iter().flatten().chain([&main]) {
            set = Some(match &set {
                None => Template::parse(&source.name, &source.template, functions, &options)?,
                Some(set) => set.parse_associated(&source.name, &source.template)?,
            });
        }
        let data = Value::from_json(&case.data, options.numbers);
        match (set, case.execute.filter(|name| !name.is_empty())) {
            (Some(set), Some(execute)) => set.render_named(&execute, data),
            (Some(set), None) => set.render(data),
            (None, _) => Ok(Vec::new()),
        }
    }
}

/// Decodes bytes as UTF-8, with U+FFFD for each byte that is not part of a character.
fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::with_capacity(bytes.len()), |mut text, chunk| {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        text
    })
}
