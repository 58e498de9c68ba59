//! Functions on keys and certificates that need nothing of the host (section 11.5).

use std::net::IpAddr;

use num_bigint::BigUint;
use pem::{EncodeConfig, LineEnding, Pem};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, KeyUsage};
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};
use x509_parser::time::ASN1Time;
use x509_parser::x509::AttributeTypeAndValue;

use super::Outcome;
use super::arguments::{count, text};
use super::keys::{self, CURVES, PrivateKey};
use crate::issue::Issue;
use crate::value::Value;

const INTEGER: u8 = 2;
const BIT_STRING: u8 = 3;
const SEQUENCE: u8 = 0x30;
/// `rsaEncryption` without parameters, and `ecPublicKey`, in DER.
const RSA: [u8; 15] = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
const ELLIPTIC: [u8; 9] = [6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

/// A public key, whatever it was in.
enum PublicKey {
    Rsa {
        modulus: BigUint,
        exponent: BigUint,
    },
    /// The identifier of its curve in DER, and its point.
    Elliptic {
        curve: Vec<u8>,
        point: Vec<u8>,
    },
}

fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len().to_be_bytes();
    let digits: Vec<u8> = length.into_iter().skip_while(|digit| *digit == 0).collect();
    let mut out = vec![tag];
    match digits.as_slice() {
        [] => out.push(0),
        [digit @ 0..0x80] => out.push(*digit),
        digits => {
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or(0));
            out.extend(digits);
        }
    }
    out.extend(contents);
    out
}

fn signed(number: &BigUint) -> Vec<u8> {
    let mut bytes = number.to_bytes_be();
    // The first bit is the sign.
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    bytes
}

fn block(tag: &str, contents: Vec<u8>) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(tag, contents), config)
}

impl PublicKey {
    /// Of a private key, a public key or a certificate.
    fn of(text: &str) -> Result<Self, String> {
        let tag = keys::first_block(text, "public key")?.tag().to_owned();
        if tag.ends_with("PRIVATE KEY") {
            return match keys::private_key(text)? {
                PrivateKey::Rsa { modulus, exponent } => Ok(Self::Rsa { modulus, exponent }),
                PrivateKey::Elliptic { curve, point: Some(point) } => Ok(Self::Elliptic { curve, point }),
                PrivateKey::Elliptic { point: None, .. } => {
                    Err("the key does not hold its public key".to_owned())
                }
            };
        }
        if tag == "CERTIFICATE" {
            let certificate = keys::certificate(text)?;
            let parsed = X509Certificate::from_der(certificate.contents());
            let (_, parsed) = parsed.map_err(|_| "x509: malformed certificate".to_owned())?;
            return Self::of_info(parsed.public_key());
        }
        let key = keys::public_key(text)?;
        match SubjectPublicKeyInfo::from_der(key.contents()) {
            Ok((_, info)) => Self::of_info(&info),
            Err(_) => Self::of_numbers(key.contents()),
        }
    }

    fn of_numbers(der: &[u8]) -> Result<Self, String> {
        match keys::numbers(der).as_deref() {
            Some([modulus, exponent]) => {
                Ok(Self::Rsa { modulus: modulus.clone(), exponent: exponent.clone() })
            }
            _ => Err("failed to parse DER encoded public key: no PKCS#1".to_owned()),
        }
    }

