//! Token in a kubeconfig: its account, and its replacement. Error messages never quote the
//! kubeconfig.

use data_encoding::BASE64URL_NOPAD;
use groundwork_api::kubernetes::is_dns_subdomain;
use serde_json::{Value, json};

/// Service account that a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub namespace: String,
    pub name: String,
}

/// Reason why a token cannot be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is not valid YAML")]
    Yaml,
    #[error("it has no current context with a user")]
    NoUser,
    #[error(
        "its user has no token, and only tokens can be renewed; disable spec.tokenRotation for other credentials"
    )]
    NoToken,
    #[error(
        "its token does not belong to a service account, so the account of a new token is unknown; use the token of a \
         service account of the source cluster"
    )]
    NoAccount,
}

/// Returns the service account of the token in a kubeconfig.
///
/// # Errors
///
/// The kubeconfig has no token of a service account.
pub fn account(kubeconfig: &str) -> Result<Account, TokenError> {
    let mut kubeconfig = groundwork_yaml::from_str(kubeconfig).map_err(|_| TokenError::Yaml)?;
    let user = user(&mut kubeconfig)?;
    let token = user["token"].as_str().filter(|token| !token.is_empty()).ok_or(TokenError::NoToken)?;
    subject(token).ok_or(TokenError::NoAccount)
}

/// Returns the kubeconfig with another token for its user.
///
/// # Errors
///
/// As for [`account`].
pub fn with_token(kubeconfig: &str, token: &str) -> Result<String, TokenError> {
    let mut kubeconfig = groundwork_yaml::from_str(kubeconfig).map_err(|_| TokenError::Yaml)?;
    user(&mut kubeconfig)?["token"] = json!(token);
    Ok(groundwork_yaml::to_string(&kubeconfig))
}

/// Returns the user of the current context.
fn user(kubeconfig: &mut Value) -> Result<&mut Value, TokenError> {
    let current = kubeconfig["current-context"].as_str().ok_or(TokenError::NoUser)?;
    let contexts = kubeconfig["contexts"].as_array().ok_or(TokenError::NoUser)?;
    let context = contexts.iter().find(|context| context["name"] == current).ok_or(TokenError::NoUser)?;
    let name = context["context"]["user"].as_str().ok_or(TokenError::NoUser)?.to_owned();
    let users = kubeconfig.get_mut("users").and_then(Value::as_array_mut).ok_or(TokenError::NoUser)?;
    let user = users.iter_mut().find(|user| user["name"] == name.as_str()).ok_or(TokenError::NoUser)?;
    user.get_mut("user").filter(|user| user.is_object()).ok_or(TokenError::NoUser)
}

/// Returns the subject of a JWT. The signature is not checked here: the source cluster checks the
/// token again when it receives the request for a new one.
fn subject(token: &str) -> Option<Account> {
    let payload = token.split('.').nth(1)?.trim_end_matches('=');
    let payload: Value = serde_json::from_slice(&BASE64URL_NOPAD.decode(payload.as_bytes()).ok()?).ok()?;
    let account = payload["sub"].as_str()?.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = account.split_once(':')?;
    let is_account = is_dns_subdomain(namespace) && is_dns_subdomain(name);
    is_account.then(|| Account { namespace: namespace.to_owned(), name: name.to_owned() })
}
