//! Parser from text to expression: recursive descent by the PEG of `spiff.md` 6.1.
//!
//! Choices are ordered and final as in a PEG. If two alternatives begin alike (`( … )` as group or
//! scope, `[ … ]` as list, range, step or slice, a condition with and without `?`), the common part
//! is parsed once. A rule that failed at a position is not tried there again. The expression of a
//! mapping form is kept if the form turns out to be a reference. So the time is linear.

mod chain;
mod lambda;
mod lexical;
mod operand;

use std::collections::{HashMap, HashSet};

use super::ast::{Expr, Operator, Step};
use super::error::{Excerpt, ParseError};

/// Limit for the levels of nested expressions in brackets.
const MAX_NESTING: u32 = 500;
/// Limit for the levels of the tree, including the operators of a chain, so that walks over the
/// tree may recurse.
const MAX_HEIGHT: u32 = 2_000;

/// Parses the text between `((` and `))`.
///
/// # Errors
///
/// The text is not an expression, or is nested too deep; see [`ParseError`].
pub(crate) fn parse(text: &str) -> Result<Expr, ParseError> {
    parse_redirected(text, None)
}

/// Parses as [`parse`], for a node whose values are read elsewhere in stubs: a plain `merge` there
/// reads that path.
pub(crate) fn parse_redirected(text: &str, stub_path: Option<Vec<Step>>) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(text);
    parser.stub_path = stub_path;
    let parsed = parser.dynaml().filter(|_| parser.at == text.len());
    if let Some(fatal) = parser.fatal {
        return Err(fatal);
    }
    let (start, end) = parser.furthest;
    parsed.ok_or_else(|| ParseError::Syntax(Excerpt::new(text, start, end)))
}

struct Parser<'text> {
    text: &'text str,
    bytes: &'text [u8],
    at: usize,
    /// Number of expressions around the current position.
    nesting: u32,
    /// Levels of the expression that was returned last.
    height: u32,
    /// Start and end of the first token that reached furthest.
    furthest: (usize, usize),
    /// An error that ends parsing, even if alternatives are left.
    fatal: Option<ParseError>,
    /// Rules that did not match, with their position. Trying one again would double the time at
    /// each level.
    missed: HashSet<(Rule, usize)>,
    /// Expressions of level 7 that another rule will need again.
    kept: HashMap<usize, Parsed>,
    /// Stub path of a plain `merge`, if it is not the path of its node.
    stub_path: Option<Vec<Step>>,
    /// A group that was parsed as a possible head of a scope, and is needed again as an operand.
    group: Option<(usize, Parsed)>,
}

/// Rules that may run at the same place more than once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Rule {
    Expression,
    Operand,
    /// The branches behind a `?`.
    Branches,
    /// The lambda that begins with a `|`.
    Lambda,
}

struct Parsed {
    expression: Expr,
    end: usize,
    height: u32,
}

const OTHERWISE: &[(&str, Operator)] = &[("||", Operator::Otherwise), ("//", Operator::OtherwiseValid)];
const LOGIC: &[(&str, Operator)] = &[("-or", Operator::Or), ("-and", Operator::And)];
const COMPARE: &[(&str, Operator)] = &[
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessEqual),
    (">=", Operator::GreaterEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
];
const ADD: &[(&str, Operator)] = &[("+", Operator::Add), ("-", Operator::Subtract)];
const MULTIPLY: &[(&str, Operator)] =
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Modulo)];

