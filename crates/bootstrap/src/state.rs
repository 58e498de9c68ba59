//! Keys, certificates, tokens and passwords that are generated once. They are in one file, so that
//! they exist completely or not at all.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::BootstrapError;
use crate::files::{self, Owner};

/// Version of the format; changes with the fields of [`State`].
const VERSION: u32 = 1;
/// Common name of the certificate authority.
const AUTHORITY: &str = "groundwork trial cluster";
/// Names under which clients reach the API server.
const SERVER_NAMES: [&str; 5] =
    ["kube-apiserver", "localhost", "127.0.0.1", "kubernetes.default.svc", "host.docker.internal"];
/// User of the API server with a fixed token, for people and for this program.
pub(crate) const ADMIN: &str = "admin";
pub(crate) const CONTROLLER_MANAGER: &str = "controller-manager";

/// Keys, certificates, tokens and passwords of a trial cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    /// Certificate of the authority, PEM.
    pub(crate) authority: String,
    authority_key: String,
    server_names: Vec<String>,
    /// Certificate and key of the API server, PEM.
    pub(crate) server: String,
    /// Key that signs the tokens of service accounts, and its public half, PEM.
    pub(crate) accounts_key: String,
    /// Fixed tokens of the API server, by user.
    pub(crate) tokens: BTreeMap<String, String>,
    /// Passwords of the users on the bus.
    pub(crate) passwords: BTreeMap<String, String>,
    /// Certificates of etcd; missing in the state of an earlier version.
    #[serde(default)]
    pub(crate) etcd: Option<Etcd>,
    /// Certificates of the front proxy; missing in the state of an earlier version.
    #[serde(default)]
    pub(crate) front_proxy: Option<FrontProxy>,
}

/// Certificates by which aggregated API servers recognize the API server, all PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrontProxy {
    pub(crate) authority: String,
    /// Certificate and key of the API server.
    pub(crate) client: String,
}

impl FrontProxy {
    fn make() -> Result<Self, BootstrapError> {
        let authority = Authority::make("groundwork trial cluster front proxy")?;
        let client =
            authority.signed(&[], "front-proxy-client", vec![ExtendedKeyUsagePurpose::ClientAuth])?;
        Ok(Self { authority: authority.certificate, client })
    }
}

/// Authority for a few certificates. Its key is not kept.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn make(name: &str) -> Result<Self, BootstrapError> {
        let key = KeyPair::generate()?;
        let parameters = authority_parameters(name)?;
        let certificate = parameters.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(parameters, key) })
    }

    /// Returns a certificate with its key.
    fn signed(
        &self,
        names: &[&str],
        common_name: &str,
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<String, BootstrapError> {
        let mut parameters = parameters(names.iter().map(|name| (*name).to_owned()).collect(), common_name)?;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = usages;
        parameters.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
    }
}

/// Certificates with which etcd and its only client authenticate each other, all PEM. The authority
/// signs only these two, and its key is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Etcd {
    pub(crate) authority: String,
    /// Certificate and key of the server.
    pub(crate) server: String,
    /// Certificate and key of the API server.
    pub(crate) client: String,
}

impl Etcd {
    fn make() -> Result<Self, BootstrapError> {
        let authority = Authority::make("groundwork trial cluster etcd")?;
        // A server of etcd is also a client of itself.
        let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let server = authority.signed(&["etcd", "localhost", "127.0.0.1"], "etcd", both)?;
        let client = authority.signed(&[], "kube-apiserver", vec![ExtendedKeyUsagePurpose::ClientAuth])?;
        Ok(Self { authority: authority.certificate, server, client })
    }
}

/// Returns the path of the state in the folder of credentials.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("authority/state.json")
}

impl State {
    /// Loads the state and adds missing parts, or creates a new state.
    pub(crate) fn load_or_make(folder: &Path, users: &[&str], owner: Owner) -> Result<Self, BootstrapError> {
        files::folder(&folder.join("authority"), owner)?;
        let mut state = match Self::load(folder) {
            Ok(state) => state,
            Err(BootstrapError::NoState { .. }) => Self::make()?,
            Err(failure) => return Err(failure),
        };
        state.complete(users)?;
        let text = serde_json::to_string(&state).unwrap_or_default();
        files::write(&path(folder), &text, owner)?;
        Ok(state)
    }

