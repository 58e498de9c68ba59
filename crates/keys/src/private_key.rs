//! Reading of private keys. Only an ECDSA key without its public key needs the cryptographic
//! library.

use num_bigint::BigUint;
use x509_parser::der_parser::parse_der;

use crate::block::pem_block;
use crate::der::{members, numbers};
use crate::error::KeyError;
use crate::public_key::{Curve, PublicKey};

/// A private key, reduced to the parts from which its public key is derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrivateKey {
    /// An RSA key whose numbers are consistent.
    Rsa(PublicKey),
    /// An ECDSA key, with its public key if the block contains it, or if it can be derived.
    Ecdsa(Option<PublicKey>),
}

impl PrivateKey {
    /// Reads the first block of a text: `RSA PRIVATE KEY` (PKCS#1) or `EC PRIVATE KEY` (SEC 1).
    /// Short keys are accepted. A key whose numbers have more than 16384 bits is refused.
    ///
    /// # Errors
    ///
    /// The text has no block, its first block has another label, or the content is malformed.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let block = pem_block(text.as_bytes()).ok_or(KeyError::NoBlock("private key"))?;
        match block.tag() {
            "RSA PRIVATE KEY" => rsa(block.contents()),
            "EC PRIVATE KEY" => ecdsa(block.contents()),
            other => Err(KeyError::PrivateKeyBlock(other.to_owned())),
        }
    }

    /// Returns the public key.
    ///
    /// # Errors
    ///
    /// An ECDSA key that does not contain its public key.
    pub fn public_key(self) -> Result<PublicKey, KeyError> {
        match self {
            Self::Rsa(key) | Self::Ecdsa(Some(key)) => Ok(key),
            Self::Ecdsa(None) => Err(KeyError::NoPublicKey),
        }
    }
}

/// Largest number in bits; the time of the computation grows with the square of the length.
const LONGEST_BITS: u64 = 16_384;

fn rsa(der: &[u8]) -> Result<PrivateKey, KeyError> {
    let numbers = numbers(der).ok_or(KeyError::MalformedPkcs1)?;
    let [version, modulus, exponent, secret, first, second, ..] = numbers.as_slice() else {
        return Err(KeyError::MalformedPkcs1);
    };
    if numbers.iter().any(|number| number.bits() > LONGEST_BITS) {
        return Err(KeyError::TooLong);
    }
    let one = BigUint::from(1_u8);
    if *version > one || *secret == BigUint::ZERO || *first <= one || *second <= one {
        return Err(KeyError::MalformedPkcs1);
    }
    if &(first * second) != modulus {
        return Err(KeyError::Primes);
    }
    // RSA requires that secret times public exponent is 1 modulo each prime minus one.
    let product = exponent * secret;
    if [first, second].iter().any(|prime| &product % (*prime - &one) != one) {
        return Err(KeyError::Exponents);
    }
    Ok(PrivateKey::Rsa(PublicKey::Rsa { modulus: modulus.clone(), exponent: exponent.clone() }))
}

fn ecdsa(der: &[u8]) -> Result<PrivateKey, KeyError> {
    let members = members(der).ok_or(KeyError::MalformedSec1)?;
    let [version, secret, rest @ ..] = members.as_slice() else { return Err(KeyError::MalformedSec1) };
    let known = version.as_u32() == Ok(1) && secret.as_slice().is_ok_and(|bytes| !bytes.is_empty());
    let tagged = |number: u32| {
        rest.iter().find(|member| member.header.tag().0 == number).and_then(|member| member.as_slice().ok())
    };
    let curve = tagged(0).filter(|_| known).ok_or(KeyError::MalformedSec1)?;
    let id = parse_der(curve).ok().and_then(|(_, id)| Some(id.as_oid().ok()?.to_id_string()));
    let curve = id.and_then(|id| Curve::find(&id)).ok_or(KeyError::UnknownCurve)?;
    let point = tagged(1).and_then(|bits| parse_der(bits).ok());
    let point = point.and_then(|(_, bits)| bits.as_bitstring().ok().map(|bits| bits.data.to_vec()));
    let point = point.filter(|point| curve.is_point(point));
    let public_key = point.map(|point| PublicKey::Ecdsa { curve, point }).or_else(|| derived(der));
    Ok(PrivateKey::Ecdsa(public_key))
}

/// Derives the public key. The multiplication of points needs the cryptographic library.
fn derived(sec1: &[u8]) -> Option<PublicKey> {
    use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};

    let info = crate::SigningKey::from_sec1(sec1).ok()?.public_key_info().ok()?;
    PublicKey::of_info(&SubjectPublicKeyInfo::from_der(&info).ok()?.1).ok()
}
