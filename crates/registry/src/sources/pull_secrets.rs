//! Pull secrets of a Context (`components.md` 7.1; 8, E5).

use crate::Keyring;
use groundwork_api::{Context, ResourceExt};
use groundwork_controller::{ApiError, Objects};
use k8s_openapi::api::core::v1::Secret;

const DOCKER_CONFIG: &str = ".dockerconfigjson";
const DOCKERCFG: &str = ".dockercfg";
/// Entries with OCM's configuration of credentials: Landscaper's, and the name of the file that OCM
/// itself reads.
const OCM_CONFIGS: [&str; 2] = [".ocmcredentialconfig", ".ocmconfig"];

/// Contents of the Secrets of a Context, in their order.
#[derive(Debug, Default)]
pub struct PullSecrets {
    pub keyring: Keyring,
    /// Notes for the user that are not errors.
    pub notes: Vec<String>,
    /// Error of the first Secret that cannot be used.
    pub error: Option<String>,
}

impl PullSecrets {
    /// Reads the Secrets again, since each job uses their content at its start.
    ///
    /// # Errors
    ///
    /// The API server does not answer. A Secret that is missing or cannot be used goes to `error`
    /// instead.
    pub async fn read(
        &mut self,
        namespace: &str,
        context: Option<&Context>,
        objects: &Objects,
    ) -> Result<(), ApiError> {
        let Some(context) = context else { return Ok(()) };
        for name in context.pull_secrets() {
            let title = format!("{namespace}/{name}");
            let found = if name.is_empty() { None } else { objects.get::<Secret>(namespace, name).await? };
            match found {
                None => {
                    let context = context.name_any();
                    self.fail(format!("registry pull secret {title:?} of context {context:?} not found"));
                }
                Some(secret) => self.add(&title, &secret),
            }
        }
        Ok(())
    }

    fn add(&mut self, title: &str, secret: &Secret) {
        let source = format!("secret {title:?}");
        let value = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
        let mut added = Vec::new();
        match (value(DOCKER_CONFIG), value(DOCKERCFG)) {
            (Some(text), _) => added.push(self.keyring.add_docker_config(&source, &text.0)),
            (None, Some(text)) => added.push(self.keyring.add_dockercfg(&source, &text.0)),
            (None, None) => {}
        }
        for text in OCM_CONFIGS.into_iter().filter_map(value) {
            added.push(self.keyring.add_ocm_config(&source, &text.0));
        }
        if added.is_empty() {
            let [first, second] = OCM_CONFIGS;
            self.notes.push(format!(
                "registry pull secret {title:?} has no effect: it contains none of {DOCKER_CONFIG}, {DOCKERCFG}, \
                 {first} and {second}"
            ));
        }
        for problem in added.into_iter().filter_map(Result::err) {
            self.fail(format!(
                "cannot create credentials from secret: registry pull secret {title:?}: {problem}"
            ));
        }
    }

    fn fail(&mut self, message: String) {
        self.error.get_or_insert(message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn added(data: &Value) -> PullSecrets {
        let string = |text: &Value| json!(data_encoding(text.as_str().unwrap()));
        let data: serde_json::Map<String, Value> =
            data.as_object().unwrap().iter().map(|(key, text)| (key.clone(), string(text))).collect();
        let secret: Secret = serde_json::from_value(json!({"data": data})).unwrap();
        let mut secrets = PullSecrets::default();
        secrets.add("team/pull", &secret);
        secrets
    }

    fn data_encoding(text: &str) -> Value {
        serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn what_a_secret_holds() {
        let config = json!({"auths": {"r.org": {"username": "a", "password": "b"}}}).to_string();
        assert_eq!(
            format!("{:?}", added(&json!({".dockerconfigjson": config})).keyring),
            "Keyring { entries: 1, .. }"
        );
        let old = json!({"r.org": {"username": "a", "password": "b"}}).to_string();
        assert_eq!(format!("{:?}", added(&json!({".dockercfg": old})).keyring), "Keyring { entries: 1, .. }");
        let ocm = "type: credentials.config.ocm.software\nconsumers:\n- identity: {type: OCIRegistry, hostname: r.org}\n  \
                   credentials: [{type: Credentials, properties: {username: a, password: b}}]\n";
        for key in OCM_CONFIGS {
            assert_eq!(format!("{:?}", added(&json!({key: ocm})).keyring), "Keyring { entries: 1, .. }");
        }
        let PullSecrets { notes, error, .. } = added(&json!({"other": "x"}));
        let expected = "registry pull secret \"team/pull\" has no effect: it contains none of .dockerconfigjson, .dockercfg, \
                        .ocmcredentialconfig and .ocmconfig";
        assert_eq!((notes, error), (vec![expected.to_owned()], None));
        for key in [".dockerconfigjson", ".ocmconfig"] {
            let error = added(&json!({key: "s3cret"})).error.unwrap();
            assert!(error.starts_with("cannot create credentials from secret: "), "{error}");
            assert!(!error.contains("s3cret"));
        }
    }
}
