//! Reads how a Target describes its cluster (`installations.md` 1.4). A kubeconfig must carry its
//! credentials with it: the deployer reads no files and runs no programs for it.

use kube::config::{AuthInfo, Cluster, Kubeconfig};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::target::TargetError;

/// Way to reach the cluster of a Target.
#[derive(Debug)]
pub(crate) enum Access {
    Kubeconfig(Box<Kubeconfig>),
    /// A token of a service account in the Target's namespace, for a server that trusts the home
    /// cluster.
    Oidc(OidcConfig),
    /// A token of a service account in the Target's namespace, for the home cluster.
    Home(SelfConfig),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OidcConfig {
    pub(crate) server: String,
    #[serde(default)]
    pub(crate) ca_data: String,
    pub(crate) service_account: ServiceAccount,
    #[serde(default)]
    pub(crate) audience: Vec<String>,
    #[serde(default)]
    pub(crate) expiration_seconds: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SelfConfig {
    pub(crate) service_account: ServiceAccount,
    #[serde(default)]
    pub(crate) expiration_seconds: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServiceAccount {
    pub(crate) name: String,
}

impl Access {
    /// Reads the content of a Target of type kubernetes-cluster.
    pub(crate) fn parse(content: &Value) -> Result<Self, TargetError> {
        // The content may be a kubeconfig as text or as an object.
        let content = match content {
            Value::String(text) => parsed(text)?,
            other => other.clone(),
        };
        let invalid = |what: &str| TargetError::Content(format!("{what} is not valid"));
        if let Some(oidc) = content.get("oidcConfig").filter(|value| !value.is_null()) {
            return serde_json::from_value(oidc.clone()).map(Self::Oidc).map_err(|_| invalid("oidcConfig"));
        }
        if let Some(own) = content.get("selfConfig").filter(|value| !value.is_null()) {
            return serde_json::from_value(own.clone()).map(Self::Home).map_err(|_| invalid("selfConfig"));
        }
        let kubeconfig = match content.get("kubeconfig") {
            Some(Value::String(text)) => parsed(text)?,
            Some(Value::Null) | None => content,
            Some(value) => value.clone(),
        };
        if !kubeconfig["clusters"].is_array() {
            let text =
                "it is not a kubeconfig and has none of the members kubeconfig, oidcConfig and selfConfig";
            return Err(TargetError::Content(text.to_owned()));
        }
        let kubeconfig =
            serde_json::from_value(without_nulls(kubeconfig)).map_err(|_| invalid("the kubeconfig"))?;
        check(&kubeconfig)?;
        Ok(Self::Kubeconfig(Box::new(kubeconfig)))
    }
}

fn parsed(text: &str) -> Result<Value, TargetError> {
    // The error text may quote credentials of the kubeconfig, so drop it.
    groundwork_yaml::from_str(text)
        .map_err(|_| TargetError::Content("the kubeconfig is not valid YAML".to_owned()))
}

/// Removes members that are null, which Go treats as missing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let left = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(left.map(|(key, value)| (key, without_nulls(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        plain => plain,
    }
}

/// Returns a kubeconfig for the cluster of the current context with another user, who has this
/// token; `None` without such a cluster. It contains no other part of the original kubeconfig.
pub(crate) fn with_user(original: &Kubeconfig, user: &str, token: &str) -> Option<Value> {
    let current = original.current_context.as_ref()?;
    let named = original.contexts.iter().find(|context| context.name == *current)?;
    let context = named.context.as_ref()?;
    let cluster = original.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    let mut context = serde_json::to_value(context).ok()?;
    context["user"] = json!(user);
    let cluster = json!({"name": cluster.name, "cluster": serde_json::to_value(&cluster.cluster).ok()?});
    Some(without_nulls(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "contexts": [{"name": current, "context": context}],
        "current-context": current,
        "preferences": {},
        "users": [{"name": user, "user": {"token": token}}],
    })))
}

/// Rejects settings with which the deployer would use a file or program of its own.
fn check(kubeconfig: &Kubeconfig) -> Result<(), TargetError> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let refused = clusters.flat_map(of_cluster).chain(users.flat_map(of_user)).next();
    match refused {
        Some((field, instead)) => Err(TargetError::Refused { field, instead }),
        None => Ok(()),
    }
}

type Refused = (&'static str, &'static str);

fn of_cluster(cluster: &Cluster) -> Vec<Refused> {
    let fields = [
        (cluster.certificate_authority.is_some(), ("certificate-authority", "certificate-authority-data")),
        (cluster.proxy_url.is_some(), ("proxy-url", "a server that can be reached without a proxy")),
    ];
    fields.into_iter().filter_map(|(is_there, refused)| is_there.then_some(refused)).collect()
}

