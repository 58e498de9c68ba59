//! Users of a NATS server: `k8s/nats/users.conf` has their permissions, and this module their
//! passwords.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use crate::SERVICES;
use crate::state::secret;

/// User for people and `groundwork events`, who only read the stream.
pub(crate) const READER: &str = "reader";
/// Permissions of each user; the same file for compose and for clusters.
pub(crate) const USERS: &str = include_str!("../../../k8s/nats/users.conf");
/// Configuration of a trial cluster's server.
pub(crate) const SERVER: &str = "\
server_name: groundwork
listen: \"0.0.0.0:4222\"
http: \"0.0.0.0:8222\"
jetstream { store_dir: \"/data\", sync_interval: \"10s\" }
include \"users.conf\"
";

/// Returns the users: the services, and one who only reads.
pub(crate) fn users() -> Vec<&'static str> {
    SERVICES.into_iter().chain([READER]).collect()
}

/// Returns the file of variables that [`USERS`] refers to.
pub(crate) fn passwords_file(passwords: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for user in users() {
        if let Some(password) = passwords.get(user) {
            let _ = writeln!(text, "{}_PASSWORD: \"{password}\"", user.to_uppercase());
        }
    }
    text
}

/// Returns the Secrets for a cluster: all passwords for the server, and for each user only its own.
pub(crate) fn secrets(namespace: &str) -> String {
    let passwords: BTreeMap<String, String> =
        users().into_iter().map(|user| (user.to_owned(), secret())).collect();
    let of = |name: String, key: &str, value: &str| {
        groundwork_yaml::to_string(&json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app.kubernetes.io/part-of": "groundwork"},
            },
            "stringData": {key: value},
        }))
    };
    let server = of("groundwork-nats-passwords".to_owned(), "passwords.conf", &passwords_file(&passwords));
    let users =
        passwords.iter().map(|(user, password)| of(format!("groundwork-{user}-nats"), "password", password));
    [server].into_iter().chain(users).collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_a_password_and_every_password_a_user() {
        let named = |text: &str, mark: &str| {
            let words = text.split_whitespace().filter_map(|word| word.strip_prefix(mark));
            words.map(|word| word.trim_end_matches(',').to_owned()).collect::<Vec<_>>()
        };
        let lines =
            USERS.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
        let mut wanted: Vec<_> =
            users().iter().map(|user| format!("{}_PASSWORD", user.to_uppercase())).collect();
        wanted.sort();
        let mut used = named(&lines, "$");
        used.sort();
        assert_eq!(used, wanted);
        let passwords = users().into_iter().map(|user| (user.to_owned(), "p".to_owned())).collect();
        let mut defined: Vec<_> = passwords_file(&passwords)
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
            .collect();
        defined.sort();
        assert_eq!(defined, wanted);
    }

    #[test]
    fn secrets_agree_with_each_other() {
        let text = secrets("elsewhere");
        let secrets = groundwork_yaml::parse_all(&text, groundwork_yaml::Options::default()).unwrap();
        let secrets: Vec<_> = secrets.iter().map(groundwork_yaml::Node::to_value).collect();
        assert_eq!(secrets.len(), 1 + users().len());
        let server = secrets[0]["stringData"]["passwords.conf"].as_str().unwrap();
        for secret in &secrets[1..] {
            let password = secret["stringData"]["password"].as_str().unwrap();
            assert!(server.contains(&format!("_PASSWORD: \"{password}\"\n")));
            assert_eq!(secret["metadata"]["namespace"], "elsewhere");
        }
    }
}
