//! How functions are called, and what they may ask of the evaluator and of the host.

use std::sync::Arc;
use std::time::SystemTime;

use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::{Lambda, Value};

/// What a function answers.
pub(super) type Outcome = Result<Value, Issue>;
/// What a function answers that calls lambdas; `None` as with [`Caller::call`].
pub(super) type Answer = Result<Option<Value>, Issue>;

/// What functions may ask of the evaluator.
pub(crate) trait Caller {
    /// Calls a lambda. `None`: it cannot be decided in this pass, and so cannot the function that asked.
    fn call(&mut self, lambda: &Arc<Lambda>, arguments: &[Value]) -> Result<Option<Value>, Issue>;

    fn limits(&self) -> &Limits;

    /// Accounts for units of work before they are done.
    fn spend(&mut self, units: usize) -> Result<(), Issue>;

    /// Accounts for a pattern that is searched in a text of so many bytes, before it is.
    fn pattern(&mut self, pattern: &str, bytes: usize) -> Result<(), Issue>;

    /// The time, if the host grants its clock.
    fn now(&self) -> Option<SystemTime>;
}

/// A function that calls lambdas, or can make large results. `None` as with [`Caller::call`].
pub(crate) type CallingFunction = fn(&mut dyn Caller, &[Value]) -> Result<Option<Value>, Issue>;

/// How a built-in function is called. Arguments are final values: never expressions.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    /// Needs its arguments alone.
    Plain(fn(&[Value]) -> Result<Value, Issue>),
    /// Needs more than its arguments.
    Calling(CallingFunction),
}

/// What guarded functions take from the host.
pub(crate) trait Source {
    /// Fills `bytes` with random ones that are fit for keys.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue>;

    fn limits(&self) -> &Limits;

    /// The time, if the host grants its clock.
    fn now(&self) -> Option<SystemTime>;
}

/// A function that needs a [`Source`].
pub(crate) type Guarded = fn(&mut dyn Source, &[Value]) -> Outcome;

pub(super) fn bytes<const N: usize>(source: &mut dyn Source) -> Result<[u8; N], Issue> {
    let mut bytes = [0; N];
    source.fill(&mut bytes)?;
    Ok(bytes)
}

/// What a function says that is not granted.
pub(crate) fn denial(name: &str) -> String {
    format!("{name}: no OS operations supported in this execution environment")
}
