//! The syntax: from text to expression and back (`spiff.md` 6).

pub(crate) mod ast;
mod error;
mod parser;
mod print;
pub(crate) mod strings;

use std::sync::Arc;

use ast::{Expr, LambdaExpr};
pub(crate) use error::ParseError;
pub(crate) use parser::{parse, parse_redirected};

/// Parses a text that contains a lambda, or returns `None` if it contains another expression
/// (`spiff.md` 8.1, `lambda EXPR`).
pub(crate) fn parse_lambda(text: &str) -> Result<Option<Arc<LambdaExpr>>, ParseError> {
    Ok(match parse(text)? {
        Expr::Lambda(lambda) => Some(lambda),
        _ => None,
    })
}

/// Returns a printed expression, and the same after parsing and printing it once more; `None` for a
/// text that is not an expression. For tests of printer and parser.
#[doc(hidden)]
pub fn reprinted(text: &str) -> Option<(String, Option<String>)> {
    let printed = parse(text).ok()?.to_string();
    match parse(&printed) {
        Ok(expression) => Some((printed, Some(expression.to_string()))),
        // The additional brackets of prefix operators count as levels, so the printed text may be
        // too deep.
        Err(ParseError::TooDeep { .. }) => None,
        Err(_) => Some((printed, None)),
    }
}
