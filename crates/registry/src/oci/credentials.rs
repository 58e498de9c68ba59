//! How a client is let in: passwords of a docker configuration file, and the challenges of registries.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use data_encoding::BASE64;
use groundwork_component::RepositoryError;
use serde::Deserialize;

/// User and password. Has no `Debug`: it must get into no message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// The value of an `Authorization` header.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", BASE64.encode(format!("{}:{}", self.user, self.password).as_bytes()))
    }

    /// What a docker configuration file holds for a host, if anything.
    ///
    /// The file is read whenever a registry asks, so a password that was changed is found.
    pub(crate) fn load(path: &Path, host: &str) -> Result<Option<Self>, RepositoryError> {
        let text = fs::read_to_string(path).map_err(|error| RepositoryError::Unreadable {
            address: path.display().to_string(),
            cause: error.to_string(),
        })?;
        Self::find(&text, host).map_err(|problem| RepositoryError::Malformed {
            address: path.display().to_string(),
            problem: problem.to_owned(),
        })
    }

    /// Messages are fixed, since those of a JSON parser can quote.
    fn find(text: &str, host: &str) -> Result<Option<Self>, &'static str> {
        let config: Config = serde_json::from_str(text)
            .map_err(|_| "it is not a docker configuration file (JSON with \"auths\")")?;
        let Some((_, entry)) = config.auths.into_iter().find(|(key, _)| host_of(key) == host) else {
            return Ok(None);
        };
        let pair = match (entry.auth.filter(|auth| !auth.is_empty()), entry.username, entry.password) {
            (Some(auth), ..) => {
                let wrong = "an \"auth\" in it is not user:password in base64";
                let bytes = BASE64.decode(auth.trim().as_bytes()).map_err(|_| wrong)?;
                let text = String::from_utf8(bytes).map_err(|_| wrong)?;
                let (user, password) = text.split_once(':').ok_or(wrong)?;
                Some((user.to_owned(), password.to_owned()))
            }
            (None, user, password) => user.zip(password),
        };
        Ok(pair.map(|(user, password)| Self { user, password }))
    }
}

/// Keys are hosts, and in older files addresses.
fn host_of(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split('/').next().unwrap_or_default()
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: HashMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// What a registry asks for in `WWW-Authenticate`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value = |name: &str| {
            // Values are quoted, and the scope among them holds commas.
            let start = rest.find(&format!("{name}=\""))? + name.len() + 2;
            rest[start..].split('"').next().map(str::to_owned)
        };
        Some(Self::Bearer { realm: value("realm")?, service: value("service") })
    }

    /// Where a token for a repository is to be had. Actions are `pull` and `pull,push`.
    pub(crate) fn token_address(
        realm: &str,
        service: Option<&str>,
        repository: &str,
        actions: &str,
    ) -> String {
        let separator = if realm.contains('?') { '&' } else { '?' };
        let mut address =
            format!("{realm}{separator}scope={}", encode(&format!("repository:{repository}:{actions}")));
        if let Some(service) = service {
            address.push_str("&service=");
            address.push_str(&encode(service));
        }
        address
    }
}

/// The answer of a token service; both names are in use.
#[derive(Deserialize)]
pub(crate) struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Token {
    pub(crate) fn into_text(self) -> Option<String> {
        self.token.or(self.access_token).filter(|text| !text.is_empty())
    }
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_configuration_files() {
        let found = |text: &str| {
            Credentials::find(text, "r.example.org:5000").map(|found| found.map(|found| found.basic()))
        };
        let expected = Ok(Some(format!("Basic {}", BASE64.encode(b"a:b:c"))));
        assert!(found(r#"{"auths": {"r.example.org:5000": {"auth": "YTpiOmM="}}}"#) == expected);
        assert!(
            found(r#"{"auths": {"https://r.example.org:5000/v1/": {"username": "a", "password": "b:c"}}}"#)
                == expected
        );
        assert!(found(r#"{"auths": {"r.example.org": {"auth": "YTpiOmM="}}}"#) == Ok(None));
        assert!(found(r#"{"auths": {"r.example.org:5000": {}}}"#) == Ok(None));
        assert!(found("{}") == Ok(None));
        for broken in ["secret", r#"{"auths": {"r.example.org:5000": {"auth": "secret"}}}"#] {
            assert!(!found(broken).unwrap_err().contains("secret"));
        }
    }

    #[test]
    fn challenges() {
        let header = r#"Bearer realm="https://a/token?x=1",service="r x",scope="repository:a:pull,push""#;
        let expected = Challenge::Bearer { realm: "https://a/token?x=1".into(), service: Some("r x".into()) };
        assert_eq!(Challenge::parse(header), Some(expected));
        assert_eq!(Challenge::parse("basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
        assert_eq!(Challenge::parse("Bearer"), None);
        assert_eq!(
            Challenge::token_address("https://a/token?x=1", Some("r x"), "b/c", "pull"),
            "https://a/token?x=1&scope=repository%3Ab%2Fc%3Apull&service=r%20x"
        );
    }
}
