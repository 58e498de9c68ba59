//! CEL as cel-go implements it (`packagevariants.md` 4.4): the same types, the same results and the
//! same error texts.
//!
//! ```text
//! text ──parser──> tree ──check──> types, overloads ──plan──> Node ──evaluate, Host──> Value
//! ```
//!
//! The parser is a library. The rules that users notice are in the type check and the evaluation:
//! which of several faults is reported, that conversions of constants are done at compile time,
//! that two values of unknown types add up as bytes. Expressions of untrusted users have limits: on
//! their form ([`check_form`]), on the [`Steps`] of an evaluation, and on their [`Patterns`].

mod check;
mod compile;
mod convert;
mod declarations;
mod eval;
mod functions;
mod json;
mod limits;
mod operators;
mod patterns;
mod time;
mod types;
mod value;

use std::fmt::Write as _;

use cel::Env;

pub use functions::Host;
pub use groundwork_budget::Steps;
pub use limits::{STACK, check_form};
pub use patterns::Patterns;
pub use time::Time;
pub use value::{EvalError, Key, Map, Value};

/// Declarations of the variables that expressions may use, provided by the program that compiles
/// them.
pub trait Declarations {
    /// Returns the declaration of a variable, or `None` if it is not declared.
    fn variable(&self, name: &str) -> Option<Declared>;

    /// Checks a pattern that is written in an expression.
    ///
    /// # Errors
    ///
    /// The text is not a pattern; the message is that of cel-go.
    fn check_pattern(&self, pattern: &str) -> Result<(), EvalError>;
}

/// The declared type of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    String,
    /// Any type; it is checked when the variable is evaluated.
    Dyn,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: compile::Node,
    names: Vec<String>,
}

/// A compiler of expressions.
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
    /// Compiles an expression with the given declarations.
    ///
    /// # Errors
    ///
    /// Faults of syntax, types, and conversions of constants, in the words of cel-go without the
    /// place.
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
            compile::plan(program.expression(), &resolved, declared).map_err(|error| error.to_string())?;
        let names = program.references().variables().into_iter().map(str::to_owned).collect();
        Ok(Program { root, names })
    }
}

impl Program {
    /// Evaluates the program within these steps: one for each evaluated part, for each element that
    /// is made or compared, and for sixteen bytes of text. Call it with enough stack for the depth
    /// of the expression, see [`STACK`].
    ///
    /// # Errors
    ///
    /// The error of cel-go. If the steps are exceeded, they say so, and the error does not count.
    pub fn evaluate(&self, host: &dyn Host, steps: &Steps) -> Result<Value, EvalError> {
        let value = eval::Frame::new(host, steps).evaluate(&self.root);
        if steps.is_exceeded() { Err(EvalError::too_many_steps()) } else { value }
    }

    /// Reports whether the expression uses a variable.
    pub fn names(&self, variable: &str) -> bool {
        self.names.iter().any(|name| name == variable)
    }
}

/// Reports whether the parser's message already describes the fault.
fn is_named(message: &str) -> bool {
    ["Syntax error", "reserved identifier", "unsupported syntax", "invalid argument to has()"]
        .iter()
        .any(|known| message.contains(known))
}
