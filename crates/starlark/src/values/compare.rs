//! Equality and order of values.

use std::cmp::Ordering;

use super::{Heap, Id, MOST_LEVELS, Range, Value};
use crate::fault::Fault;
use crate::stack::deeper as on_stack;
use crate::syntax::Binary;

/// Steps that the comparison of two values costs, besides their texts.
const STEP: usize = 10;

impl Heap {
    pub(crate) fn equal(&self, left: &Value, right: &Value) -> Result<bool, Fault> {
        self.equal_within(left, right, MOST_LEVELS)
    }

    fn equal_within(&self, left: &Value, right: &Value, levels: usize) -> Result<bool, Fault> {
        self.spend(STEP)?;
        let deeper = || levels.checked_sub(1).ok_or_else(Heap::too_deep);
        Ok(match (left, right) {
            (Value::None, Value::None) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::Int(left), Value::Int(right)) => {
                self.spend(left.words().min(right.words()))?;
                left == right
            }
            (Value::Int(left), Value::Float(right)) | (Value::Float(right), Value::Int(left)) => {
                left.compare_float(*right) == Ordering::Equal
            }
            (Value::Float(left), Value::Float(right)) => left == right || left.is_nan() && right.is_nan(),
            (Value::Text(left), Value::Text(right)) => {
                self.spend(left.len() / 8)?;
                left == right
            }
            (Value::Bytes(left), Value::Bytes(right)) => {
                self.spend(left.len() / 8)?;
                left == right
            }
            (Value::Tuple(left), Value::Tuple(right)) => {
                self.all_equal(self.tuple(*left), self.tuple(*right), deeper()?)?
            }
            (Value::List(left), Value::List(right)) => {
                left == right || self.all_equal(self.list(*left), self.list(*right), deeper()?)?
            }
            (Value::Dict(left), Value::Dict(right)) => {
                left == right || self.tables_equal(*left, *right, deeper()?)?
            }
            (Value::Set(left), Value::Set(right)) => left == right || self.is_subset(*left, *right, false)?,
            (Value::Range(left), Value::Range(right)) => ranges_equal(left, right),
            (Value::Time(left), Value::Time(right)) => left.compare(right) == Ordering::Equal,
            (Value::Duration(left), Value::Duration(right)) => left == right,
            (Value::View(_) | Value::Cell(_) | Value::Unset, _) => false,
            _ if left.kind() != right.kind() => false,
            // Other values are equal only if they are the same object.
            _ => match (self.key(left), self.key(right)) {
                (Ok(left), Ok(right)) => left == right,
                _ => false,
            },
        })
    }

    fn all_equal(&self, left: &[Value], right: &[Value], levels: usize) -> Result<bool, Fault> {
        if left.len() != right.len() {
            return Ok(false);
        }
        for (left, right) in left.iter().zip(right) {
            if !on_stack(|| self.equal_within(left, right, levels))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tables_equal(&self, left: Id, right: Id, levels: usize) -> Result<bool, Fault> {
        let (left, right) = (self.table(left), self.table(right));
        if left.len() != right.len() {
            return Ok(false);
        }
        for (name, value) in left.iter() {
            let Some(other) = right.get(&self.key(name)?) else { return Ok(false) };
            if !on_stack(|| self.equal_within(value, other, levels))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports whether a set contains another, which must be smaller if `is_proper`, and else of
    /// the same size.
    fn is_subset(&self, small: Id, large: Id, is_proper: bool) -> Result<bool, Fault> {
        let (small, large) = (self.table(small), self.table(large));
        if is_proper && small.len() >= large.len() || !is_proper && small.len() != large.len() {
            return Ok(false);
        }
        for name in small.keys() {
            self.spend(1)?;
            if !large.contains(&self.key(name)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates a comparison.
    pub(crate) fn compare(&self, operation: Binary, left: &Value, right: &Value) -> Result<bool, Fault> {
        match operation {
            Binary::Equal => return self.equal(left, right),
            Binary::NotEqual => return Ok(!self.equal(left, right)?),
            _ => {}
        }
        if let (Value::Set(left), Value::Set(right)) = (left, right) {
            return Ok(match operation {
                Binary::Less => self.is_subset(*left, *right, true)?,
                Binary::LessEqual => {
                    self.is_subset(*left, *right, true)? || self.is_subset(*left, *right, false)?
                }
                Binary::Greater => self.is_subset(*right, *left, true)?,
                _ => self.is_subset(*right, *left, true)? || self.is_subset(*right, *left, false)?,
            });
        }
        let order = self.order_within(operation, left, right, MOST_LEVELS)?;
        Ok(match operation {
            Binary::Less => order == Ordering::Less,
            Binary::LessEqual => order != Ordering::Greater,
            Binary::Greater => order == Ordering::Greater,
            _ => order != Ordering::Less,
        })
    }

    /// Returns the order of two values.
    pub(crate) fn order(&self, left: &Value, right: &Value) -> Result<Ordering, Fault> {
        self.order_within(Binary::Less, left, right, MOST_LEVELS)
    }

    fn order_within(
        &self,
        operation: Binary,
        left: &Value,
        right: &Value,
        levels: usize,
    ) -> Result<Ordering, Fault> {
        self.spend(STEP)?;
        let deeper = || levels.checked_sub(1).ok_or_else(Heap::too_deep);
        Ok(match (left, right) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Int(left), Value::Int(right)) => {
                self.spend(left.words().min(right.words()))?;
                left.compare(right)
            }
            (Value::Int(left), Value::Float(right)) => left.compare_float(*right),
            (Value::Float(left), Value::Int(right)) => right.compare_float(*left).reverse(),
            (Value::Float(left), Value::Float(right)) => compare_floats(*left, *right),
            (Value::Text(left), Value::Text(right)) => {
                self.spend(left.len().min(right.len()) / 8)?;
                left.cmp(right)
            }
            (Value::Bytes(left), Value::Bytes(right)) => {
                self.spend(left.len().min(right.len()) / 8)?;
                left.cmp(right)
            }
            (Value::Tuple(left), Value::Tuple(right)) => {
                self.order_all(operation, self.tuple(*left), self.tuple(*right), deeper()?)?
            }
            (Value::List(left), Value::List(right)) => {
                self.order_all(operation, self.list(*left), self.list(*right), deeper()?)?
            }
            (Value::Time(left), Value::Time(right)) => left.compare(right),
            (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
            _ => {
                let operator = operation.text();
                let (left, right) = (left.kind(), right.kind());
                return Err(Fault::new(format!("{left} {operator} {right} not implemented")));
            }
        })
    }

    fn order_all(
        &self,
        operation: Binary,
        left: &[Value],
        right: &[Value],
        levels: usize,
    ) -> Result<Ordering, Fault> {
        for (left, right) in left.iter().zip(right) {
            if !on_stack(|| self.equal_within(left, right, levels))? {
                return on_stack(|| self.order_within(operation, left, right, levels));
            }
        }
        Ok(left.len().cmp(&right.len()))
    }
}

/// Compares floats; NaN is equal to itself, and greater than all others.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

fn ranges_equal(left: &Range, right: &Range) -> bool {
    let length = left.len();
    length == right.len()
        && (length == 0 || left.start == right.start && (length == 1 || left.step == right.step))
}
