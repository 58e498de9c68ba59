//! Challenges of registries, and answers of their token services.

use serde::Deserialize;

/// Challenge in the header `WWW-Authenticate`.
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
            // Values are quoted and may contain commas, as the scope does, so do not split at
            // commas.
            let start = rest.find(&format!("{name}=\""))? + name.len() + 2;
            rest[start..].split('"').next().map(str::to_owned)
        };
        Some(Self::Bearer { realm: value("realm")?, service: value("service") })
    }

    /// Returns the scope of a token.
    pub(crate) fn scope(repository: &str, actions: &str) -> String {
        format!("repository:{repository}:{actions}")
    }

    /// Returns the address of the token service for a repository. Actions are `pull` and
    /// `pull,push`.
    pub(crate) fn token_address(
        realm: &str,
        service: Option<&str>,
        repository: &str,
        actions: &str,
    ) -> String {
        let separator = if realm.contains('?') { '&' } else { '?' };
        let mut address = format!("{realm}{separator}scope={}", encode(&Self::scope(repository, actions)));
        if let Some(service) = service {
            address.push_str("&service=");
            address.push_str(&encode(service));
        }
        address
    }
}

/// Answer of a token service. Services use either of the two names.
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

/// Percent-encodes a text for an address or a form.
pub(crate) fn encode(text: &str) -> String {
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
