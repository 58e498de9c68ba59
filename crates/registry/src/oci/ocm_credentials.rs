//! OCM's configuration of credentials, as far as it names those of registries and of servers
//! outside of them (`components.md` 7.1).

use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use super::keyring::{Consumer, Credentials};

const GENERIC_TYPE: &str = "generic.config.ocm.software";
const TYPE: &str = "credentials.config.ocm.software";

/// Credentials of one server, with the address that they are for.
pub(super) struct Found {
    pub(super) consumer: Consumer,
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
            let identities = one.into_iter().chain(list(consumer, "identities"));
            self.found.extend(identities.filter_map(|identity| {
                let kind = kind_of(identity)?;
                let credentials =
                    list(consumer, "credentials").find_map(|given| credentials_of(kind, given))?;
                Some(Found { consumer: kind, place: place_of(kind, identity)?, credentials })
            }));
        }
        for entry in list(part, "repositories") {
            let repository = entry.get("repository").and_then(Value::as_object);
            let repository = repository.filter(|repository| type_of(repository) == "DockerConfig");
            // The path names a file of the machine on which the configuration was written, not of
            // this one.
            let config = repository.and_then(|repository| text(repository, "dockerConfig"));
            self.docker_configs.extend(config.map(str::to_owned));
        }
    }
}

/// Returns the kind of server that an identity is for, by its names in old and new versions of OCM.
fn kind_of(identity: &Map<String, Value>) -> Option<Consumer> {
    match type_of(identity) {
        "OCIRegistry" | "ociRegistry" => Some(Consumer::Registry),
        "Wget" | "wget" => Some(Consumer::Wget),
        "GitHubRepository" | "Github" => Some(Consumer::GitHub),
        "S3Bucket" | "S3" => Some(Consumer::S3),
        "HelmChartRepository" => Some(Consumer::ChartRepository),
        _ => None,
    }
}

/// Returns the address of a server. Only buckets of AWS need no host.
fn place_of(consumer: Consumer, identity: &Map<String, Value>) -> Option<String> {
    let host = text(identity, "hostname").or((consumer == Consumer::S3).then_some(""));
    let mut place = host?.to_owned();
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

fn credentials_of(consumer: Consumer, credentials: &Map<String, Value>) -> Option<Credentials> {
    let own = match consumer {
        Consumer::Registry => "OCICredentials",
        Consumer::Wget => "WgetCredentials",
        Consumer::GitHub => "GitHubCredentials",
        Consumer::S3 => "S3Credentials",
        Consumer::ChartRepository => "HelmHTTPCredentials",
    };
    let properties = match type_of(credentials) {
        "Credentials" | "DirectCredentials" => credentials.get("properties")?.as_object()?,
        name if name == own => credentials,
        _ => return None,
    };
    let bearer = |member: &str| text(properties, member).map(|token| Credentials::Bearer(token.to_owned()));
    match consumer {
        Consumer::Registry => of_registry(properties),
        Consumer::Wget => bearer("identityToken").or_else(|| password_of(properties)),
        Consumer::GitHub => bearer("token"),
        Consumer::S3 => key_of(properties),
        Consumer::ChartRepository => password_of(properties),
    }
}

fn password_of(properties: &Map<String, Value>) -> Option<Credentials> {
    let (user, password) = (text(properties, "username")?, text(properties, "password")?);
    Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
}

/// Returns the key of an S3 store, by the names of old and new versions of OCM.
fn key_of(properties: &Map<String, Value>) -> Option<Credentials> {
    let either = |new: &str, old: &str| text(properties, new).or_else(|| text(properties, old));
    Some(Credentials::Key {
        id: either("accessKeyId", "awsAccessKeyID")?.to_owned(),
        secret: either("secretAccessKey", "awsSecretAccessKey")?.to_owned(),
        session: either("sessionToken", "token").unwrap_or_default().to_owned(),
    })
}

fn of_registry(properties: &Map<String, Value>) -> Option<Credentials> {
    let token = text(properties, "identityToken").or_else(|| text(properties, "refreshToken"));
    match (text(properties, "username"), text(properties, "password"), token) {
        (Some(user), _, Some(token)) => {
            Some(Credentials::Password { user: user.to_owned(), password: token.to_owned() })
        }
        (None, _, Some(token)) => Some(Credentials::RefreshToken(token.to_owned())),
        _ => password_of(properties),
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
    - {type: Vault, hostname: vault.example.org}
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
        assert!(contents.found.iter().all(|found| found.consumer == Consumer::Registry));
        assert_eq!(contents.docker_configs, [r#"{"auths": {}}"#]);
    }

    /// Consumers and credentials outside of registries, in the forms of old and new OCM versions.
    #[test]
    fn servers_outside_of_registries() {
        let password = || Credentials::Password { user: "a".into(), password: "b".into() };
        let key =
            |session: &str| Credentials::Key { id: "a".into(), secret: "b".into(), session: session.into() };
        let bearer = || Credentials::Bearer("t".into());
        for (identity, credentials, expected) in [
            ("Wget, hostname: h", "WgetCredentials/v1, username: a, password: b", Some(("h", password()))),
            (
                "Wget, hostname: h, path: p",
                "DirectCredentials/v1, properties: {identityToken: t}",
                Some(("h/p", bearer())),
            ),
            (
                "GitHubRepository, hostname: h, path: o/r",
                "GitHubCredentials, token: t",
                Some(("h/o/r", bearer())),
            ),
            ("Github, hostname: h", "Credentials, properties: {token: t}", Some(("h", bearer()))),
            (
                "S3Bucket/v1, path: b/k",
                "S3Credentials/v1, accessKeyId: a, secretAccessKey: b",
                Some(("/b/k", key(""))),
            ),
            (
                "S3, pathprefix: b",
                "Credentials, properties: {awsAccessKeyID: a, awsSecretAccessKey: b, token: s}",
                Some(("/b", key("s"))),
            ),
            (
                "HelmChartRepository, hostname: h",
                "HelmHTTPCredentials, username: a, password: b",
                Some(("h", password())),
            ),
            ("Wget", "WgetCredentials/v1, identityToken: t", None),
            ("Wget, hostname: h", "OCICredentials, username: a, password: b", None),
            ("S3Bucket, path: b", "S3Credentials, accessKeyId: a", None),
        ] {
            let text = format!(
                "type: credentials.config.ocm.software\nconsumers:\n- identity: {{type: {identity}}}\n  \
                 credentials: [{{type: {credentials}}}]\n"
            );
            let found = parse(text.as_bytes()).ok().unwrap().found.pop();
            let found = found.map(|found| (found.place, found.credentials));
            let expected = expected.map(|(place, credentials)| (place.to_owned(), credentials));
            assert!(found == expected, "{identity}: {credentials}");
        }
    }

    #[test]
    fn what_is_no_configuration() {
        for text in ["[secret]", "a: {", "type: secret", "no map"] {
            let problem = parse(text.as_bytes()).err().unwrap();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
