//! CEL as cel-go has it (`packagevariants.md` 4.4): the same types, the same results and the same words for what is wrong.
//!
//! ```text
//! text ──parser──> tree ──check──> types, overloads ──plan──> Node ──evaluate, Host──> Value
//! ```
//!
//! The parser is a library. What people notice of the language is in the types and in the evaluation: which of several mistakes is
//! told, that conversions of constants are done when an expression is compiled, that two values of unknown types add up as bytes.
//! Expressions of strangers have bounds: on their form ([`check_form`]), on what they cost ([`Program::cost`]), on their [`Patterns`].

mod check;
mod convert;
mod cost;
mod declarations;
mod eval;
mod functions;
mod limits;
mod operators;
mod patterns;
mod plan;
mod time;
mod types;
mod value;

use std::fmt::Write as _;

use cel::Env;
use cel::parser::Expression;

pub use cost::{Size, Sizes};
pub use functions::Host;
pub use limits::{STACK, check_form};
pub use patterns::Patterns;
pub use time::Time;
pub use value::{EvalError, Key, Map, Value};

/// What a host declares.
pub trait Declarations {
    /// What a variable is declared to be; none if it is not.
    fn variable(&self, name: &str) -> Option<Declared>;

    /// Looks at a pattern that is written in an expression.
    ///
    /// # Errors
    ///
    /// It is none; the error says what cel-go says.
    fn check_pattern(&self, pattern: &str) -> Result<(), EvalError>;
}

/// What a variable is declared to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    String,
    /// Judged when it is evaluated.
    Dyn,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    tree: Expression,
    root: plan::Node,
    names: Vec<String>,
}

/// Compiles expressions.
#[expect(missing_debug_implementations, reason = "the parser has none")]
pub struct Compiler {
    environment: Env,
}

impl Default for Compiler {
    fn default() -> Self {
        Self { environment: Env::stdlib().with_optional_support(false) }
    }
}

impl Compiler {
    /// Compiles an expression with what is declared.
    ///
    /// # Errors
    ///
    /// Syntax, types, and conversions of constants that cannot be done, in the words of cel-go without where it stands.
    pub fn compile(&self, source: &str, declared: &dyn Declarations) -> Result<Program, String> {
        let program = self.environment.compile(source).map_err(|errors| {
            let mut text = String::new();
            for error in errors.errors.iter().take(3) {
                let separator = if text.is_empty() { "" } else { "; " };
                let kind = if is_named(&error.msg) { "" } else { "Syntax error: " };
                let message = if error.msg == "argument must be a simple name" {
                    "argument is not an identifier"
                } else {
                    &error.msg
                };
                let _ = write!(text, "{separator}{kind}{message} (at {}:{})", error.pos.0, error.pos.1);
            }
            text
        })?;
        let resolved = check::check(program.expression(), program.source_info(), declared)?;
        let root =
            plan::plan(program.expression(), &resolved, declared).map_err(|error| error.to_string())?;
        let names = program.references().variables().into_iter().map(str::to_owned).collect();
        Ok(Program { tree: program.expression().clone(), root, names })
    }
}

impl Program {
    /// Evaluates it. To be called with as much stack as the depth of the expression takes.
    ///
    /// # Errors
    ///
    /// The error of cel-go.
    pub fn evaluate(&self, host: &dyn Host) -> Result<Value, EvalError> {
        eval::Frame::new(host).evaluate(&self.root)
    }

    /// Units that evaluating it costs at most, by its form and the sizes of what it reads.
    pub fn cost(&self, sizes: &dyn Sizes) -> u64 {
        cost::bound(&self.tree, sizes)
    }

    /// Whether it names a variable.
    pub fn names(&self, variable: &str) -> bool {
        self.names.iter().any(|name| name == variable)
    }
}

/// Whether the parser's message says itself what is wrong.
fn is_named(message: &str) -> bool {
    ["Syntax error", "reserved identifier", "unsupported syntax", "invalid argument to has()"]
        .iter()
        .any(|known| message.contains(known))
}
