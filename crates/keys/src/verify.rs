//! Verification of RSA signatures and certificate chains, in Rust alone (RFC 8017, 8.1.2 and 8.2.2;
//! RFC 5280, 6.1).

use num_bigint::BigUint;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::error::KeyError;
use crate::public_key::PublicKey;

/// Smallest modulus in bits; smaller ones can be factored.
const SHORTEST_MODULUS: u64 = 1024;
/// Largest modulus in bits; larger ones cost more than a check is worth.
const LONGEST_MODULUS: u64 = 16_384;
/// Largest exponent in bits. Real keys have smaller ones, and larger ones would cost as much as a
/// private exponent.
const LONGEST_EXPONENT: u64 = 64;
/// Largest number of certificates between a key and an authority.
const LONGEST_CHAIN: usize = 10;

/// The hash of a signed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The padding of an RSA signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// RSASSA-PKCS1-v1_5.
    Pkcs1,
    /// RSASSA-PSS with a mask of the same hash and a salt of any length.
    Pss,
}

/// A hash in progress.
#[derive(Debug, Clone)]
pub struct RunningHash(State);

#[derive(Debug, Clone)]
enum State {
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl RunningHash {
    pub fn update(&mut self, piece: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(piece),
            State::Sha384(state) => state.update(piece),
            State::Sha512(state) => state.update(piece),
        }
    }

    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            State::Sha256(state) => state.finalize().to_vec(),
            State::Sha384(state) => state.finalize().to_vec(),
            State::Sha512(state) => state.finalize().to_vec(),
        }
    }
}

