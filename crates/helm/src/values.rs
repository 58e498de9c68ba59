//! Values (`helm.md` 4): the defaults of charts, overridden by those of the user.

use serde_json::{Map, Number, Value};

use crate::chart::Chart;
use crate::error::RenderError;

pub(crate) mod path;
mod set;

pub use set::{SetError, Setter};

/// Values by name. Integers are `int64`, other numbers `float64`. Values of files have only
/// `float64`.
pub type Table = Map<String, Value>;

const GLOBAL: &str = "global";

/// Converts all numbers to floats, as values of a file are.
pub fn floats(table: Table) -> Table {
    table.into_iter().map(|(key, value)| (key, float(value))).collect()
}

fn float(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            Value::Number(float.unwrap_or(number))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(float).collect()),
        Value::Object(members) => Value::Object(floats(members)),
        other => other,
    }
}

/// Writes whole floats without a fraction, as Go's JSON does: `1` for `1.0`.
pub fn without_fractions(value: Value) -> Value {
    /// 2^63: a float from here on is not an exact `int64`.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < TOO_LARGE => {
                Value::from(groundwork_go::strconv::float_to_i64(float))
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(without_fractions).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, without_fractions(value))).collect())
        }
        other => other,
    }
}

/// Reads the values of a YAML file: its first document, which must be a table.
///
/// # Errors
///
/// Helm's error about such a file.
pub fn from_yaml(bytes: &[u8]) -> Result<Table, String> {
    crate::decode::table(bytes).map(floats)
}

/// Reads the values and keeps integers, which are `int64` in templates.
///
/// # Errors
///
/// Helm's error about such a file.
pub fn from_yaml_with_integers(bytes: &[u8]) -> Result<Table, String> {
    crate::decode::table(bytes)
}

/// Merges one table over another, as Helm merges several values files: tables are merged at every
/// level, null stays null.
pub fn overlay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => overlay(inner, value),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

/// The merging of charts' default values under other values.
#[derive(Debug)]
pub(crate) struct Coalesce<'w> {
    pub(crate) warnings: &'w mut Vec<String>,
    /// True if nulls are kept. Otherwise a null removes the default below it.
    pub(crate) keeps_nulls: bool,
    /// True if a value for a subchart that is not a table counts as absent (`helm.md` 3.2, R4).
    pub(crate) forgives: bool,
}

