//! What the modules of sprig have in common where they register their functions.

use crate::context::Context;
use crate::error::CallError;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

/// What a function gives.
pub(super) type Outcome = Result<Value, CallError>;

/// What Go says when a nil is looked into.
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

/// `any…` behind the given parameters.
pub(super) fn any_rest(parameters: &'static [Type]) -> Signature {
    Signature::variadic(parameters, Type::Any)
}
