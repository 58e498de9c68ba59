//! Certificates: making them, and the value that templates get.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;
use std::str::FromStr as _;
use std::time::{Duration, UNIX_EPOCH};

use rcgen::string::{Ia5String, PrintableString};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber, date_time_ymd,
};
use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, X509Certificate};

use super::super::Outcome;
use super::STEPS;
use super::private_key::{PrivateKey, encode, first_block};
use crate::context::Context;
use crate::error::CallError;
use crate::format;
use crate::functions::arguments::Arguments;
use crate::value::{Map, Member, Object, Str, Value};

/// The name of the type.
pub(super) const CERTIFICATE: &str = "sprig.certificate";

/// What sprig's functions give: two PEM texts.
#[derive(Debug, PartialEq)]
pub(super) struct Certificate {
    cert: Str,
    key: Str,
}

impl Certificate {
    pub(super) fn value(cert: impl Into<Str>, key: impl Into<Str>) -> Value {
        Value::Object(Rc::new(Certificate { cert: cert.into(), key: key.into() }))
    }
}

impl Object for Certificate {
    fn type_name(&self) -> &str {
        CERTIFICATE
    }

    fn member(&self, name: &str) -> Option<Member> {
        match name {
            "Cert" => Some(Member::Field(self.cert.clone().into())),
            "Key" => Some(Member::Field(self.key.clone().into())),
            _ => None,
        }
    }

    fn call(&self, _: &mut Context<'_>, _: &str, _: &[Value]) -> Outcome {
        Ok(Value::Nil)
    }

    fn text(&self) -> String {
        format!("{{{} {}}}", self.cert.to_text(), self.key.to_text())
    }

    fn prints_fields(&self) -> bool {
        true
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![("Cert", self.cert.clone().into()), ("Key", self.key.clone().into())]
    }

    fn json(&self) -> Value {
        let member = |name: &str, text: &Str| (Str::from(name), Value::from(text.clone()));
        Value::Map(Map::from_iter([member("Cert", &self.cert), member("Key", &self.key)]))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Certificate>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Whom a certificate is for, and how long.
pub(super) struct Role {
    name: String,
    days: i64,
    addresses: Vec<IpAddr>,
    hosts: Vec<String>,
    is_authority: bool,
}

impl Role {
    pub(super) fn authority(name: &[u8], days: i64) -> Role {
        let name = crate::text::lossy(name).into_owned();
        Role { name, days, addresses: Vec::new(), hosts: Vec::new(), is_authority: true }
    }

    /// From the arguments name, addresses, host names, days.
    pub(super) fn holder(context: &mut Context<'_>, args: &[Value]) -> Result<Role, CallError> {
        let mut role = Role { is_authority: false, ..Role::authority(args.string(0), args.int(3)) };
        for item in items(args.value(1)) {
            let text = text_of(context, item, "error parsing ip")?;
            let address = text.parse().map_err(|_| format!("error parsing ip: {text}"))?;
            role.addresses.push(address);
        }
        for item in items(args.value(2)) {
            role.hosts.push(text_of(context, item, "error processing alternate dns name")?);
        }
        context.spend(role.addresses.len().saturating_add(role.hosts.len()).saturating_mul(100))?;
        Ok(role)
    }

    pub(super) fn self_signed(
        &self,
        context: &mut Context<'_>,
        function: &'static str,
        key: &PrivateKey,
    ) -> Outcome {
        let params = self.params(context, function)?;
        let cert = params.self_signed(key.pair()?).map_err(|error| failed(&error))?;
        Ok(Certificate::value(encode("CERTIFICATE", cert.der().to_vec()), key.to_pem()?))
    }

    pub(super) fn signed_by(
        &self,
        context: &mut Context<'_>,
        function: &'static str,
        key: &PrivateKey,
        authority: &Issuer<'static, KeyPair>,
    ) -> Outcome {
        let mut params = self.params(context, function)?;
        params.use_authority_key_identifier_extension = true;
        let cert = params.signed_by(key.pair()?, authority).map_err(|error| failed(&error))?;
        Ok(Certificate::value(encode("CERTIFICATE", cert.der().to_vec()), key.to_pem()?))
    }

    fn params(
        &self,
        context: &mut Context<'_>,
        function: &'static str,
    ) -> Result<CertificateParams, CallError> {
        context.spend(STEPS)?;
        let mut serial = [0; 16];
        context.randomize(function, &mut serial)?;
        // A positive number.
        serial[0] &= 0x7f;
        let mut params = CertificateParams::default();
        let now = context.now(function)?.duration_since(UNIX_EPOCH).unwrap_or_default();
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_secs());
        // Go counts nanoseconds in an int64, so that very many days are fewer.
        let seconds = self.days.wrapping_mul(86_400_000_000_000) / 1_000_000_000;
        let length = Duration::from_secs(seconds.unsigned_abs());
        params.not_after = if seconds < 0 { params.not_before - length } else { params.not_before + length };
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.distinguished_name = DistinguishedName::new();
        if !self.name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, distinguished(&self.name));
        }
        params.subject_alt_names = self.addresses.iter().copied().map(SanType::IpAddress).collect();
        for host in &self.hosts {
            let name = Ia5String::from_str(host).map_err(|_| {
                let quoted = crate::text::quote(host.as_bytes());
                format!("error creating certificate: x509: {quoted} cannot be encoded as an IA5String")
            })?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
        if self.is_authority {
            params.key_usages.push(KeyUsagePurpose::KeyCertSign);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        } else {
            params.is_ca = IsCa::ExplicitNoCa;
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Ok(params)
    }
}

/// The type of text that Go would take. A question mark is printable too, but the library that writes certificates panics on it.
fn distinguished(name: &str) -> DnValue {
    match PrintableString::from_str(name) {
        Ok(printable) if !name.contains('?') => DnValue::PrintableString(printable),
        _ => DnValue::Utf8String(name.to_owned()),
    }
}

fn failed(error: &rcgen::Error) -> CallError {
    format!("error creating certificate: {error}").into()
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::List(list) => list.items(),
        _ => &[],
    }
}

