//! Conversion of values to JSON and back (`spiff.md` 14.2).

use std::fmt::Write as _;

use groundwork_go::strconv;
use serde_json::{Number, Value as Json};

use crate::issue::Issue;
use crate::value::Value;

/// 2^63: doubles from here on do not fit an int.
const BEYOND_INT: f64 = 9_223_372_036_854_775_808.0;

/// Writes JSON as `asjson` prints it: compact, keys sorted, and `<`, `>`, `&` escaped.
///
/// # Errors
///
/// Infinity and NaN, which JSON lacks.
pub(crate) fn to_json(value: &Value) -> Result<String, Issue> {
    let mut out = String::new();
    push(&mut out, value, Dialect::Go)?;
    Ok(out)
}

/// Writes the canonical JSON of RFC 8785, from which hashes are computed.
///
/// # Errors
///
/// Infinity and NaN, which JSON lacks.
pub(crate) fn to_canonical_json(value: &Value) -> Result<String, Issue> {
    let mut out = String::new();
    push(&mut out, value, Dialect::Canonical)?;
    Ok(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// Go's JSON, with `<`, `>` and `&` escaped.
    Go,
    /// Canonical JSON, with keys in the order of their UTF-16 units.
    Canonical,
}

fn push(out: &mut String, value: &Value, dialect: Dialect) -> Result<(), Issue> {
    match value {
        Value::Nil => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number) | Value::Data(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Float(number) if dialect == Dialect::Canonical && *number == 0.0 => out.push('0'),
        Value::Float(number) => out.push_str(&float_text(*number)?),
        Value::String(text) => push_text(out, text, dialect),
        Value::List(list) => {
            out.push('[');
            for (at, entry) in list.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                stacker::maybe_grow(128 << 10, 1 << 20, || push(out, &entry.value, dialect))?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            let mut fields: Vec<_> = map.iter().collect();
            if dialect == Dialect::Canonical {
                fields.sort_by(|left, right| left.0.encode_utf16().cmp(right.0.encode_utf16()));
            }
            for (at, (key, entry)) in fields.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                push_text(out, key, dialect);
                out.push(':');
                stacker::maybe_grow(128 << 10, 1 << 20, || push(out, &entry.value, dialect))?;
            }
            out.push('}');
        }
        Value::Template(template) => return push(out, &template.original, dialect),
        Value::Binary(_) | Value::Expression(_) | Value::Lambda(_) => {
            push_text(out, &opaque_text(value), dialect);
        }
    }
    Ok(())
}

/// Returns the text of a value that is neither scalar nor collection.
fn opaque_text(value: &Value) -> String {
    match value {
        Value::Binary(bytes) => data_encoding::BASE64.encode(bytes),
        Value::Expression(pending) => format!("(( {} ))", pending.0),
        Value::Lambda(lambda) => format!("(( {} ))", lambda.expression),
        _ => String::new(),
    }
}

/// Formats floats as Go's JSON writer does.
fn float_text(value: f64) -> Result<String, Issue> {
    if !value.is_finite() {
        let name = strconv::format_g(value);
        return Err(Issue::new(format!("cannot jsonencode: json: unsupported value: {name}")));
    }
    Ok(strconv::format_json(value))
}

fn push_text(out: &mut String, text: &str, dialect: Dialect) {
    let for_html = dialect == Dialect::Go;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' if !for_html => out.push_str("\\b"),
            '\u{c}' if !for_html => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if !for_html => out.push(c),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Converts a JSON document. With `as_bindings` integral numbers become data numbers, otherwise
/// ints. Integers beyond 64 bits become floats.
pub(crate) fn from_json(json: &Json, as_bindings: bool) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => from_number(number, as_bindings),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(|item| from_json(item, as_bindings))),
        Json::Object(members) => {
            Value::map(members.iter().map(|(key, member)| (key.as_str(), from_json(member, as_bindings))))
        }
    }
}

fn from_number(number: &Number, as_bindings: bool) -> Value {
    let wrap = if as_bindings { Value::Data } else { Value::Int };
    if let Some(int) = number.as_i64() {
        return wrap(int);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    #[expect(clippy::cast_possible_truncation, reason = "integral and within 64 bits")]
    match integral(float) {
        true if as_bindings => Value::Data(float as i64),
        _ => Value::Float(float),
    }
}

fn integral(value: f64) -> bool {
    value.fract() == 0.0 && (-BEYOND_INT..BEYOND_INT).contains(&value)
}

/// Converts to a JSON document. Floats without fraction become ints, infinity and NaN null; pending
/// expressions and lambdas become text, templates their content.
pub(crate) fn to_json_value(value: &Value) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) | Value::Data(number) => Json::from(*number),
        #[expect(clippy::cast_possible_truncation, reason = "integral and within 64 bits")]
        Value::Float(number) if integral(*number) => Json::from(*number as i64),
        Value::Float(number) => Json::from(*number),
        Value::String(text) => Json::from(&**text),
        Value::List(list) => stacker::maybe_grow(128 << 10, 1 << 20, || {
            list.iter().map(|entry| to_json_value(&entry.value)).collect()
        }),
        Value::Map(map) => stacker::maybe_grow(128 << 10, 1 << 20, || {
            map.iter().map(|(key, entry)| (key.to_string(), to_json_value(&entry.value))).collect()
        }),
        Value::Template(template) => to_json_value(&template.original),
        Value::Binary(_) | Value::Expression(_) | Value::Lambda(_) => Json::from(opaque_text(value)),
    }
}

