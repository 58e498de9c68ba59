//! Access to arguments that the evaluator has already checked against the signature.

use crate::value::{Map, Str, Value};

/// Typed access to checked arguments. An argument of another type reads as the zero value of Go, so
/// reading never fails.
pub(crate) trait Arguments {
    fn string(&self, index: usize) -> &[u8];
    fn int(&self, index: usize) -> i64;
    fn boolean(&self, index: usize) -> bool;
    fn map(&self, index: usize) -> Map;
    fn value(&self, index: usize) -> &Value;
    /// Returns the arguments from an index on.
    fn rest(&self, from: usize) -> &[Value];
    fn text(&self, index: usize) -> Str;
}

impl Arguments for [Value] {
    fn string(&self, index: usize) -> &[u8] {
        self.value(index).as_str().map_or(b"", |s| s)
    }

    fn int(&self, index: usize) -> i64 {
        self.value(index).as_integer().and_then(|i| i64::try_from(i).ok()).unwrap_or(0)
    }

    fn boolean(&self, index: usize) -> bool {
        matches!(self.value(index), Value::Bool(true))
    }

    fn map(&self, index: usize) -> Map {
        match self.value(index) {
            Value::Map(map) => map.clone(),
            _ => Map::nil(),
        }
    }

    fn value(&self, index: usize) -> &Value {
        self.get(index).unwrap_or(&Value::Nil)
    }

    fn rest(&self, from: usize) -> &[Value] {
        self.get(from..).unwrap_or(&[])
    }

    fn text(&self, index: usize) -> Str {
        self.value(index).as_str().cloned().unwrap_or_default()
    }
}