fn text_of(context: &mut Context<'_>, item: &Value, complaint: &str) -> Result<String, CallError> {
    match item {
        Value::Str(text) => Ok(text.to_text().into_owned()),
        other => {
            let shown = format::to_bytes(other, context.budget())?;
            Err(format!("{complaint}: {} is not a string", crate::text::lossy(&shown)).into())
        }
    }
}

/// Whether this is a certificate.
pub(super) fn check(der: &[u8], name: &str) -> Result<(), CallError> {
    let parsed = X509Certificate::from_der(der);
    parsed
        .map(|_| ())
        .map_err(|_| format!("error parsing certificate: {name}.Bytes: x509: malformed certificate").into())
}

/// Who signs, from a certificate value.
pub(super) fn authority(value: &Value) -> Result<Issuer<'static, KeyPair>, CallError> {
    let empty = Certificate { cert: Str::default(), key: Str::default() };
    let certificate = match value {
        Value::Object(object) => object.as_any().downcast_ref::<Certificate>(),
        _ => None,
    };
    let Certificate { cert, key } = certificate.unwrap_or(&empty);
    let block = first_block(cert).ok_or("unable to decode certificate")?;
    check(block.contents(), "decodedSignerCert")?;
    let key = PrivateKey::parse(key).map_err(|error| format!("error parsing private key: {error}"))?;
    let PrivateKey::Known(pair) = key else {
        return Err(key.pair().err().unwrap_or_default().into());
    };
    let der = block.into_contents();
    let matches = X509Certificate::from_der(&der)
        .is_ok_and(|(_, parsed)| parsed.public_key().subject_public_key.data == pair.der_bytes());
    if !matches {
        return Err(
            "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey".into()
        );
    }
    let has_question_mark = X509Certificate::from_der(&der).is_ok_and(|(_, parsed)| {
        let mut values = parsed.subject().iter_attributes().map(AttributeTypeAndValue::attr_value);
        values.any(|value| value.tag() == Tag::PrintableString && value.data.contains(&b'?'))
    });
    if has_question_mark {
        // Written as another type it would be another name, and nobody would find the authority.
        return Err("error creating certificate: the subject of the authority is a PrintableString with a question mark, \
            which cannot be written; use an authority whose name has none"
            .into());
    }
    Issuer::from_ca_cert_der(&der.into(), pair).map_err(|error| failed(&error))
}