fn of_user(user: &AuthInfo) -> Vec<Refused> {
    let fields = [
        (user.client_certificate.is_some(), ("client-certificate", "client-certificate-data")),
        (user.client_key.is_some(), ("client-key", "client-key-data")),
        (user.token_file.is_some(), ("tokenFile", "token")),
        (user.exec.is_some(), ("exec", "a token, or a client certificate with its key")),
        (user.auth_provider.is_some(), ("auth-provider", "a token, or a client certificate with its key")),
        (
            user.impersonate.is_some() || user.impersonate_groups.is_some() || user.impersonate_uid.is_some(),
            ("as", "credentials of that user"),
        ),
    ];
    fields.into_iter().filter_map(|(is_there, refused)| is_there.then_some(refused)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &Value, user: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
    }

    #[test]
    fn forms() {
        let plain = kubeconfig(&json!({"server": "https://a"}), &json!({"token": "t"}));
        for content in [
            plain.clone(),
            json!({"kubeconfig": plain.to_string()}),
            json!({"kubeconfig": plain}),
            json!(plain.to_string()),
            json!({"kubeconfig": plain, "oidcConfig": null}),
        ] {
            assert!(matches!(Access::parse(&content), Ok(Access::Kubeconfig(_))), "{content}");
        }
        let own = json!({"selfConfig": {"serviceAccount": {"name": "a"}}});
        assert!(matches!(Access::parse(&own), Ok(Access::Home(_))));
        let oidc = json!({"oidcConfig": {"server": "https://a", "caData": "", "serviceAccount": {"name": "a"}, "audience": ["b"]}});
        assert!(matches!(Access::parse(&oidc), Ok(Access::Oidc(_))));
    }

    #[test]
    fn other_users_get_the_cluster_and_nothing_else() {
        let cluster = json!({"server": "https://a", "certificate-authority-data": "YQ=="});
        let mut written = kubeconfig(&cluster, &json!({"token": "canary"}));
        written["contexts"][0]["context"]["namespace"] = json!("team");
        let second = json!({"name": "d", "cluster": {"server": "https://canary"}});
        written["clusters"].as_array_mut().unwrap().push(second);
        let read: Kubeconfig = serde_json::from_value(written).unwrap();
        let made = with_user(&read, "robot", "t").unwrap();
        assert_eq!(made["clusters"], json!([{"name": "c", "cluster": cluster}]));
        let context = json!({"cluster": "c", "user": "robot", "namespace": "team"});
        assert_eq!(made["contexts"], json!([{"name": "c", "context": context}]));
        assert_eq!(made["users"], json!([{"name": "robot", "user": {"token": "t"}}]));
        assert!(!made.to_string().contains("canary"));
        assert!(Access::parse(&made).is_ok());
        assert!(with_user(&Kubeconfig::default(), "robot", "t").is_none());
    }

    /// The deployer must not use anything of its own for a foreign cluster, and errors must not
    /// quote the kubeconfig.
    #[test]
    fn what_is_not_carried_along_is_refused() {
        let server = json!({"server": "https://a"});
        for (cluster, user, field) in [
            (
                json!({"server": "https://a", "certificate-authority": "/canary"}),
                json!({}),
                "certificate-authority",
            ),
            (json!({"server": "https://a", "proxy-url": "http://canary"}), json!({}), "proxy-url"),
            (server.clone(), json!({"client-certificate": "/canary"}), "client-certificate"),
            (server.clone(), json!({"client-key": "/canary"}), "client-key"),
            (server.clone(), json!({"tokenFile": "/canary"}), "tokenFile"),
            (server.clone(), json!({"exec": {"command": "canary", "apiVersion": "v1"}}), "exec"),
            (server.clone(), json!({"auth-provider": {"name": "canary"}}), "auth-provider"),
            (server.clone(), json!({"as": "canary"}), "as"),
        ] {
            let message = Access::parse(&kubeconfig(&cluster, &user)).unwrap_err().to_string();
            assert!(
                message.contains(&format!("{field} is refused")) && !message.contains("canary"),
                "{message}"
            );
        }
        for content in
            [json!(null), json!({}), json!("canary: ["), json!({"kubeconfig": 7}), json!({"oidcConfig": 1})]
        {
            let message = Access::parse(&content).unwrap_err().to_string();
            assert!(!message.contains("canary"), "{message}");
        }
    }
}
