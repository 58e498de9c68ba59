//! Files of JSON, which stay JSON (`packagevariants.md` 3.4.7).

use groundwork_yaml::tree::{Content, Kind, Node};
use serde_json::Value;

/// Writes a value as JSON: on one line, or indented by two columns, as the text before was.
pub(super) fn write(root: &Node, before: &str) -> String {
    let is_indented = before.trim_end().contains('\n');
    let mut out = String::new();
    push(root, is_indented.then_some(0), &mut out);
    if before.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn push(node: &Node, indent: Option<usize>, out: &mut String) {
    match &node.content {
        Content::Mapping(mapping) => {
            let members = mapping.pairs.iter().map(|pair| (Some(pair.name()), &pair.value));
            push_all(members.collect(), ['{', '}'], indent, out);
        }
        Content::Sequence(sequence) => {
            push_all(sequence.items.iter().map(|item| (None, item)).collect(), ['[', ']'], indent, out);
        }
        Content::Scalar(_) => {
            let text = node.text().unwrap_or_default();
            match node.kind() {
                Kind::Null => out.push_str("null"),
                Kind::Bool | Kind::Int | Kind::Float => out.push_str(text),
                _ => out.push_str(&Value::from(text).to_string()),
            }
        }
    }
}

fn push_all(
    entries: Vec<(Option<&str>, &Node)>,
    [open, close]: [char; 2],
    indent: Option<usize>,
    out: &mut String,
) {
    out.push(open);
    let is_empty = entries.is_empty();
    let new_line = |out: &mut String, extra: usize| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent + extra));
        }
    };
    for (at, (name, value)) in entries.into_iter().enumerate() {
        if at > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        new_line(out, 2);
        if let Some(name) = name {
            out.push_str(&Value::from(name).to_string());
            out.push_str(": ");
        }
        push(value, indent.map(|indent| indent + 2), out);
    }
    if !is_empty {
        new_line(out, 0);
    }
    out.push(close);
}