    fn of_info(info: &SubjectPublicKeyInfo<'_>) -> Result<Self, String> {
        let bits = &info.subject_public_key.data;
        match info.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.1" => Self::of_numbers(bits),
            "1.2.840.10045.2.1" => {
                let curve = info.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
                let curve = curve.ok_or("x509: unknown elliptic curve")?;
                Ok(Self::Elliptic { curve: element(6, curve.as_bytes()), point: bits.to_vec() })
            }
            _ => Err("unknown type of public key".to_owned()),
        }
    }

    /// The identifier of its kind with the key, as PKIX has it.
    fn pkix(&self) -> Vec<u8> {
        let (kind, bits) = match self {
            Self::Rsa { .. } => (RSA.to_vec(), self.pkcs1()),
            Self::Elliptic { curve, point } => {
                (element(SEQUENCE, &[&ELLIPTIC, curve.as_slice()].concat()), point.clone())
            }
        };
        element(SEQUENCE, &[kind, element(BIT_STRING, &[&[0], bits.as_slice()].concat())].concat())
    }

    fn pkcs1(&self) -> Vec<u8> {
        match self {
            Self::Rsa { modulus, exponent } => {
                let numbers = [modulus, exponent].map(|number| element(INTEGER, &signed(number)));
                element(SEQUENCE, &numbers.concat())
            }
            Self::Elliptic { point, .. } => point.clone(),
        }
    }

    fn to_pem(&self, with_pkix: bool) -> String {
        match self {
            Self::Rsa { .. } if with_pkix => block("PUBLIC KEY", self.pkix()),
            Self::Rsa { .. } => block("RSA PUBLIC KEY", self.pkcs1()),
            Self::Elliptic { .. } => block("ECDSA PUBLIC KEY", self.pkix()),
        }
    }

    /// A line of `authorized_keys`.
    fn to_ssh(&self) -> Result<String, String> {
        let (kind, parts) = match self {
            Self::Rsa { modulus, exponent } => {
                ("ssh-rsa".to_owned(), vec![signed(exponent), signed(modulus)])
            }
            Self::Elliptic { curve, point } => {
                let id = x509_parser::der_parser::parse_der(curve).ok();
                let id = id.and_then(|(_, id)| Some(id.as_oid().ok()?.to_id_string()));
                let named =
                    CURVES.iter().find(|(known, name)| Some(*known) == id.as_deref() && !name.is_empty());
                let (_, name) = named.ok_or("ssh: only P-256, P-384 and P-521 EC keys are supported")?;
                (format!("ecdsa-sha2-{name}"), vec![name.as_bytes().to_vec(), point.clone()])
            }
        };
        let mut bytes = Vec::new();
        for part in std::iter::once(kind.clone().into_bytes()).chain(parts) {
            bytes.extend(u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
            bytes.extend(part);
        }
        Ok(format!("{kind} {}\n", data_encoding::BASE64.encode(&bytes)))
    }
}

/// `x509publickey(pem [, format])`, of keys and certificates.
pub(super) fn public_key(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=2, "one or two arguments required for x509publickey")?;
    let given = text(&arguments[0], "argument for x509publickey must be a string")?;
    let format = match arguments.get(1) {
        Some(format) => text(format, "format argument for x509publickey must be a string")?,
        None => "pem",
    };
    let key = PublicKey::of(given)?;
    Ok(Value::string(match format {
        "pem" => key.to_pem(false),
        "pkix" => key.to_pem(true),
        "ssh" => key.to_ssh()?,
        other => return Err(Issue::new(format!("invalid format for x509publickey: {other}"))),
    }))
}

/// `x509parsecert(pem)`. How many hours are left depends on the clock, which no run has: `validity` is left out.
pub(super) fn parse_certificate(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "one argument required for x509parsecert")?;
    let given = text(&arguments[0], "argument for x509parsecert must be a string")?;
    let refused = |why: &str| {
        Issue::new(format!("argument for x509parsecert must be a certificate in pem format: {why}"))
    };
    let certificate = keys::certificate(given).map_err(|why| refused(&why))?;
    let parsed = X509Certificate::from_der(certificate.contents());
    let (_, parsed) = parsed.map_err(|_| refused("x509: malformed certificate"))?;
    let subject = parsed.subject();
    let mut fields = vec![
        ("isCA", Value::Bool(parsed.is_ca())),
        ("validFrom", Value::string(moment(parsed.validity().not_before))),
        ("validUntil", Value::string(moment(parsed.validity().not_after))),
        ("usage", strings(usages(&parsed))),
    ];
    if let Some(name) = texts(subject.iter_common_name()).into_iter().next_back() {
        fields.push(("commonName", Value::string(name)));
    }
    let (addresses, names) = alternatives(&parsed);
    let hosts: Vec<_> = addresses.iter().chain(&names).cloned().collect();
    for (field, entries) in [
        ("country", texts(subject.iter_country())),
        ("organization", texts(subject.iter_organization())),
        ("dnsNames", names),
        ("ipAddresses", addresses),
        ("hosts", hosts),
    ] {
        if !entries.is_empty() {
            fields.push((field, strings(entries)));
        }
    }
    if let Ok(key) = PublicKey::of_info(parsed.public_key()) {
        fields.push(("publicKey", Value::string(key.to_pem(false))));
    }
    Ok(Value::map(fields))
}

