//! Printer from expression to text (`spiff.md` 6.4), for messages and for lambdas in documents.

use std::fmt::{self, Display, Formatter};

use super::ast::{
    Arguments, Expr, Form, Item, LambdaExpr, Link, Mapping, Marked, Marker, Merge, MergeOption, Operator,
    Range, Reference, Step, Sync,
};
use super::strings::push_quoted;

impl Display for Expr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        stacker::maybe_grow(256 << 10, 2 << 20, || print(self, out))
    }
}

fn print(expression: &Expr, out: &mut Formatter<'_>) -> fmt::Result {
    match expression {
        Expr::Nil => out.write_str("nil"),
        Expr::Undefined => out.write_str("~~"),
        Expr::Bool(value) => write!(out, "{value}"),
        Expr::Int(value) => write!(out, "{value}"),
        Expr::Float(value) => out.write_str(&float_text(*value)),
        Expr::String(text) => {
            let mut quoted = String::with_capacity(text.len() + 2);
            push_quoted(&mut quoted, text);
            out.write_str(&quoted)
        }
        Expr::Auto => out.write_str("auto"),
        Expr::Reference(reference) => reference.fmt(out),
        Expr::Merge(merge) => merge.fmt(out),
        Expr::Not(operand) => write!(out, "!({operand})"),
        Expr::Substitute(template) => write!(out, "*({template})"),
        Expr::Group(inner) => write!(out, "( {inner} )"),
        Expr::Binary(Operator::Concatenate, left, right) => write!(out, "{left} {right}"),
        Expr::Binary(operator, left, right) => write!(out, "{left} {} {right}", operator.text()),
        Expr::Conditional(condition, chosen, other) => write!(out, "{condition} ? {chosen} : {other}"),
        Expr::List(items) => {
            out.write_str("[")?;
            print_items(items, out)?;
            out.write_str("]")
        }
        Expr::Map(assignments) => {
            out.write_str("{ ")?;
            print_assignments(assignments, out)?;
            out.write_str(if assignments.is_empty() { "}" } else { " }" })
        }
        Expr::Range(range) => range.fmt(out),
        Expr::Scope(assignments, body) => {
            out.write_str("( ")?;
            print_assignments(assignments, out)?;
            out.write_str(if assignments.is_empty() { ") " } else { " ) " })?;
            body.fmt(out)
        }
        Expr::Lambda(lambda) => lambda.fmt(out),
        Expr::LambdaOf(source) => write!(out, "lambda {source}"),
        Expr::Chain(start, links) => print_chain(start, links, out),
        Expr::Mapping(mapping) => mapping.fmt(out),
        Expr::Catch { expression, handler } => {
            write!(out, "catch[{expression}")?;
            print_body(handler, out)?;
            out.write_str("]")
        }
        Expr::Sync(sync) => sync.fmt(out),
        Expr::Prefer(inner) => write!(out, "prefer {inner}"),
        Expr::Marked(marked) => marked.fmt(out),
        Expr::Control(shown) => out.write_str(shown),
    }
}

impl Operator {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::And => "-and",
            Self::Or => "-or",
            Self::Concatenate => "",
            Self::Otherwise => "||",
            Self::OtherwiseValid => "//",
        }
    }
}

/// Returns the shortest text that parses to this float: never that of an int, and without the `+`
/// of an exponent, which the grammar lacks.
fn float_text(value: f64) -> String {
    let text = groundwork_go::strconv::format_g(value).replace("e+", "e");
    if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
}

fn print_list<T: Display>(entries: &[T], separator: &str, out: &mut Formatter<'_>) -> fmt::Result {
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.write_str(separator)?;
        }
        entry.fmt(out)?;
    }
    Ok(())
}

fn print_items(items: &[Item], out: &mut Formatter<'_>) -> fmt::Result {
    print_list(items, ", ", out)
}

fn print_assignments(assignments: &[(Expr, Expr)], out: &mut Formatter<'_>) -> fmt::Result {
    for (at, (key, value)) in assignments.iter().enumerate() {
        let separator = if at > 0 { ", " } else { "" };
        write!(out, "{separator}{key} = {value}")?;
    }
    Ok(())
}

impl Display for Item {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.expression.fmt(out)?;
        out.write_str(if self.expand { "..." } else { "" })
    }
}

impl Display for Range {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("[")?;
        if let Some(start) = &self.start {
            start.fmt(out)?;
        }
        out.write_str("..")?;
        if let Some(end) = &self.end {
            end.fmt(out)?;
        }
        out.write_str("]")
    }
}

