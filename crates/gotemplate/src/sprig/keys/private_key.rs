//! Private keys that templates pass in, read as sprig does.

use groundwork_keys::{Pem, SigningKey, pem_block};

use crate::error::CallError;

const SUFFIX: &str = " PRIVATE KEY";

/// Reads the key of the first PEM block of a text. The error begins with `complaint`; its rest is
/// sprig's text, unless that would come from Go's parser. `None` is a DSA key, which sprig reads
/// but which cannot sign.
pub(super) fn parse(text: &[u8], complaint: &str) -> Result<Option<SigningKey>, CallError> {
    read(pem_block(text)).map_err(|error| format!("{complaint}: {error}").into())
}

fn read(block: Option<Pem>) -> Result<Option<SigningKey>, String> {
    let block = block.ok_or("no PEM data in input")?;
    let label = block.tag();
    let kind = match label.strip_suffix(SUFFIX) {
        Some(kind) => kind,
        None if label == "PRIVATE KEY" => "",
        None => return Err(format!("no private key data in PEM block of type {label}")),
    };
    let (parsed, failure) = match kind {
        "" => (SigningKey::from_pkcs8(block.contents()), "decoding PEM as PKCS#8"),
        "RSA" => (SigningKey::from_pkcs1(block.contents()), "parsing RSA private key from PEM"),
        "EC" => (SigningKey::from_sec1(block.contents()), "parsing EC private key from PEM"),
        "DSA" => return Ok(None),
        other => return Err(format!("invalid private key type {other}")),
    };
    parsed.map(Some).map_err(|error| format!("{failure}: {error}"))
}

/// Returns the key of [`parse`], or Go's error if the key cannot sign.
pub(super) fn signing(key: Option<SigningKey>) -> Result<SigningKey, String> {
    key.ok_or_else(|| {
        "error creating certificate: x509: certificate private key does not implement crypto.Signer"
            .to_owned()
    })
}
