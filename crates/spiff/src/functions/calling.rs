//! The interface of functions: how they are called, and their access to the evaluator and the host.

use std::sync::Arc;
use std::time::SystemTime;

use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::{Lambda, Value};

/// The result of a function.
pub(super) type Outcome = Result<Value, Issue>;
/// The result of a function that calls lambdas; `None` as with [`Caller::call`].
pub(super) type Answer = Result<Option<Value>, Issue>;

/// Access of functions to the evaluator.
pub(crate) trait Caller {
    /// Calls a lambda. `None`: the result cannot be decided in this pass, and so neither can that
    /// of the function.
    fn call(&mut self, lambda: &Arc<Lambda>, arguments: &[Value]) -> Result<Option<Value>, Issue>;

    fn limits(&self) -> &Limits;

    /// Accounts for steps before they are made.
    fn spend(&mut self, steps: usize) -> Result<(), Issue>;

    /// Accounts for searching a pattern in a text of this many bytes, before the search.
    fn pattern(&mut self, pattern: &str, bytes: usize) -> Result<(), Issue>;

    /// Returns the time, if the host grants its clock.
    fn now(&self) -> Option<SystemTime>;
}

/// A function that calls lambdas, or can make large results. `None` as with [`Caller::call`].
pub(crate) type CallingFunction = fn(&mut dyn Caller, &[Value]) -> Result<Option<Value>, Issue>;

/// A built-in function, by the access that it needs. Arguments are final values, never expressions.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    /// Function that needs only its arguments.
    Plain(fn(&[Value]) -> Result<Value, Issue>),
    /// Function that reads only the heads of its lists and maps, whatever their size.
    Head(fn(&[Value]) -> Result<Value, Issue>),
    /// Function that needs the evaluator as well.
    Calling(CallingFunction),
}

/// Access of guarded functions to the host.
pub(crate) trait Source {
    /// Fills `bytes` with random bytes fit for keys.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue>;

    fn limits(&self) -> &Limits;

    /// Accounts for steps before they are made.
    fn spend(&mut self, steps: usize) -> Result<(), Issue>;

    /// Accounts for searching a pattern in this many texts of a character, before the search.
    fn pattern(&mut self, pattern: &str, characters: usize) -> Result<(), Issue>;

    /// Returns the time, if the host grants its clock.
    fn now(&self) -> Option<SystemTime>;
}

/// A function that needs a [`Source`].
pub(crate) type Guarded = fn(&mut dyn Source, &[Value]) -> Outcome;

pub(super) fn bytes<const N: usize>(source: &mut dyn Source) -> Result<[u8; N], Issue> {
    let mut bytes = [0; N];
    source.fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns the message of a function that the host does not grant.
pub(crate) fn denial(name: &str) -> String {
    format!("{name}: no OS operations supported in this execution environment")
}
