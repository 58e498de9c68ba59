//! Base64 and Base32 (section 12.11). Undecodable input gives the error's text instead of failing.

use crate::encoding;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    functions
        .add("b64enc", one.clone(), |_, args| Ok(encoding::base64_encode(args.string(0)).into()))
        .add("b32enc", one.clone(), |_, args| Ok(encoding::base32_encode(args.string(0)).into()))
        .add("b64dec", one.clone(), |_, args| Ok(decoded(encoding::base64_decode(args.string(0)), "base64")))
        .add("b32dec", one, |_, args| Ok(decoded(encoding::base32_decode(args.string(0)), "base32")));
}

fn decoded(result: Result<Vec<u8>, usize>, name: &str) -> Value {
    match result {
        Ok(bytes) => bytes.into(),
        Err(offset) => format!("illegal {name} data at input byte {offset}").into(),
    }
}
