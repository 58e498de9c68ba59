//! What a call takes, in units of work, worked out before it is made: from the name of the function and the sizes of its arguments.

use super::new_keys;
use super::passwords::accounted_cost;
use crate::value::Value;

/// Units in the time of a microsecond.
const PER_MICROSECOND: u64 = 100;
/// What hashing a password a thousand times takes.
const MD5CRYPT: u64 = 30_000;
/// What bcrypt takes, doubled with each step of the cost: a hash with cost 10 takes up to 100 ms.
const BCRYPT: u64 = 10_000;

/// A point on a curve.
const WIREGUARD: u64 = 5_000;
/// A random number.
const RANDOM: u64 = 60;

/// Units that the call takes besides the evaluation of what it calls itself.
pub(crate) fn cost(name: &str, arguments: &[Value]) -> u64 {
    let texts = || arguments.iter().filter_map(Value::as_str).map(|text| text.len() as u64).sum::<u64>();
    let sizes = || arguments.iter().map(|argument| u64::from(argument.size())).sum::<u64>();
    match name {
        // These look at one thing alone.
        "length" | "type" | "defined" => 0,
        // A text is read as a number.
        "element" => texts() / 8,
        "trim" => 4 * sizes() + cut(arguments),
        "uniq" => match arguments {
            [Value::List(list)] if list.values().any(|value| value.as_str().is_none()) => {
                pairs(list.len(), &arguments[0])
            }
            _ => 4 * sizes(),
        },
        "intersect" => {
            let lengths = arguments.iter().map(|argument| match argument {
                Value::List(list) => list.len(),
                _ => 0,
            });
            let longest = lengths.max().unwrap_or(0);
            // Values of two types are compared slowly.
            let each = arguments.iter().skip(1).map(|argument| pairs(longest, argument).saturating_mul(4));
            each.fold(4 * sizes(), u64::saturating_add)
        }
        "bcrypt" | "bcrypt_check" => BCRYPT << accounted_cost(name, arguments),
        "md5crypt" | "md5crypt_check" => MD5CRYPT + 250 * texts(),
        "x509genkey" | "x509cert" => PER_MICROSECOND * new_keys::effort(name, arguments).as_micros() as u64,
        "wggenkey" | "wgpublickey" => WIREGUARD,
        "rand" => match arguments {
            [Value::String(class), length @ ..] => {
                let length = length.first().and_then(Value::as_int).map_or(1, i64::unsigned_abs);
                random_text(class).saturating_add(length.saturating_mul(RANDOM))
            }
            _ => RANDOM,
        },
        // The text is read as YAML, or as an expression.
        "parse" | "eval" | "read" | "decrypt" => 8 * texts(),
        "match" | "split_match" | "replace_match" => 200 + 2 * texts(),
        // Triple DES is slow, and a value is written as YAML first.
        "encrypt" => 24 * sizes() + 6 * texts(),
        "check" | "validate" | "x509parsecert" | "x509publickey" => 8 * sizes() + 4 * texts(),
        _ if name.starts_with("semver") => 200 + 4 * sizes() + 8 * texts(),
        _ => 4 * sizes() + texts() / 2,
    }
}

/// What it takes to find the characters of a class: all of ASCII are tried, and if none is in it up to 65,535.
fn random_text(class: &str) -> u64 {
    let is_plain = class.is_ascii() && !class.contains('\\');
    let tried = if is_plain { 20_000 } else { 250_000 };
    tried + 200 * class.len() as u64
}

/// What it takes to look each character of texts up in those that are to be cut off.
fn cut(arguments: &[Value]) -> u64 {
    let [subject, set, ..] = arguments else { return 0 };
    let looked_up = match subject {
        Value::List(list) => list.values().filter_map(Value::as_str).map(|text| text.len() as u64 + 2).sum(),
        subject => subject.as_str().map_or(0, |text| text.len() as u64 + 2),
    };
    set.as_str().map_or(0, |set| looked_up.saturating_mul(set.len() as u64) / 16)
}

/// What it takes to compare so many values with each entry of a list.
fn pairs(count: usize, list: &Value) -> u64 {
    (count as u64).saturating_mul(u64::from(list.size())) / 2
}

/// The pattern that a function searches, and the bytes of the text in which it does.
pub(crate) fn pattern_of<'v>(name: &str, arguments: &'v [Value]) -> Option<(&'v str, usize)> {
    let (pattern, subject) = match name {
        "match" | "split_match" => (0, 1),
        "replace_match" => (1, 0),
        _ => return None,
    };
    let text = |position: usize| arguments.get(position).and_then(Value::as_str);
    Some((text(pattern)?, text(subject).map_or(0, str::len)))
}
