//! Reading of certificates.

use std::net::IpAddr;

use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::parse_der;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::AttributeTypeAndValue;

use crate::block::pem_block;
use crate::error::KeyError;
use crate::public_key::PublicKey;
use crate::usage::{ExtendedKeyUsage, KeyUsage};

/// The content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub is_authority: bool,
    pub country: Vec<String>,
    pub organization: Vec<String>,
    pub common_name: Option<String>,
    pub dns_names: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
    /// Start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// End of the validity, in seconds since 1970.
    pub not_after: i64,
    pub key_usage: KeyUsage,
    /// Extended key usages in the order of the certificate, without those that have no name in Go.
    pub extended_key_usage: Vec<ExtendedKeyUsage>,
    /// The public key; `None` if [`PublicKey`] does not support its kind.
    pub public_key: Option<PublicKey>,
    /// The subject in DER, which becomes the issuer of certificates that its key signs.
    pub(crate) subject: Vec<u8>,
    pub(crate) subject_key_id: Option<Vec<u8>>,
    /// The SubjectPublicKeyInfo in DER.
    pub(crate) public_key_info: Vec<u8>,
}

impl Certificate {
    /// Reads the first block of a text, which must be `CERTIFICATE`.
    ///
    /// # Errors
    ///
    /// The text has no block, its first block has another label, or the content is malformed.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let block = pem_block(text.as_bytes()).ok_or(KeyError::NoBlock("certificate"))?;
        if block.tag() != "CERTIFICATE" {
            return Err(KeyError::CertificateBlock(block.tag().to_owned()));
        }
        Self::from_der(block.contents())
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    ///
    /// The bytes are not a certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        match X509Certificate::from_der(der) {
            Ok(([], parsed)) => Ok(Self::of(&parsed)),
            _ => Err(KeyError::MalformedCertificate),
        }
    }

    fn of(parsed: &X509Certificate<'_>) -> Self {
        let subject = parsed.subject();
        let (ip_addresses, dns_names) = alternative_names(parsed);
        Self {
            is_authority: parsed.is_ca(),
            country: texts(subject.iter_country()),
            organization: texts(subject.iter_organization()),
            common_name: texts(subject.iter_common_name()).pop(),
            dns_names,
            ip_addresses,
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            key_usage: parsed
                .key_usage()
                .ok()
                .flatten()
                .map_or(KeyUsage::empty(), |usage| KeyUsage::from_bits_truncate(usage.value.flags)),
            extended_key_usage: extended_key_usage(parsed).unwrap_or_default(),
            public_key: PublicKey::of_info(parsed.public_key()).ok(),
            subject: subject.as_raw().to_vec(),
            subject_key_id: parsed.iter_extensions().find_map(|extension| {
                match extension.parsed_extension() {
                    ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                    _ => None,
                }
            }),
            public_key_info: parsed.public_key().raw.to_vec(),
        }
    }
}

fn texts<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<String> {
    attributes.filter_map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect()
}

/// Returns the IP addresses and DNS names of a certificate.
fn alternative_names(parsed: &X509Certificate<'_>) -> (Vec<IpAddr>, Vec<String>) {
    let (mut addresses, mut names) = (Vec::new(), Vec::new());
    let Ok(Some(extension)) = parsed.subject_alternative_name() else { return (addresses, names) };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let short = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let address = short.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                addresses.extend(address.ok().map(|address| address.to_canonical()));
            }
            _ => {}
        }
    }
    (addresses, names)
}

/// Returns the extended key usages. They are read from the extension itself, because the library
/// sorts them into flags and loses their order.
fn extended_key_usage(parsed: &X509Certificate<'_>) -> Option<Vec<ExtendedKeyUsage>> {
    let extension = parsed.iter_extensions().find(|extension| extension.oid.to_id_string() == "2.5.29.37")?;
    let (_, purposes) = parse_der(extension.value).ok()?;
    let ids = purposes.as_sequence().ok()?.iter().filter_map(|id| Some(id.as_oid().ok()?.to_id_string()));
    Some(ids.filter_map(|id| ExtendedKeyUsage::find(&id)).collect())
}
