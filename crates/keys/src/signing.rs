//! Private keys for signing.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512,
};
use x509_parser::der_parser::parse_der;

use crate::block::{pem_block, to_pem};
use crate::der::members;
use crate::error::KeyError;
use crate::private_key::PrivateKey;
use crate::verify::Hash;

/// The kind of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rsa2048,
    Rsa3072,
    Rsa4096,
    P256,
    P384,
    P521,
    Ed25519,
}

impl Algorithm {
    /// Returns the steps (`crates/budget`) for creating a key: more than the average, because the
    /// search for primes takes a random time.
    ///
    /// Needed by the hostile inputs `go_genkey_many`, `go_genca_many` and `r_t_genkey`: loops over
    /// a call without a long argument that takes a second.
    pub fn steps(self) -> usize {
        match self {
            Self::Rsa2048 => 3_200_000,
            Self::Rsa3072 => 10_000_000,
            Self::Rsa4096 => 20_000_000,
            Self::P256 | Self::P384 | Self::P521 | Self::Ed25519 => 0,
        }
    }
}

/// A private key that was created, or read for signing.
#[derive(Debug)]
pub enum SigningKey {
    Rsa(rsa::KeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The curves of the library, each with the digest that Go uses for it and the identifier of that
/// signature.
static CURVES: [(&EcdsaSigningAlgorithm, &str); 3] = [
    (&ECDSA_P256_SHA256_ASN1_SIGNING, "1.2.840.10045.4.3.2"),
    (&ECDSA_P384_SHA384_ASN1_SIGNING, "1.2.840.10045.4.3.3"),
    (&ECDSA_P521_SHA512_ASN1_SIGNING, "1.2.840.10045.4.3.4"),
];

fn refused<T>(_: T) -> KeyError {
    KeyError::CannotSign
}

impl SigningKey {
    /// Creates a key with the randomness of the library. RSA takes up to some seconds.
    ///
    /// # Errors
    ///
    /// The library fails.
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        let failed = |_| KeyError::Library("cannot generate the key");
        let rsa = |size| rsa::KeyPair::generate(size).map(Self::Rsa).map_err(failed);
        let ecdsa = |curve| EcdsaKeyPair::generate(curve).map(Self::Ecdsa).map_err(failed);
        match algorithm {
            Algorithm::Rsa2048 => rsa(KeySize::Rsa2048),
            Algorithm::Rsa3072 => rsa(KeySize::Rsa3072),
            Algorithm::Rsa4096 => rsa(KeySize::Rsa4096),
            Algorithm::P256 => ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING),
            Algorithm::P384 => ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING),
            Algorithm::P521 => ecdsa(&ECDSA_P521_SHA512_ASN1_SIGNING),
            Algorithm::Ed25519 => Ed25519KeyPair::generate().map(Self::Ed25519).map_err(failed),
        }
    }

    /// Reads the first block of a text, as [`PrivateKey::parse`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`PrivateKey::parse`] does, and for keys with which the library cannot sign.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        PrivateKey::parse(text)?;
        let block = pem_block(text.as_bytes()).ok_or(KeyError::NoBlock("private key"))?;
        let der = block.contents();
        if block.tag() == "RSA PRIVATE KEY" { Self::from_pkcs1(der) } else { Self::from_sec1(der) }
    }

    /// Reads an RSA key in PKCS#1.
    ///
    /// # Errors
    ///
    /// The bytes are not such a key, or the library cannot sign with it.
    pub fn from_pkcs1(der: &[u8]) -> Result<Self, KeyError> {
        rsa::KeyPair::from_der(der).map(Self::Rsa).map_err(refused)
    }

    /// Reads an ECDSA key in the form of SEC 1.
    ///
    /// # Errors
    ///
    /// The bytes are not such a key, or the library cannot sign with its curve.
    pub fn from_sec1(der: &[u8]) -> Result<Self, KeyError> {
        let read = |(curve, _): &(&'static EcdsaSigningAlgorithm, &str)| {
            EcdsaKeyPair::from_private_key_der(curve, der).ok()
        };
        CURVES.iter().find_map(read).map(Self::Ecdsa).ok_or(KeyError::CannotSign)
    }

    /// Reads an RSA, ECDSA or Ed25519 key in PKCS#8.
    ///
    /// # Errors
    ///
    /// The bytes are not such a key, or the library cannot sign with it.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        if let Ok(key) = rsa::KeyPair::from_pkcs8(der) {
            return Ok(Self::Rsa(key));
        }
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self::Ed25519(key));
        }
        let read =
            |(curve, _): &(&'static EcdsaSigningAlgorithm, &str)| EcdsaKeyPair::from_pkcs8(curve, der).ok();
        CURVES.iter().find_map(read).map(Self::Ecdsa).ok_or(KeyError::CannotSign)
    }

    /// Returns the key in Go's form: `RSA PRIVATE KEY` (PKCS#1), `EC PRIVATE KEY` (SEC 1), `PRIVATE
    /// KEY` (PKCS#8) for Ed25519.
    ///
    /// # Errors
    ///
    /// The library fails.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let failed = |_| KeyError::Library("the key cannot be written");
        match self {
            Self::Rsa(key) => {
                let pkcs8: Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
                let pkcs1 =
                    inner_key(pkcs8.as_ref()).ok_or(KeyError::Library("the key cannot be written"))?;
                Ok(to_pem("RSA PRIVATE KEY", &pkcs1))
            }
            Self::Ecdsa(key) => {
                let der = key.private_key().as_der().map_err(failed)?;
                Ok(to_pem("EC PRIVATE KEY", der.as_ref()))
            }
            Self::Ed25519(key) => {
                let der = key.to_pkcs8v1().map_err(failed)?;
                Ok(to_pem("PRIVATE KEY", der.as_ref()))
            }
        }
    }

    /// Returns the public key as SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    ///
    /// The library fails.
    pub fn public_key_info(&self) -> Result<Vec<u8>, KeyError> {
        let der: Result<PublicKeyX509Der<'_>, _> = match self {
            Self::Rsa(key) => key.public_key().as_der(),
            Self::Ecdsa(key) => key.public_key().as_der(),
            Self::Ed25519(key) => key.public_key().as_der(),
        };
        der.map(|der| der.as_ref().to_vec())
            .map_err(|_| KeyError::Library("the public key cannot be written"))
    }

    /// Returns the identifier of the signatures, and whether it has NULL parameters (RFC 4055, 5;
    /// RFC 5758, 3.2).
    pub(crate) fn signature_algorithm(&self) -> (&'static str, bool) {
        match self {
            Self::Rsa(_) => ("1.2.840.113549.1.1.11", true),
            Self::Ecdsa(key) => {
                let of_curve = CURVES.iter().find(|(curve, _)| *curve == key.algorithm());
                (of_curve.map_or("", |(_, id)| id), false)
            }
            Self::Ed25519(_) => ("1.3.101.112", false),
        }
    }

    /// Signs a text with RSASSA-PKCS1-v1_5 (RFC 8017, 8.2.1).
    ///
    /// # Errors
    ///
    /// The key is not an RSA key, or the library fails.
    pub fn sign_rsa(&self, hash: Hash, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let Self::Rsa(key) = self else { return Err(KeyError::CannotSign) };
        let encoding = match hash {
            Hash::Sha256 => &RSA_PKCS1_SHA256,
            Hash::Sha384 => &RSA_PKCS1_SHA384,
            Hash::Sha512 => &RSA_PKCS1_SHA512,
        };
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(encoding, &SystemRandom::new(), message, &mut signature)
            .map_err(|_| KeyError::Library("cannot sign the data"))?;
        Ok(signature)
    }

    /// Reads an RSA private key from PEM, in PKCS#1 (`RSA PRIVATE KEY`) or PKCS#8 (`PRIVATE KEY`).
    ///
    /// # Errors
    ///
    /// There is no such block, or the library cannot sign with the key.
    pub fn parse_rsa(text: &[u8]) -> Result<Self, KeyError> {
        let block = pem_block(text).ok_or(KeyError::NoBlock("private key"))?;
        match block.tag() {
            "RSA PRIVATE KEY" => Self::from_pkcs1(block.contents()),
            "PRIVATE KEY" => Self::from_pkcs8(block.contents()),
            other => Err(KeyError::PrivateKeyBlock(other.to_owned())),
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::Library("cannot sign the data");
        // The library requires a source of randomness, but uses its own.
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Self::Ecdsa(key) => Ok(key.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
            Self::Ed25519(key) => Ok(key.try_sign(message).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

/// Returns the key inside PKCS#8, its third member.
fn inner_key(pkcs8: &[u8]) -> Option<Vec<u8>> {
    let members = members(pkcs8)?;
    let key = members.get(2)?.as_slice().ok()?;
    parse_der(key).ok()?;
    Some(key.to_vec())
}
