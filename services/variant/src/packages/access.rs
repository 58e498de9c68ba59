//! Access to the remote of a Repository, from its Secret (`packagevariants.md` 1.4).

use std::collections::BTreeMap;

use groundwork_controller::Objects;
use groundwork_packages::git::{Access, Credentials, Proxy, Settings, StoreError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;

use super::unread;

/// Reads how to contact the remote of a repository from its Secret, and the secret for reports of
/// pushes (`packagevariants.md` 1.4).
pub(super) async fn access(
    settings: &Settings,
    objects: &Objects,
) -> Result<(Access, Option<SecretString>), StoreError> {
    let Settings { namespace, url, secret, .. } = settings;
    access_to(url, secret.as_deref(), namespace, objects).await
}

/// Reads how to contact the remote at an address, with the Secret of this name.
pub(super) async fn access_to(
    url: &str,
    secret: Option<&str>,
    namespace: &str,
    objects: &Objects,
) -> Result<(Access, Option<SecretString>), StoreError> {
    let (mut access, hook) = match secret {
        None => (Access::default(), None),
        Some(name) => {
            let secret = objects.get::<Secret>(namespace, name).await;
            let data = secret.map_err(|error| unread(&error))?.and_then(|secret| secret.data);
            let data = data.ok_or_else(|| {
                StoreError::Unavailable(format!("spec.git.secretRef: secret {name:?} not found"))
            })?;
            (access_in(name, &data)?, text_in(&data, WEBHOOK).map(SecretString::from))
        }
    };
    if access.certificates.is_none() && url.starts_with("https://") {
        // Porch reads the authorities of a namespace from a Secret with this name.
        let name = format!("{namespace}-ca-bundle");
        let bundle = objects.get::<Secret>(namespace, &name).await;
        let data = bundle.map_err(|error| unread(&error))?.and_then(|secret| secret.data);
        access.certificates = data.and_then(|data| text_in(&data, CERTIFICATES));
    }
    Ok((access, hook))
}

/// Key of a Secret with the secret for reports of pushes.
const WEBHOOK: &str = "webhookSecret";
/// Key of a Secret with certificates in PEM.
const CERTIFICATES: &str = "ca.crt";

fn text_in(data: &BTreeMap<String, ByteString>, key: &str) -> Option<String> {
    data.get(key).map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
}

/// Returns the access in the Secret with this name.
fn access_in(name: &str, data: &BTreeMap<String, ByteString>) -> Result<Access, StoreError> {
    let text = |key: &str| text_in(data, key);
    let refused = |text: String| StoreError::Refused(format!("spec.git.secretRef: secret {name:?} {text}"));
    let user = match (text("proxyUsername"), text("proxyPassword")) {
        (Some(name), Some(password)) => Some((name, password)),
        (None, None) => None,
        _ => return Err(refused("must have both proxyUsername and proxyPassword, or neither".to_owned())),
    };
    let user = user.as_ref().map(|(name, password)| (name.as_str(), password.as_str()));
    let proxy = match text("proxy") {
        Some(address) => {
            let proxy = Proxy::parse(&address, user);
            Some(proxy.map_err(|error| refused(format!("has no valid proxy: {error}")))?)
        }
        None if user.is_some() => return Err(refused("has proxyUsername, but no proxy".to_owned())),
        None => None,
    };
    let certificates = text(CERTIFICATES);
    let credentials = if let Some(key) = text("ssh-privatekey") {
        Credentials::Ssh { private_key: key.into(), known_hosts: text("known_hosts") }
    } else if let (Some(username), Some(password)) = (text("username"), text("password")) {
        Credentials::Basic { username, password: password.into() }
    } else if let Some(token) = text("bearerToken").or_else(|| text("token")) {
        Credentials::Bearer(token.trim().into())
    } else if certificates.is_some() || proxy.is_some() || data.contains_key(WEBHOOK) {
        Credentials::None
    } else {
        return Err(refused(
            "has none of username and password, bearerToken, ssh-privatekey, ca.crt, proxy, webhookSecret"
                .to_owned(),
        ));
    };
    Ok(Access { credentials, certificates, proxy })
}
