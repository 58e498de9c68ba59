//! Private keys that templates bring along, in sprig's reading.

use groundwork_keys::{SigningKey, pem_block};

const SUFFIX: &str = " PRIVATE KEY";

/// The key of the first block of a text. The error is a text of sprig where that does not depend on Go's parser. `None`: a key of DSA,
/// which can be read, but signs nothing.
pub(super) fn parse(text: &[u8]) -> Result<Option<SigningKey>, String> {
    let block = pem_block(text).ok_or("no PEM data in input")?;
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

/// The key of [`parse`], which must be one that signs.
pub(super) fn signing(key: Option<SigningKey>) -> Result<SigningKey, String> {
    key.ok_or_else(|| {
        "error creating certificate: x509: certificate private key does not implement crypto.Signer"
            .to_owned()
    })
}