    /// Loads the existing state.
    pub(crate) fn load(folder: &Path) -> Result<Self, BootstrapError> {
        let path = path(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(BootstrapError::NoState { path });
            }
            Err(source) => return Err(BootstrapError::File { what: "read", path, source }),
        };
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let stale = |reason: String| BootstrapError::Stale { path: path.clone(), reason };
        // Do not show the parser's message, which may quote a password.
        let head: Head =
            serde_json::from_str(&text).map_err(|_| stale("its version is missing".to_owned()))?;
        if head.version != VERSION {
            return Err(stale(format!("version {} instead of {VERSION}", head.version)));
        }
        serde_json::from_str(&text).map_err(|_| stale("fields are missing".to_owned()))
    }

    fn make() -> Result<Self, BootstrapError> {
        let key = KeyPair::generate()?;
        let authority = authority_parameters(AUTHORITY)?.self_signed(&key)?.pem();
        let accounts = KeyPair::generate()?;
        Ok(Self {
            version: VERSION,
            authority,
            authority_key: key.serialize_pem(),
            server_names: Vec::new(),
            server: String::new(),
            accounts_key: format!("{}{}", accounts.serialize_pem(), accounts.public_key_pem()),
            tokens: BTreeMap::new(),
            passwords: BTreeMap::new(),
            etcd: None,
            front_proxy: None,
        })
    }

    /// Adds the parts that this version needs and an earlier one did not create.
    fn complete(&mut self, users: &[&str]) -> Result<(), BootstrapError> {
        if self.server_names != SERVER_NAMES {
            let key = KeyPair::from_pem(&self.authority_key)?;
            let issuer = Issuer::new(authority_parameters(AUTHORITY)?, key);
            let server_key = KeyPair::generate()?;
            let certificate = server_parameters()?.signed_by(&server_key, &issuer)?;
            self.server = format!("{}{}", certificate.pem(), server_key.serialize_pem());
            self.server_names = SERVER_NAMES.map(str::to_owned).to_vec();
        }
        if self.etcd.is_none() {
            self.etcd = Some(Etcd::make()?);
        }
        if self.front_proxy.is_none() {
            self.front_proxy = Some(FrontProxy::make()?);
        }
        for user in [ADMIN, CONTROLLER_MANAGER] {
            self.tokens.entry(user.to_owned()).or_insert_with(secret);
        }
        for user in users {
            self.passwords.entry((*user).to_owned()).or_insert_with(secret);
        }
        Ok(())
    }

    /// Returns a fixed token.
    pub(crate) fn token(&self, user: &str) -> &str {
        self.tokens.get(user).map_or("", String::as_str)
    }
}

/// Returns a secret of 244 random bits.
pub(crate) fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

fn authority_parameters(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = parameters(Vec::new(), name)?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

fn server_parameters() -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = parameters(SERVER_NAMES.map(str::to_owned).to_vec(), "kube-apiserver")?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.use_authority_key_identifier_extension = true;
    Ok(parameters)
}

/// Returns parameters with fixed times of validity, since the clocks of a host and of its virtual
/// machine may differ.
fn parameters(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(names)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    parameters.distinguished_name = name;
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(2049, 12, 31);
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_kept_and_completed() {
        let folder = tempfile::tempdir().unwrap();
        let me = files::owner(folder.path()).unwrap();
        let first = State::load_or_make(folder.path(), &["watcher"], me).unwrap();
        assert_eq!(State::load_or_make(folder.path(), &["watcher"], me).unwrap(), first);
        let second = State::load_or_make(folder.path(), &["watcher", "variant"], me).unwrap();
        assert_eq!(second.passwords["watcher"], first.passwords["watcher"]);
        assert_eq!(second.passwords["variant"].len(), 64);
        assert_eq!(second.server, first.server);
        assert!(first.etcd.is_some() && second.etcd == first.etcd);
        // State of an earlier version gets the missing parts.
        let path = path(folder.path());
        let mut earlier: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        earlier.as_object_mut().unwrap().remove("etcd");
        std::fs::write(&path, earlier.to_string()).unwrap();
        let third = State::load_or_make(folder.path(), &["watcher"], me).unwrap();
        assert!(third.etcd.is_some() && third.server == first.server);
        assert_ne!(second.token(ADMIN), second.token(CONTROLLER_MANAGER));
    }

    /// Each key may be used for its purpose only, which limits the damage of a stolen one.
    #[test]
    fn certificates_are_for_one_use() {
        let folder = tempfile::tempdir().unwrap();
        let me = files::owner(folder.path()).unwrap();
        let state = State::load_or_make(folder.path(), &[], me).unwrap();
        let (etcd, front_proxy) = (state.etcd.as_ref().unwrap(), state.front_proxy.as_ref().unwrap());
        // The columns: signs data, signs certificates, serves, calls.
        for (name, pem, expected) in [
            ("authority", &state.authority, (false, true, false, false)),
            ("API server", &state.server, (true, false, true, false)),
            ("authority of etcd", &etcd.authority, (false, true, false, false)),
            ("etcd", &etcd.server, (true, false, true, true)),
            ("client of etcd", &etcd.client, (true, false, false, true)),
            ("authority of the front proxy", &front_proxy.authority, (false, true, false, false)),
            ("front proxy", &front_proxy.client, (true, false, false, true)),
        ] {
            let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
            let certificate = pem.parse_x509().unwrap();
            let usage = certificate.key_usage().unwrap().unwrap().value;
            let extended = certificate.extended_key_usage().unwrap();
            let (serves, calls) = extended.map_or((false, false), |extended| {
                assert!(!extended.value.any, "{name}");
                (extended.value.server_auth, extended.value.client_auth)
            });
            assert_eq!((usage.digital_signature(), usage.key_cert_sign(), serves, calls), expected, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_kept_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let me = files::owner(folder.path()).unwrap();
        State::load_or_make(folder.path(), &[], me).unwrap();
        let path = path(folder.path());
        for (text, reason) in [
            (r#"{"version": 7}"#, "(version 7 instead of 1)"),
            (r#"{"version": 1, "tokens": {"admin": "hunter2"}}"#, "(fields are missing)"),
            ("{\"vers", "(its version is missing)"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = State::load_or_make(folder.path(), &[], me).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("docker compose down --volumes"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "left as it is");
        }
    }
}
