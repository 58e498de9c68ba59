//! Functions that return kubeconfigs (`blueprints.md` 5.5). `getOidcKubeconfig` only rewrites the
//! kubeconfig of a Target. The others need requests to a cluster, which no rendering makes.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use super::{Answer, Argument};

/// Function that returns a kubeconfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterFunction {
    ShootAdmin,
    ShootAdminExpiring,
    ServiceAccount,
    ServiceAccountExpiring,
    Oidc,
}

impl ClusterFunction {
    /// Functions that send requests to a cluster.
    pub(crate) const REMOTE: [Self; 4] =
        [Self::ShootAdmin, Self::ShootAdminExpiring, Self::ServiceAccount, Self::ServiceAccountExpiring];
    pub(crate) const ALL: [Self; 5] = [
        Self::ShootAdmin,
        Self::ShootAdminExpiring,
        Self::ServiceAccount,
        Self::ServiceAccountExpiring,
        Self::Oidc,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ShootAdmin => "getShootAdminKubeconfig",
            Self::ShootAdminExpiring => "getShootAdminKubeconfigWithExpirationTimestamp",
            Self::ServiceAccount => "getServiceAccountKubeconfig",
            Self::ServiceAccountExpiring => "getServiceAccountKubeconfigWithExpirationTimestamp",
            Self::Oidc => "getOidcKubeconfig",
        }
    }

    /// Calls the function. With `placeholders`, kubeconfigs that need a cluster are made up, and
    /// name what they stand for.
    pub(crate) fn call(self, arguments: &[Argument], placeholders: bool) -> Answer<Value> {
        let what = match (self, arguments) {
            (Self::Oidc, [Argument::Text(issuer), Argument::Text(client), Argument::Map(target)]) => {
                match oidc(issuer, client, target) {
                    Err(_) if placeholders => format!("OIDC login of {client} at {issuer}"),
                    answer => return answer.map(Value::from),
                }
            }
            (
                Self::ShootAdmin | Self::ShootAdminExpiring,
                [Argument::Text(name), Argument::Text(namespace), _, _],
            ) => {
                format!("admin of the shoot {namespace}/{name}")
            }
            (
                Self::ServiceAccount | Self::ServiceAccountExpiring,
                [Argument::Text(name), Argument::Text(namespace), _, _],
            ) => format!("service account {namespace}/{name}"),
            _ if placeholders || self == Self::Oidc => return Err(self.wrong_arguments()),
            _ => return Err(super::not_available(self.name())),
        };
        if !placeholders {
            return Err(super::not_available(self.name()));
        }
        let kubeconfig = Value::from(encoded(&placeholder(&what)));
        Ok(match self {
            Self::ShootAdminExpiring | Self::ServiceAccountExpiring => json!({
                "kubeconfig": kubeconfig,
                "expirationTimestamp": 0,
                "expirationTimestampReadable": "1970-01-01T00:00:00Z",
            }),
            Self::ShootAdmin | Self::ServiceAccount | Self::Oidc => kubeconfig,
        })
    }

    fn wrong_arguments(self) -> String {
        let (name, arguments) = match self {
            Self::ShootAdmin | Self::ShootAdminExpiring => (
                "getShootAdminKubeconfig",
                "4 arguments: shoot name, shoot namespace, expiration seconds, and target for garden project",
            ),
            Self::ServiceAccount | Self::ServiceAccountExpiring => (
                "getServiceAccountToken",
                "4 arguments: service account name, service account namespace, expiration seconds, and target",
            ),
            Self::Oidc => ("getOidcKubeconfig", "3 arguments: issuer url, client id, and target"),
        };
        format!("templating function {name} expects {arguments}")
    }
}

/// Returns a kubeconfig that leads nowhere, and whose context says what it stands for.
fn placeholder(what: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "placeholder", "cluster": {"server": "https://placeholder.invalid"}}],
        "contexts": [{"name": what, "context": {"cluster": "placeholder", "user": "placeholder"}}],
        "current-context": what,
        "preferences": {},
        "users": [{"name": "placeholder", "user": {"token": "placeholder"}}],
    })
}

fn encoded(kubeconfig: &Value) -> String {
    BASE64.encode(groundwork_yaml::to_string(kubeconfig).as_bytes())
}

