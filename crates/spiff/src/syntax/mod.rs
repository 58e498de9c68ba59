//! Text to expression and back (section 6).

pub(crate) mod ast;
mod error;
mod parser;
mod print;
pub(crate) mod strings;

use std::sync::Arc;

use ast::{Expr, LambdaExpr};
pub(crate) use error::ParseError;
pub(crate) use parser::{parse, parse_redirected};

/// The lambda that a text holds, `None` if it holds another expression (section 8.1, `lambda EXPR`).
pub(crate) fn parse_lambda(text: &str) -> Result<Option<Arc<LambdaExpr>>, ParseError> {
    Ok(match parse(text)? {
        Expr::Lambda(lambda) => Some(lambda),
        _ => None,
    })
}

/// An expression as it is printed, and that printed once more after it was parsed; `None` for a text that is no expression. Only of
/// use for finding out whether the printer and the parser agree.
#[doc(hidden)]
pub fn reprinted(text: &str) -> Option<(String, Option<String>)> {
    let printed = parse(text).ok()?.to_string();
    match parse(&printed) {
        Ok(expression) => Some((printed, Some(expression.to_string()))),
        // The brackets that prefix operators print count as levels, too.
        Err(ParseError::TooDeep { .. }) => None,
        Err(_) => Some((printed, None)),
    }
}
