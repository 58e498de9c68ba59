//! Validation against values.schema.json (`helm.md` 5).

use std::sync::{Arc, Mutex};

use groundwork_schema::{PLACE, Schema, bundle};
use serde_json::{Number, Value};

use crate::chart::{Chart, Holding};
use crate::error::RenderError;
use crate::values::Table;

/// Dialect of schemas that do not name one.
const DEFAULT_DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// Names of the newest dialect, whichever it is.
const NEWEST: [&str; 2] = ["http://json-schema.org/schema", "https://json-schema.org/schema"];

mod cache;

use cache::Held;

/// Cache of compiled schemas by their source bytes.
#[derive(Debug, Default)]
pub(crate) struct Schemas(Mutex<Vec<Known>>);

type Known = (Arc<[u8]>, Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    schema: Result<Schema, String>,
    warnings: Vec<String>,
}

/// Checks the values of a chart, then those of its subcharts.
pub(crate) fn check(
    schemas: &Schemas,
    chart: &Chart,
    values: &Table,
    warnings: &mut Vec<String>,
) -> Result<(), RenderError> {
    let mut complaints = String::new();
    check_tree(schemas, chart, values, &mut complaints, warnings);
    if complaints.is_empty() { Ok(()) } else { Err(RenderError::Schema(complaints)) }
}

fn check_tree(
    schemas: &Schemas,
    chart: &Chart,
    values: &Table,
    complaints: &mut String,
    warnings: &mut Vec<String>,
) {
    if let Some(bytes) = &chart.schema {
        let compiled = schemas.get(bytes, &chart.holdings);
        warnings.extend(compiled.warnings.iter().cloned());
        if let Some(complaint) = compiled.complaint(values) {
            complaints.push_str(&format!("{}:\n{complaint}", chart.name()));
        }
    }
    for sub in &chart.charts {
        match values.get(sub.name()) {
            Some(Value::Object(inner)) => check_tree(schemas, sub, inner, complaints, warnings),
            None | Some(Value::Null) => {}
            Some(_) => complaints
                .push_str(&format!("{}:\ninvalid type for values: expected object (map)\n", sub.name())),
        }
    }
}

impl Schemas {
    fn get(&self, bytes: &Arc<[u8]>, holdings: &[Holding]) -> Arc<Compiled> {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, compiled)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, bytes)) {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(Compiled::new(bytes, holdings));
        known.push((Arc::clone(bytes), Arc::clone(&compiled)));
        compiled
    }
}

impl Compiled {
    fn new(bytes: &[u8], holdings: &[Holding]) -> Compiled {
        let mut warnings = Vec::new();
        let schema = compile(bytes, holdings, &mut warnings);
        Compiled { schema, warnings }
    }

    /// Returns the faults of the values, as Helm words them.
    fn complaint(&self, values: &Table) -> Option<String> {
        let schema = match &self.schema {
            Ok(schema) => schema,
            Err(problem) => return Some(problem.clone()),
        };
        let findings = schema.findings(&integral(Value::Object(values.clone())));
        if findings.is_empty() {
            return None;
        }
        let mut lines = String::new();
        findings.iter().for_each(|finding| finding.write(&mut lines, 0));
        Some(format!("{lines}\n"))
    }
}

fn compile(bytes: &[u8], holdings: &[Holding], warnings: &mut Vec<String>) -> Result<Schema, String> {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        // Go's decoder reports an empty text in this way.
        return Err("EOF".to_owned());
    }
    let document: Value = serde_json::from_str(&text).map_err(|error| json_problem(&text, &error))?;
    let document = with_known_dialect(document);
    let mut held = Held::new(holdings);
    let bundled = bundle(document, DEFAULT_DIALECT, &mut |address| held.find(address));
    let bundled = bundled.map_err(|error| error.to_string())?;
    warnings.extend(bundled.warnings);
    Schema::compile_with(bundled.document, bundled.dialect, bundled.formats)
        .map_err(|error| format!("\"{PLACE}#\" is not valid against metaschema: {error}"))
}

fn with_known_dialect(mut document: Value) -> Value {
    if let Some(newest) = document.get_mut("$schema")
        && newest.as_str().is_some_and(|uri| NEWEST.contains(&uri.trim_end_matches('#')))
    {
        *newest = DEFAULT_DIALECT.into();
    }
    document
}

/// Returns the error of Go's decoder about a text that is not JSON, as far as it can be derived.
fn json_problem(text: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected EOF".to_owned();
    }
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = line.get(error.column().saturating_sub(1)..).and_then(|rest| rest.chars().next());
    let place = if error.to_string().contains("trailing characters") {
        "after top-level value"
    } else {
        "looking for beginning of value"
    };
    found.map_or_else(|| error.to_string(), |c| format!("invalid character {c:?} {place}"))
}

/// Converts whole numbers to integers: 1.0 is an integer in every draft.
fn integral(value: Value) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => Value::Number(match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
                Number::from(float as i64)
            }
            _ => number,
        }),
        Value::Array(items) => Value::Array(items.into_iter().map(integral).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, integral(value))).collect())
        }
        other => other,
    }
}
