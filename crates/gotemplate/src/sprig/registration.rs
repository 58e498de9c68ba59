//! Helpers and types for the registration of sprig's functions, common to its modules.

use crate::context::Context;
use crate::error::CallError;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

/// The result of a function.
pub(super) type Outcome = Result<Value, CallError>;

/// Text of Go's panic when a nil pointer is dereferenced.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// Registers one function under several names.
pub(super) fn add_all(
    functions: &mut Functions,
    names: &[&'static str],
    signature: &Signature,
    implementation: fn(&mut Context<'_>, &[Value]) -> Outcome,
) {
    for &name in names {
        functions.add(name, signature.clone(), implementation);
    }
}

/// Returns the signature of the given parameters with `any…` behind them.
pub(super) fn any_rest(parameters: &'static [Type]) -> Signature {
    Signature::variadic(parameters, Type::Any)
}
