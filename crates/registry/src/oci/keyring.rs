//! Chooses credentials for a registry: docker configurations and their matching (`components.md`
//! 7.1).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use data_encoding::BASE64;
use groundwork_component::RepositoryError;
use serde::Deserialize;

use super::ocm_credentials;
use crate::digest::Digest;

/// Spellings of the host of Docker Hub.
const HUB: [&str; 4] = ["docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"];
/// Ports that match an entry without a port.
const DEFAULT_PORTS: [&str; 2] = ["443", "80"];

/// Credentials for a server. Has no `Debug`, so that they cannot get into a message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password {
        user: String,
        password: String,
    },
    /// Token that the registry's token service exchanges for an access token.
    RefreshToken(String),
    /// Token that is sent as it is.
    Bearer(String),
    /// Key of an S3 store, with which requests are signed.
    Key {
        id: String,
        secret: String,
        /// Token of a session; empty for a lasting key.
        session: String,
    },
}

/// Kind of server that credentials are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consumer {
    Registry,
    Wget,
    GitHub,
    S3,
    ChartRepository,
}

impl Credentials {
    /// Returns the value of an `Authorization` header; `None` for a token that has to be exchanged
    /// first.
    pub(crate) fn basic(&self) -> Option<String> {
        let Self::Password { user, password } = self else { return None };
        Some(format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes())))
    }

    /// Returns the value of an `Authorization` header; `None` for credentials that are not sent as
    /// they are.
    pub(crate) fn header(&self) -> Option<String> {
        match self {
            Self::Bearer(token) => Some(format!("Bearer {token}")),
            other => other.basic(),
        }
    }
}

/// Credentials of several sources, in the order in which they were added.
#[derive(Clone, Default)]
pub struct Keyring {
    /// Sources and digests of the configurations. Tokens and cached contents belong to one
    /// identity.
    identity: String,
    entries: Vec<KeyringEntry>,
}

/// `Debug` is not derived, because a derived one would print the passwords.
impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct KeyringEntry {
    consumer: Consumer,
    /// Empty for the buckets of AWS.
    host: String,
    port: Option<String>,
    path: Vec<String>,
    credentials: Credentials,
    /// Name of the source in messages.
    source: Arc<str>,
}

/// Credentials for a repository, with their source.
pub(crate) struct Match<'a> {
    pub(crate) credentials: &'a Credentials,
    pub(crate) source: &'a str,
}

