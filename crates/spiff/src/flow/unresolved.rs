//! The nodes without a value in a document at rest (`spiff.md` 15).

use std::fmt;
use std::sync::Arc;

use crate::issue::Issue;
use crate::scope::dotted;
use crate::syntax;
use crate::syntax::ast::{Expr, Step};
use crate::syntax::strings::{is_dynaml, may_be_dynaml};
use crate::value::{Flags, Node, Value};

/// One node without a value.
#[derive(Debug, Clone)]
pub struct Unresolved {
    /// The expression as it is printed, a value, or `<map>`.
    expression: String,
    /// True if the expression is shown in double parentheses.
    parentheses: bool,
    source: Arc<str>,
    line: u32,
    column: u32,
    context: String,
    path: String,
    class: Class,
    issue: Issue,
}

/// Classes of nodes, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// A local error.
    Failed,
    /// The node has no error of its own and waits.
    Waiting,
    /// A node that it refers to failed.
    Affected,
}

impl Class {
    fn sign(self) -> char {
        match self {
            Self::Failed => '*',
            Self::Waiting => '@',
            Self::Affected => '-',
        }
    }
}

impl Unresolved {
    /// Name of the document that the node was written in.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Line and column in the document, from 1; `None` if an expression made the node.
    pub fn position(&self) -> Option<(u32, u32)> {
        (self.line > 0).then_some((self.line, self.column))
    }

    /// Path of the node in the result, as `a.[0].b`.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// The expression as it is printed, without its parentheses.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the reason why the node has no value.
    pub fn issue(&self) -> &Issue {
        &self.issue
    }

    /// Reports whether the node itself failed, and not a node that it waits for.
    pub fn is_error(&self) -> bool {
        self.class == Class::Failed
    }

    /// The node as a cause of another issue (`spiff.md` 15.3).
    pub(crate) fn to_issue(&self) -> Issue {
        let mut message = String::new();
        let _ = self.write_head(&mut message);
        if !self.issue.message.is_empty() {
            message.push(self.class.sign());
            message.push_str(&self.issue.message);
        }
        Issue { message, nested: self.issue.nested.clone(), sequence: self.issue.sequence }
    }

    fn write_head(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let expression = self.expression.replace('\n', "\n\t");
        if self.parentheses {
            write!(out, "(( {expression} ))")?;
        } else {
            out.write_str(&expression)?;
        }
        write!(out, "\tin {}\t{}\t({})", self.source, self.context, self.path)
    }
}

/// Writes the line of `spiff.md` 15.2, without the tab in front.
impl fmt::Display for Unresolved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(formatter)?;
        if !self.issue.message.is_empty() {
            write!(formatter, "\t{}{}", self.class.sign(), self.issue.message)?;
        }
        write_nested(formatter, &self.issue, 0)
    }
}

/// Writes the causes. Those in a chain follow below each other; those in a list are indented, with
/// all that is below them.
fn write_nested(out: &mut impl fmt::Write, issue: &Issue, depth: usize) -> fmt::Result {
    let depth = if issue.sequence { depth } else { depth + 3 };
    let gap = "\t".repeat(depth);
    for nested in &issue.nested {
        write!(out, "\n{gap}{}", if issue.sequence { "\t\t... " } else { "" })?;
        out.write_str(&nested.message.replace('\n', &format!("\n{gap}")))?;
        write_nested(out, nested, depth)?;
    }
    Ok(())
}

/// Returns all nodes of a tree without a value, in the order of the report.
pub(super) fn find(root: &Node) -> Vec<Unresolved> {
    let mut found = Vec::new();
    collect(root, &mut Vec::new(), &mut found);
    found.sort_by(|left, right| left.class.cmp(&right.class).then_with(|| left.context.cmp(&right.context)));
    found
}

/// Reports whether a node may be unresolved: a quick test, because most nodes of a finished
/// document are scalars.
fn may_be_unresolved(node: &Node) -> bool {
    let may_hold = match &node.value {
        Value::Map(map) => !map.known_inert(),
        Value::List(list) => !list.known_inert(),
        Value::Expression(_) => true,
        Value::String(text) => may_be_dynaml(text),
        _ => false,
    };
    may_hold || node.has_any(Flags::ERROR | Flags::FAILED)
}