impl Hash {
    /// Returns the hash of a text.
    pub fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(text).to_vec(),
            Self::Sha384 => Sha384::digest(text).to_vec(),
            Self::Sha512 => Sha512::digest(text).to_vec(),
        }
    }

    /// Starts a hash of a text that arrives in pieces.
    pub fn begin(self) -> RunningHash {
        RunningHash(match self {
            Self::Sha256 => State::Sha256(Sha256::new()),
            Self::Sha384 => State::Sha384(Sha384::new()),
            Self::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    fn len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Returns the bytes before the hash in a padded signature: a DigestInfo without its end (RFC
    /// 8017, 9.2, note 1).
    fn prefix(self) -> [u8; 19] {
        let (whole, id, len) = match self {
            Self::Sha256 => (0x31, 1, 0x20),
            Self::Sha384 => (0x41, 2, 0x30),
            Self::Sha512 => (0x51, 3, 0x40),
        };
        [
            0x30, whole, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, id, 0x05,
            0x00, 0x04, len,
        ]
    }
}

impl PublicKey {
    /// Reports whether the private key made this signature over a text with this hash. Returns
    /// `false` also for a key that is not an RSA key.
    pub fn verifies(&self, padding: Padding, hash: Hash, hashed: &[u8], signature: &[u8]) -> bool {
        let Self::Rsa { modulus, exponent } = self else { return false };
        let bits = modulus.bits();
        if !(SHORTEST_MODULUS..=LONGEST_MODULUS).contains(&bits)
            || exponent.bits() > LONGEST_EXPONENT
            || !exponent.bit(0)
            || *exponent < BigUint::from(3_u8)
            || hashed.len() != hash.len()
        {
            return false;
        }
        let Ok(len) = usize::try_from(bits.div_ceil(8)) else { return false };
        let number = BigUint::from_bytes_be(signature);
        if signature.len() != len || number >= *modulus {
            return false;
        }
        let opened = number.modpow(exponent, modulus).to_bytes_be();
        let mut message = vec![0; len - opened.len()];
        message.extend(opened);
        match padding {
            Padding::Pkcs1 => message == pkcs1(hash, hashed, len),
            Padding::Pss => is_pss(hash, hashed, &message, bits),
        }
    }
}

fn pkcs1(hash: Hash, hashed: &[u8], len: usize) -> Vec<u8> {
    let prefix = hash.prefix();
    let filler = len.saturating_sub(3 + prefix.len() + hashed.len());
    let mut message = vec![0, 1];
    message.extend(vec![0xff; filler]);
    message.push(0);
    message.extend(prefix);
    message.extend(hashed);
    // If the key is too short for the hash, the padding has another length, and no signature
    // matches.
    message
}

/// Reports whether the padding of a decrypted signature fits the hash (EMSA-PSS-VERIFY, RFC 8017,
/// 9.1.2).
fn is_pss(hash: Hash, hashed: &[u8], message: &[u8], modulus_bits: u64) -> bool {
    let bits = modulus_bits - 1;
    let Ok(len) = usize::try_from(bits.div_ceil(8)) else { return false };
    let (lead, message) = message.split_at(message.len() - len);
    let hash_len = hash.len();
    if lead.iter().any(|byte| *byte != 0) || len < hash_len + 2 || message[len - 1] != 0xbc {
        return false;
    }
    let (masked, rest) = message.split_at(len - hash_len - 1);
    let digest = &rest[..hash_len];
    let unused = u32::try_from(8 * len as u64 - bits).unwrap_or(8);
    let keep = 0xff_u8.checked_shr(unused).unwrap_or(0);
    if masked[0] & !keep != 0 {
        return false;
    }
    let mut data: Vec<u8> =
        masked.iter().zip(mask(hash, digest, masked.len())).map(|(byte, mask)| byte ^ mask).collect();
    data[0] &= keep;
    let Some(one) = data.iter().position(|byte| *byte != 0).filter(|at| data[*at] == 1) else { return false };
    let mut salted = vec![0; 8];
    salted.extend(hashed);
    salted.extend(&data[one + 1..]);
    hash.of(&salted) == digest
}

/// Returns a mask of this length, generated from a seed by MGF1 (RFC 8017, B.2.1).
fn mask(hash: Hash, seed: &[u8], len: usize) -> Vec<u8> {
    let mut mask = Vec::new();
    let mut counter = 0_u32;
    while mask.len() < len {
        mask.extend(hash.of(&[seed, &counter.to_be_bytes()].concat()));
        counter += 1;
    }
    mask.truncate(len);
    mask
}

/// Follows a chain of certificates in DER from that of the key to one of the authorities. Returns
/// the public key of the first certificate.
///
/// `now` is in seconds since 1970. All certificates must be valid then, and all but the first must
/// belong to authorities. A certificate that is one of `authorities` itself ends the chain. Only
/// RSA signatures are supported.
///
/// # Errors
///
/// A sentence that names the certificate that cannot be trusted, and the reason.
pub fn verify_chain(chain: &[Vec<u8>], authorities: &[Vec<u8>], now: i64) -> Result<PublicKey, String> {
    let parse = |der: &Vec<u8>| -> Result<(), KeyError> {
        X509Certificate::from_der(der).map(drop).map_err(|_| KeyError::MalformedCertificate)
    };
    for der in chain.iter().chain(authorities) {
        parse(der).map_err(|error| error.to_string())?;
    }
    let first = chain.first().ok_or("the certificate chain is empty")?;
    let mut current = first;
    let mut others: Vec<&Vec<u8>> = chain.iter().skip(1).collect();
    for depth in 0..=LONGEST_CHAIN {
        let certificate = read(current)?;
        let subject = certificate.subject().to_string();
        let validity = certificate.validity();
        if !(validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now) {
            return Err(format!("the certificate of {subject} is not valid at this time"));
        }
        if depth > 0 && !may_issue(&certificate) {
            return Err(format!("{subject} is not a certificate authority"));
        }
        if authorities.contains(current) {
            let leaf = read(first)?;
            return PublicKey::of_info(leaf.public_key()).map_err(|error| error.to_string());
        }
        let signed_by = |der: &&Vec<u8>| read(der).is_ok_and(|issuer| is_signed(&certificate, &issuer));
        if let Some(authority) = authorities.iter().find(&signed_by) {
            current = authority;
        } else if let Some(at) = others.iter().position(&signed_by) {
            current = others.remove(at);
        } else {
            return Err(format!(
                "the certificate of {subject} is not signed by any of the given authorities"
            ));
        }
    }
    Err(format!("the chain has more than {LONGEST_CHAIN} certificates"))
}

fn read(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    X509Certificate::from_der(der)
        .map(|(_, certificate)| certificate)
        .map_err(|_| KeyError::MalformedCertificate.to_string())
}

fn may_issue(certificate: &X509Certificate<'_>) -> bool {
    let usage = certificate.key_usage().ok().flatten();
    certificate.is_ca() && usage.is_none_or(|usage| usage.value.key_cert_sign())
}

fn is_signed(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    if certificate.issuer().as_raw() != issuer.subject().as_raw() {
        return false;
    }
    let hash = match certificate.signature_algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.11" => Hash::Sha256,
        "1.2.840.113549.1.1.12" => Hash::Sha384,
        "1.2.840.113549.1.1.13" => Hash::Sha512,
        _ => return false,
    };
    let Ok(key) = PublicKey::of_info(issuer.public_key()) else { return false };
    let hashed = hash.of(certificate.tbs_certificate.as_ref());
    key.verifies(Padding::Pkcs1, hash, &hashed, &certificate.signature_value.data)
}
