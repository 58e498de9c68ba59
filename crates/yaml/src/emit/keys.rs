//! The order of map keys in Go's YAML output: digits are compared as numbers, letters come last.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// Returns the members of a map in output order.
///
/// The order is not total (`1e4` < `8` < `1110` < `1e4`), and the standard sort may panic on such
/// an order. Inserting one by one cannot, and gives the same result every time.
pub(super) fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut ordered: Vec<(Vec<char>, (&String, &Value))> = Vec::with_capacity(members.len());
    for entry in members {
        let key: Vec<char> = entry.0.chars().collect();
        let at = ordered.partition_point(|(other, _)| compare(other, &key).is_le());
        ordered.insert(at, (key, entry));
    }
    ordered.into_iter().map(|(_, entry)| entry).collect()
}

/// Compares two keys at their first difference (`blueprints.md` 5.5.1, key order).
fn compare(left: &[char], right: &[char]) -> Ordering {
    let Some(at) = left.iter().zip(right).position(|(a, b)| a != b) else {
        return left.len().cmp(&right.len());
    };
    let (a, b) = (left[at], right[at]);
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => a.cmp(&b),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare_numbers(left, right, at),
    }
}

/// Compares keys whose characters at `at` are not letters: by the numbers there, then by their
/// lengths, then by the characters.
fn compare_numbers(left: &[char], right: &[char], at: usize) -> Ordering {
    let zero = left[at] == '0' || right[at] == '0';
    let leading = i64::from(zero && significant_digit_before(left, at));
    let (left_number, left_len) = digits_from(left, at, leading);
    let (right_number, right_len) = digits_from(right, at, leading);
    left_number.cmp(&right_number).then(left_len.cmp(&right_len)).then(left[at].cmp(&right[at]))
}

/// Reports whether the digits directly before `at` (common to both keys) include one other than
/// zero.
fn significant_digit_before(key: &[char], at: usize) -> bool {
    key[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0')
}

/// Returns the number that begins at `at` (wrapping at 64 bits) and its length.
fn digits_from(key: &[char], at: usize, leading: i64) -> (i64, usize) {
    let digits = key[at..].iter().map_while(|c| c.to_digit(10));
    digits.fold((leading, 0), |(number, len), digit| {
        (number.wrapping_mul(10).wrapping_add(i64::from(digit)), len + 1)
    })
}
