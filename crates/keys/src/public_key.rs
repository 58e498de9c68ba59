//! Public keys.

use num_bigint::BigUint;
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};

use crate::block::{pem_block, to_pem};
use crate::der::{numbers, write_bits, write_numbers, write_oid};
use crate::error::KeyError;

const RSA: &str = "1.2.840.113549.1.1.1";
const DSA: &str = "1.2.840.10040.4.1";
const ECDSA: &str = "1.2.840.10045.2.1";

/// The elliptic curves that Go knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    P224,
    P256,
    P384,
    P521,
}

impl Curve {
    const ALL: [Self; 4] = [Self::P224, Self::P256, Self::P384, Self::P521];

    fn id(self) -> &'static str {
        match self {
            Self::P224 => "1.3.132.0.33",
            Self::P256 => "1.2.840.10045.3.1.7",
            Self::P384 => "1.3.132.0.34",
            Self::P521 => "1.3.132.0.35",
        }
    }

    /// Returns the length of each coordinate of a point in bytes.
    fn coordinate_bytes(self) -> usize {
        match self {
            Self::P224 => 28,
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Reports whether bytes have the form of a point with both coordinates, the only form that Go
    /// reads (SEC 1, 2.3.3).
    pub(crate) fn is_point(self, bytes: &[u8]) -> bool {
        bytes.first() == Some(&4) && bytes.len() == 1 + 2 * self.coordinate_bytes()
    }

    pub(crate) fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.id() == id)
    }

    /// Returns the name of the curve in SSH, if SSH supports the curve.
    fn ssh_name(self) -> Option<&'static str> {
        match self {
            Self::P224 => None,
            Self::P256 => Some("nistp256"),
            Self::P384 => Some("nistp384"),
            Self::P521 => Some("nistp521"),
        }
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    Rsa {
        modulus: BigUint,
        exponent: BigUint,
    },
    /// A point on a curve, in the form of SEC 1.
    Ecdsa {
        curve: Curve,
        point: Vec<u8>,
    },
    /// A DSA key as its whole SubjectPublicKeyInfo, since it is only copied.
    Dsa(Vec<u8>),
}

impl PublicKey {
    /// Reads the first block of a text: any label with a PKIX key, or an RSA key in PKCS#1.
    ///
    /// # Errors
    ///
    /// There is no block, or its content is neither of these.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let block = pem_block(text.as_bytes()).ok_or(KeyError::NoBlock("public key"))?;
        match SubjectPublicKeyInfo::from_der(block.contents()) {
            Ok(([], info)) => Self::of_info(&info),
            _ => Self::of_pkcs1(block.contents()).ok_or(KeyError::MalformedPublicKey),
        }
    }

    fn of_pkcs1(der: &[u8]) -> Option<Self> {
        match <[BigUint; 2]>::try_from(numbers(der)?) {
            Ok([modulus, exponent]) if modulus > BigUint::ZERO && exponent > BigUint::ZERO => {
                Some(Self::Rsa { modulus, exponent })
            }
            _ => None,
        }
    }

    pub(crate) fn of_info(info: &SubjectPublicKeyInfo<'_>) -> Result<Self, KeyError> {
        let bits = &info.subject_public_key.data;
        match info.algorithm.algorithm.to_id_string().as_str() {
            RSA => Self::of_pkcs1(bits).ok_or(KeyError::MalformedPublicKey),
            ECDSA => {
                let id = info.algorithm.parameters.as_ref().and_then(|id| id.as_oid().ok());
                let curve =
                    id.and_then(|id| Curve::find(&id.to_id_string())).ok_or(KeyError::UnknownCurve)?;
                if !curve.is_point(bits) {
                    return Err(KeyError::MalformedPublicKey);
                }
                Ok(Self::Ecdsa { curve, point: bits.to_vec() })
            }
            DSA => Ok(Self::Dsa(info.raw.to_vec())),
            _ => Err(KeyError::UnknownPublicKey),
        }
    }

    /// Returns the SubjectPublicKeyInfo of PKIX (RFC 5280, 4.1.2.7) in DER.
    pub fn to_pkix(&self) -> Vec<u8> {
        let (algorithm, bits) = match self {
            Self::Rsa { modulus, exponent } => (RSA, write_numbers(&[modulus, exponent])),
            Self::Ecdsa { point, .. } => (ECDSA, point.clone()),
            Self::Dsa(info) => return info.clone(),
        };
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_sequence(|writer| {
                    write_oid(writer.next(), algorithm);
                    match self {
                        Self::Ecdsa { curve, .. } => write_oid(writer.next(), curve.id()),
                        _ => writer.next().write_null(),
                    }
                });
                write_bits(writer.next(), &bits);
            });
        })
    }

    /// Returns `RSA PUBLIC KEY` (PKCS#1), or `ECDSA PUBLIC KEY` (PKIX): the labels of spiff++.
    /// `None` for a key that spiff++ does not write.
    pub fn to_pem(&self) -> Option<String> {
        match self {
            Self::Rsa { modulus, exponent } => {
                Some(to_pem("RSA PUBLIC KEY", &write_numbers(&[modulus, exponent])))
            }
            Self::Ecdsa { .. } => Some(to_pem("ECDSA PUBLIC KEY", &self.to_pkix())),
            Self::Dsa(_) => None,
        }
    }

    /// Returns the same as [`PublicKey::to_pem`], but `PUBLIC KEY` (PKIX) for an RSA key.
    pub fn to_pkix_pem(&self) -> Option<String> {
        match self {
            Self::Rsa { .. } => Some(to_pem("PUBLIC KEY", &self.to_pkix())),
            Self::Ecdsa { .. } | Self::Dsa(_) => self.to_pem(),
        }
    }

    /// Returns a line of `authorized_keys` (RFC 4253, 6.6; RFC 5656, 3.1).
    ///
    /// # Errors
    ///
    /// Keys on P-224, which SSH does not support, and DSA keys.
    pub fn to_authorized_key(&self) -> Result<String, KeyError> {
        let (kind, parts) = match self {
            Self::Rsa { modulus, exponent } => ("ssh-rsa".to_owned(), [mpint(exponent), mpint(modulus)]),
            Self::Ecdsa { curve, point } => {
                let name = curve.ssh_name().ok_or(KeyError::SshCurve)?;
                (format!("ecdsa-sha2-{name}"), [name.as_bytes().to_vec(), point.clone()])
            }
            Self::Dsa(_) => return Err(KeyError::SshCurve),
        };
        let mut bytes = Vec::new();
        for part in std::iter::once(kind.as_bytes()).chain(parts.iter().map(Vec::as_slice)) {
            bytes.extend(u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
            bytes.extend(part);
        }
        Ok(format!("{kind} {}\n", data_encoding::BASE64.encode(&bytes)))
    }
}

/// Returns a number as SSH writes it (`mpint`, RFC 4251, 5). The first bit is the sign, so a zero
/// byte precedes a number whose first bit is set.
fn mpint(number: &BigUint) -> Vec<u8> {
    let mut bytes = number.to_bytes_be();
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    bytes
}
