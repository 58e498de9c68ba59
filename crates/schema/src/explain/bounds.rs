//! Faults of single strings and numbers, and of the counts of members and elements.

use serde_json::{Map, Value, json};

use super::words::{Want, quoted};
use super::{Explainer, Findings, finding};

impl Explainer<'_> {
    pub(super) fn text(&self, schema: &Map<String, Value>, text: &str, at: &str, faults: &mut Findings) {
        count_between(schema, ["minLength", "maxLength"], text.chars().count(), at, faults);
        if let Some(Value::String(pattern)) = schema.get("pattern")
            && !self.fits("pattern", schema, &json!(text))
        {
            let message = format!("{} does not match pattern {}", quoted(text), quoted(pattern));
            faults.push(finding(at, "pattern", message));
        }
    }

    pub(super) fn number(&self, schema: &Map<String, Value>, value: &Value, at: &str, faults: &mut Findings) {
        let got = value.as_f64().unwrap_or(f64::NAN);
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let is_exclusive = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
        let bounds: [(&'static str, &str, bool, bool); 4] = [
            ("minimum", "minimum", false, !is_exclusive("exclusiveMinimum")),
            ("maximum", "maximum", true, !is_exclusive("exclusiveMaximum")),
            (
                "exclusiveMinimum",
                if is_exclusive("exclusiveMinimum") { "minimum" } else { "exclusiveMinimum" },
                false,
                false,
            ),
            (
                "exclusiveMaximum",
                if is_exclusive("exclusiveMaximum") { "maximum" } else { "exclusiveMaximum" },
                true,
                false,
            ),
        ];
        for (keyword, holder, is_upper, is_inclusive) in bounds {
            let inclusive_only = matches!(keyword, "minimum" | "maximum");
            let Some(want) = bound(holder).filter(|_| !inclusive_only || is_inclusive) else { continue };
            let fits = match (is_upper, is_inclusive) {
                (false, true) => got >= want,
                (false, false) => got > want,
                (true, true) => got <= want,
                (true, false) => got < want,
            };
            if !fits {
                faults.push(finding(at, keyword, Want { keyword, got, want }.to_string()));
            }
        }
        if let Some(want) = bound("multipleOf")
            && !self.fits("multipleOf", schema, value)
        {
            faults.push(finding(at, "multipleOf", Want { keyword: "multipleOf", got, want }.to_string()));
        }
    }
}

pub(super) fn count_between(
    schema: &Map<String, Value>,
    [least, most]: [&'static str; 2],
    count: usize,
    at: &str,
    faults: &mut Findings,
) {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let got = count as f64;
    if let Some(want) = bound(least).filter(|want| got < *want) {
        faults.push(finding(at, least, Want { keyword: least, got, want }.to_string()));
    }
    if let Some(want) = bound(most).filter(|want| got > *want) {
        faults.push(finding(at, most, Want { keyword: most, got, want }.to_string()));
    }
}
