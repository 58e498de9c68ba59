//! The parser's rules for lambdas, and for the forms that take one in brackets (`spiff.md` 8.1, 8.5
//! and 9).

use std::sync::Arc;

use super::{Parsed, Parser, Rule};
use crate::syntax::ast::{Expr, Form, LambdaExpr, Mapping, Parameter, Sync};

const FORMS: &[(&str, Form, u8)] = &[
    ("map{", Form::MapMap, b'}'),
    ("map[", Form::MapList, b']'),
    ("filter[", Form::FilterList, b']'),
    ("filter{", Form::FilterMap, b'}'),
    ("select{", Form::SelectMap, b'}'),
    ("select[", Form::SelectList, b']'),
    ("sum[", Form::Sum, b']'),
];

impl Parser<'_> {
    /// `ws params ws "->" expr`.
    pub(super) fn lambda_expression(&mut self) -> Option<Expr> {
        self.attempt(|parser| {
            parser.space();
            let start = parser.at;
            parser.byte(b'|')?;
            // The rule runs twice at this position: behind the word `lambda`, and again as the body
            // of a form before this word. The second attempt is skipped.
            parser.unless_missed(Rule::Lambda, start, |parser| parser.lambda_behind_bar(start))
        })
    }

    /// Parses the rest of a lambda whose first bar is at `start`.
    fn lambda_behind_bar(&mut self, start: usize) -> Option<Expr> {
        self.space();
        let (parameters, variadic, height) = self.attempt(Self::parameters).unwrap_or((Vec::new(), false, 0));
        self.byte(b'|')?;
        self.matched(start);
        self.space();
        self.literal("->")?;
        let body = self.expression()?;
        self.raise(self.height.max(height))?;
        Some(Expr::Lambda(Arc::new(LambdaExpr { parameters, variadic, body })))
    }

    /// Parses the names of parameters: from some point on with defaults, the last one perhaps with
    /// `...`. Returns also the height of the defaults.
    fn parameters(&mut self) -> Option<(Vec<Parameter>, bool, u32)> {
        let mut parameters = vec![self.parameter()?];
        let mut height = 0;
        while let Some(next) = self.attempt(|parser| parser.byte(b',').and_then(|()| parser.parameter())) {
            parameters.push(next);
        }
        if let Some(default) = self.attempt(Self::default_value) {
            height = self.height;
            if let Some(last) = parameters.last_mut() {
                last.default = Some(default);
            }
        }
        while let Some(next) = self.attempt(|parser| {
            parser.byte(b',')?;
            let name = parser.parameter()?.name;
            Some(Parameter { name, default: Some(parser.default_value()?) })
        }) {
            height = height.max(self.height);
            parameters.push(next);
        }
        let variadic = self.literal("...").is_some();
        if variadic {
            self.space();
        }
        Some((parameters, variadic, height))
    }

    fn parameter(&mut self) -> Option<Parameter> {
        self.space();
        let name = self.name()?;
        self.space();
        Some(Parameter { name, default: None })
    }

    fn default_value(&mut self) -> Option<Expr> {
        self.byte(b'=')?;
        self.expression()
    }

    /// `lambda | "|" expr`.
    fn body(&mut self) -> Option<Expr> {
        self.lambda_expression().or_else(|| self.attempt(Self::expression_behind_bar))
    }

    fn expression_behind_bar(&mut self) -> Option<Expr> {
        self.byte(b'|')?;
        self.expression()
    }

    /// Parses `map[…]`, `select{…}`, `sum[…]`, `catch[…]` or `sync[…]`; `None` if the word is only
    /// a name.
    pub(super) fn bracket_form(&mut self) -> Option<Expr> {
        let start = self.at;
        if self.literal("catch[").is_some() {
            return self.form(start, |parser, expression| {
                let handler = parser.body()?;
                parser.byte(b']')?;
                Some(Expr::Catch { expression: Box::new(expression()?), handler: Box::new(handler) })
            });
        }
        if self.literal("sync[").is_some() {
            return self.form(start, |parser, expression| parser.sync_rest(expression));
        }
        let (_, form, close) = FORMS.iter().find(|(word, _, _)| self.literal(word).is_some())?;
        self.form(start, |parser, source| {
            let mut height = 0;
            let initial = if *form == Form::Sum {
                parser.byte(b'|')?;
                let initial = parser.alternatives()?;
                height = parser.height;
                Some(initial)
            } else {
                None
            };
            let lambda = parser.body()?;
            parser.byte(*close)?;
            parser.height = parser.height.max(height);
            let source = source()?;
            Some(Expr::Mapping(Box::new(Mapping { form: *form, source, initial, lambda })))
        })
    }

    /// Parses the expression at the start of each form, then the rest by `rest`. If the rest does
    /// not match, the word is a reference, and the bracket a dynamic step that begins with the same
    /// text. The expression is cached for that step.
    fn form(
        &mut self,
        start: usize,
        rest: impl FnOnce(&mut Self, &mut dyn FnMut() -> Option<Expr>) -> Option<Expr>,
    ) -> Option<Expr> {
        self.space();
        let first_at = self.at;
        let first = self.nested(Self::alternatives)?;
        let (end, height) = (self.at, self.height);
        let mut first = Some(first);
        let form = rest(self, &mut || first.take());
        if let Some(form) = form {
            self.matched(start);
            self.raise(self.height.max(height))?;
            return Some(form);
        }
        if let Some(expression) = first {
            self.kept.insert(first_at, Parsed { expression, end, height });
        }
        None
    }

    fn sync_rest(&mut self, expression: &mut dyn FnMut() -> Option<Expr>) -> Option<Expr> {
        let condition = self.body()?;
        let mut height = self.height;
        let shared = matches!(condition, Expr::Lambda(_))
            .then(|| {
                self.attempt(|parser| {
                    parser.byte(b',')?;
                    parser.expression()
                })
            })
            .flatten();
        let value_shares_parameters = shared.is_some();
        let value = shared.or_else(|| self.body());
        let mut timeout = None;
        if value.is_some() {
            height = height.max(self.height);
            timeout = self.attempt(Self::expression_behind_bar);
        }
        self.byte(b']')?;
        self.height = self.height.max(height);
        let expression = expression()?;
        Some(Expr::Sync(Box::new(Sync { expression, condition, value, value_shares_parameters, timeout })))
    }
}
