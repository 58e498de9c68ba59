//! Checksum functions (`gotemplate.md` 12.1).

use std::fmt::Write;

use sha2::Digest;

use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    functions
        .add("sha1sum", one.clone(), |_, args| Ok(hex(&sha1::Sha1::digest(args.string(0))).into()))
        .add("sha256sum", one.clone(), |_, args| Ok(hex(&sha2::Sha256::digest(args.string(0))).into()))
        .add("sha512sum", one.clone(), |_, args| Ok(hex(&sha2::Sha512::digest(args.string(0))).into()))
        .add("adler32sum", one, |_, args| Ok(adler32(args.string(0)).to_string().into()));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % MODULUS;
        (a, (a + b) % MODULUS)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adler32_of_known_texts() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}
