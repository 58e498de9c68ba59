//! The expressions of a document as they are written, without evaluating it.

use crate::api::Document;
use crate::syntax;
use crate::syntax::ast::{Expr, Marker};
use crate::syntax::strings::is_dynaml;
use crate::value::{Node, Value};

/// One step from a node to one below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// A field of a map.
    Key(String),
    /// An entry of a list, from 0.
    Index(usize),
}

/// A text of a document that is an expression, or looks like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenExpression {
    /// Steps from the root.
    pub path: Vec<PathStep>,
    /// Line and column, from 1; none in a document that was not read from a text.
    pub position: Option<(u32, u32)>,
    /// The names of its markers (`spiff.md` 10.1), or the reason why it is not an expression. An
    /// invalid text is an error only when it is evaluated.
    pub markers: Result<Vec<&'static str>, String>,
}

impl Document {
    /// Returns every text in double parentheses, fields in the order of their names. Keys, and
    /// expressions inside longer texts, are not included.
    pub fn expressions(&self) -> Vec<WrittenExpression> {
        let mut found = Vec::new();
        // Documents may be deep, so the walk uses a list instead of recursion.
        let mut open: Vec<(Vec<PathStep>, &Node)> = vec![(Vec::new(), &self.node)];
        while let Some((path, node)) = open.pop() {
            let below = |step| path.iter().cloned().chain([step]).collect::<Vec<_>>();
            match &node.value {
                Value::Map(map) => {
                    let before = open.len();
                    let fields =
                        map.iter().map(|(key, field)| (below(PathStep::Key(key.to_string())), field));
                    open.extend(fields);
                    open[before..].reverse();
                }
                Value::List(list) => {
                    let before = open.len();
                    let entries = list.iter().enumerate();
                    open.extend(entries.map(|(index, entry)| (below(PathStep::Index(index)), entry)));
                    open[before..].reverse();
                }
                Value::String(text) => {
                    let Some(inner) = is_dynaml(text) else { continue };
                    let markers = syntax::parse(inner).map(markers).map_err(|error| error.to_string());
                    let origin = &node.origin;
                    let position = (origin.line > 0).then_some((origin.line, origin.column));
                    found.push(WrittenExpression { path, position, markers });
                }
                _ => {}
            }
        }
        found
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it ends a chain")]
fn markers(expression: Expr) -> Vec<&'static str> {
    let Expr::Marked(marked) = &expression else { return Vec::new() };
    let name = |marker: &Marker| match marker {
        Marker::Template => "template",
        Marker::Temporary => "temporary",
        Marker::Local => "local",
        Marker::Inject => "inject",
        Marker::State => "state",
        Marker::Default => "default",
        Marker::Dynamic => "dynamic",
        Marker::Tag { .. } => "tag",
    };
    marked.markers.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn all_expressions_are_found() {
        let text = "\
b: (( &state &temporary ( 1 ) ))
a:
- plain
- <<: (( &template ))
  c: (( 1 + ))
d: ((! escaped ))
e: (( a.b ))
";
        let document = Document::read(text, "t", &Limits::default()).unwrap();
        let shown: Vec<String> = document
            .expressions()
            .into_iter()
            .map(|found| {
                let path: String = found
                    .path
                    .iter()
                    .map(|step| match step {
                        PathStep::Key(key) => format!(".{key}"),
                        PathStep::Index(index) => format!("[{index}]"),
                    })
                    .collect();
                let (line, column) = found.position.unwrap();
                let markers = found.markers.map_or_else(|_| "no expression".to_owned(), |all| all.join(" "));
                format!("{path} {line}:{column} {markers}")
            })
            .collect();
        assert_eq!(
            shown,
            [".a[1].<< 4:7 template", ".a[1].c 5:6 no expression", ".b 1:4 state temporary", ".e 7:4 "]
        );
        assert_eq!(Document::from_value(Value::string("(( 1 ))")).expressions()[0].position, None);
    }
}