fn collect(node: &Node, context: &mut Vec<Step>, found: &mut Vec<Unresolved>) {
    match &node.value {
        Value::Map(map) if !map.known_inert() => {
            for (key, child) in map.iter().filter(|(_, child)| may_be_unresolved(child)) {
                context.push(Step::Field(Arc::clone(key)));
                collect(child, context, found);
                context.pop();
            }
        }
        Value::List(list) if !list.known_inert() => {
            for (position, child) in list.iter().enumerate().filter(|(_, child)| may_be_unresolved(child)) {
                context.push(Step::Index(i64::try_from(position).unwrap_or(i64::MAX)));
                collect(child, context, found);
                context.pop();
            }
        }
        Value::Expression(expression) => {
            if let Expr::Control(shown) = &*expression.0 {
                found.push(describe(node, shown.to_string(), false, context, Some(String::new())));
                return;
            }
            found.push(describe(
                node,
                expression.0.to_string(),
                true,
                context,
                stub_path(node, &expression.0),
            ));
            return;
        }
        Value::String(text) => {
            if let Some(inner) = is_dynaml(text)
                && let Err(error) = syntax::parse(inner)
            {
                let mut unresolved = describe(node, text.to_string(), false, context, None);
                unresolved.class = Class::Failed;
                unresolved.issue = Issue::new(error.to_string());
                found.push(unresolved);
                return;
            }
        }
        _ => {}
    }
    if node.has_any(Flags::ERROR | Flags::FAILED) {
        let text = match &node.value {
            Value::Map(_) => "<map>".to_owned(),
            Value::List(_) => "<list>".to_owned(),
            scalar => crate::yaml::write(scalar).trim_end().to_owned(),
        };
        // The node was not evaluated, so there is no path to show.
        found.push(describe(node, text, false, context, Some(String::new())));
    }
}

/// Returns the stub path that a failing `merge` shows.
fn stub_path(node: &Node, expression: &Expr) -> Option<String> {
    if matches!(expression, Expr::Auto) {
        return node.notes.as_ref()?.path.as_ref().map(|(path, _)| dotted(path));
    }
    let Expr::Merge(merge) = expression else { return None };
    match merge.stub_path() {
        Some(path) => Some(dotted(&path)),
        None => node.notes.as_ref()?.path.as_ref().map(|(_, stub_path)| dotted(stub_path)),
    }
}

fn describe(
    node: &Node,
    expression: String,
    parentheses: bool,
    steps: &[Step],
    path: Option<String>,
) -> Unresolved {
    let context = dotted(steps);
    let own = node.notes.as_ref().and_then(|notes| notes.path.as_ref());
    let path = path.or_else(|| own.map(|(path, _)| original_path(path, steps))).unwrap_or_default();
    let waits_for_instance = || {
        node.issue()
            .is_some_and(|issue| !issue.sequence && issue.message.starts_with("resolution of template '"))
    };
    let class = if node.has(Flags::ERROR) || !node.has(Flags::FAILED) && waits_for_instance() {
        Class::Failed
    } else if node.has(Flags::FAILED) {
        Class::Affected
    } else {
        Class::Waiting
    };
    let issue = node.issue().map(|issue| (**issue).clone()).unwrap_or_default();
    let (source, line, column) = (Arc::clone(&node.origin.source), node.origin.line, node.origin.column);
    Unresolved { expression, parentheses, source, line, column, context, path, class, issue }
}

/// Returns the path at which a node was evaluated, if it is another one. Leading dots replace
/// the context if the path is below it.
fn original_path(path: &[Step], context: &[Step]) -> String {
    match path.strip_prefix(context) {
        Some([]) => String::new(),
        Some(below) if !context.is_empty() => format!("...{}", dotted(below)),
        _ => dotted(path),
    }
}
