//! Keys and certificates in PEM (sections 11.3 and 11.5): reading them needs nothing of the host.

use num_bigint::BigUint;
use x509_parser::der_parser::ber::BerObject;
use x509_parser::der_parser::parse_der;
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo, X509Certificate};

/// A private key as far as its public one is concerned.
pub(super) enum PrivateKey {
    Rsa {
        modulus: BigUint,
        exponent: BigUint,
    },
    /// The identifier of the curve in DER, and the point of the public key if the block holds it.
    Elliptic {
        curve: Vec<u8>,
        point: Option<Vec<u8>>,
    },
}

/// Object identifiers of the algorithms that public keys may have.
const ALGORITHMS: [&str; 3] = ["1.2.840.113549.1.1.1", "1.2.840.10040.4.1", "1.2.840.10045.2.1"];

/// The curves that Go knows, with the names that SSH has for them.
pub(super) const CURVES: [(&str, &str); 4] = [
    ("1.3.132.0.33", ""),
    ("1.2.840.10045.3.1.7", "nistp256"),
    ("1.3.132.0.34", "nistp384"),
    ("1.3.132.0.35", "nistp521"),
];

/// The first PEM block of a text; what is around it does not matter.
pub(super) fn first_block(text: &str, what: &str) -> Result<pem::Pem, String> {
    pem::parse(text).map_err(|_| format!("invalid {what} format (expected pem block)"))
}

/// `RSA PRIVATE KEY` (PKCS#1) or `EC PRIVATE KEY` (SEC 1).
pub(super) fn private_key(text: &str) -> Result<PrivateKey, String> {
    let block = first_block(text, "private key")?;
    match block.tag() {
        "RSA PRIVATE KEY" => rsa_private_key(block.contents()),
        "EC PRIVATE KEY" => elliptic_private_key(block.contents()),
        other => Err(format!("invalid pem block type {}", super::quote(other))),
    }
}

/// The members of a DER sequence, and nothing behind it.
fn members(der: &[u8]) -> Option<Vec<BerObject<'_>>> {
    let (rest, sequence) = parse_der(der).ok()?;
    sequence.as_sequence().ok().filter(|_| rest.is_empty()).cloned()
}

pub(super) fn numbers(der: &[u8]) -> Option<Vec<BigUint>> {
    members(der)?
        .iter()
        .map(|member| member.as_biguint().ok().map(|n| BigUint::from_bytes_be(&n.to_bytes_be())))
        .collect()
}

fn rsa_private_key(der: &[u8]) -> Result<PrivateKey, String> {
    let malformed = || "failed to parse private key: malformed PKCS#1 structure".to_owned();
    let numbers = numbers(der).ok_or_else(malformed)?;
    let [version, modulus, exponent, secret, first, second, ..] = numbers.as_slice() else {
        return Err(malformed());
    };
    let one = BigUint::from(1_u8);
    if *version > one || *secret == BigUint::ZERO || *first <= one || *second <= one {
        return Err(malformed());
    }
    if &(first * second) != modulus {
        return Err("failed to parse private key: the primes do not fit the modulus".to_owned());
    }
    // The secret exponent undoes the public one modulo each prime less one.
    let product = exponent * secret;
    if [first, second].iter().any(|prime| &product % (*prime - &one) != one) {
        return Err("failed to parse private key: the exponents do not fit".to_owned());
    }
    Ok(PrivateKey::Rsa { modulus: modulus.clone(), exponent: exponent.clone() })
}

fn elliptic_private_key(der: &[u8]) -> Result<PrivateKey, String> {
    let malformed = || "failed to parse EC private key: malformed SEC 1 structure".to_owned();
    let members = members(der).ok_or_else(malformed)?;
    let [version, secret, rest @ ..] = members.as_slice() else { return Err(malformed()) };
    let known = version.as_u32() == Ok(1) && secret.as_slice().is_ok_and(|bytes| !bytes.is_empty());
    let tagged = |number: u32| {
        rest.iter().find(|member| member.header.tag().0 == number).and_then(|member| member.as_slice().ok())
    };
    let curve = tagged(0).filter(|_| known).ok_or_else(malformed)?;
    let is_curve = |name: &str| {
        parse_der(curve).is_ok_and(|(_, id)| id.as_oid().is_ok_and(|id| id.to_id_string() == name))
    };
    if !CURVES.iter().any(|(id, _)| is_curve(id)) {
        return Err("x509: unknown elliptic curve".to_owned());
    }
    let point = tagged(1).and_then(|bits| parse_der(bits).ok());
    let point = point.and_then(|(_, bits)| bits.as_bitstring().ok().map(|bits| bits.data.to_vec()));
    Ok(PrivateKey::Elliptic { curve: curve.to_vec(), point })
}

/// A block of any name with a PKIX key, or one of PKCS#1.
pub(super) fn public_key(text: &str) -> Result<pem::Pem, String> {
    let block = first_block(text, "public key")?;
    match SubjectPublicKeyInfo::from_der(block.contents()) {
        Ok(([], info)) if ALGORITHMS.contains(&info.algorithm.algorithm.to_id_string().as_str()) => Ok(block),
        Ok(([], _)) => Err("unknown type of public key".to_owned()),
        _ if is_rsa_public_key(block.contents()) => Ok(block),
        _ => Err("failed to parse DER encoded public key: neither PKIX nor PKCS#1".to_owned()),
    }
}

fn is_rsa_public_key(der: &[u8]) -> bool {
    numbers(der)
        .is_some_and(|numbers| numbers.len() == 2 && numbers.iter().all(|number| *number > BigUint::ZERO))
}

/// The DER of a certificate.
pub(super) fn certificate(text: &str) -> Result<pem::Pem, String> {
    let block = first_block(text, "certificate")?;
    if block.tag() != "CERTIFICATE" {
        return Err(format!("unexpected pem block type for certificate: {}", super::quote(block.tag())));
    }
    match X509Certificate::from_der(block.contents()) {
        Ok(([], _)) => Ok(block),
        _ => Err("x509: malformed certificate".to_owned()),
    }
}

/// Whether a certificate is one of an authority.
pub(super) fn is_authority(certificate: &pem::Pem) -> bool {
    X509Certificate::from_der(certificate.contents()).is_ok_and(|(_, certificate)| certificate.is_ca())
}