/// Prints links. Steps behind a link other than a projection put the part before them in brackets:
/// `(f(x)).a.b`.
fn print_chain(start: &Expr, links: &[Link], out: &mut Formatter<'_>) -> fmt::Result {
    let projection = links.iter().position(|link| matches!(link, Link::All | Link::Slice(_)));
    let before = &links[..projection.unwrap_or(links.len())];
    let is_step = |link: Option<&Link>| matches!(link, Some(Link::Step(_)));
    let begins = |at: usize| is_step(before.get(at)) && (at == 0 || !is_step(before.get(at - 1)));
    for _ in (0..before.len()).filter(|at| begins(*at)) {
        out.write_str("(")?;
    }
    start.fmt(out)?;
    for (at, link) in links.iter().enumerate() {
        if begins(at) {
            out.write_str(")")?;
        }
        match link {
            Link::Call { arguments, curry } => write!(out, "{}{arguments}", if *curry { "*" } else { "" })?,
            Link::Step(step) => write!(out, ".{step}")?,
            Link::Dynamic(items) => {
                out.write_str(".[")?;
                print_items(items, out)?;
                out.write_str("]")?;
            }
            Link::All => out.write_str(".[*]")?,
            Link::Slice(range) => write!(out, ".{range}")?,
        }
    }
    Ok(())
}

impl Display for Arguments {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("(")?;
        for (at, (name, value)) in self.named.iter().enumerate() {
            let separator = if at > 0 { ", " } else { "" };
            write!(out, "{separator}{name}={value}")?;
        }
        if !self.named.is_empty() && !self.positional.is_empty() {
            out.write_str(", ")?;
        }
        print_items(&self.positional, out)?;
        out.write_str(")")
    }
}

impl Display for Step {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => out.write_str(name),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

impl Display for Reference {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if let Some(tag) = &self.tag {
            write!(out, "{tag}::{}", if self.absolute { "." } else { "" })?;
            // Behind `tag::.` every step has a dot of its own.
            if self.absolute && !self.steps.is_empty() {
                out.write_str(".")?;
            }
        } else if self.absolute && !self.steps.is_empty() {
            out.write_str(".")?;
        }
        print_list(&self.steps, ".", out)
    }
}

impl Display for Merge {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("merge")?;
        if self.option == MergeOption::Replace && self.path.is_none() {
            // spiff++ prints `merge replace` without a path as `merge required`.
            return out.write_str(" required");
        }
        match &self.option {
            // spiff++ does not print `required` (E10).
            MergeOption::Plain | MergeOption::Required => {}
            MergeOption::Replace => out.write_str(" replace")?,
            MergeOption::On(key) => write!(out, " on {key}")?,
            MergeOption::None => out.write_str(" none")?,
        }
        match &self.path {
            Some(path) => write!(out, " {path}"),
            None => Ok(()),
        }
    }
}

impl LambdaExpr {
    /// `|a,b=2|->body`.
    fn print_inline(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("|")?;
        for (at, parameter) in self.parameters.iter().enumerate() {
            let separator = if at > 0 { "," } else { "" };
            write!(out, "{separator}{}", parameter.name)?;
            if let Some(default) = &parameter.default {
                write!(out, "={default}")?;
            }
        }
        write!(out, "{}|->{}", if self.variadic { "..." } else { "" }, self.body)
    }
}

impl Display for LambdaExpr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("lambda")?;
        self.print_inline(out)
    }
}

/// Prints the lambda of a form in brackets, whether it was written there or is a reference.
fn print_body(body: &Expr, out: &mut Formatter<'_>) -> fmt::Result {
    match body {
        Expr::Lambda(lambda) => lambda.print_inline(out),
        reference => write!(out, "|{reference}"),
    }
}

impl Display for Mapping {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (open, close) = self.form.brackets();
        write!(out, "{open}{}", self.source)?;
        if let Some(initial) = &self.initial {
            write!(out, "|{initial}")?;
        }
        print_body(&self.lambda, out)?;
        out.write_str(close)
    }
}

impl Form {
    pub(crate) fn brackets(self) -> (&'static str, &'static str) {
        match self {
            Self::MapList => ("map[", "]"),
            Self::MapMap => ("map{", "}"),
            Self::SelectList => ("select[", "]"),
            Self::SelectMap => ("select{", "}"),
            Self::FilterList => ("filter[", "]"),
            Self::FilterMap => ("filter{", "}"),
            Self::Sum => ("sum[", "]"),
        }
    }
}

impl Display for Sync {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "sync[{}", self.expression)?;
        print_body(&self.condition, out)?;
        match &self.value {
            Some(value) if self.value_shares_parameters => write!(out, ",{value}")?,
            Some(value) => print_body(value, out)?,
            None => {}
        }
        if let Some(timeout) = &self.timeout {
            write!(out, "|{timeout}")?;
        }
        out.write_str("]")
    }
}

impl Display for Marked {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        print_list(&self.markers, " ", out)?;
        match &self.expression {
            Some(_) => write!(out, " (({}))", self.text),
            None => Ok(()),
        }
    }
}

impl Display for Marker {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Template => "&template",
            Self::Temporary => "&temporary",
            Self::Local => "&local",
            Self::Inject => "&inject",
            Self::State => "&state",
            Self::Default => "&default",
            Self::Dynamic => "&dynamic",
            Self::Tag { name, global } => {
                return write!(out, "&tag:{}{name}", if *global { "*" } else { "" });
            }
        };
        out.write_str(word)
    }
}

#[cfg(test)]
mod tests;