/// Returns the kubeconfig of a Target with another user, who signs in with an OIDC provider.
fn oidc(issuer: &str, client: &str, target: &Map<String, Value>) -> Answer<String> {
    let unusable = |problem: &str| format!("oidc kubeconfig builder: {problem}");
    let spec = target.get("spec").and_then(Value::as_object);
    let config = spec.and_then(|spec| spec.get("config")).filter(|config| !config.is_null());
    let config = config.ok_or_else(|| {
        unusable(
            "the content of the target is in a Secret, which templates do not see; give the target a config",
        )
    })?;
    let text = config.get("kubeconfig").and_then(Value::as_str);
    let text = text.ok_or_else(|| unusable("target config contains no kubeconfig"))?;
    // The text has a key, so the message of the parser must not quote it.
    let kubeconfig = groundwork_yaml::from_str(text).map_err(|_| unusable("failed to load config"))?;
    let current = kubeconfig.get("current-context").and_then(Value::as_str).unwrap_or_default();
    let context = named(&kubeconfig, "contexts", "context", current);
    let context = context.ok_or_else(|| unusable("current context not found"))?;
    let part = |member: &str| context.get(member).and_then(Value::as_str).unwrap_or_default();
    let cluster = named(&kubeconfig, "clusters", "cluster", part("cluster"));
    let cluster = cluster.ok_or_else(|| unusable("current cluster not found"))?;
    let arguments = [
        "oidc-login".to_owned(),
        "get-token".to_owned(),
        format!("--oidc-issuer-url={issuer}"),
        format!("--oidc-client-id={client}"),
        "--oidc-extra-scope=email".to_owned(),
        "--oidc-extra-scope=profile".to_owned(),
        "--oidc-extra-scope=offline_access".to_owned(),
        "--oidc-use-pkce".to_owned(),
        "--grant-type=auto".to_owned(),
    ];
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "kubectl", "args": arguments,
        "env": null, "provideClusterInfo": false,
    });
    Ok(encoded(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": part("cluster"), "cluster": cluster}],
        "contexts": [{"name": current, "context": context}],
        "current-context": current,
        "preferences": {},
        "users": [{"name": part("user"), "user": {"exec": exec}}],
    })))
}

/// Returns the entry with this name in one of the lists of a kubeconfig.
fn named<'a>(kubeconfig: &'a Value, list: &str, member: &str, name: &str) -> Option<&'a Value> {
    let mut entries = kubeconfig.get(list)?.as_array()?.iter();
    entries.find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?.get(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(answer: &Value) -> Value {
        let text = BASE64.decode(answer.as_str().unwrap().as_bytes()).unwrap();
        groundwork_yaml::from_str(&String::from_utf8(text).unwrap()).unwrap()
    }

    fn text(text: &str) -> Argument {
        Argument::Text(text.to_owned())
    }

    fn target(spec: &Value) -> Argument {
        let Value::Object(target) = json!({"metadata": {"name": "t"}, "spec": spec}) else { unreachable!() };
        Argument::Map(target)
    }

    #[test]
    fn placeholders_name_what_they_stand_for() {
        let arguments = [text("robot"), text("default"), Argument::Other, target(&json!({}))];
        let made = ClusterFunction::ServiceAccount.call(&arguments, true).unwrap();
        assert_eq!(decoded(&made)["current-context"], "service account default/robot");
        let made = ClusterFunction::ShootAdminExpiring.call(&arguments, true).unwrap();
        assert_eq!(decoded(&made["kubeconfig"])["current-context"], "admin of the shoot default/robot");
        assert_eq!(made["expirationTimestamp"], 0);
        let error = ClusterFunction::ServiceAccount.call(&arguments, false).unwrap_err();
        assert!(error.starts_with("getServiceAccountKubeconfig is not available"), "{error}");
        let error = ClusterFunction::ServiceAccount.call(&arguments[..2], true).unwrap_err();
        assert!(error.contains("expects 4 arguments: service account name"), "{error}");
    }

    #[test]
    fn oidc_users_need_no_cluster() {
        let kubeconfig = "
apiVersion: v1
kind: Config
current-context: b
clusters: [{name: one, cluster: {server: https://one}}, {name: two, cluster: {server: https://two, certificate-authority-data: YQ==}}]
contexts: [{name: a, context: {cluster: one, user: u}}, {name: b, context: {cluster: two, user: v, namespace: team}}]
users: [{name: v, user: {token: canary}}]
";
        let arguments =
            [text("https://issuer"), text("me"), target(&json!({"config": {"kubeconfig": kubeconfig}}))];
        let made = decoded(&ClusterFunction::Oidc.call(&arguments, false).unwrap());
        assert_eq!(
            made["clusters"],
            json!([{"name": "two", "cluster": {"server": "https://two", "certificate-authority-data": "YQ=="}}])
        );
        assert_eq!(
            made["contexts"],
            json!([{"name": "b", "context": {"cluster": "two", "user": "v", "namespace": "team"}}])
        );
        assert_eq!(made["users"][0]["name"], "v");
        assert_eq!(made["users"][0]["user"]["exec"]["args"][3], "--oidc-client-id=me");
        assert!(!made.to_string().contains("canary"));
        for (spec, problem) in [
            (json!({"secretRef": {"name": "s"}}), "is in a Secret"),
            (json!({"config": {"kubeconfig": "a: ["}}), "failed to load config"),
            (json!({"config": {"kubeconfig": "current-context: c"}}), "current context not found"),
        ] {
            let arguments = [text("i"), text("c"), target(&spec)];
            let error = ClusterFunction::Oidc.call(&arguments, false).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
