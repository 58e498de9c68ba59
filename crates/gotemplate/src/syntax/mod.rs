//! The syntax: from source bytes to the compiled tree (`gotemplate.md` 2 to 4).

mod expression;
pub(crate) mod lexer;
pub(crate) mod literal;
pub(crate) mod parser;
pub(crate) mod print;
mod scope;
pub(crate) mod token;
pub(crate) mod tree;

pub(crate) use parser::parse;
