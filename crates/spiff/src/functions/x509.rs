//! Functions that read keys and certificates (`spiff.md` 11.5). Those that create them are in
//! [`super::new_keys`].

use std::time::{SystemTime, UNIX_EPOCH};

use groundwork_go::time::{Instant, Zone};
use groundwork_keys::{Certificate, ExtendedKeyUsage, KeyError, KeyUsage, PrivateKey, PublicKey};

use super::arguments::{count, text};
use super::calling::{Answer, Caller, Outcome};
use crate::issue::Issue;
use crate::value::Value;

/// Layout, for Go, of the dates of certificates.
pub(super) const DATE: &[u8] = b"Jan 2 15:04:05 2006";
const SECONDS_PER_HOUR: i64 = 3_600;

/// The key usages in the order of their bits, with the names under which a certificate shows them.
pub(super) const KEY_USAGES: [(KeyUsage, &str); 9] = [
    (KeyUsage::DIGITAL_SIGNATURE, "Signature"),
    (KeyUsage::CONTENT_COMMITMENT, "ContentCommitment"),
    (KeyUsage::KEY_ENCIPHERMENT, "KeyEncipherment"),
    (KeyUsage::DATA_ENCIPHERMENT, "DataEncipherment"),
    (KeyUsage::KEY_AGREEMENT, "KeyAgreement"),
    (KeyUsage::CERT_SIGN, "CertSign"),
    (KeyUsage::CRL_SIGN, "CRLSign"),
    (KeyUsage::ENCIPHER_ONLY, "EncipherOnly"),
    (KeyUsage::DECIPHER_ONLY, "DecipherOnly"),
];

pub(super) fn extended_name(usage: ExtendedKeyUsage) -> &'static str {
    match usage {
        ExtendedKeyUsage::Any => "Any",
        ExtendedKeyUsage::ServerAuth => "ServerAuth",
        ExtendedKeyUsage::ClientAuth => "ClientAuth",
        ExtendedKeyUsage::CodeSigning => "CodeSigning",
        ExtendedKeyUsage::EmailProtection => "EmailProtection",
        ExtendedKeyUsage::IpsecEndSystem => "IPSECEndSystem",
        ExtendedKeyUsage::IpsecTunnel => "IPSECTunnel",
        ExtendedKeyUsage::IpsecUser => "IPSECUser",
        ExtendedKeyUsage::TimeStamping => "TimeStamping",
        ExtendedKeyUsage::OcspSigning => "OCSPSigning",
        ExtendedKeyUsage::MicrosoftServerGatedCrypto => "MicrosoftServerGatedCrypto",
        ExtendedKeyUsage::NetscapeServerGatedCrypto => "NetscapeServerGatedCrypto",
        ExtendedKeyUsage::MicrosoftCommercialCodeSigning => "MicrosoftCommercialCodeSigning",
        ExtendedKeyUsage::MicrosoftKernelCodeSigning => "MicrosoftKernelCodeSigning",
    }
}

/// `x509publickey(pem [, format])`: the public key of a private key, a public key or a certificate.
pub(super) fn public_key(arguments: &[Value]) -> Outcome {
    const NO_KEY: &str = "argument for x509publickey must be a private key in pem format";
    count(arguments, 1..=2, "invalid argument count for x509publickey")?;
    let format = match arguments.get(1) {
        Some(format) => text(format, "format argument for x509publickey must be a string")?,
        None => "pem",
    };
    let write: fn(&PublicKey) -> Option<String> = match format.to_ascii_lowercase().as_str() {
        "pem" => PublicKey::to_pem,
        "pkix" => PublicKey::to_pkix_pem,
        "ssh" => |key| key.to_authorized_key().ok(),
        _ => return Err(Issue::new(format!("invalid format for x509publickey: {format}"))),
    };
    let given = text(&arguments[0], NO_KEY)?;
    let key = PrivateKey::parse(given).and_then(PrivateKey::public_key).or_else(|of_private_key| {
        // For a text that is none of these, spiff++ reports why it is not a private key.
        PublicKey::parse(given)
            .ok()
            .or_else(|| Certificate::parse(given).ok()?.public_key)
            .ok_or_else(|| Issue::new(format!("{NO_KEY}: {of_private_key}")))
    })?;
    match write(&key) {
        Some(text) => Ok(Value::string(text)),
        None => Err(Issue::new(format!("x509publickey: a key of this kind has no form {format}"))),
    }
}

/// `x509parsecert(pem)`. Without a clock of the host, the remaining hours (`validity`) are missing.
pub(super) fn parse_certificate(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    const NO_CERTIFICATE: &str = "argument for x509parsecert must be a certificate in pem format";
    count(arguments, 1..=1, "invalid argument count for x509parsecert")?;
    let given = text(&arguments[0], NO_CERTIFICATE)?;
    let certificate =
        Certificate::parse(given).map_err(|error| Issue::new(format!("{NO_CERTIFICATE}: {error}")))?;
    let usages = KEY_USAGES
        .into_iter()
        .filter(|(usage, _)| certificate.key_usage.contains(*usage))
        .map(|(_, name)| name)
        .chain(certificate.extended_key_usage.iter().map(|usage| extended_name(*usage)));
    let mut fields = vec![
        ("isCA", Value::Bool(certificate.is_authority)),
        ("validFrom", Value::string(date(certificate.not_before))),
        ("validUntil", Value::string(date(certificate.not_after))),
        ("usage", Value::list(usages.map(Value::string))),
    ];
    if let Some(now) = caller.now() {
        // The division cuts towards zero, as Go's does: a started hour does not count, before and
        // after the end.
        let left = certificate.not_after.saturating_sub(unix_seconds(now));
        fields.push(("validity", Value::Int(left / SECONDS_PER_HOUR)));
    }
    if let Some(name) = certificate.common_name {
        fields.push(("commonName", Value::string(name)));
    }
    let addresses: Vec<String> = certificate.ip_addresses.iter().map(ToString::to_string).collect();
    let hosts = addresses.iter().chain(&certificate.dns_names).cloned().collect();
    for (field, entries) in [
        ("country", certificate.country),
        ("organization", certificate.organization),
        ("dnsNames", certificate.dns_names),
        ("ipAddresses", addresses),
        ("hosts", hosts),
    ] {
        if !entries.is_empty() {
            fields.push((field, Value::list(entries.into_iter().map(Value::string))));
        }
    }
    if let Some(key) = certificate.public_key.and_then(|key| key.to_pem()) {
        fields.push(("publicKey", Value::string(key)));
    }
    Ok(Some(Value::map(fields)))
}

impl From<KeyError> for Issue {
    fn from(error: KeyError) -> Self {
        Self::new(error.to_string())
    }
}

fn date(seconds: i64) -> String {
    let date = Instant::new(seconds, 0, Zone::Utc).format(DATE);
    String::from_utf8_lossy(&date).into_owned()
}

pub(super) fn unix_seconds(time: SystemTime) -> i64 {
    let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => seconds(after),
        Err(before) => -seconds(before.duration()),
    }
}
