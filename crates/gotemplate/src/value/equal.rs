//! Equality of template values as Go's `reflect.DeepEqual` defines it, for `deepEqual`, `has`,
//! `uniq` and `without`.

use super::named::same_type;
use super::{DataNumber, Value};
use crate::budget::{Budget, LimitError};
use crate::stack;

impl Value {
    /// Reports whether type and content are the same (`gotemplate.md` 12.7). Data numbers compare
    /// by value with every number kind.
    pub(crate) fn deep_equal(&self, other: &Value, budget: &mut Budget) -> Result<bool, LimitError> {
        equal(self, other, budget, 0)
    }
}

fn equal(a: &Value, b: &Value, budget: &mut Budget, depth: usize) -> Result<bool, LimitError> {
    budget.step()?;
    budget.check_value_depth(depth)?;
    Ok(match (a, b) {
        (Value::Absent | Value::Nil, Value::Absent | Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(number), other) | (other, Value::Number(number)) => {
            as_number(other).is_some_and(|other| number.compare(other).is_some_and(std::cmp::Ordering::is_eq))
        }
        (Value::Int(kind_a, a), Value::Int(kind_b, b)) => kind_a == kind_b && a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(re_a, im_a), Value::Complex(re_b, im_b)) => re_a == re_b && im_a == im_b,
        (Value::Str(a), Value::Str(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            if a.element() != b.element() || a.is_nil() != b.is_nil() || a.len() != b.len() {
                return Ok(false);
            }
            if !same_type(a.named_type(), b.named_type()) {
                return Ok(false);
            }
            return stack::guarded(|| all_equal(a.items(), b.items(), budget, depth));
        }
        (Value::Map(a), Value::Map(b)) => {
            if !same_type(a.named_type(), b.named_type()) {
                return Ok(false);
            }
            if a.is_same(b) {
                return Ok(true);
            }
            if a.values_type() != b.values_type() || a.is_nil() != b.is_nil() || a.keys() != b.keys() {
                return Ok(false);
            }
            let values =
                |map: &super::Map| map.entries().into_iter().map(|(_, value)| value).collect::<Vec<_>>();
            return stack::guarded(|| all_equal(&values(a), &values(b), budget, depth));
        }
        (Value::Object(a), Value::Object(b)) => a.deep_equals(b.as_ref()),
        _ => false,
    })
}

fn all_equal(a: &[Value], b: &[Value], budget: &mut Budget, depth: usize) -> Result<bool, LimitError> {
    for (a, b) in a.iter().zip(b) {
        if !equal(a, b, budget, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns any number kind as a data number, for comparisons by value.
pub(crate) fn as_number(value: &Value) -> Option<DataNumber> {
    match value {
        Value::Int(kind, bits) if kind.is_unsigned() => Some(DataNumber::Uint(bits.cast_unsigned())),
        Value::Int(_, i) => Some(DataNumber::Int(*i)),
        Value::Float(f) => Some(DataNumber::Float(*f)),
        Value::Number(number) => Some(*number),
        Value::Object(object) => object.integer().map(DataNumber::Int),
        _ => None,
    }
}
