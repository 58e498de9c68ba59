//! OCM's configuration of credentials, as far as it names those of registries (`components.md`
//! 7.1).

use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use super::keyring::Credentials;

const GENERIC_TYPE: &str = "generic.config.ocm.software";
const TYPE: &str = "credentials.config.ocm.software";

/// Credentials of one registry, with the address that they are for.
pub(super) struct Found {
    /// Host, port and path, as a key of a docker configuration has them.
    pub(super) place: String,
    pub(super) credentials: Credentials,
}

/// Contents of a configuration.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) found: Vec<Found>,
    /// Docker configurations that it contains as text.
    pub(super) docker_configs: Vec<String>,
}

/// Reads a configuration.
///
/// # Errors
///
/// The text is not a configuration of OCM. The message quotes no part of it.
pub(super) fn parse(text: &[u8]) -> Result<Contents, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8")?;
    let document = yaml::from_str(text).map_err(|_| "it is not valid YAML")?;
    let document = document.as_object().ok_or("it is not a configuration of OCM (a map with a type)")?;
    let mut contents = Contents::default();
    match type_of(document) {
        TYPE => contents.add(document),
        GENERIC_TYPE => {
            let parts = list(document, "configurations").filter(|part| type_of(part) == TYPE);
            parts.for_each(|part| contents.add(part));
        }
        _ => {
            return Err(
                "its type is neither generic.config.ocm.software nor credentials.config.ocm.software",
            );
        }
    }
    Ok(contents)
}

impl Contents {
    fn add(&mut self, part: &Map<String, Value>) {
        for consumer in list(part, "consumers") {
            let one = consumer.get("identity").and_then(Value::as_object);
            let places: Vec<String> =
                one.into_iter().chain(list(consumer, "identities")).filter_map(place_of).collect();
            let Some(credentials) = list(consumer, "credentials").find_map(credentials_of) else { continue };
            let found = |place| Found { place, credentials: credentials.clone() };
            self.found.extend(places.into_iter().map(found));
        }
        for entry in list(part, "repositories") {
            let repository = entry.get("repository").and_then(Value::as_object);
            let repository = repository.filter(|repository| type_of(repository) == "DockerConfig");
            // A file of the machine on which somebody wrote the configuration is none of ours.
            let config = repository.and_then(|repository| text(repository, "dockerConfig"));
            self.docker_configs.extend(config.map(str::to_owned));
        }
    }
}

/// Returns the address of a registry; `None` if the identity is one of another kind of consumer.
fn place_of(identity: &Map<String, Value>) -> Option<String> {
    if !["OCIRegistry", "ociRegistry"].contains(&type_of(identity)) {
        return None;
    }
    let mut place = text(identity, "hostname")?.to_owned();
    if let Some(port) = text(identity, "port") {
        place.push(':');
        place.push_str(port);
    }
    let path = text(identity, "pathprefix").or_else(|| text(identity, "path")).unwrap_or_default();
    // A pattern of paths ends in a star, which stands for everything below.
    let path = path.trim_matches('/').trim_end_matches('*').trim_end_matches('/');
    if !path.is_empty() {
        place.push('/');
        place.push_str(path);
    }
    Some(place)
}

fn credentials_of(credentials: &Map<String, Value>) -> Option<Credentials> {
    let properties = match type_of(credentials) {
        "Credentials" | "DirectCredentials" => credentials.get("properties")?.as_object()?,
        "OCICredentials" => credentials,
        _ => return None,
    };
    let token = text(properties, "identityToken").or_else(|| text(properties, "refreshToken"));
    match (text(properties, "username"), text(properties, "password"), token) {
        (Some(user), _, Some(token)) => {
            Some(Credentials::Password { user: user.to_owned(), password: token.to_owned() })
        }
        (None, _, Some(token)) => Some(Credentials::RefreshToken(token.to_owned())),
        (Some(user), Some(password), None) => {
            Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
        }
        _ => None,
    }
}

fn type_of(object: &Map<String, Value>) -> &str {
    let name = text(object, "type").unwrap_or_default();
    name.split_once('/').map_or(name, |(name, _)| name)
}

fn text<'a>(object: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    object.get(member).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn list<'a>(object: &'a Map<String, Value>, member: &str) -> impl Iterator<Item = &'a Map<String, Value>> {
    object.get(member).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
type: generic.config.ocm.software/v1
configurations:
- type: resolvers.config.ocm.software/v1alpha1
- type: credentials.config.ocm.software/v1
  consumers:
  - identity: {type: OCIRegistry, hostname: old.example.org, pathprefix: team}
    credentials: [{type: Credentials, properties: {username: a, password: b}}]
  - identities:
    - {type: OCIRegistry/v1, hostname: new.example.org, port: '5000', path: 'deep/*'}
    - {type: HelmChartRepository, hostname: charts.example.org}
    credentials: [{type: OCICredentials/v1, refreshToken: t}]
  - identity: {type: OCIRegistry, hostname: none.example.org}
    credentials: [{type: Vault, secret: x}]
  repositories:
  - repository: {type: DockerConfig/v1, dockerConfig: '{\"auths\": {}}'}
  - repository: {type: DockerConfig/v1, dockerConfigFile: ~/.docker/config.json}
";

    #[test]
    fn registries_with_their_credentials() {
        let contents = parse(CONFIG.as_bytes()).ok().unwrap();
        let places: Vec<&str> = contents.found.iter().map(|found| found.place.as_str()).collect();
        assert_eq!(places, ["old.example.org/team", "new.example.org:5000/deep"]);
        assert!(contents.found[1].credentials == Credentials::RefreshToken("t".to_owned()));
        assert_eq!(contents.docker_configs, [r#"{"auths": {}}"#]);
    }

    #[test]
    fn what_is_no_configuration() {
        for text in ["[secret]", "a: {", "type: secret", "no map"] {
            let problem = parse(text.as_bytes()).err().unwrap();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
