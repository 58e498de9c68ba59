//! Private keys as PEM, in the forms of Go: PKCS#1 for RSA, SEC 1 for ECDSA, PKCS#8 for Ed25519.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair,
};
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519};

/// A key that was read or made.
pub(super) enum PrivateKey {
    Known(KeyPair),
    /// Readable, but nothing can be signed with it; the text of its PEM.
    Dsa,
}

const SUFFIX: &str = " PRIVATE KEY";
const OCTET_STRING: u8 = 4;

/// The first PEM block of a text.
pub(super) fn first_block(text: &[u8]) -> Option<Pem> {
    pem::parse(text).ok()
}

pub(super) fn encode(tag: &str, contents: Vec<u8>) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(tag, contents), config)
}

impl PrivateKey {
    /// Reads the first block. The error is a text of the original where that does not depend on its parser.
    pub(super) fn parse(text: &[u8]) -> Result<PrivateKey, String> {
        let block = first_block(text).ok_or("no PEM data in input")?;
        let tag = block.tag();
        let kind = match tag.strip_suffix(SUFFIX) {
            Some(kind) => kind,
            None if tag == "PRIVATE KEY" => "",
            None => return Err(format!("no private key data in PEM block of type {tag}")),
        };
        let parsed = || KeyPair::try_from(block.contents()).map(PrivateKey::Known);
        match kind {
            "" => parsed().map_err(|error| format!("decoding PEM as PKCS#8: {error}")),
            "RSA" => parsed().map_err(|error| format!("parsing RSA private key from PEM: {error}")),
            "EC" => parsed().map_err(|error| format!("parsing EC private key from PEM: {error}")),
            "DSA" => Ok(PrivateKey::Dsa),
            other => Err(format!("invalid private key type {other}")),
        }
    }

    /// The key that signs.
    pub(super) fn pair(&self) -> Result<&KeyPair, String> {
        match self {
            PrivateKey::Known(pair) => Ok(pair),
            PrivateKey::Dsa => Err(
                "error creating certificate: x509: certificate private key does not implement crypto.Signer"
                    .to_owned(),
            ),
        }
    }

    pub(super) fn to_pem(&self) -> Result<String, String> {
        let pair = self.pair()?;
        let pkcs8 = pair.serialized_der();
        let algorithm = pair.algorithm();
        let curve = if algorithm == &PKCS_ECDSA_P256_SHA256 {
            Some(&ECDSA_P256_SHA256_ASN1_SIGNING)
        } else if algorithm == &PKCS_ECDSA_P384_SHA384 {
            Some(&ECDSA_P384_SHA384_ASN1_SIGNING)
        } else if algorithm == &PKCS_ECDSA_P521_SHA512 {
            Some(&ECDSA_P521_SHA512_ASN1_SIGNING)
        } else {
            None
        };
        let unwritable = |_| "the key cannot be written".to_owned();
        if let Some(curve) = curve {
            let key = EcdsaKeyPair::from_private_key_der(curve, pkcs8).map_err(|error| error.to_string())?;
            let der = key.private_key().as_der().map_err(unwritable)?;
            return Ok(encode("EC PRIVATE KEY", der.as_ref().to_vec()));
        }
        if algorithm == &PKCS_ED25519 {
            let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map_err(|error| error.to_string())?;
            let der = key.to_pkcs8v1().map_err(unwritable)?;
            return Ok(encode("PRIVATE KEY", der.as_ref().to_vec()));
        }
        // PKCS#8 holds PKCS#1 as its last member; a key that came as PKCS#1 is that already.
        let inner = members(pkcs8).and_then(|members| {
            members.into_iter().find(|(tag, _)| *tag == OCTET_STRING).map(|(_, contents)| contents.to_vec())
        });
        Ok(encode("RSA PRIVATE KEY", inner.unwrap_or_else(|| pkcs8.to_vec())))
    }
}

/// The members of a DER sequence: tag and contents.
fn members(der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (_, mut rest, _) = element(der)?;
    let mut members = Vec::new();
    while !rest.is_empty() {
        let (tag, contents, after) = element(rest)?;
        members.push((tag, contents));
        rest = after;
    }
    Some(members)
}

/// Tag and contents of the first element, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first > 0x80 {
        let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (contents, after) = rest.split_at_checked(length)?;
    Some((tag, contents, after))
}
