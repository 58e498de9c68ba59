//! sprig (sections 11 and 12): one module per group, each with a `register`.
//!
//! What a function needs beside its arguments (clock, randomness, environment, network) it has from the host's
//! [`crate::Grants`], or it fails when called.

mod casing;
mod cast;
mod checksums;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod floats;
mod integers;
mod json;
mod json_decode;
mod json_encode;
#[cfg(feature = "keys")]
mod keys;
mod lists;
pub(crate) mod moments;
mod paths;
mod random;
mod reflection;
pub(crate) mod regex;
mod semver;
mod string_lists;
mod strings;
mod system;
mod urls;
mod words;

use crate::context::Context;
use crate::error::CallError;
use crate::format;
use crate::functions::{Functions, Signature, Type};
use crate::value::{Str, Value};

/// Adds every sprig function.
pub(crate) fn register(functions: &mut Functions) {
    strings::register(functions);
    words::register(functions);
    string_lists::register(functions);
    integers::register(functions);
    floats::register(functions);
    defaults::register(functions);
    json::register(functions);
    reflection::register(functions);
    lists::register(functions);
    dicts::register(functions);
    encoding::register(functions);
    checksums::register(functions);
    paths::register(functions);
    regex::register(functions);
    semver::register(functions);
    urls::register(functions);
    dates::register(functions);
    random::register(functions);
    crypto::register(functions);
    system::register(functions);
    #[cfg(feature = "keys")]
    keys::register(functions);
}

/// What a function gives.
type Outcome = Result<Value, CallError>;

/// What Go says when a nil is looked into.
const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// Registers one function under several names.
fn add_all(
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
fn any_rest(parameters: &'static [Type]) -> Signature {
    Signature::variadic(parameters, Type::Any)
}

/// sprig's `strval`: strings as they are, bytes as text, everything else in the default format (section 11).
fn strval(context: &mut Context<'_>, value: &Value) -> Result<Str, CallError> {
    match value {
        Value::Str(text) | Value::Bytes(text) => Ok(text.clone()),
        other => Ok(format::to_bytes(other, context.budget())?.into()),
    }
}