fn strings(texts: Vec<String>) -> Value {
    Value::list(texts.into_iter().map(Value::string))
}

fn texts<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<String> {
    attributes.filter_map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect()
}

/// As Go writes it by the layout `Jan 2 15:04:05 2006`.
fn moment(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let month = time.month().to_string();
    let (hour, minute, second) = time.to_hms();
    format!("{} {} {hour:02}:{minute:02}:{second:02} {}", &month[..3], time.day(), time.year())
}

/// Addresses and DNS names that a certificate is for.
fn alternatives(certificate: &X509Certificate<'_>) -> (Vec<String>, Vec<String>) {
    let (mut addresses, mut names) = (Vec::new(), Vec::new());
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return (addresses, names) };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let short = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let address = short.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                addresses.extend(address.ok().map(|address| address.to_string()));
            }
            _ => {}
        }
    }
    (addresses, names)
}

/// Bits of the key usage in their order, then the extended ones.
fn usages(certificate: &X509Certificate<'_>) -> Vec<String> {
    type Asked = fn(&KeyUsage) -> bool;
    const KEY: [(Asked, &str); 9] = [
        (KeyUsage::digital_signature, "Signature"),
        (KeyUsage::non_repudiation, "ContentCommitment"),
        (KeyUsage::key_encipherment, "KeyEncipherment"),
        (KeyUsage::data_encipherment, "DataEncipherment"),
        (KeyUsage::key_agreement, "KeyAgreement"),
        (KeyUsage::key_cert_sign, "CertSign"),
        (KeyUsage::crl_sign, "CRLSign"),
        (KeyUsage::encipher_only, "EncipherOnly"),
        (KeyUsage::decipher_only, "DecipherOnly"),
    ];
    let mut usages = Vec::new();
    if let Ok(Some(usage)) = certificate.key_usage() {
        usages.extend(KEY.iter().filter(|(has, _)| has(usage.value)).map(|(_, name)| (*name).to_owned()));
    }
    if let Ok(Some(usage)) = certificate.extended_key_usage() {
        let usage = usage.value;
        let extended = [
            (usage.any, "Any"),
            (usage.server_auth, "ServerAuth"),
            (usage.client_auth, "ClientAuth"),
            (usage.code_signing, "CodeSigning"),
            (usage.email_protection, "EmailProtection"),
            (usage.time_stamping, "TimeStamping"),
            (usage.ocsp_signing, "OCSPSigning"),
        ];
        usages.extend(extended.iter().filter(|(has, _)| *has).map(|(_, name)| (*name).to_owned()));
        let other = usage.other.iter().filter_map(|id| match id.to_id_string().as_str() {
            "1.3.6.1.5.5.7.3.5" => Some("IPSECEndSystem"),
            "1.3.6.1.5.5.7.3.6" => Some("IPSECTunnel"),
            "1.3.6.1.5.5.7.3.7" => Some("IPSECUser"),
            "1.3.6.1.4.1.311.10.3.3" => Some("MicrosoftServerGatedCrypto"),
            "2.16.840.1.113730.4.1" => Some("NetscapeServerGatedCrypto"),
            "1.3.6.1.4.1.311.2.1.22" => Some("MicrosoftCommercialCodeSigning"),
            "1.3.6.1.4.1.311.61.1.1" => Some("MicrosoftKernelCodeSigning"),
            _ => None,
        });
        usages.extend(other.map(str::to_owned));
    }
    usages
}