impl Keyring {
    /// Adds a docker configuration (`{"auths": {…}}`). `source` is its name in messages.
    ///
    /// # Errors
    ///
    /// The configuration is not valid. The message quotes no part of it.
    pub fn add_docker_config(&mut self, source: &str, text: &[u8]) -> Result<(), &'static str> {
        let config: Config = serde_json::from_slice(text)
            .map_err(|_| "it is not a docker configuration (JSON with \"auths\")")?;
        self.add(source, text, config.auths)
    }

    /// Adds a configuration in the older form, which is only the map `auths`.
    ///
    /// # Errors
    ///
    /// As [`Keyring::add_docker_config`].
    pub fn add_dockercfg(&mut self, source: &str, text: &[u8]) -> Result<(), &'static str> {
        let auths = serde_json::from_slice(text)
            .map_err(|_| "it is not a docker configuration (a JSON map of registries)")?;
        self.add(source, text, auths)
    }

    /// Adds OCM's configuration of credentials, in YAML.
    ///
    /// # Errors
    ///
    /// As [`Keyring::add_docker_config`].
    pub fn add_ocm_config(&mut self, source: &str, text: &[u8]) -> Result<(), &'static str> {
        let contents = ocm_credentials::parse(text)?;
        let name: Arc<str> = source.into();
        for ocm_credentials::Found { consumer, place: address, credentials } in contents.found {
            let (host, port, path) =
                if consumer == Consumer::Registry { place(&address) } else { parts(&address) };
            let source = Arc::clone(&name);
            self.entries.push(KeyringEntry { consumer, host, port, path, credentials, source });
        }
        for config in contents.docker_configs {
            self.add_docker_config(source, config.as_bytes())?;
        }
        self.identity.push_str(&format!("{source} {}\n", Digest::of(text)));
        Ok(())
    }

    /// Appends the entries of another keyring, which come after those of this one.
    pub fn extend(&mut self, other: &Self) {
        self.identity.push_str(&other.identity);
        self.entries.extend(other.entries.iter().cloned());
    }

    /// Reads a docker configuration file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a docker configuration.
    pub fn of_file(path: &Path) -> Result<Self, RepositoryError> {
        Self::read(path, Self::add_docker_config)
    }

    /// Reads a file with OCM's configuration of credentials.
    pub(crate) fn of_ocm_file(path: &Path) -> Result<Self, RepositoryError> {
        Self::read(path, Self::add_ocm_config)
    }

    fn read(
        path: &Path,
        add: impl Fn(&mut Self, &str, &[u8]) -> Result<(), &'static str>,
    ) -> Result<Self, RepositoryError> {
        let address = path.display().to_string();
        let text = fs::read(path).map_err(|error| RepositoryError::Unreadable {
            address: address.clone(),
            cause: error.to_string(),
        })?;
        let mut keyring = Self::default();
        match add(&mut keyring, &address, &text) {
            Ok(()) => Ok(keyring),
            Err(problem) => Err(RepositoryError::Malformed { address, problem: problem.to_owned() }),
        }
    }

    /// Returns the value of the header `Authorization` for a chart repository (`components.md`
    /// 7.1).
    pub fn chart_repository_header(&self, url: &str) -> Option<String> {
        let (_, rest) = url.split_once("://")?;
        let rest = rest.split('?').next()?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        self.find_for(Consumer::ChartRepository, host, path.trim_matches('/'))?.credentials.header()
    }

    /// Returns a text that is equal for equal credentials.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    fn add(&mut self, source: &str, text: &[u8], auths: BTreeMap<String, Auth>) -> Result<(), &'static str> {
        let name: Arc<str> = source.into();
        let mut entries = Vec::new();
        for (key, auth) in auths {
            let Some(credentials) = auth.credentials()? else { continue };
            let (host, port, path) = place(&key);
            let (consumer, source) = (Consumer::Registry, Arc::clone(&name));
            entries.push(KeyringEntry { consumer, host, port, path, credentials, source });
        }
        self.entries.extend(entries);
        self.identity.push_str(&format!("{source} {}\n", Digest::of(text)));
        Ok(())
    }

    /// Finds the credentials for a repository of a host (with its port): the longest path wins,
    /// then an explicit port, then the entry that was added first.
    pub(crate) fn find(&self, host: &str, repository: &str) -> Option<Match<'_>> {
        self.find_for(Consumer::Registry, host, repository)
    }

    /// Finds the credentials for a path of a server, as [`Self::find`] does.
    pub(crate) fn find_for(&self, consumer: Consumer, host: &str, path: &str) -> Option<Match<'_>> {
        let (host, port, _) = parts(host);
        let wanted: Vec<&str> = path.split('/').collect();
        let fits = |entry: &&KeyringEntry| {
            let same_port = match (&entry.port, &port) {
                (Some(own), Some(asked)) => own == asked,
                (Some(own), None) => DEFAULT_PORTS.contains(&own.as_str()),
                (None, _) => true,
            };
            let is_prefix = entry.path.len() <= wanted.len()
                && entry.path.iter().zip(&wanted).all(|(own, asked)| own == asked);
            entry.consumer == consumer && entry.host == host && same_port && is_prefix
        };
        let rank = |entry: &&KeyringEntry| (entry.path.len(), entry.port.is_some());
        // `max_by_key` takes the last of equal entries, so reverse them to get the first.
        let found = self.entries.iter().rev().filter(fits).max_by_key(rank)?;
        Some(Match { credentials: &found.credentials, source: &found.source })
    }
}

/// Splits the key of an entry for a registry.
fn place(key: &str) -> (String, Option<String>, Vec<String>) {
    let (host, port, path) = parts(key);
    // `…/v1/` and `…/v2/` are addresses of the registry API, not folders of repositories.
    let is_program = matches!(&path[..], [only] if only == "v1" || only == "v2");
    (host, port, if is_program { Vec::new() } else { path })
}

