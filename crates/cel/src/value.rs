//! Values of expressions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use groundwork_budget::{BYTES_PER_STEP, Steps};

use crate::time::Time;

/// The result of an expression, and its parts.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Timestamp(Time),
    /// A duration in nanoseconds.
    Duration(i64),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    /// A type, by its name.
    Type(&'static str),
}

/// Entries in the order of their keys, in which expressions visit them.
pub type Map = BTreeMap<Key, Value>;

/// The reason why an expression has no value, in the words of cel-go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError(pub(crate) Cow<'static, str>);

impl EvalError {
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }

    /// Creates the error about operands of unsupported types, for places at which cel-go does not
    /// know the operator.
    pub(crate) const fn no_overload() -> Self {
        Self(Cow::Borrowed("no such overload"))
    }

    /// Creates the error of an evaluation that has no steps left.
    pub(crate) const fn too_many_steps() -> Self {
        Self(Cow::Borrowed("the expression takes too many steps"))
    }

    pub(crate) fn no_overload_of(function: &str) -> Self {
        Self::new(format!("no such overload: {function}"))
    }

    /// Creates the error about arguments of unsupported types, with their types.
    pub(crate) fn no_overload_for(function: &str, arguments: &[Value]) -> Self {
        let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
        Self::new(format!("no such overload: {function}({})", types.join(", ")))
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EvalError {}

/// The key of a map. Numbers of different types with the same value are the same key.
#[derive(Debug, Clone)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

impl Key {
    fn number(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some((*number).into()),
            Self::Uint(number) => Some((*number).into()),
            Self::Bool(_) | Self::String(_) => None,
        }
    }

    /// Returns a value as a key; a number with a fraction, for instance, is not a key.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(Self::Bool(*truth)),
            Value::Int(number) => Some(Self::Int(*number)),
            Value::Uint(number) => Some(Self::Uint(*number)),
            Value::String(text) => Some(Self::String(Arc::clone(text))),
            Value::Double(number) => crate::convert::double_to_int(*number)
                .ok()
                .filter(|whole| Value::Int(*whole).compare(value) == Some(Ordering::Equal))
                .map(Self::Int),
            _ => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(Arc::clone(text)),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) | Self::Uint(_) => 1,
            Self::String(_) => 2,
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::String(one), Self::String(other)) => one.cmp(other),
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()).then_with(|| self.number().cmp(&other.number())),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(Arc::from(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(Arc::from(text))
    }
}

impl Value {
    /// Creates a map with texts as keys.
    pub fn object<'k>(members: impl IntoIterator<Item = (&'k str, Self)>) -> Self {
        Self::Map(Arc::new(
            members.into_iter().map(|(key, value)| (Key::String(Arc::from(key)), value)).collect(),
        ))
    }

    /// Returns the name of the value's type, as `type()` and messages show it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
        }
    }

    /// Returns the text of a text value.
    ///
    /// # Errors
    ///
    /// The value is of another type; values are not converted. The message is that of cel-go, which
    /// differs for each type.
    pub fn text(&self) -> Result<&str, EvalError> {
        let kind = match self {
            Self::String(text) => return Ok(text),
            Self::Int(_) => return Err(EvalError::new("unsupported type conversion from 'int' to string")),
            Self::Uint(_) => return Err(EvalError::new("unsupported type conversion from 'uint' to string")),
            Self::Type(_) => return Err(EvalError::new("type conversion not supported for 'type'")),
            Self::Double(_) => "Double",
            Self::Bool(_) => "bool",
            Self::Null => "'null_type'",
            Self::Bytes(_) => "Bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Timestamp(_) => "'Timestamp'",
            Self::Duration(_) => "'Duration'",
        };
        Err(EvalError::new(format!("type conversion error from {kind} to 'string'")))
    }

    /// Returns the steps for reading a text.
    pub(crate) fn reading_steps(&self) -> usize {
        match self {
            Self::String(text) => text.len() / BYTES_PER_STEP,
            Self::Bytes(bytes) => bytes.len() / BYTES_PER_STEP,
            _ => 0,
        }
    }

    /// Reports whether two values are equal; numbers may be of different types. The result does not
    /// count if the steps are exceeded.
    pub(crate) fn equals(&self, other: &Self, steps: &Steps) -> bool {
        if !steps.spend(1 + self.reading_steps()) {
            return false;
        }
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::String(one), Self::String(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Timestamp(one), Self::Timestamp(other)) => one.compare(other) == Ordering::Equal,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len()
                    && one.iter().zip(&**other).all(|(one, other)| one.equals(other, steps))
            }
            (Self::Map(one), Self::Map(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .all(|(key, value)| other.get(key).is_some_and(|other| value.equals(other, steps)))
            }
            _ => self.compare_numbers(other) == Some(Ordering::Equal),
        }
    }

    /// Returns the order of two values of the same kind, or `None` if they have none.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (Self::String(one), Self::String(other)) => Some(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            (Self::Timestamp(one), Self::Timestamp(other)) => Some(one.compare(other)),
            (Self::Duration(one), Self::Duration(other)) => Some(one.cmp(other)),
            _ => self.compare_numbers(other),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers of different types are compared as the original does"
    )]
    fn compare_numbers(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Some(one.cmp(other)),
            (Self::Uint(one), Self::Uint(other)) => Some(one.cmp(other)),
            (Self::Double(one), Self::Double(other)) => one.partial_cmp(other),
            (Self::Int(one), Self::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Self::Uint(one), Self::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Self::Int(one), Self::Double(other)) => (*one as f64).partial_cmp(other),
            (Self::Uint(one), Self::Double(other)) => (*one as f64).partial_cmp(other),
            (Self::Double(one), Self::Int(other)) => one.partial_cmp(&(*other as f64)),
            (Self::Double(one), Self::Uint(other)) => one.partial_cmp(&(*other as f64)),
            _ => None,
        }
    }
}
