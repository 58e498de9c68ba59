//! Creation of certificates, and the certificate value of templates.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use groundwork_keys::{
    Certificate as Parsed, ExtendedKeyUsage, Issuer, KeyUsage, SigningKey, Subject, TbsCertificate, pem_block,
};

use super::super::registration::Outcome;
use super::private_key;
use crate::context::Context;
use crate::error::CallError;
use crate::format;
use crate::functions::arguments::Arguments;
use crate::value::{Map, Member, Object, Str, Value};

/// Go's name of the type.
pub(super) const CERTIFICATE: &str = "sprig.certificate";

/// The result of sprig's functions for certificates: certificate and key as PEM texts.
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

/// Subject, names and validity of a certificate.
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

    /// Reads the role from the arguments name, addresses, host names, days.
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
        context.spend(role.addresses.len().saturating_add(role.hosts.len()))?;
        Ok(role)
    }

    pub(super) fn self_signed(
        &self,
        context: &mut Context<'_>,
        function: &'static str,
        key: &SigningKey,
    ) -> Outcome {
        let tbs = self.tbs_certificate(context, function)?;
        made(&tbs, key, Issuer::Subject(key))
    }

    pub(super) fn signed_by(
        &self,
        context: &mut Context<'_>,
        function: &'static str,
        key: &SigningKey,
        authority: &Authority,
    ) -> Outcome {
        let tbs = self.tbs_certificate(context, function)?;
        made(&tbs, key, Issuer::Authority(&authority.certificate, &authority.key))
    }

    fn tbs_certificate(
        &self,
        context: &mut Context<'_>,
        function: &'static str,
    ) -> Result<TbsCertificate, CallError> {
        let mut serial = [0; 16];
        context.randomize(function, &mut serial)?;
        let now = context.now(function)?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let not_before = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        // Go counts nanoseconds in an int64, which overflows above 106751 days. The wrapping keeps
        // Go's result.
        let seconds = self.days.wrapping_mul(86_400_000_000_000) / 1_000_000_000;
        let mut key_usage = KeyUsage::KEY_ENCIPHERMENT | KeyUsage::DIGITAL_SIGNATURE;
        key_usage.set(KeyUsage::CERT_SIGN, self.is_authority);
        Ok(TbsCertificate {
            serial,
            subject: Subject { common_name: self.name.clone(), ..Subject::default() },
            not_before,
            not_after: not_before.saturating_add(seconds),
            is_authority: self.is_authority,
            key_usage,
            extended_key_usage: vec![ExtendedKeyUsage::ServerAuth, ExtendedKeyUsage::ClientAuth],
            dns_names: self.hosts.clone(),
            ip_addresses: self.addresses.clone(),
        })
    }
}

/// Signs the certificate and returns it as a value together with its key.
fn made(tbs: &TbsCertificate, holder: &SigningKey, issuer: Issuer<'_>) -> Outcome {
    let certificate = holder.public_key_info().and_then(|key| tbs.sign(&key, issuer));
    let value = certificate.and_then(|certificate| Ok(Certificate::value(certificate, holder.to_pem()?)));
    value.map_err(|error| format!("error creating certificate: {error}").into())
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

/// Reads a certificate; `name` is its name in the error.
pub(super) fn parse(der: &[u8], name: &str) -> Result<Parsed, CallError> {
    Parsed::from_der(der).map_err(|error| format!("error parsing certificate: {name}.Bytes: {error}").into())
}

/// The certificate and key that sign other certificates.
pub(super) struct Authority {
    certificate: Parsed,
    key: SigningKey,
}

impl Authority {
    /// Reads the authority from a certificate value.
    pub(super) fn of(value: &Value) -> Result<Self, CallError> {
        let empty = Certificate { cert: Str::default(), key: Str::default() };
        let certificate = match value {
            Value::Object(object) => object.as_any().downcast_ref::<Certificate>(),
            _ => None,
        };
        let Certificate { cert, key } = certificate.unwrap_or(&empty);
        let block = pem_block(cert).ok_or("unable to decode certificate")?;
        let certificate = parse(block.contents(), "decodedSignerCert")?;
        let key = private_key::parse(key, "error parsing private key")?;
        Ok(Self { certificate, key: private_key::signing(key)? })
    }
}
