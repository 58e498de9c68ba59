//! The dynamic values that templates compute with (`gotemplate.md` 1).
//!
//! Every value carries its Go type, because templates see it: in `typeOf`, `%T`, error texts and
//! argument checks. Maps are shared, mutable references; lists and strings are shared and
//! immutable.

mod bytes;
mod copy;
pub(crate) mod equal;
pub(crate) mod json;
mod list;
mod map;
pub(crate) mod named;
mod number;
mod object;

use std::rc::Rc;

pub use bytes::Str;
pub(crate) use list::SLOT_BYTES;
pub use list::{Element, List};
pub(crate) use map::ENTRY_BYTES;
pub use map::{Map, MapValues};
pub use named::NamedType;
pub use number::DataNumber;
pub use object::{Member, Object};

/// A template value: about one variant per Go kind (`gotemplate.md` 1.1).
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Go's invalid value: a missing key, or a null that went through a pipeline (`gotemplate.md`
    /// 1.2).
    #[default]
    Absent,
    /// A nil interface: null in a map or list, nil as an argument.
    Nil,
    Bool(bool),
    /// Any integer; unsigned kinds keep their bits in the `i64`.
    Int(IntKind, i64),
    Float(f64),
    /// A number of the *data numbers* mode: Go type `float64`, exact when integral.
    Number(DataNumber),
    Complex(f64, f64),
    Str(Str),
    /// `[]uint8`.
    Bytes(Str),
    List(List),
    Map(Map),
    /// A host object with fields and methods.
    Object(Rc<dyn Object>),
}

/// The Go integer types that templates meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntKind {
    Int,
    Int64,
    Uint8,
    Uint64,
}

impl IntKind {
    /// Returns the Go type name.
    pub fn name(self) -> &'static str {
        match self {
            IntKind::Int => "int",
            IntKind::Int64 => "int64",
            IntKind::Uint8 => "uint8",
            IntKind::Uint64 => "uint64",
        }
    }

    /// Reports whether the kind is unsigned, so that its `i64` has the bits of a `u64`.
    pub fn is_unsigned(self) -> bool {
        matches!(self, IntKind::Uint8 | IntKind::Uint64)
    }
}

impl Value {
    /// Creates a Go `int`.
    pub fn int(value: i64) -> Value {
        Value::Int(IntKind::Int, value)
    }

    /// Creates a Go `int64`.
    pub fn int64(value: i64) -> Value {
        Value::Int(IntKind::Int64, value)
    }

    /// Creates a Go `string`.
    pub fn str(text: impl Into<Str>) -> Value {
        Value::Str(text.into())
    }

    /// Creates a `[]interface {}`.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::List(List::new(items.into_iter().collect()))
    }

    /// Reports whether the value is absent or nil; typed nil lists and maps are not.
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Absent | Value::Nil)
    }

    /// Returns the Go type name as `%T` prints it.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Absent | Value::Nil => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(kind, _) => kind.name(),
            Value::Float(_) | Value::Number(_) => "float64",
            Value::Complex(..) => "complex128",
            Value::Str(_) => "string",
            Value::Bytes(_) => "[]uint8",
            Value::List(list) => list.type_name(),
            Value::Map(map) => map.type_name(),
            Value::Object(object) => object.type_name(),
        }
    }

    /// Returns the Go kind name as sprig's `kindOf` prints it.
    pub fn kind_name(&self) -> &str {
        match self {
            Value::Absent | Value::Nil => "invalid",
            Value::Bytes(_) | Value::List(_) => "slice",
            Value::Map(_) => "map",
            Value::Object(object) => object.kind_name(),
            scalar => scalar.type_name(),
        }
    }

    /// Returns the truth of the value for `if`, `and` and `not` (`gotemplate.md` 1.3).
    pub fn truth(&self) -> bool {
        match self {
            Value::Absent | Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(_, i) => *i != 0,
            Value::Float(f) => *f != 0.0,
            Value::Number(n) => n.as_f64() != 0.0,
            Value::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Value::Str(s) | Value::Bytes(s) => !s.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Object(object) => object.integer() != Some(0),
        }
    }

    /// Returns the integer of any integer kind, and of an integral data number (`blueprints.md`
    /// 5.2).
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Int(kind, i) if kind.is_unsigned() => Some(i128::from(i.cast_unsigned())),
            Value::Int(_, i) => Some(i128::from(*i)),
            Value::Number(n) => n.integral(),
            Value::Object(object) => object.integer().map(i128::from),
            _ => None,
        }
    }

    /// Returns the float of a float kind.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(f) => Some(*f),
            Value::Number(n) => Some(n.as_f64()),
            _ => None,
        }
    }

    /// Returns the bytes of a string value.
    pub fn as_str(&self) -> Option<&Str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Value::List(_) | Value::Map(_))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Str(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Str(value.into())
    }
}

impl From<Str> for Value {
    fn from(value: Str) -> Value {
        Value::Str(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Value {
        Value::Str(value.into())
    }
}

impl From<List> for Value {
    fn from(value: List) -> Value {
        Value::List(value)
    }
}

impl From<Map> for Value {
    fn from(value: Map) -> Value {
        Value::Map(value)
    }
}

/// Drops nested containers with a work list, so that deep nesting cannot exhaust the native stack.
fn release(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(list) => list.take_items(&mut pending),
            Value::Map(map) => map.take_values(&mut pending),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_follows_the_zero_of_each_kind() {
        let falsy = [
            Value::Absent,
            Value::Nil,
            Value::Bool(false),
            Value::int(0),
            Value::Float(-0.0),
            Value::str(""),
            Value::list([]),
            Value::Map(Map::default()),
            Value::Number(DataNumber::Int(0)),
        ];
        for value in falsy {
            assert!(!value.truth(), "{value:?}");
        }
        let truthy =
            [Value::Float(f64::NAN), Value::str(" "), Value::str("false"), Value::list([Value::Nil])];
        for value in truthy {
            assert!(value.truth(), "{value:?}");
        }
    }

    #[test]
    fn deep_nesting_is_dropped_without_recursion() {
        let mut value = Value::Nil;
        for i in 0..300_000 {
            value = if i % 2 == 0 {
                Value::list([value])
            } else {
                let map = Map::default();
                map.insert("k".into(), value);
                Value::Map(map)
            };
        }
        drop(value);
    }
}
