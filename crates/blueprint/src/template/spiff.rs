//! Engine for Spiff templates (`blueprints.md` 6).

use std::sync::Arc;
use std::time::Instant;

use groundwork_budget::{Budget, Deadline, TemplateLimits};
use groundwork_spiff::{
    Clock, Document, Engine, Error, Files, HostFunction, Limits, Output, Randomness, Value,
};

use crate::bindings::Bindings;
use crate::capabilities::Capabilities;
use crate::filesystem::Filesystem;
use crate::functions::{Argument, ClusterFunction, HostFunctions, parse_oci_reference};

/// Name of the template and of the stored state in reports.
pub(super) const TEMPLATE: &str = "template";
const STATE: &str = "stateHdl";

/// Files of a blueprint, as Spiff reads them.
#[derive(Debug)]
struct BlueprintFiles(Arc<Filesystem>);

impl Files for BlueprintFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.read(path).map(<[u8]>::to_vec).map_err(|error| error.to_string())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let entries = self.0.list(path).map_err(|error| error.to_string())?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn is_directory(&self, path: &str) -> Option<bool> {
        if self.0.list(path).is_ok() {
            return Some(true);
        }
        self.0.read(path).is_ok().then_some(false)
    }
}

/// Creates an engine for executions, with the blueprint's files, its functions, and the granted
/// capabilities.
pub(super) fn engine(
    functions: &HostFunctions,
    capabilities: &Capabilities,
    budget: &Budget,
    show_values: bool,
) -> Engine {
    let mut engine =
        limited(capabilities.limits).with_files(Arc::new(BlueprintFiles(Arc::clone(&functions.files))));
    if !show_values {
        engine = engine.with_redaction();
    }
    if let Some(randomness) = capabilities.randomness.clone() {
        engine = engine.with_randomness(Randomness::new(move |buffer| randomness(buffer)));
    }
    if let Some(clock) = capabilities.clock.clone() {
        engine = engine.with_clock(Clock::new(move || clock()));
    }
    engine = engine.with_budget(budget.clone());
    if let Some(deadline) = capabilities.deadline {
        engine = engine.with_deadline(Deadline::new(move || Instant::now() >= deadline));
    }
    add_functions(engine, functions)
}

/// Creates an engine for data mappings, without files, randomness and clock (`blueprints.md` 3.4).
pub(crate) fn mapping_engine(limits: TemplateLimits) -> Engine {
    limited(limits).with_redaction()
}

fn limited(limits: TemplateLimits) -> Engine {
    Engine::new().with_limits(limits.into())
}

/// Parses the template of an execution.
pub(super) fn read(engine: &Engine, text: &str) -> Result<Document, Error> {
    Document::read(text, TEMPLATE, engine.limits())
}

/// Parses the stored state of an execution.
pub(super) fn read_state(engine: &Engine, text: &str) -> Result<Document, Error> {
    Document::read(text, STATE, engine.limits())
}

/// Formats the state for the next run.
pub(super) fn write_state(state: &Value) -> String {
    Document::from_value(state.clone()).to_yaml()
}

/// Evaluates a template, with the stored state as its only stub.
pub(super) fn evaluate(
    engine: &Engine,
    template: &Document,
    state: Option<&Document>,
    bindings: &Bindings<'_>,
) -> Result<Output, Error> {
    let stubs = state.map(std::slice::from_ref).unwrap_or_default();
    engine.cascade(template, stubs, Some(&bindings.to_spiff()))
}

fn add_functions(engine: Engine, functions: &HostFunctions) -> Engine {
    let shared = Arc::new(functions.clone());
    let host = |function: fn(&HostFunctions, &[Value]) -> Result<Value, String>| {
        let shared = Arc::clone(&shared);
        HostFunction::new(move |arguments| function(&shared, arguments))
    };
    let mut engine = engine
        .with_function(
            "getResource",
            host(|host, given| Ok(Value::from_json(&host.resource(arguments(given))?))),
        )
        .with_function(
            "getComponent",
            host(|host, given| Ok(Value::from_json(&host.component(arguments(given))?))),
        )
        .with_function(
            "getResourceKey",
            host(|host, given| Ok(Value::string(host.resource_key(references(given))?))),
        )
        .with_function("getResourceContent", host(content))
        .with_function(
            "parseOCIRef",
            host(|_, given| Ok(Value::list(oci_reference(given)?.into_iter().map(Value::string)))),
        )
        .with_function("ociRefRepo", host(|_, given| Ok(Value::string(oci_reference(given)?[0].as_str()))))
        .with_function(
            "ociRefVersion",
            host(|_, given| Ok(Value::string(oci_reference(given)?[1].as_str()))),
        );
    for function in ClusterFunction::ALL {
        let kubeconfigs = functions.kubeconfigs.clone();
        let call = move |given: &[Value]| {
            let answer = function.call(&arguments(given), &kubeconfigs)?;
            Ok(Value::from_json(&answer))
        };
        engine = engine.with_function(function.name(), HostFunction::new(call));
    }
    engine
}

/// Returns the content, parsed as YAML even if it is plain text.
fn content(host: &HostFunctions, given: &[Value]) -> Result<Value, String> {
    let text = host.resource_content(references(given))?;
    let document =
        Document::read(&text, "resource", &Limits::default()).map_err(|error| error.to_string())?;
    Ok(document.value().clone())
}

fn oci_reference(given: &[Value]) -> Result<[String; 2], String> {
    match arguments(given).as_slice() {
        [Argument::Text(reference)] => parse_oci_reference(reference),
        [_] => Err("Invalid argument: string expected".to_owned()),
        [] => Err("parseOCIReference expects an OCI reference as its argument.".to_owned()),
        _ => Err("Too many arguments for parseOCIReference. Expected 1 reference.".to_owned()),
    }
}

/// Converts arguments. A reference to a resource may be a structure, so every argument that is not
/// a text counts as one.
fn references(given: &[Value]) -> Vec<Argument> {
    let argument = |value: &Value| match value {
        Value::String(text) => Argument::Text(text.to_string()),
        structure => Argument::Text(structure.to_json().to_string()),
    };
    given.iter().map(argument).collect()
}

fn arguments(given: &[Value]) -> Vec<Argument> {
    let other = |name: &str| Argument::Other(name.to_owned());
    let argument = |value: &Value| match value {
        Value::String(text) => Argument::Text(text.to_string()),
        Value::Map(_) => match value.to_json() {
            serde_json::Value::Object(members) => Argument::Map(members),
            _ => other("map"),
        },
        Value::Int(number) | Value::Data(number) => Argument::Number(*number),
        // Go's conversion drops the fraction too.
        Value::Float(number) => Argument::Number(*number as i64),
        Value::Nil => other("<nil>"),
        Value::Bool(_) => other("bool"),
        Value::List(_) => other("[]interface {}"),
        _ => other("an expression"),
    };
    given.iter().map(argument).collect()
}
