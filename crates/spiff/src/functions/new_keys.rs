//! The functions `x509genkey` and `x509cert` (`spiff.md` 11.5).

use groundwork_go::time;
use groundwork_keys::{
    Algorithm, Certificate, ExtendedKeyUsage, Issuer, KeyUsage, PrivateKey, PublicKey, SigningKey, Subject,
    TbsCertificate,
};

use super::arguments::{count, go_type, map, simple};
use super::calling::{Outcome, Source, bytes, denial};
use super::x509::{DATE, KEY_USAGES, extended_name, unix_seconds};
use crate::issue::{Issue, quote};
use crate::value::{Map, Value};

const DEFAULT_BITS: i64 = 2048;
/// Validity of a certificate by default, in hours: a year.
const DEFAULT_VALIDITY_HOURS: i64 = 24 * 365;
/// Smallest RSA key in bits; Go refuses smaller ones as insecure.
const SMALLEST_BITS: i64 = 1024;

/// `x509genkey([bits|curve])`
pub(super) fn generate_key(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 0..=1, "invalid argument count for x509genkey([<bitsize>|<ecdsaCurve>])")?;
    let algorithm = algorithm(arguments.first())?;
    // The library draws its own randomness. This call only checks that the host grants randomness.
    source.fill(&mut [0])?;
    source.spend(algorithm.steps())?;
    let key = SigningKey::generate(algorithm).and_then(|key| key.to_pem());
    let key = key.map_err(|error| Issue::new(format!("failed to generate private key: {error}")))?;
    Ok(Value::string(key))
}

fn algorithm(key: Option<&Value>) -> Result<Algorithm, Issue> {
    match key {
        None => rsa(DEFAULT_BITS),
        Some(Value::Int(bits) | Value::Data(bits)) => rsa(*bits),
        Some(Value::String(text)) => match text.parse::<i32>() {
            Ok(bits) => rsa(i64::from(bits)),
            // spiff++ treats an empty text neither as a curve nor as a number, so the message is
            // that of 0 bits.
            Err(_) if text.is_empty() => rsa(0),
            Err(_) => curve(text),
        },
        Some(_) => Err("argument for x509genkey must be a string or integer".into()),
    }
}

fn rsa(bits: i64) -> Result<Algorithm, Issue> {
    match bits {
        2048 => Ok(Algorithm::Rsa2048),
        3072 => Ok(Algorithm::Rsa3072),
        4096 => Ok(Algorithm::Rsa4096),
        ..SMALLEST_BITS => Err(Issue::new(format!(
            "failed to generate private key: crypto/rsa: {bits}-bit keys are insecure \
             (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
        ))),
        _ => Err(Issue::new(format!(
            "failed to generate private key: RSA keys of {bits} bits are not made here; take 2048, 3072 or 4096"
        ))),
    }
}

fn curve(name: &str) -> Result<Algorithm, Issue> {
    match name {
        "P256" => Ok(Algorithm::P256),
        "P384" => Ok(Algorithm::P384),
        "P521" => Ok(Algorithm::P521),
        "P224" => {
            Err("failed to generate private key: keys on P224 are not made here; take P256, P384 or P521"
                .into())
        }
        _ => Err(Issue::new(format!("Unrecognized elliptic curve: {}", quote(name)))),
    }
}

/// `x509cert(map)`
pub(super) fn certificate(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "invalid argument count for x509cert(<map>)")?;
    let wrong = format!("argument for x509cert must be a map (found {})", go_type(&arguments[0]));
    let request = Request::read(&Fields(map(&arguments[0], &wrong)?))?;
    let not_before = match request.valid_from.as_str() {
        "" => unix_seconds(source.now().ok_or_else(|| denial("x509cert"))?),
        date => {
            time::parse(DATE, date.as_bytes())
                .map_err(|error| Issue::new(format!("invalid validFrom fields: {error}")))?
                .seconds
        }
    };
    let tbs = request.tbs_certificate(bytes(source)?, not_before)?;
    let made = match (&request.authority, &request.signing_key) {
        (Some(authority), key) => tbs.sign(&request.public_key, Issuer::Authority(authority, key)),
        (None, key) => tbs.sign(&request.public_key, Issuer::Subject(key)),
    };
    made.map(Value::string).map_err(|error| Issue::new(format!("Failed to create certificate: {error}")))
}

/// Name in `x509cert` of the usage that reading a certificate shows as `ContentCommitment`.
const COMMITMENT: &str = "Commitment";

/// A usage of a certificate, from either extension.
enum Usage {
    Key(KeyUsage),
    Extended(ExtendedKeyUsage),
}

impl Usage {
    /// Returns the usage with this name, in any letter case.
    fn find(name: &str) -> Option<Self> {
        let key = KEY_USAGES.into_iter().find(|(usage, own)| {
            let own = if *usage == KeyUsage::CONTENT_COMMITMENT { COMMITMENT } else { own };
            own.eq_ignore_ascii_case(name)
        });
        let extended = || {
            ExtendedKeyUsage::ALL.into_iter().find(|usage| extended_name(*usage).eq_ignore_ascii_case(name))
        };
        key.map(|(usage, _)| Self::Key(usage)).or_else(|| extended().map(Self::Extended))
    }
}

/// The arguments of `x509cert`.
struct Request {
    subject: Subject,
    usages: Vec<String>,
    is_authority: bool,
    hosts: Vec<String>,
    /// Start of the validity; empty means now.
    valid_from: String,
    validity_hours: i64,
    /// The SubjectPublicKeyInfo of the holder.
    public_key: Vec<u8>,
    authority: Option<Certificate>,
    /// Key of the authority, or of the holder for a self-signed certificate.
    signing_key: SigningKey,
}