/// Splits a key into host, port and path. Keys are hosts, addresses, or paths below a host.
fn parts(key: &str) -> (String, Option<String>, Vec<String>) {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, Some(port.to_owned()))
        }
        _ => (host, None),
    };
    let host = host.to_ascii_lowercase();
    let is_hub = HUB.contains(&host.as_str());
    let host = if is_hub { HUB[0].to_owned() } else { host };
    (host, port, path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl Auth {
    /// Messages are fixed, since those of a decoder may quote a password.
    fn credentials(self) -> Result<Option<Credentials>, &'static str> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let trimmed = |text: String| text.trim_end_matches(['\r', '\n']).to_owned();
        let (mut user, mut password) = (given(self.username), given(self.password));
        if let Some(auth) = given(self.auth) {
            let wrong = "an \"auth\" in it is not user:password in base64";
            let bytes = BASE64.decode(auth.trim().as_bytes()).map_err(|_| wrong)?;
            let text = String::from_utf8(bytes).map_err(|_| wrong)?;
            let (first, second) = text.split_once(':').ok_or(wrong)?;
            (user, password) = (given(Some(first.to_owned())), Some(second.to_owned()));
        }
        let token = given(self.identitytoken).map(trimmed);
        Ok(match (user.map(trimmed), password.map(trimmed), token) {
            // With a user, the token takes the place of the password.
            (Some(user), _, Some(token)) => Some(Credentials::Password { user, password: token }),
            (None, _, Some(token)) => Some(Credentials::RefreshToken(token)),
            (Some(user), Some(password), None) => Some(Credentials::Password { user, password }),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keyring(sources: &[serde_json::Value]) -> Keyring {
        let mut keyring = Keyring::default();
        for (index, auths) in sources.iter().enumerate() {
            let text = json!({"auths": auths}).to_string();
            keyring.add_docker_config(&format!("s{index}"), text.as_bytes()).unwrap();
        }
        keyring
    }

    fn auth(user: &str) -> serde_json::Value {
        json!({"username": user, "password": "p"})
    }

    /// `components.md` 11, item 13: host, port, path, names of Docker Hub, several secrets, none.
    #[test]
    fn matching() {
        let first = json!({
            "r.example.org": auth("host"), "https://R.example.org:5000/v2/": auth("port"),
            "r.example.org/team": auth("team"), "r.example.org/team/deep": auth("deep"),
            "https://index.docker.io/v1/": auth("hub"), "other.org:443": auth("tls"),
        });
        let second = json!({"r.example.org": auth("late"), "r.example.org/late": auth("late-path"), "[::1]:5000": auth("six")});
        let keyring = keyring(&[first, second]);
        for (host, repository, expected) in [
            ("r.example.org", "a/b", Some(("host", "s0"))),
            ("r.example.org:5000", "a/b", Some(("port", "s0"))),
            ("r.example.org:6000", "a/b", Some(("host", "s0"))),
            ("r.example.org", "team/x", Some(("team", "s0"))),
            // A longer path wins over an explicit port.
            ("r.example.org:5000", "team/x", Some(("team", "s0"))),
            ("r.example.org", "team/deep/x", Some(("deep", "s0"))),
            ("r.example.org", "teams/x", Some(("host", "s0"))),
            ("r.example.org", "late/x", Some(("late-path", "s1"))),
            ("docker.io", "library/a", Some(("hub", "s0"))),
            ("registry-1.docker.io", "library/a", Some(("hub", "s0"))),
            ("other.org", "a", Some(("tls", "s0"))),
            ("other.org:5000", "a", None),
            ("[::1]:5000", "a", Some(("six", "s1"))),
            ("xr.example.org", "a", None),
        ] {
            let found = keyring.find(host, repository).map(|found| {
                let Credentials::Password { user, .. } = found.credentials else { panic!("a password") };
                (user.as_str(), found.source)
            });
            assert_eq!(found, expected, "{host}/{repository}");
        }
        assert!(Keyring::default().find("r.example.org", "a").is_none());
    }

    #[test]
    fn forms_of_credentials() {
        let one = |value: serde_json::Value| {
            let keyring = keyring(&[json!({"r.org": value})]);
            keyring.find("r.org", "a").map(|found| found.credentials.clone())
        };
        let password = |user: &str, password: &str| {
            Some(Credentials::Password { user: user.into(), password: password.into() })
        };
        assert!(one(json!({"auth": BASE64.encode(b"a:b:c\n")})) == password("a", "b:c"));
        assert!(one(json!({"username": "a", "password": "b\r\n"})) == password("a", "b"));
        assert!(one(json!({"identitytoken": "t"})) == Some(Credentials::RefreshToken("t".into())));
        assert!(one(json!({"auth": BASE64.encode(b"a:"), "identitytoken": "t"})) == password("a", "t"));
        assert!(one(json!({})).is_none() && one(json!({"username": "a"})).is_none());
        let mut keyring = Keyring::default();
        for text in ["secret", r#"{"auths": {"r": {"auth": "secret"}}}"#, r#"{"auths": ["secret"]}"#] {
            let problem = keyring.add_docker_config("s", text.as_bytes()).unwrap_err();
            assert!(!problem.contains("secret"));
        }
        keyring.add_dockercfg("s", br#"{"r.org": {"username": "a", "password": "b"}}"#).unwrap();
        assert!(keyring.find("r.org", "x").is_some());
        assert_eq!(format!("{keyring:?}"), "Keyring { entries: 1, .. }");
    }
}
