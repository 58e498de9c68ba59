//! Base64, hashes, JSON and YAML (`spiff.md` 11.2).

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::arguments::{count, fits, int, text, writable};
use super::calling::{Answer, Caller, Outcome};
use crate::issue::Issue;
use crate::value::Value;
use crate::yaml::{to_canonical_json, to_json, write};

/// Encodes bytes as base64 in lines of `width` characters; 0 means one line.
pub(crate) fn base64_lines(bytes: &[u8], width: usize) -> String {
    let text = data_encoding::BASE64.encode(bytes);
    if width == 0 || text.len() <= width {
        return text;
    }
    let mut lines = String::with_capacity(text.len() + text.len() / width);
    for (at, c) in text.chars().enumerate() {
        if at > 0 && at % width == 0 {
            lines.push('\n');
        }
        lines.push(c);
    }
    lines
}

/// `base64(s [, width])`
pub(super) fn base64(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 1..=2, "base64 takes one or two argumenta")?;
    let bytes = match &arguments[0] {
        Value::Binary(bytes) => bytes,
        value => text(value, "first argument for base64 must be a string")?.as_bytes(),
    };
    const NO_WIDTH: &str = "second argument for base64 must be an integer or interger string";
    let width = match arguments.get(1) {
        Some(Value::String(width)) => width.parse::<i64>().map_err(|_| NO_WIDTH)?,
        Some(width) => int(width, NO_WIDTH)?,
        None => 0,
    };
    let width = usize::try_from(width).unwrap_or(0);
    // Base64 makes four characters of three bytes. With width 1 a line break follows every one of
    // them.
    fits(bytes.len().saturating_mul(if width > 0 { 3 } else { 2 }), "base64", caller.limits())?;
    Ok(Some(Value::string(base64_lines(bytes, width))))
}

/// `base64_decode(s)`; bytes that are not UTF-8 text become binary.
pub(super) fn base64_decode(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "base64_decode takes exactly one argument")?;
    let encoded = text(&arguments[0], "first argument for base64_decode must be a string")?;
    let encoded: Vec<u8> = encoded.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let bytes = data_encoding::BASE64.decode(&encoded).map_err(|_| Issue::new("cannot decode string"))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Value::string(text),
        Err(error) => Value::Binary(error.into_bytes().into()),
    })
}

fn digest<D: Digest>(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&D::digest(bytes))
}

/// `md5(s)`
pub(super) fn md5(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "md5 takes exactly one argument")?;
    let hashed = text(&arguments[0], "first argument for md5 must be a string")?;
    Ok(Value::string(digest::<Md5>(hashed.as_bytes())))
}

/// MD4 digest of the empty text. spiff++'s kind `md4` appends it to the text instead of hashing the
/// text **[D5]**.
const MD4_OF_NOTHING: &str = "31d6cfe0d16ae931b73c59d7e0c089c0";

/// `hash(s [, kind])`. A `*` before the kind hashes the canonical JSON of the string, and a `#`
/// hashes the bytes of its base64.
pub(super) fn hash(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 1..=2, "hash takes one or two arguments")?;
    let hashed = text(&arguments[0], "first argument for hash must be a string")?;
    let kind = match arguments.get(1) {
        Some(kind) => text(kind, "second argument for hash must be a string")?,
        None => "",
    };
    let (kind, as_json) = kind.strip_prefix('*').map_or((kind, false), |kind| (kind, true));
    let (kind, is_binary) = kind.strip_prefix('#').map_or((kind, false), |kind| (kind, true));
    let hashed = if is_binary {
        data_encoding::BASE64
            .decode(hashed.as_bytes())
            .map_err(|_| Issue::new("cannot decode base64 string"))?
    } else if as_json {
        to_canonical_json(&arguments[0])?.into_bytes()
    } else {
        hashed.as_bytes().to_vec()
    };
    let digest = match kind {
        "md4" => {
            fits(hashed.len().saturating_mul(2), "hash", caller.limits())?;
            |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes) + MD4_OF_NOTHING
        }
        "md5" => digest::<Md5>,
        "sha1" => digest::<Sha1>,
        "sha224" => digest::<Sha224>,
        "" | "sha256" => digest::<Sha256>,
        "sha384" => digest::<Sha384>,
        "sha512" => digest::<Sha512>,
        "sha512/224" => digest::<Sha512_224>,
        "sha512/256" => digest::<Sha512_256>,
        _ => return Err(Issue::new(format!("invalid hash type '{kind}'"))),
    };
    Ok(Some(Value::string(digest(&hashed))))
}

/// `asjson(x [, canonical])`
pub(super) fn asjson(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 1..=2, "asjson takes at least one argument, and optionally a second one")?;
    writable(&arguments[0], "asjson", caller.limits())?;
    let is_canonical = arguments.get(1).is_some_and(Value::is_truthy);
    let json = if is_canonical { to_canonical_json } else { to_json };
    Ok(Some(Value::string(json(&arguments[0])?)))
}

/// `asyaml(x)`
pub(super) fn asyaml(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 1..=1, "asyaml takes exactly one argument")?;
    writable(&arguments[0], "asyaml", caller.limits())?;
    Ok(Some(Value::string(write(&arguments[0]))))
}
