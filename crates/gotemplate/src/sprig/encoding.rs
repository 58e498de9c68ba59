//! Functions for Base64 and Base32 (`gotemplate.md` 12.11). On undecodable input they return the
//! text of the error instead of failing.

use super::registration::Outcome;
use crate::context::Context;
use crate::encoding;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    functions
        .add("b64enc", one.clone(), |context, args| encoded(context, args.string(0), encoding::base64_encode))
        .add("b32enc", one.clone(), |context, args| encoded(context, args.string(0), encoding::base32_encode))
        .add("b64dec", one.clone(), |_, args| Ok(decoded(encoding::base64_decode(args.string(0)), "base64")))
        .add("b32dec", one, |_, args| Ok(decoded(encoding::base32_decode(args.string(0)), "base32")));
}

fn encoded(context: &mut Context<'_>, bytes: &[u8], encode: fn(&[u8]) -> String) -> Outcome {
    context.check_text(bytes.len().saturating_mul(2))?;
    Ok(encode(bytes).into())
}

fn decoded(result: Result<Vec<u8>, usize>, name: &str) -> Value {
    match result {
        Ok(bytes) => bytes.into(),
        Err(offset) => format!("illegal {name} data at input byte {offset}").into(),
    }
}
