//! From the text of a script to its tree.

mod lexer;
pub(crate) mod literal;
mod parser;
mod resolver;
mod token;
mod tree;

pub(crate) use resolver::resolve;
pub(crate) use tree::{
    Argument, Binary, Block, Clause, Expr, ExprKind, Function, Literal, Name, Script, Slot, Statement,
    StatementKind, Unary,
};

use crate::fault::Fault;

/// Parses a script, and finds the variable of each name in it.
///
/// `known` returns the number of a name that is defined before the script begins.
pub(crate) fn parse(text: &str, known: &dyn Fn(&str) -> Option<usize>) -> Result<Script, Fault> {
    let mut script = parser::parse(text)?;
    resolve(&mut script, known)?;
    Ok(script)
}
