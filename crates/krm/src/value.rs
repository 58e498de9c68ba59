//! Comparison and conversion of values as data, regardless of their form.

use std::fmt::Write as _;

use groundwork_yaml::tree::{Comments, Content, Kind, Node};
use serde_json::{Map, Number, Value};

/// Returns a text that is equal for equal data only (`packagevariants.md` 2.12).
pub(crate) fn canonical(node: &Node) -> String {
    let mut out = String::new();
    push(node, false, &mut out);
    out
}

/// Returns a canonical text that includes the comments.
pub(crate) fn canonical_with_comments(node: &Node) -> String {
    let mut out = String::new();
    push(node, true, &mut out);
    out
}

fn push(node: &Node, with_comments: bool, out: &mut String) {
    if with_comments {
        push_comments(&node.comments, out);
    }
    match &node.content {
        Content::Scalar(_) => push_scalar(node, out),
        Content::Sequence(sequence) => {
            out.push('[');
            for item in &sequence.items {
                push(item, with_comments, out);
                out.push(',');
            }
            out.push(']');
        }
        Content::Mapping(mapping) => {
            let mut pairs: Vec<_> = mapping.pairs.iter().collect();
            pairs.sort_by(|left, right| left.name().cmp(right.name()));
            out.push('{');
            for pair in pairs {
                let _ = write!(out, "{:?}:", pair.name());
                if with_comments {
                    push_comments(&pair.key.comments, out);
                }
                push(&pair.value, with_comments, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}

fn push_comments(comments: &Comments, out: &mut String) {
    for comment in [&comments.head, &comments.line, &comments.foot] {
        if !comment.is_empty() {
            let _ = write!(out, "#{comment:?}");
        }
    }
}

fn push_scalar(node: &Node, out: &mut String) {
    let text = node.text().unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = match node.kind() {
        Kind::Null => write!(out, "null"),
        Kind::Bool => write!(out, "{}", text.to_ascii_lowercase()),
        Kind::Int => match integer(text) {
            Some(number) => write!(out, "{number}"),
            None => write!(out, "{text}"),
        },
        Kind::Float => match text.parse::<f64>() {
            Ok(number) => write!(out, "{number:?}f"),
            Err(_) => write!(out, "{}f", text.to_ascii_lowercase()),
        },
        _ => write!(out, "{text:?}"),
    };
}

fn integer(text: &str) -> Option<i128> {
    match (text.strip_prefix("0o"), text.strip_prefix("0x")) {
        (Some(digits), _) => i128::from_str_radix(digits, 8).ok(),
        (_, Some(digits)) => i128::from_str_radix(digits, 16).ok(),
        _ => text.parse().ok(),
    }
}

/// Returns the JSON value of a node.
pub(crate) fn to_json(node: &Node) -> Value {
    let text = || node.text().unwrap_or_default();
    match (&node.content, node.kind()) {
        (Content::Mapping(mapping), _) => Value::Object(
            mapping
                .pairs
                .iter()
                .map(|pair| (pair.name().to_owned(), to_json(&pair.value)))
                .collect::<Map<_, _>>(),
        ),
        (Content::Sequence(sequence), _) => Value::Array(sequence.items.iter().map(to_json).collect()),
        (_, Kind::Null) => Value::Null,
        (_, Kind::Bool) => Value::Bool(text().eq_ignore_ascii_case("true")),
        (_, Kind::Int) => integer(text())
            .and_then(|number| i64::try_from(number).ok())
            .map_or_else(|| Value::String(text().to_owned()), Value::from),
        (_, Kind::Float) => text()
            .parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .map_or_else(|| Value::String(text().to_owned()), Value::Number),
        _ => Value::String(text().to_owned()),
    }
}

/// Gives a value the data of another one. Members that stay keep their comments, order and form.
pub(crate) fn assign(old: &mut Node, new: &Node) {
    if old.equals(new) {
        return;
    }
    let are_strings = new.kind() == Kind::String && old.kind() == Kind::String;
    match (&mut old.content, &new.content) {
        (Content::Mapping(old), Content::Mapping(new)) => {
            old.pairs.retain(|pair| new.pair(pair.name()).is_some());
            for pair in &new.pairs {
                match old.get_mut(pair.name()) {
                    Some(found) => assign(found, &pair.value),
                    None => old.pairs.push(pair.clone()),
                }
            }
        }
        (Content::Sequence(old), Content::Sequence(new)) => {
            old.items.truncate(new.items.len());
            for (at, item) in new.items.iter().enumerate() {
                match old.items.get_mut(at) {
                    Some(found) => assign(found, item),
                    None => old.items.push(item.clone()),
                }
            }
        }
        (Content::Scalar(_), Content::Scalar(_)) if are_strings => {
            old.set_text(new.text().unwrap_or_default());
        }
        _ => {
            old.content = new.content.clone();
            old.tag.clone_from(&new.tag);
        }
    }
}
