//! A merge from texts to a text, for tests that look at the engine from outside.

use groundwork_spiff::{Document, Engine, Value};

/// The document as YAML, or the report.
pub(crate) fn run(engine: &Engine, template: &str, stubs: &[&str]) -> String {
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    let stubs: Vec<_> = stubs.iter().map(|stub| read(stub)).collect();
    match engine.cascade(&read(template), &stubs, None) {
        Ok(output) => output.to_yaml(),
        Err(error) => error.to_string(),
    }
}

/// What a YAML text stands for.
pub(crate) fn value(yaml: &str) -> serde_json::Value {
    let document = Document::read(yaml, "wanted", Engine::new().limits()).unwrap();
    Value::to_json(document.value())
}