impl<'text> Parser<'text> {
    fn new(text: &'text str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            nesting: 0,
            height: 1,
            furthest: (0, 0),
            fatal: None,
            missed: HashSet::new(),
            kept: HashMap::new(),
            stub_path: None,
            group: None,
        }
    }

    /// Runs a rule. If it does not match, no text is consumed.
    fn attempt<T>(&mut self, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let result = rule(self);
        if result.is_none() {
            self.at = start;
        }
        result
    }

    /// Runs a rule for the text at `start`, unless the rule already failed there.
    fn unless_missed<T>(
        &mut self,
        rule: Rule,
        start: usize,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        if self.missed.contains(&(rule, start)) {
            return None;
        }
        let found = read(self);
        if found.is_none() {
            self.missed.insert((rule, start));
        }
        found
    }

    /// Records that a token that began at `start` ends here.
    fn matched(&mut self, start: usize) {
        if start != self.at && self.at > self.furthest.1 {
            self.furthest = (start, self.at);
        }
    }

    /// Sets the height to one level above `below`.
    fn raise(&mut self, below: u32) -> Option<()> {
        self.height = below + 1;
        if self.height > MAX_HEIGHT {
            self.fatal.get_or_insert(ParseError::TooDeep { limit: MAX_HEIGHT });
        }
        self.alive()
    }

    fn alive(&self) -> Option<()> {
        self.fatal.is_none().then_some(())
    }

    /// Runs a rule that may call itself.
    fn nested(&mut self, rule: impl FnOnce(&mut Self) -> Option<Expr>) -> Option<Expr> {
        if self.nesting == MAX_NESTING {
            self.fatal.get_or_insert(ParseError::TooDeep { limit: MAX_NESTING });
            return None;
        }
        self.nesting += 1;
        let expression = stacker::maybe_grow(256 << 10, 2 << 20, || rule(self));
        self.nesting -= 1;
        expression
    }

    fn dynaml(&mut self) -> Option<Expr> {
        if let Some(preferred) = self.attempt(Self::prefer) {
            return Some(preferred);
        }
        if let Some(marked) = self.attempt(Self::marked) {
            return Some(marked);
        }
        self.expression()
    }

    fn prefer(&mut self) -> Option<Expr> {
        self.space();
        self.literal("prefer")?;
        self.some_space()?;
        let expression = self.expression()?;
        self.raise(self.height)?;
        Some(Expr::Prefer(Box::new(expression)))
    }

    /// `expr`: scope, lambda or operators, with the white space around it.
    fn expression(&mut self) -> Option<Expr> {
        let start = self.at;
        self.alive()?;
        self.unless_missed(Rule::Expression, start, |parser| {
            parser.nested(|parser| parser.attempt(Self::bare_expression))
        })
    }

    fn bare_expression(&mut self) -> Option<Expr> {
        self.space();
        let expression = match self.peek() {
            // A kept expression is known to be neither a scope nor a lambda.
            _ if self.kept.contains_key(&self.at) => self.alternatives(),
            Some(b'(') => self.scoped_or_grouped(),
            Some(b'|') => self.lambda_expression(),
            _ => self.alternatives(),
        }?;
        self.space();
        Some(expression)
    }

    /// Parses `( k = v, … ) expr`, or an operand that begins with `( expr )`.
    fn scoped_or_grouped(&mut self) -> Option<Expr> {
        let start = self.at;
        self.byte(b'(')?;
        self.matched(start);
        let inner = self.at;
        self.space();
        if self.peek() == Some(b')') {
            return self.scope_body(start, Vec::new());
        }
        self.at = inner;
        let first = self.expression()?;
        let height = self.height;
        if self.peek() == Some(b'=') {
            let assignments = self.assignments_after(first)?;
            return self.scope_body(start, assignments);
        }
        self.byte(b')')?;
        self.matched(start);
        self.raise(height)?;
        let group = Parsed { expression: Expr::Group(Box::new(first)), end: self.at, height: self.height };
        self.group = Some((start, group));
        self.at = start;
        self.alternatives()
    }

    fn scope_body(&mut self, start: usize, assignments: Vec<(Expr, Expr)>) -> Option<Expr> {
        let height = if assignments.is_empty() { 0 } else { self.height };
        self.byte(b')')?;
        self.matched(start);
        self.space();
        let body = self.expression()?;
        self.raise(self.height.max(height))?;
        Some(Expr::Scope(assignments, Box::new(body)))
    }

    /// Parses the rest of `k = v { , k = v }` behind the first key.
    fn assignments_after(&mut self, first: Expr) -> Option<Vec<(Expr, Expr)>> {
        let mut height = self.height;
        let mut key = first;
        let mut assignments = Vec::new();
        loop {
            self.byte(b'=')?;
            let value = self.expression()?;
            height = height.max(self.height);
            assignments.push((key, value));
            if self.byte(b',').is_none() {
                self.height = height;
                return Some(assignments);
            }
            key = self.expression()?;
            height = height.max(self.height);
        }
    }

    /// Parses `A || B` and `A // B`, which bind loosest (`spiff.md` 6.2).
    fn alternatives(&mut self) -> Option<Expr> {
        self.space();
        if let Some(parsed) = self.kept.remove(&self.at) {
            self.at = parsed.end;
            self.height = parsed.height;
            return Some(parsed.expression);
        }
        self.operators(OTHERWISE, Self::conditional)
    }

    /// Parses `A ? B : C`. Without `?` the condition is the whole expression.
    fn conditional(&mut self) -> Option<Expr> {
        let condition = self.concatenation()?;
        let height = self.height;
        let branches = self.attempt(|parser| {
            parser.space();
            let start = parser.at;
            parser.byte(b'?')?;
            // Every enclosing condition that ends here would parse the branches again, so a failure
            // is remembered.
            parser.unless_missed(Rule::Branches, start, |parser| parser.branches(height))
        });
        let Some((chosen, other)) = branches else {
            self.height = height;
            self.alive()?;
            return Some(condition);
        };
        Some(Expr::Conditional(Box::new(condition), Box::new(chosen), Box::new(other)))
    }

    /// Parses `B : C` for a condition of this height.
    fn branches(&mut self, height: u32) -> Option<(Expr, Expr)> {
        let chosen = self.expression()?;
        let chosen_height = self.height;
        self.byte(b':')?;
        let other = self.expression()?;
        self.raise(height.max(chosen_height).max(self.height))?;
        Some((chosen, other))
    }

    /// Parses two or more expressions side by side, `A B`.
    fn concatenation(&mut self) -> Option<Expr> {
        let mut left = self.logic()?;
        let mut height = self.height;
        loop {
            let right = self.attempt(|parser| {
                parser.some_space()?;
                parser.logic()
            });
            let Some(right) = right else { break };
            self.raise(height.max(self.height))?;
            height = self.height;
            left = Expr::Binary(Operator::Concatenate, Box::new(left), Box::new(right));
        }
        self.height = height;
        self.alive()?;
        Some(left)
    }

    /// `-and` and `-or`.
    fn logic(&mut self) -> Option<Expr> {
        self.operators(LOGIC, Self::comparison)
    }

    /// `==`, `<` and the like.
    fn comparison(&mut self) -> Option<Expr> {
        self.operators(COMPARE, Self::sum)
    }

    /// `+` and `-`.
    fn sum(&mut self) -> Option<Expr> {
        self.operators(ADD, Self::product)
    }

    /// `*`, `/` and `%`, which bind tightest.
    fn product(&mut self) -> Option<Expr> {
        self.operators(MULTIPLY, Self::operand)
    }

    /// `next { WS operator WS next }`, left associative.
    fn operators(
        &mut self,
        operators: &[(&str, Operator)],
        next: fn(&mut Self) -> Option<Expr>,
    ) -> Option<Expr> {
        let mut left = next(self)?;
        let mut height = self.height;
        loop {
            let pair = self.attempt(|parser| {
                parser.some_space()?;
                let operator = parser.operator(operators)?;
                parser.some_space()?;
                Some((operator, next(parser)?))
            });
            let Some((operator, right)) = pair else { break };
            self.raise(height.max(self.height))?;
            height = self.height;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        self.height = height;
        self.alive()?;
        Some(left)
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let start = self.at;
        let (_, operator) = operators.iter().find(|(text, _)| self.literal(text).is_some())?;
        self.matched(start);
        Some(*operator)
    }
}

#[cfg(test)]
mod tests;
