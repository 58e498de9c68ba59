//! values.schema.json (`helm.md` 5).

use std::sync::{Arc, Mutex};

use groundwork_schema::{Dialect, Formats, Schema};
use serde_json::{Number, Value};

use crate::chart::Chart;
use crate::error::RenderError;
use crate::values::Table;

/// The dialect of schemas that name none.
const DEFAULT_DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// What is meant by the newest dialect, whatever that is.
const NEWEST: [&str; 2] = ["http://json-schema.org/schema", "https://json-schema.org/schema"];
/// Where the schema of a chart is, for the names in errors.
const PLACE: &str = "file:///values.schema.json";

/// Compiled schemas, by the bytes that they were compiled from.
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
        let compiled = schemas.get(bytes);
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
    fn get(&self, bytes: &Arc<[u8]>) -> Arc<Compiled> {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, compiled)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, bytes)) {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(Compiled::new(bytes));
        known.push((Arc::clone(bytes), Arc::clone(&compiled)));
        compiled
    }
}

impl Compiled {
    fn new(bytes: &[u8]) -> Compiled {
        let mut warnings = Vec::new();
        let schema = compile(bytes, &mut warnings);
        Compiled { schema, warnings }
    }

    /// What is wrong with the values, as Helm says it.
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

fn compile(bytes: &[u8], warnings: &mut Vec<String>) -> Result<Schema, String> {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        return Err("EOF".to_owned());
    }
    let mut document: Value = serde_json::from_str(&text).map_err(|error| json_problem(&text, &error))?;
    if let Some(newest) = document.get_mut("$schema")
        && newest.as_str().is_some_and(|uri| NEWEST.contains(&uri.trim_end_matches('#')))
    {
        *newest = DEFAULT_DIALECT.into();
    }
    let mut ids = Vec::new();
    collect_ids(&document, &mut ids);
    check_references(&mut document, &ids, warnings)?;
    let invalid = |problem: String| format!("\"{PLACE}#\" is not valid against metaschema: {problem}");
    let dialect = Dialect::of(&document, DEFAULT_DIALECT).map_err(|error| invalid(error.to_string()))?;
    let formats = if dialect.is_before_2019() { Formats::Helm } else { Formats::Ignored };
    Schema::compile_with(document, dialect, formats).map_err(|error| invalid(error.to_string()))
}

/// What Go's decoder says about a text that is no JSON, where that can be told.
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

fn collect_ids(schema: &Value, ids: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for key in ["$id", "id"] {
                if let Some(Value::String(id)) = members.get(key) {
                    ids.push(id.split('#').next().unwrap_or_default().to_owned());
                }
            }
            members.values().for_each(|member| collect_ids(member, ids));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, ids)),
        _ => {}
    }
}

/// References stay inside of the document; names of another kind are taken for anything.
fn check_references(schema: &mut Value, ids: &[String], warnings: &mut Vec<String>) -> Result<(), String> {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let base = reference.split('#').next().unwrap_or_default();
                let is_known = ids.iter().any(|id| id == base) || base.contains("json-schema.org/draft");
                if base.starts_with("urn:") && !is_known {
                    warnings.push(format!(
                        "WARNING: unresolved URN reference ignored; using permissive schema: {reference}"
                    ));
                    members.remove("$ref");
                } else if base.contains("://") && !is_known {
                    return Err(format!("schema reference {reference} is not allowed"));
                }
            }
            members.values_mut().try_for_each(|member| check_references(member, ids, warnings))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| check_references(item, ids, warnings)),
        _ => Ok(()),
    }
}

/// Whole numbers as integers: 1.0 is one in every draft.
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