impl Coalesce<'_> {
    /// Adds the defaults of a chart and of all its subcharts under the given values.
    pub(crate) fn fill(
        &mut self,
        chart: &Chart,
        values: &mut Table,
        prefix: &str,
    ) -> Result<(), RenderError> {
        let prefix = join(prefix, chart.name());
        self.defaults(chart, values, &prefix);
        for sub in &chart.charts {
            let mut inner = match values.remove(sub.name()) {
                None => Table::new(),
                Some(Value::Object(inner)) => inner,
                Some(_) if self.forgives => Table::new(),
                Some(other) => {
                    let got = type_name(&other);
                    return Err(RenderError::TypeMismatch { name: sub.name().to_owned(), got });
                }
            };
            self.globals(&mut inner, values, &prefix);
            self.fill(sub, &mut inner, &prefix)?;
            values.insert(sub.name().to_owned(), Value::Object(inner));
        }
        Ok(())
    }

    fn defaults(&mut self, chart: &Chart, values: &mut Table, prefix: &str) {
        for (key, default) in &chart.values {
            match values.get_mut(key) {
                None => drop(values.insert(key.clone(), default.clone())),
                // As in Helm, a null of the user removes the default.
                Some(Value::Null) if !self.keeps_nulls => drop(values.remove(key)),
                Some(Value::Object(value)) => match default {
                    Value::Object(default) => {
                        let is_subchart = chart.charts.iter().any(|sub| sub.name() == key);
                        let keeps_nulls = self.keeps_nulls || is_subchart;
                        self.tables(value, default, &join(prefix, key), keeps_nulls);
                    }
                    Value::Null => {}
                    _ => {
                        self.warnings
                            .push(format!("warning: skipped value for {prefix}.{key}: Not a table."));
                    }
                },
                Some(_) => {}
            }
        }
    }

    /// Merges a table under another.
    pub(crate) fn tables(&mut self, above: &mut Table, below: &Table, prefix: &str, keeps_nulls: bool) {
        for (key, value) in below {
            let path = || join(prefix, key);
            match (above.get_mut(key), value) {
                (Some(Value::Null), _) if !keeps_nulls => drop(above.remove(key)),
                (None, _) => drop(above.insert(key.clone(), value.clone())),
                (Some(Value::Object(inner)), Value::Object(value)) => {
                    self.tables(inner, value, &path(), keeps_nulls);
                }
                (Some(_), Value::Object(_)) => self.warnings.push(format!(
                    "warning: cannot overwrite table with non table for {} ({})",
                    path(),
                    shown(value)
                )),
                (Some(Value::Object(_)), value) if !value.is_null() => self.warnings.push(format!(
                    "warning: destination for {} is a table. Ignoring non-table value ({})",
                    path(),
                    shown(value)
                )),
                _ => {}
            }
        }
    }

    /// Merges the parent's `global` over that of the child.
    fn globals(&mut self, child: &mut Table, parent: &Table, prefix: &str) {
        let mut is_new = false;
        let mut mine = match child.remove(GLOBAL) {
            None => {
                is_new = true;
                Table::new()
            }
            Some(Value::Object(table)) => table,
            Some(other) => {
                child.insert(GLOBAL.to_owned(), other);
                let warning = "warning: skipping globals because destination global is not a table.";
                return self.warnings.push(warning.to_owned());
            }
        };
        let theirs = match parent.get(GLOBAL) {
            None => &Table::new(),
            Some(Value::Object(table)) => table,
            Some(_) => {
                if !is_new {
                    child.insert(GLOBAL.to_owned(), Value::Object(mine));
                }
                let warning = "warning: skipping globals because source global is not a table.";
                return self.warnings.push(warning.to_owned());
            }
        };
        for (key, value) in theirs {
            match (value, mine.get(key)) {
                (Value::Object(table), Some(Value::Object(below))) => {
                    let mut merged = table.clone();
                    self.tables(&mut merged, below, &join(prefix, key), true);
                    mine.insert(key.clone(), Value::Object(merged));
                }
                (Value::Object(_), Some(_)) => self
                    .warnings
                    .push(format!("Conflict: cannot merge map onto non-map for {key:?}. Skipping.")),
                (value, Some(Value::Object(_))) if !value.is_object() => {
                    self.warnings.push(format!("key {key} is table. Skipping"));
                }
                (value, _) => drop(mine.insert(key.clone(), value.clone())),
            }
        }
        child.insert(GLOBAL.to_owned(), Value::Object(mine));
    }
}

/// Returns the values of a chart and its subcharts: its defaults under the given values (`helm.md`
/// 4).
pub(crate) fn coalesced(
    chart: &Chart,
    given: &Table,
    warnings: &mut Vec<String>,
) -> Result<Table, RenderError> {
    let mut values = given.clone();
    Coalesce { warnings, keeps_nulls: false, forgives: false }.fill(chart, &mut values, "")?;
    Ok(values)
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Returns the kind of a value that is not a table.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// Returns a value as warnings show it: by its kind, because values may be secret.
fn shown(value: &Value) -> &'static str {
    type_name(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The expected texts are those of `encoding/json` for a `float64`, as far as it is exact.
    #[test]
    fn whole_floats_have_no_fraction() {
        let given =
            json!({"a": [1.0, -2.0, 0.5, 1e300], "b": {"c": 9_007_199_254_740_992.0}, "d": 7, "e": "1.0"});
        let expected =
            json!({"a": [1, -2, 0.5, 1e300], "b": {"c": 9_007_199_254_740_992_i64}, "d": 7, "e": "1.0"});
        assert_eq!(without_fractions(given), expected);
    }
}
