//! Helper of the unit tests: runs tables of templates, data, and expected output or error text.

use std::sync::Arc;

use crate::functions::Functions;
use crate::options::{MissingKey, Options};
use crate::template::Template;
use crate::value::Value;

/// Renders a template with the built-in functions. Returns its output, or its error without the
/// prefix `template: t:`.
pub(crate) fn run(source: &str, data: &serde_json::Value, missing_key: MissingKey) -> String {
    let options = Options { missing_key, ..Options::default() };
    let template = Template::parse("t", source, &Arc::new(Functions::sprig()), &options);
    let rendered = template.and_then(|template| template.render(Value::from_json(data, options.numbers)));
    match rendered {
        Ok(bytes) => crate::text::lossy(&bytes).into_owned(),
        Err(error) => error.to_string().replacen("template: t:", "error ", 1),
    }
}

/// Runs a table of templates and expected results without data.
pub(crate) fn check_all(table: &[(&str, &str)]) {
    for (source, expected) in table {
        assert_eq!(run(source, &serde_json::Value::Null, MissingKey::Default), *expected, "{source}");
    }
}