impl Request {
    /// Reads the fields in the order of spiff++, because the first error is the one reported.
    fn read(fields: &Fields<'_>) -> Result<Self, Issue> {
        let is_authority = fields.flag("isCA")?;
        let organization = fields.required_texts("organization")?;
        let common_name = fields.text("commonName")?;
        let country = fields.texts("country")?;
        let usages = fields.required_texts("usage")?;
        let validity_hours = fields.int("validity", DEFAULT_VALIDITY_HOURS)?;
        let hosts = fields.texts("hosts")?;
        let private_key = fields.text("privateKey")?;
        let holder = match private_key.as_str() {
            "" => None,
            text => Some(PrivateKey::parse(text)?),
        };
        let public_key = match (fields.text("publicKey")?.as_str(), holder) {
            ("", Some(holder)) => holder.public_key()?,
            ("", None) => return Err("one of 'publicKey' or 'privateKey' must be given".into()),
            (text, _) => PublicKey::parse(text)?,
        };
        let authority = match fields.text("caCert")?.as_str() {
            "" => None,
            text => {
                let parsed = Certificate::parse(text);
                Some(parsed.map_err(|error| Issue::new(format!("invalid ca certificate: {error}")))?)
            }
        };
        let authority_key = fields.text("caPrivateKey")?;
        let signing_key = match (&authority, authority_key.as_str(), private_key.as_str()) {
            (Some(_), "", _) => return Err("private key for ca required".into()),
            (Some(_), key, _) => {
                PrivateKey::parse(key)?;
                key
            }
            (None, _, "") => return Err("private key for self-signed certificate required".into()),
            (None, _, key) => key,
        };
        let signing_key = SigningKey::parse(signing_key)
            .map_err(|error| Issue::new(format!("Failed to create certificate: {error}")))?;
        Ok(Self {
            subject: Subject { country, organization, common_name },
            usages,
            is_authority,
            hosts,
            valid_from: fields.text("validFrom")?,
            validity_hours,
            public_key: public_key.to_pkix(),
            authority,
            signing_key,
        })
    }

    fn tbs_certificate(&self, serial: [u8; 16], not_before: i64) -> Result<TbsCertificate, Issue> {
        let mut key_usage = KeyUsage::KEY_ENCIPHERMENT | KeyUsage::DIGITAL_SIGNATURE;
        let mut extended_key_usage = vec![ExtendedKeyUsage::ServerAuth];
        for name in &self.usages {
            match Usage::find(name) {
                Some(Usage::Key(usage)) => key_usage |= usage,
                Some(Usage::Extended(usage)) if extended_key_usage.contains(&usage) => {}
                Some(Usage::Extended(usage)) => extended_key_usage.push(usage),
                None => return Err(Issue::new(format!("invalid usage key {}", quote(name)))),
            }
        }
        let is_authority = self.is_authority || key_usage.contains(KeyUsage::CERT_SIGN);
        key_usage.set(KeyUsage::CERT_SIGN, is_authority);
        let (mut ip_addresses, mut dns_names) = (Vec::new(), Vec::new());
        for host in &self.hosts {
            match host.parse() {
                Ok(address) => ip_addresses.push(address),
                Err(_) => dns_names.push(host.clone()),
            }
        }
        // Go counts nanoseconds in an int64, which overflows above 2562047 hours. The wrapping
        // keeps Go's result.
        let validity = self.validity_hours.wrapping_mul(3_600_000_000_000) / 1_000_000_000;
        Ok(TbsCertificate {
            serial,
            subject: self.subject.clone(),
            not_before,
            not_after: not_before.saturating_add(validity),
            is_authority,
            key_usage,
            extended_key_usage,
            dns_names,
            ip_addresses,
        })
    }
}

/// The fields of a map, read by spiff++'s rules. Nil counts as missing.
struct Fields<'a>(&'a Map);

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|node| &node.value).filter(|value| !matches!(value, Value::Nil))
    }

    fn flag(&self, name: &str) -> Result<bool, Issue> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::Int(number) | Value::Data(number)) => Ok(*number != 0),
            Some(Value::String(text)) => match &**text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
                text => Err(unparsable("ParseBool", text)),
            },
            Some(_) => Err(Issue::new(format!("invalid type for boolean field {}", quote(name)))),
        }
    }

    fn text(&self, name: &str) -> Result<String, Issue> {
        self.get(name)
            .map_or(Ok(String::new()), |value| simple(value).map(String::from).ok_or_else(|| invalid(name)))
    }

    fn int(&self, name: &str, default: i64) -> Result<i64, Issue> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Int(number) | Value::Data(number)) => Ok(*number),
            Some(Value::String(text)) => text.parse().map_err(|_| unparsable("ParseInt", text)),
            Some(_) => Err(invalid(name)),
        }
    }

    /// Returns the texts of a field, which is a list or a single text.
    fn texts(&self, name: &str) -> Result<Vec<String>, Issue> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        if let Value::List(list) = value {
            let entries = list.values().map(|entry| simple(entry).map(String::from)).collect::<Option<_>>();
            return entries
                .ok_or_else(|| Issue::new(format!("invalid list element type for {}", quote(name))));
        }
        simple(value).map(|text| vec![text.into_owned()]).ok_or_else(|| invalid(name))
    }

    /// Returns the texts of a field that may be missing. If its type is wrong, spiff++ says that it
    /// is required.
    fn required_texts(&self, name: &str) -> Result<Vec<String>, Issue> {
        self.texts(name).map_err(|_| Issue::new(format!("field {} is required", quote(name))))
    }
}

fn invalid(name: &str) -> Issue {
    Issue::new(format!("invalid type for {}", quote(name)))
}

fn unparsable(function: &str, text: &str) -> Issue {
    Issue::new(format!("strconv.{function}: parsing {}: invalid syntax", quote(text)))
}
