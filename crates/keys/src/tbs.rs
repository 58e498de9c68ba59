//! Writing of certificates (RFC 5280), byte for byte as Go's `x509.CreateCertificate` does, except
//! for serial number and signature.
//!
//! Libraries that create certificates keep only one value of each attribute of a name, so the
//! issuer in a signed certificate might differ from the subject of the authority. Here the name of
//! the authority is copied byte by byte.

use std::net::IpAddr;

use sha1::{Digest as _, Sha1};
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};
use x509_parser::time::ASN1Time;
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_PRINTABLESTRING, TAG_UTCTIME};
use yasna::{DERWriter, DERWriterSeq, Tag};

use crate::block::to_pem;
use crate::certificate::Certificate;
use crate::der::{write_bits, write_oid};
use crate::error::KeyError;
use crate::signing::SigningKey;
use crate::usage::{ExtendedKeyUsage, KeyUsage};

const COUNTRY: &str = "2.5.4.6";
const ORGANIZATION: &str = "2.5.4.10";
const COMMON_NAME: &str = "2.5.4.3";

const SUBJECT_KEY_ID: &str = "2.5.29.14";
const KEY_USAGE: &str = "2.5.29.15";
const SUBJECT_ALTERNATIVE_NAME: &str = "2.5.29.17";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const AUTHORITY_KEY_ID: &str = "2.5.29.35";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";

/// The name of a certificate's holder.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    pub country: Vec<String>,
    pub organization: Vec<String>,
    /// Common name; an empty one is left out.
    pub common_name: String,
}

impl Subject {
    fn to_der(&self) -> Vec<u8> {
        let common_name: Vec<String> =
            Some(self.common_name.clone()).filter(|name| !name.is_empty()).into_iter().collect();
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                for (id, values) in [
                    (COUNTRY, &self.country),
                    (ORGANIZATION, &self.organization),
                    (COMMON_NAME, &common_name),
                ] {
                    if !values.is_empty() {
                        write_relative_name(writer.next(), id, values);
                    }
                }
            });
        })
    }
}

/// Writes all values of an attribute as one set, as Go does.
fn write_relative_name(writer: DERWriter<'_>, id: &str, values: &[String]) {
    writer.write_set_of(|writer| {
        for value in values {
            writer.next().write_sequence(|writer| {
                write_oid(writer.next(), id);
                if value.bytes().all(is_printable) {
                    // The library's own function panics on question marks, which a PrintableString
                    // may contain, so the bytes are written directly.
                    writer.next().write_tagged_implicit(TAG_PRINTABLESTRING, |writer| {
                        writer.write_bytes(value.as_bytes());
                    });
                } else {
                    writer.next().write_utf8_string(value);
                }
            });
        }
    });
}

/// The characters of a PrintableString (X.680, 41.4).
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte)
}

/// The signer of a certificate.
#[derive(Debug, Clone, Copy)]
pub enum Issuer<'a> {
    /// The holder of the certificate, who signs it with this key.
    Subject(&'a SigningKey),
    /// The holder of another certificate, with the key of that one.
    Authority(&'a Certificate, &'a SigningKey),
}

/// The part of a certificate that is signed (RFC 5280, 4.1.2).
#[derive(Debug, Clone)]
pub struct TbsCertificate {
    /// Serial number, non-negative, its highest byte first.
    pub serial: [u8; 16],
    pub subject: Subject,
    /// Start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// End of the validity, in seconds since 1970.
    pub not_after: i64,
    pub is_authority: bool,
    pub key_usage: KeyUsage,
    pub extended_key_usage: Vec<ExtendedKeyUsage>,
    pub dns_names: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
}

