//! JSON files, which stay JSON (`packagevariants.md` 3.4.7, 8.2).

use groundwork_yaml::tree::{Content, Kind, Node};
use serde_json::Value;

/// Writes a value as JSON, on one line or indented by two columns, like the previous text.
pub(crate) fn write(root: &Node, before: &str) -> String {
    let is_indented = before.trim_end().contains('\n');
    let form = Form { is_indented, is_tight: !is_indented && !before.contains("\": ") };
    let mut out = String::new();
    form.push(root, 0, &mut out);
    if before.ends_with('\n') {
        out.push('\n');
    }
    out
}

#[derive(Clone, Copy)]
struct Form {
    is_indented: bool,
    /// True for one line without white space.
    is_tight: bool,
}

impl Form {
    fn push(self, node: &Node, indent: usize, out: &mut String) {
        match &node.content {
            Content::Mapping(mapping) => {
                let members = mapping.pairs.iter().map(|pair| (Some(pair.name()), &pair.value));
                self.push_all(members.collect(), ['{', '}'], indent, out);
            }
            Content::Sequence(sequence) => {
                let items = sequence.items.iter().map(|item| (None, item));
                self.push_all(items.collect(), ['[', ']'], indent, out);
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
        self,
        entries: Vec<(Option<&str>, &Node)>,
        [open, close]: [char; 2],
        indent: usize,
        out: &mut String,
    ) {
        out.push(open);
        let is_empty = entries.is_empty();
        for (at, (name, value)) in entries.into_iter().enumerate() {
            if at > 0 {
                out.push_str(if self.is_indented || self.is_tight { "," } else { ", " });
            }
            self.new_line(indent + 2, out);
            if let Some(name) = name {
                out.push_str(&Value::from(name).to_string());
                out.push_str(if self.is_tight { ":" } else { ": " });
            }
            self.push(value, indent + 2, out);
        }
        if !is_empty {
            self.new_line(indent, out);
        }
        out.push(close);
    }

    fn new_line(self, indent: usize, out: &mut String) {
        if self.is_indented {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        }
    }
}
