//! Binary operators.

use super::Machine;
use crate::fault::Fault;
use crate::format;
use crate::library;
use crate::syntax::Binary;
use crate::values::{Answer, Int, Value};

/// Bits by which `<<` may shift.
const MOST_SHIFT: i64 = 512;

impl Machine<'_> {
    pub(crate) fn binary(&mut self, operation: Binary, left: &Value, right: &Value) -> Answer {
        let found = match operation {
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual => {
                return self.heap.compare(operation, left, right).map(Value::Bool);
            }
            Binary::In => self.contains(right, left)?.map(Value::Bool),
            Binary::NotIn => self.contains(right, left)?.map(|found| Value::Bool(!found)),
            _ => match (left, right) {
                (Value::Int(left), Value::Int(right)) => self.integers(operation, left, right)?,
                (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                    floats(operation, finite(left)?, finite(right)?)?
                }
                (Value::Text(text), _) if operation == Binary::Modulo => {
                    let text = format::interpolate(&self.heap, text, right)?;
                    Some(self.heap.text(text)?)
                }
                (Value::Set(left), Value::Set(right)) => self.sets(operation, *left, *right)?,
                (Value::Time(_) | Value::Duration(_), _) | (_, Value::Time(_) | Value::Duration(_)) => {
                    library::time_operation(operation, left, right)?
                }
                _ => self.sequences(operation, left, right)?,
            },
        };
        found.ok_or_else(|| {
            let (left, right) = (left.kind(), right.kind());
            Fault::new(format!("unknown binary op: {left} {} {right}", operation.text()))
        })
    }

    fn integers(&self, operation: Binary, left: &Int, right: &Int) -> Result<Option<Value>, Fault> {
        let (words, others) = (left.words(), right.words());
        let is_small = words == 1 && others == 1;
        match operation {
            _ if is_small => {}
            Binary::Multiply | Binary::Divide | Binary::FloorDivide | Binary::Modulo => {
                self.heap.spend(words.saturating_mul(others))?;
                self.heap.allocate((words + others).saturating_mul(8))?;
            }
            _ => self.heap.allocate(words.max(others).saturating_mul(8))?,
        }
        let zero = |what: &str| Err(Fault::new(format!("{what} by zero")));
        let value = match operation {
            Binary::Add => left.add(right),
            Binary::Subtract => left.subtract(right),
            Binary::Multiply => left.multiply(right),
            Binary::Divide => {
                self.heap.spend(words.saturating_mul(words) + others.saturating_mul(others))?;
                return floats(operation, left.finite()?, right.finite()?);
            }
            Binary::FloorDivide if right.is_zero() => return zero("floored division"),
            Binary::FloorDivide => left.floor_divide(right),
            Binary::Modulo if right.is_zero() => return zero("integer modulo"),
            Binary::Modulo => left.modulo(right),
            Binary::And => left.and(right),
            Binary::Or => left.or(right),
            Binary::Xor => left.xor(right),
            Binary::ShiftLeft | Binary::ShiftRight => {
                let count = right.small().filter(|count| i32::try_from(*count).is_ok());
                let Some(count) = count else { return Err(Fault::new(format!("{right} out of range"))) };
                if count < 0 {
                    return Err(Fault::new(format!("negative shift count: {count}")));
                }
                if operation == Binary::ShiftLeft && count >= MOST_SHIFT {
                    return Err(Fault::new(format!("shift count too large: {count}")));
                }
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                if operation == Binary::ShiftLeft {
                    self.heap.allocate((words + 8).saturating_mul(8))?;
                    left.shift_left(count)
                } else {
                    left.shift_right(count)
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::Int(value)))
    }

    fn sequences(&mut self, operation: Binary, left: &Value, right: &Value) -> Result<Option<Value>, Fault> {
        Ok(Some(match (operation, left, right) {
            (Binary::Add, Value::Text(left), Value::Text(right)) => {
                self.heap.spend((left.len() + right.len()) / 8)?;
                self.heap.text([&**left, &**right].concat())?
            }
            (Binary::Add, Value::Bytes(left), Value::Bytes(right)) => {
                self.heap.spend((left.len() + right.len()) / 8)?;
                self.heap.bytes([&**left, &**right].concat())?
            }
            (Binary::Add, Value::List(left), Value::List(right)) => {
                let (left, right) = (self.heap.list(*left), self.heap.list(*right));
                self.heap.allocate_items(left.len() + right.len())?;
                let items = [left, right].concat();
                self.heap.new_list(items)?
            }
            (Binary::Add, Value::Tuple(left), Value::Tuple(right)) => {
                let (left, right) = (self.heap.tuple(*left), self.heap.tuple(*right));
                self.heap.allocate_items(left.len() + right.len())?;
                let items = [left, right].concat();
                self.heap.new_tuple(items)?
            }
            (Binary::Multiply, Value::Int(count), of) | (Binary::Multiply, of, Value::Int(count)) => {
                return self.repeated(of, count);
            }
            (Binary::Or, Value::Dict(left), Value::Dict(right)) => {
                let union = self.heap.new_dict()?;
                self.heap.update(union, *left)?;
                self.heap.update(union, *right)?;
                Value::Dict(union)
            }
            _ => return Ok(None),
        }))
    }

    fn repeated(&mut self, of: &Value, count: &Int) -> Result<Option<Value>, Fault> {
        let length = match of {
            Value::Text(_) | Value::Bytes(_) | Value::List(_) | Value::Tuple(_) => self.heap.len(of),
            _ => None,
        };
        let Some(length) = length else { return Ok(None) };
        let times = match count.small().map(usize::try_from) {
            Some(Ok(times)) => times,
            _ if count.is_negative() => 0,
            _ if length == 0 => 0,
            _ => return Err(Fault::new(format!("repeat count {count} too large"))),
        };
        let times = if length == 0 { 0 } else { times };
        let total = times.saturating_mul(length);
        // Count the size before building any part of the value.
        Ok(Some(match of {
            Value::Text(text) => {
                self.heap.allocate(total)?;
                Value::Text(text.repeat(times).into())
            }
            Value::Bytes(bytes) => {
                self.heap.allocate(total)?;
                Value::Bytes(bytes.repeat(times).into())
            }
            Value::List(id) => {
                self.heap.allocate_items(total)?;
                let items = repeat(self.heap.list(*id), times);
                self.heap.new_list(items)?
            }
            Value::Tuple(id) => {
                self.heap.allocate_items(total)?;
                let items = repeat(self.heap.tuple(*id), times);
                self.heap.new_tuple(items)?
            }
            _ => return Ok(None),
        }))
    }

    fn sets(&mut self, operation: Binary, left: usize, right: usize) -> Result<Option<Value>, Fault> {
        let result = self.heap.new_set()?;
        match operation {
            Binary::Or => {
                self.heap.update(result, left)?;
                self.heap.update(result, right)?;
            }
            Binary::And => self.heap.add_those(result, left, right, true)?,
            Binary::Subtract => self.heap.add_those(result, left, right, false)?,
            Binary::Xor => {
                self.heap.add_those(result, left, right, false)?;
                self.heap.add_those(result, right, left, false)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(Value::Set(result)))
    }

    /// Reports whether a value contains another; `None` for a value of a type without elements.
    fn contains(&self, of: &Value, value: &Value) -> Result<Option<bool>, Fault> {
        let heap = &self.heap;
        let any = |items: &[Value]| -> Result<bool, Fault> {
            for item in items {
                if heap.equal(item, value)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(Some(match (of, value) {
            (Value::List(id), _) => any(heap.list(*id))?,
            (Value::Tuple(id), _) => any(heap.tuple(*id))?,
            (Value::Dict(id), _) => match heap.key(value) {
                Ok(key) => heap.table(*id).contains(&key),
                Err(fault) if fault.is_limit() => return Err(fault),
                Err(_) => false,
            },
            (Value::Set(id), _) => heap.table(*id).contains(&heap.key(value)?),
            (Value::Text(text), Value::Text(part)) => {
                heap.spend(text.len())?;
                text.contains(&**part)
            }
            (Value::Text(_), _) => {
                let kind = value.kind();
                return Err(Fault::new(format!("'in <string>' requires string as left operand, not {kind}")));
            }
            (Value::Bytes(bytes), Value::Bytes(part)) => {
                heap.spend(bytes.len().saturating_mul(part.len().max(1)))?;
                part.is_empty() || bytes.windows(part.len()).any(|window| window == &**part)
            }
            (Value::Bytes(bytes), Value::Int(byte)) => {
                heap.spend(bytes.len())?;
                byte.small().is_some_and(|byte| bytes.iter().any(|found| i64::from(*found) == byte))
            }
            (Value::Range(range), Value::Int(value)) => range.contains(value),
            _ => return Ok(None),
        }))
    }
}

fn repeat(items: &[Value], times: usize) -> Vec<Value> {
    std::iter::repeat_n(items, times).flatten().cloned().collect()
}

fn finite(value: &Value) -> Result<f64, Fault> {
    match value {
        Value::Int(value) => value.finite(),
        Value::Float(value) => Ok(*value),
        _ => Ok(f64::NAN),
    }
}

fn floats(operation: Binary, left: f64, right: f64) -> Result<Option<Value>, Fault> {
    let by = |what: &str| Err(Fault::new(format!("{what} by zero")));
    Ok(Some(Value::Float(match operation {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide if right == 0.0 => return by("floating-point division"),
        Binary::Divide => left / right,
        Binary::FloorDivide if right == 0.0 => return by("floored division"),
        Binary::FloorDivide => (left / right).floor(),
        Binary::Modulo if right == 0.0 => return by("floating-point modulo"),
        Binary::Modulo => {
            let rest = left % right;
            if rest != 0.0 && (rest < 0.0) != (right < 0.0) { rest + right } else { rest }
        }
        _ => return Ok(None),
    })))
}
