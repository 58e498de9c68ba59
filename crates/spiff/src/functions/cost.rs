//! The cost of function calls in units of work, computed before the call from the function's name
//! and the sizes of its arguments.

use super::new_keys;
use super::passwords::accounted_cost;
use crate::value::Value;

/// Units of work per microsecond.
const PER_MICROSECOND: u64 = 100;
/// Units for an md5crypt hash, which is a thousand rounds of MD5.
const MD5CRYPT: u64 = 30_000;
/// Units for bcrypt with cost 0. Each step of the cost doubles them: a hash with cost 10 takes up
/// to 100 ms.
const BCRYPT: u64 = 10_000;

/// Units for a multiplication on Curve25519.
const WIREGUARD: u64 = 5_000;
/// Units for a random number.
const RANDOM: u64 = 60;

/// Returns the units for a call, besides those for the lambdas that it calls.
pub(crate) fn cost(name: &str, arguments: &[Value]) -> u64 {
    let texts = || arguments.iter().filter_map(Value::as_str).map(|text| text.len() as u64).sum::<u64>();
    let sizes = || arguments.iter().map(|argument| u64::from(argument.size())).sum::<u64>();
    match name {
        // These read only the head of a value.
        "length" | "type" | "defined" => 0,
        // A text as index is parsed as a number.
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
            // Comparing values of different types is slow, hence the factor 4.
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
        // The text is parsed as YAML, or as an expression.
        "parse" | "eval" | "read" | "decrypt" => 8 * texts(),
        "match" | "split_match" | "replace_match" => 200 + 2 * texts(),
        // Triple DES is slow, and the value is written as YAML first.
        "encrypt" => 24 * sizes() + 6 * texts(),
        "check" | "validate" | "x509parsecert" | "x509publickey" => 8 * sizes() + 4 * texts(),
        _ if name.starts_with("semver") => 200 + 4 * sizes() + 8 * texts(),
        _ => 4 * sizes() + texts() / 2,
    }
}

/// Returns the units for finding the characters of a class: all of ASCII are tried, and if none
/// matches, all up to 65,535.
fn random_text(class: &str) -> u64 {
    let is_plain = class.is_ascii() && !class.contains('\\');
    let tried = if is_plain { 20_000 } else { 250_000 };
    tried + 200 * class.len() as u64
}

/// Returns the units for comparing each character of the texts with the characters to trim.
fn cut(arguments: &[Value]) -> u64 {
    let [subject, set, ..] = arguments else { return 0 };
    let looked_up = match subject {
        Value::List(list) => list.values().filter_map(Value::as_str).map(|text| text.len() as u64 + 2).sum(),
        subject => subject.as_str().map_or(0, |text| text.len() as u64 + 2),
    };
    set.as_str().map_or(0, |set| looked_up.saturating_mul(set.len() as u64) / 16)
}

/// Returns the units for comparing this many values with each entry of a list.
fn pairs(count: usize, list: &Value) -> u64 {
    (count as u64).saturating_mul(u64::from(list.size())) / 2
}

/// Returns the pattern that a function searches, and the number of bytes of the searched text.
pub(crate) fn pattern_of<'v>(name: &str, arguments: &'v [Value]) -> Option<(&'v str, usize)> {
    let (pattern, subject) = match name {
        "match" | "split_match" => (0, 1),
        "replace_match" => (1, 0),
        _ => return None,
    };
    let text = |position: usize| arguments.get(position).and_then(Value::as_str);
    Some((text(pattern)?, text(subject).map_or(0, str::len)))
}