impl TbsCertificate {
    /// Signs the certificate for the holder of a key, which is given as SubjectPublicKeyInfo in DER
    /// ([`PublicKey::to_pkix`], [`SigningKey::public_key_info`]). Returns a PEM block
    /// `CERTIFICATE`.
    ///
    /// # Errors
    ///
    /// DNS names that are not ASCII, years beyond 9999, a key that does not belong to the
    /// authority, failures of the library.
    ///
    /// [`PublicKey::to_pkix`]: crate::PublicKey::to_pkix
    pub fn sign(&self, public_key: &[u8], issuer: Issuer<'_>) -> Result<String, KeyError> {
        let (Issuer::Subject(key) | Issuer::Authority(_, key)) = issuer;
        if let Issuer::Authority(authority, key) = issuer
            && authority.public_key_info != key.public_key_info()?
        {
            return Err(KeyError::OtherIssuer);
        }
        if let Some(name) = self.dns_names.iter().find(|name| !name.is_ascii()) {
            return Err(KeyError::NotAscii(name.clone()));
        }
        let algorithm = key.signature_algorithm();
        let tbs = self.to_der(public_key, algorithm, issuer)?;
        let signature = key.sign(&tbs)?;
        let certificate = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&tbs);
                write_algorithm(writer.next(), algorithm);
                write_bits(writer.next(), &signature);
            });
        });
        Ok(to_pem("CERTIFICATE", &certificate))
    }

    fn to_der(
        &self,
        public_key: &[u8],
        algorithm: (&str, bool),
        issuer: Issuer<'_>,
    ) -> Result<Vec<u8>, KeyError> {
        let subject = self.subject.to_der();
        let issuer_name = match issuer {
            Issuer::Subject(_) => &subject,
            Issuer::Authority(authority, _) => &authority.subject,
        };
        let authority_key_id = match issuer {
            Issuer::Authority(authority, _) if authority.subject != subject => {
                authority.subject_key_id.as_deref()
            }
            _ => None,
        };
        let validity = [Time::new(self.not_before)?, Time::new(self.not_after)?];
        Ok(yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                // Version 3, counted from 0.
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&self.serial, true);
                write_algorithm(writer.next(), algorithm);
                writer.next().write_der(issuer_name);
                writer.next().write_sequence(|writer| {
                    for time in &validity {
                        time.write(writer.next());
                    }
                });
                writer.next().write_der(&subject);
                writer.next().write_der(public_key);
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer
                        .write_sequence(|writer| self.write_extensions(writer, public_key, authority_key_id));
                });
            });
        }))
    }

    fn write_extensions(
        &self,
        writer: &mut DERWriterSeq<'_>,
        public_key: &[u8],
        authority_key_id: Option<&[u8]>,
    ) {
        if !self.key_usage.is_empty() {
            write_extension(writer, KEY_USAGE, true, |writer| write_key_usage(writer, self.key_usage));
        }
        if !self.extended_key_usage.is_empty() {
            write_extension(writer, EXTENDED_KEY_USAGE, false, |writer| {
                writer.write_sequence(|writer| {
                    for usage in &self.extended_key_usage {
                        write_oid(writer.next(), usage.id());
                    }
                });
            });
        }
        write_extension(writer, BASIC_CONSTRAINTS, true, |writer| {
            writer.write_sequence(|writer| {
                // DER leaves out members with their default value.
                if self.is_authority {
                    writer.next().write_bool(true);
                }
            });
        });
        if self.is_authority {
            let id = key_id(public_key);
            write_extension(writer, SUBJECT_KEY_ID, false, |writer| writer.write_bytes(&id));
        }
        if let Some(id) = authority_key_id {
            write_extension(writer, AUTHORITY_KEY_ID, false, |writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(id));
                });
            });
        }
        if !self.dns_names.is_empty() || !self.ip_addresses.is_empty() {
            // RFC 5280 requires the extension to be critical if the subject is empty, since this is
            // then the only name.
            let is_nameless = self.subject.to_der() == Subject::default().to_der();
            write_extension(writer, SUBJECT_ALTERNATIVE_NAME, is_nameless, |writer| self.write_names(writer));
        }
    }

    fn write_names(&self, writer: DERWriter<'_>) {
        writer.write_sequence(|writer| {
            for name in &self.dns_names {
                let write = |writer: DERWriter<'_>| writer.write_bytes(name.as_bytes());
                writer.next().write_tagged_implicit(Tag::context(2), write);
            }
            for address in &self.ip_addresses {
                let write = |writer: DERWriter<'_>| match address.to_canonical() {
                    IpAddr::V4(address) => writer.write_bytes(&address.octets()),
                    IpAddr::V6(address) => writer.write_bytes(&address.octets()),
                };
                writer.next().write_tagged_implicit(Tag::context(7), write);
            }
        });
    }
}

fn write_algorithm(writer: DERWriter<'_>, (id, has_null): (&str, bool)) {
    writer.write_sequence(|writer| {
        write_oid(writer.next(), id);
        if has_null {
            writer.next().write_null();
        }
    });
}

fn write_extension(
    writer: &mut DERWriterSeq<'_>,
    id: &str,
    is_critical: bool,
    write: impl FnOnce(DERWriter<'_>),
) {
    writer.next().write_sequence(|writer| {
        write_oid(writer.next(), id);
        if is_critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&yasna::construct_der(write));
    });
}

/// Writes the key usage. The first bit of a BIT STRING is the highest of its first byte; zeros at
/// the end are left out.
fn write_key_usage(writer: DERWriter<'_>, usage: KeyUsage) {
    let [first, second] = usage.bits().to_le_bytes().map(u8::reverse_bits);
    let bits = usize::BITS - usize::from(usage.bits()).leading_zeros();
    let bits = usize::try_from(bits).unwrap_or(0);
    writer.write_bitvec_bytes(&[first, second][..bits.div_ceil(8)], bits);
}

/// Returns the SHA-1 of the key's bits (RFC 5280, 4.2.1.2). It serves only as an identifier, so
/// SHA-1 is safe here.
fn key_id(public_key_info: &[u8]) -> Vec<u8> {
    let bits = SubjectPublicKeyInfo::from_der(public_key_info).map(|(_, info)| info.subject_public_key.data);
    Sha1::digest(bits.unwrap_or_default()).to_vec()
}

/// A date in a certificate, with a two-digit year from 1950 to 2049 (RFC 5280, 4.1.2.5).
struct Time {
    text: String,
    is_short: bool,
}

impl Time {
    fn new(seconds: i64) -> Result<Self, KeyError> {
        let time = ASN1Time::from_timestamp(seconds).map_err(|_| KeyError::Time)?.to_datetime();
        let (hour, minute, second) = time.to_hms();
        let year = time.year();
        if !(0..=9999).contains(&year) {
            return Err(KeyError::Time);
        }
        let is_short = (1950..2050).contains(&year);
        let year = if is_short { format!("{:02}", year % 100) } else { format!("{year:04}") };
        let month = u8::from(time.month());
        let text = format!("{year}{month:02}{:02}{hour:02}{minute:02}{second:02}Z", time.day());
        Ok(Self { text, is_short })
    }

    fn write(&self, writer: DERWriter<'_>) {
        let tag = if self.is_short { TAG_UTCTIME } else { TAG_GENERALIZEDTIME };
        writer.write_tagged_implicit(tag, |writer| writer.write_bytes(self.text.as_bytes()));
    }
}