/// Smallest float that is written with an exponent, so that it is read as a float again.
const LEAST_WITH_EXPONENT: f64 = 1e6;

/// Returns the JSON that reading the written document would give, without writing it. Returns
/// `None` if only the text can tell: for binary content, values that are pending, infinity and NaN,
/// and keys with a meaning in YAML.
pub(crate) fn to_read_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Nil => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) | Value::Data(number) => Json::from(*number),
        #[expect(clippy::cast_possible_truncation, reason = "integral and small")]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < LEAST_WITH_EXPONENT => {
            Json::from(*number as i64)
        }
        Value::Float(number) => Json::Number(Number::from_f64(*number)?),
        Value::String(text) => Json::from(&**text),
        Value::List(list) => stacker::maybe_grow(128 << 10, 1 << 20, || {
            list.iter().map(|entry| to_read_json(&entry.value)).collect::<Option<_>>().map(Json::Array)
        })?,
        Value::Map(map) => stacker::maybe_grow(128 << 10, 1 << 20, || {
            let entry = |(key, entry): &(std::sync::Arc<str>, crate::value::Node)| {
                (&**key != "<<").then(|| Some((key.to_string(), to_read_json(&entry.value)?)))?
            };
            map.iter().map(entry).collect::<Option<_>>().map(Json::Object)
        })?,
        Value::Template(_) | Value::Binary(_) | Value::Expression(_) | Value::Lambda(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Float),
            (-2_000_000_i32..2_000_000).prop_map(|number| Value::Float(f64::from(number))),
            "\\PC*".prop_map(Value::string),
            "[-~yn0-9.:e+#'\" <>{}\\[\\]!&*|\n\t]{0,6}".prop_map(Value::string),
            "(yes|no|null|true|0x1F|1_000|1e3|2020-01-01|\\.inf|=|<<)".prop_map(Value::string),
        ];
        scalar.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::list),
                prop::collection::vec(("[a-zA-Z0-9 :#.-]{1,5}|<<<?", inner), 0..4).prop_map(Value::map),
            ]
        })
    }

    proptest! {
        /// Property: the direct conversion to JSON gives the same as writing and reading the text.
        #[test]
        fn reading_is_foreseen(value in values()) {
            if let Some(json) = to_read_json(&value) {
                let text = crate::yaml::write(&value);
                let read = groundwork_yaml::from_str(&text);
                prop_assert_eq!(read.ok(), Some(json), "{}", text);
            }
        }
    }

    #[test]
    fn json_is_printed_as_go_prints_it() {
        for (value, text) in [
            (json!({"b": [1, 2.5, null], "a": "<x>&"}), r#"{"a":"\u003cx\u003e\u0026","b":[1,2.5,null]}"#),
            (json!("a\"\\\n\u{1}é\u{2028}"), r#""a\"\\\n\u0001é\u2028""#),
            (
                json!([1e21, 1e-7, 1e20, 0.000_001, 3.0, -0.5]),
                "[1e+21,1e-7,100000000000000000000,0.000001,3,-0.5]",
            ),
            (json!({}), "{}"),
            (json!([]), "[]"),
        ] {
            assert_eq!(to_json(&from_json(&value, false)).as_deref(), Ok(text));
        }
        let error = to_json(&Value::Float(f64::NAN)).unwrap_err();
        assert_eq!(error.message, "cannot jsonencode: json: unsupported value: NaN");
    }

    #[test]
    fn integral_numbers_of_bindings_are_data_numbers() {
        let values = from_json(&json!([5, 5.0, 5.5, 18_446_744_073_709_551_615_u64]), true);
        let Value::List(list) = &values else { unreachable!() };
        let kinds: Vec<_> = list.values().map(|value| format!("{value:?}")).collect();
        assert_eq!(kinds, ["Data(5)", "Data(5)", "Float(5.5)", "Float(1.8446744073709552e19)"]);
        assert_eq!(to_json_value(&values), json!([5, 5, 5.5, 1.844_674_407_370_955_2e19]));
        assert_eq!(
            to_json_value(&Value::list([Value::Float(1.0), Value::Float(f64::NAN)])),
            json!([1, null])
        );
    }
}
