//! Conversion between template values and `serde_json` values.

use serde_json::Number;

use super::{DataNumber, List, Map, Value};
use crate::budget::LimitError;
use crate::options::NumberMode;
use crate::stack;

impl Value {
    /// Converts decoded JSON. `mode` chooses the Go type of its numbers (`gotemplate.md` 1.1 and
    /// 13.1).
    pub fn from_json(json: &serde_json::Value, mode: NumberMode) -> Value {
        match json {
            serde_json::Value::Null => Value::Nil,
            serde_json::Value::Bool(b) => Value::Bool(*b),
            serde_json::Value::Number(number) => from_number(number, mode),
            serde_json::Value::String(text) => Value::from(text.as_str()),
            serde_json::Value::Array(items) => stack::guarded(|| {
                Value::List(List::new(items.iter().map(|item| Value::from_json(item, mode)).collect()))
            }),
            serde_json::Value::Object(fields) => stack::guarded(|| {
                let entries =
                    fields.iter().map(|(key, value)| (key.as_str().into(), Value::from_json(value, mode)));
                Value::Map(entries.collect::<Map>())
            }),
        }
    }

    /// Converts to JSON for hosts: absent becomes null, bytes that are not UTF-8 become U+FFFD,
    /// numbers without a JSON form (NaN, infinities) become null. Returns `None` if the value nests
    /// too deep, as a map within itself does.
    ///
    /// A list that contains the same list twice becomes a tree with two copies, so the JSON of a
    /// template's value can be of any size. Functions therefore use
    /// [`Context::to_json`](crate::Context::to_json).
    pub fn to_json(&self) -> Option<serde_json::Value> {
        to_json(self, 0, &mut |_| Ok(())).ok()
    }
}

/// The reason why a value has no JSON.
#[derive(Debug)]
pub(crate) enum NoJson {
    TooDeep,
    Limit(LimitError),
}

impl From<LimitError> for NoJson {
    fn from(limit: LimitError) -> NoJson {
        NoJson::Limit(limit)
    }
}

fn from_number(number: &Number, mode: NumberMode) -> Value {
    let float = || number.as_f64().unwrap_or(f64::NAN);
    match mode {
        NumberMode::Float64 => Value::Float(float()),
        NumberMode::Int64 => number.as_i64().map_or_else(|| Value::Float(float()), Value::int64),
        NumberMode::Int => number.as_i64().map_or_else(|| Value::Float(float()), Value::int),
        NumberMode::Data => Value::Number(match (number.as_i64(), number.as_u64()) {
            (Some(i), _) => DataNumber::Int(i),
            (None, Some(u)) => DataNumber::Uint(u),
            (None, None) => DataNumber::Float(float()),
        }),
    }
}

/// Converts a value. `spend` gets the bytes of each text, and about the bytes of each node, before
/// they are allocated.
pub(crate) fn to_json(
    value: &Value,
    depth: usize,
    spend: &mut impl FnMut(usize) -> Result<(), LimitError>,
) -> Result<serde_json::Value, NoJson> {
    if depth > crate::nesting::MAX_DEPTH {
        return Err(NoJson::TooDeep);
    }
    spend(size_of::<serde_json::Value>())?;
    let float = |f: f64| Number::from_f64(f).map_or(serde_json::Value::Null, serde_json::Value::Number);
    Ok(match value {
        Value::Absent | Value::Nil => serde_json::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(kind, bits) if kind.is_unsigned() => bits.cast_unsigned().into(),
        Value::Int(_, i) => (*i).into(),
        Value::Float(f) => float(*f),
        Value::Number(DataNumber::Int(i)) => (*i).into(),
        Value::Number(DataNumber::Uint(u)) => (*u).into(),
        Value::Number(DataNumber::Float(f)) => float(*f),
        Value::Complex(..) => serde_json::Value::Null,
        Value::Str(text) => {
            spend(text.len())?;
            text.to_text().into()
        }
        Value::Bytes(bytes) => {
            spend(bytes.len())?;
            crate::encoding::base64_encode(bytes).into()
        }
        Value::List(list) if list.is_nil() => serde_json::Value::Null,
        Value::List(list) => {
            let items: Result<Vec<_>, NoJson> =
                stack::guarded(|| list.items().iter().map(|item| to_json(item, depth + 1, spend)).collect());
            serde_json::Value::Array(items?)
        }
        Value::Map(map) if map.is_nil() => serde_json::Value::Null,
        Value::Map(map) => {
            // The first member makes the map allocate room for ten more.
            spend(if map.is_empty() { 0 } else { 10 * size_of::<(String, serde_json::Value)>() })?;
            let fields: Result<serde_json::Map<_, _>, NoJson> = stack::guarded(|| {
                let convert = |(key, value): (super::Str, Value)| {
                    spend(key.len() + size_of::<String>())?;
                    Ok((key.to_text().into_owned(), to_json(&value, depth + 1, spend)?))
                };
                map.entries().into_iter().map(convert).collect()
            });
            serde_json::Value::Object(fields?)
        }
        Value::Object(object) => to_json(&object.json(), depth + 1, spend)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_modes_choose_the_go_type() {
        let json: serde_json::Value = serde_json::from_str("[3, 3.0, 18446744073709551615]").unwrap();
        let types = |mode| {
            let Value::List(list) = Value::from_json(&json, mode) else {
                unreachable!("a list stays a list")
            };
            list.items().iter().map(|item| item.type_name().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(types(NumberMode::Float64), "float64 float64 float64");
        assert_eq!(types(NumberMode::Int64), "int64 float64 float64");
        assert_eq!(types(NumberMode::Int), "int float64 float64");
        assert_eq!(types(NumberMode::Data), "float64 float64 float64");
    }

    #[test]
    fn json_round_trip_keeps_values() {
        let text = r#"{"a":[1,null,"x",true,{"b":0.5}],"n":18446744073709551615}"#;
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::from_json(&json, NumberMode::Data).to_json(), Some(json));
    }

    #[test]
    fn a_map_within_itself_has_no_json() {
        let map = Map::default();
        map.insert("self".into(), Value::Map(map.clone()));
        assert!(Value::Map(map.clone()).to_json().is_none());
        map.remove(b"self");
    }
}
