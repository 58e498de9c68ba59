//! Keys of dicts and sets: values that never change.

use std::rc::Rc;

use super::{Heap, Id, Int, MOST_LEVELS, Value};
use crate::fault::Fault;

/// Content of a hashable value. Equal numbers are equal keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    None,
    Bool(bool),
    Int(Int),
    /// Bits of a float that is not whole.
    Float(u64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    Tuple(Box<[Key]>),
    Function(Id),
    /// Address of a built-in function, module or struct.
    Fixed(usize),
    Time([i64; 2]),
    Duration(i64),
}

impl Heap {
    /// Returns the key of a value.
    pub(crate) fn key(&self, value: &Value) -> Result<Key, Fault> {
        self.key_within(value, MOST_LEVELS)
    }

    fn key_within(&self, value: &Value, levels: usize) -> Result<Key, Fault> {
        Ok(match value {
            Value::None => Key::None,
            Value::Bool(truth) => Key::Bool(*truth),
            Value::Int(value) => {
                self.spend(value.words().saturating_mul(8))?;
                Key::Int(value.clone())
            }
            Value::Float(value) if value.fract() == 0.0 => {
                Int::truncated(*value).map_or(Key::Float(value.to_bits()), Key::Int)
            }
            Value::Float(value) if value.is_nan() => Key::Float(f64::NAN.to_bits()),
            Value::Float(value) => Key::Float(value.to_bits()),
            Value::Text(text) => {
                self.spend(text.len() / 2)?;
                Key::Text(text.clone())
            }
            Value::Bytes(bytes) => {
                self.spend(bytes.len() / 2)?;
                Key::Bytes(bytes.clone())
            }
            Value::Tuple(id) => {
                let items = self.tuple(*id);
                let levels = levels.checked_sub(1).ok_or_else(Heap::too_deep)?;
                self.allocate(items.len() * size_of::<Key>())?;
                let keys = items.iter().map(|item| crate::stack::deeper(|| self.key_within(item, levels)));
                Key::Tuple(keys.collect::<Result<_, _>>()?)
            }
            Value::Function(id) => Key::Function(*id),
            Value::Native(native) => Key::Fixed(std::ptr::from_ref(*native) as usize),
            Value::Module(module) => Key::Fixed(std::ptr::from_ref(*module) as usize),
            Value::Struct(of) => Key::Fixed(Rc::as_ptr(of) as usize),
            Value::Bound(bound) => Key::Fixed(Rc::as_ptr(bound) as usize),
            Value::Pattern(pattern) => Key::Fixed(Rc::as_ptr(pattern) as usize),
            Value::Time(time) => Key::Time([time.seconds, time.nanoseconds]),
            Value::Duration(duration) => Key::Duration(*duration),
            Value::List(_)
            | Value::Dict(_)
            | Value::Set(_)
            | Value::Range(_)
            | Value::View(_)
            | Value::Cell(_)
            | Value::Unset => return Err(Fault::new(format!("unhashable type: {}", value.kind()))),
        })
    }
}
