//! spiff++ templates, one per line.

use std::time::SystemTime;

use anyhow::Result;
use groundwork_budget::TemplateLimits;
use groundwork_spiff::{Clock, Document, Engine, Error, Features, Output, Randomness, Value};
use serde::{Deserialize, Serialize};

use crate::lines::{answer_lines, parse};

/// Name of a document if its line gives no `source`.
const DEFAULT_SOURCE: &str = "template";

/// One line of the input. A null member counts as missing.
#[derive(Debug, Deserialize)]
struct Case {
    name: Option<String>,
    kind: Option<Kind>,
    template: String,
    stubs: Option<Vec<String>>,
    features: Option<Vec<Feature>>,
    bindings: Option<serde_json::Map<String, serde_json::Value>>,
    source: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Feature {
    Control,
    Interpolation,
}

/// Treatment of the stubs: `flow` uses them as they are, `cascade` evaluates them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Flow,
    Cascade,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Output { name: Option<String>, output: String },
    Failure { name: Option<String>, error: String },
}

pub(crate) fn run(limits: TemplateLimits) -> Result<()> {
    answer_lines(|line| answer(line, limits))
}

fn answer(line: &[u8], limits: TemplateLimits) -> Answer {
    let case: Case = match parse(line) {
        Ok(case) => case,
        Err(error) => return Answer::Failure { name: None, error: error.to_string() },
    };
    let name = case.name.clone();
    match answer_case(&case, limits) {
        Ok(output) => Answer::Output { name, output: output.to_yaml() },
        Err(error) => Answer::Failure { name, error: error.to_string() },
    }
}

fn engine(features: &[Feature], limits: TemplateLimits) -> Engine {
    let has = |feature| features.contains(&feature);
    let features = Features { control: has(Feature::Control), interpolation: has(Feature::Interpolation) };
    let random = |buffer: &mut [u8]| getrandom::fill(buffer).map_err(|error| error.to_string());
    Engine::new()
        .with_limits(limits.into())
        .with_features(features)
        .with_randomness(Randomness::new(random))
        .with_clock(Clock::new(SystemTime::now))
}

fn answer_case(case: &Case, limits: TemplateLimits) -> Result<Output, Error> {
    let engine = engine(case.features.as_deref().unwrap_or_default(), limits);
    let source = case.source.as_deref().unwrap_or(DEFAULT_SOURCE);
    let read = |text: &String| Document::read(text, source, engine.limits());
    let template = read(&case.template)?;
    let stubs = case.stubs.iter().flatten().map(read).collect::<Result<Vec<_>, _>>()?;
    let bindings = case.bindings.clone().map(serde_json::Value::Object);
    let bindings = bindings.as_ref().map(Value::from_bindings);
    match case.kind.unwrap_or(Kind::Cascade) {
        Kind::Flow => engine.flow(&template, &stubs, bindings.as_ref()),
        Kind::Cascade => engine.cascade(&template, &stubs, bindings.as_ref()),
    }
}
