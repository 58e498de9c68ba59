//! What a call takes, in units of work, worked out before it is made: from the name of the function and the sizes of its arguments.

use std::sync::Arc;

use super::passwords::accounted_cost;
use crate::value::Value;

/// What a private key and a certificate take.
const NEW_KEY: u64 = 20_000_000;
/// What hashing a password a thousand times takes.
const MD5CRYPT: u64 = 25_000;
/// What bcrypt takes, doubled with each step of the cost: a hash with cost 10 takes up to 100 ms.
const BCRYPT: u64 = 10_000;

/// Units that the call takes besides the evaluation of what it calls itself.
pub(crate) fn cost(name: &str, arguments: &[Value]) -> u64 {
    let texts = || arguments.iter().filter_map(Value::as_str).map(|text| text.len() as u64).sum::<u64>();
    let sizes = || arguments.iter().map(|argument| u64::from(argument.size())).sum::<u64>();
    match name {
        // These look at one thing alone.
        "length" | "element" | "type" | "defined" => 0,
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
            let each = arguments.iter().skip(1).map(|argument| pairs(longest, argument));
            each.fold(4 * sizes(), u64::saturating_add)
        }
        "bcrypt" | "bcrypt_check" => BCRYPT << accounted_cost(name, arguments),
        "md5crypt" | "md5crypt_check" => MD5CRYPT + 250 * texts(),
        "x509genkey" | "x509cert" => NEW_KEY,
        // The text is read as YAML, or as an expression.
        "parse" | "eval" | "read" | "decrypt" => 8 * texts(),
        "match" | "split_match" | "replace_match" => 2 * texts(),
        "encrypt" => 4 * sizes() + texts(),
        _ => 4 * sizes() + texts() / 2,
    }
}

/// What it takes to compare so many values with each entry of a list.
fn pairs(count: usize, list: &Value) -> u64 {
    (count as u64).saturating_mul(u64::from(list.size())) / 2
}

/// The patterns among the arguments of a function that searches.
pub(crate) fn patterns_of<'v>(name: &str, arguments: &'v [Value]) -> impl Iterator<Item = &'v Arc<str>> {
    let position = match name {
        "match" | "split_match" => Some(0),
        "replace_match" => Some(1),
        _ => None,
    };
    position.and_then(|position| arguments.get(position)).into_iter().filter_map(|argument| match argument {
        Value::String(pattern) => Some(pattern),
        _ => None,
    })
}
