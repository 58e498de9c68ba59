//! Helper for tests of the engine from outside: a merge from texts to a text.

use groundwork_spiff::{Document, Engine, Value};

/// Returns the document as YAML, or the report.
pub(crate) fn run(engine: &Engine, template: &str, stubs: &[&str]) -> String {
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    let stubs: Vec<_> = stubs.iter().map(|stub| read(stub)).collect();
    match engine.cascade(&read(template), &stubs, None) {
        Ok(output) => output.to_yaml(),
        Err(error) => error.to_string(),
    }
}

/// Parses a YAML text.
pub(crate) fn value(yaml: &str) -> serde_json::Value {
    let document = Document::read(yaml, "wanted", Engine::new().limits()).unwrap();
    Value::to_json(document.value())
}
