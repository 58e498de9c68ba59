//! Generates kubeconfig files.

use std::path::Path;

use data_encoding::BASE64;
use serde_json::{Value, json};

/// Credentials of a user.
pub(crate) enum Login<'a> {
    Token(&'a str),
    TokenFile(&'a Path),
}

/// Returns a kubeconfig with one cluster and one user, as JSON, which is valid YAML.
pub(crate) fn kubeconfig(
    server: &str,
    authority: &str,
    login: &Login<'_>,
    namespace: Option<&str>,
) -> String {
    let user = match login {
        Login::Token(token) => json!({"token": token}),
        Login::TokenFile(path) => json!({"tokenFile": path}),
    };
    let mut context = json!({"cluster": "groundwork", "user": "groundwork"});
    if let Some(namespace) = namespace {
        context["namespace"] = Value::from(namespace);
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "groundwork", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64.encode(authority.as_bytes()),
        }}],
        "users": [{"name": "groundwork", "user": user}],
        "contexts": [{"name": "groundwork", "context": context}],
        "current-context": "groundwork",
    });
    format!("{config:#}\n")
}
