//! Functions for WireGuard keys (`spiff.md` 11.5).

use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::arguments::{count, text};
use super::calling::{Outcome, Source, bytes};
use crate::issue::Issue;
use crate::value::Value;

/// `wggenkey([private|preshared])`
pub(super) fn generate_key(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 0..=1, "a maximum of one argument expected for wggenkey")?;
    let kind = match arguments.first() {
        Some(kind) => text(kind, "argument for wggenkey must be a string (private or preshared)")?,
        None => "private",
    };
    let mut key: [u8; 32] = bytes(source)?;
    match kind {
        "preshared" => {}
        "private" => {
            key[0] &= 248;
            key[31] = key[31] & 127 | 64;
        }
        _ => return Err(Issue::new(format!("invalid key type {kind:?}, use private or preshared"))),
    }
    Ok(Value::string(data_encoding::BASE64.encode(&key)))
}

/// `wgpublickey(key)`
pub(super) fn public_key(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "one argument expected for wgpublickey")?;
    let key = text(&arguments[0], "argument for wgpublickey must be a string")?;
    let key = data_encoding::BASE64.decode(key.as_bytes()).ok();
    let key: Option<[u8; 32]> = key.and_then(|key| key.try_into().ok());
    let key = key.ok_or("wgpublickey: a private key is 32 bytes in base64")?;
    Ok(Value::string(data_encoding::BASE64.encode(&x25519(key, X25519_BASEPOINT_BYTES))))
}
