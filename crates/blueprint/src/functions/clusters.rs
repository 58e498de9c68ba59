//! Functions that return kubeconfigs (`blueprints.md` 5.5). `getOidcKubeconfig` only rewrites the
//! kubeconfig of a Target. The others need requests to a cluster.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use super::kubeconfigs::{Kept, Kubeconfigs};
use super::{Answer, Argument};
use crate::capabilities::{ClusterUser, KubeconfigRequest};

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

    /// Calls the function.
    pub(crate) fn call(self, arguments: &[Argument], kubeconfigs: &Kubeconfigs) -> Answer<Value> {
        let user = match self {
            Self::ShootAdmin | Self::ShootAdminExpiring => ClusterUser::ShootAdmin,
            Self::ServiceAccount | Self::ServiceAccountExpiring => ClusterUser::ServiceAccount,
            Self::Oidc => return self.oidc(arguments, kubeconfigs),
        };
        if kubeconfigs.is_off() {
            return Err(super::not_available(self.name()));
        }
        let (request, target) = self.request(user, arguments, kubeconfigs)?;
        let Kept { kubeconfig, expiration, .. } = kubeconfigs.of(&request, target)?;
        Ok(match self {
            Self::ShootAdminExpiring | Self::ServiceAccountExpiring => json!({
                "kubeconfig": kubeconfig,
                "expirationTimestamp": expiration,
                "expirationTimestampReadable":
                    jiff::Timestamp::from_second(expiration).unwrap_or_default().to_string(),
            }),
            Self::ShootAdmin | Self::ServiceAccount | Self::Oidc => Value::from(kubeconfig),
        })
    }

    /// Reads the arguments of a function that needs a cluster. Returns the Target, too.
    fn request<'a>(
        self,
        user: ClusterUser,
        arguments: &'a [Argument],
        kubeconfigs: &Kubeconfigs,
    ) -> Answer<(KubeconfigRequest, &'a Map<String, Value>)> {
        let [name, namespace, seconds, target] = arguments else { return Err(self.wrong_count()) };
        let what = match user {
            ClusterUser::ShootAdmin => "shoot",
            ClusterUser::ServiceAccount => "service account",
        };
        let text = |argument: &Argument, place: &str, member: &str| match argument {
            Argument::Text(text) => Ok(text.clone()),
            _ => Err(self.wrong(&format!("a string as {place} argument, namely the {what} {member}"))),
        };
        let (name, namespace) = (text(name, "1st", "name")?, text(namespace, "2nd", "namespace")?);
        let expiration_seconds = match seconds {
            Argument::Number(seconds) => *seconds,
            other => {
                let wanted = "an integer as 3rd argument, namely the expiration seconds: unsupported type";
                return Err(self.wrong(&format!("{wanted} {}", other.type_name())));
            }
        };
        let no_target = |problem: &str| self.wrong(&format!("a target object as 4th argument: {problem}"));
        let Argument::Map(target) = target else {
            return Err(no_target(&format!("unsupported type {}", target.type_name())));
        };
        let named = target.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        // In a repetition with other values, the keys differ, too.
        let named = named.filter(|name| !name.is_empty()).or(kubeconfigs.is_repeated().then_some(""));
        let target_name = named
            .ok_or_else(|| no_target("it has no metadata.name; pass a target that the blueprint imports"))?;
        let target_name = target_name.to_owned();
        let request = KubeconfigRequest { target: target_name, user, namespace, name, expiration_seconds };
        Ok((request, target))
    }

    fn oidc(self, arguments: &[Argument], kubeconfigs: &Kubeconfigs) -> Answer<Value> {
        let [Argument::Text(issuer), Argument::Text(client), Argument::Map(target)] = arguments else {
            return Err(self.wrong_count());
        };
        match oidc(issuer, client, target) {
            Err(_) if kubeconfigs.are_placeholders() => {
                Ok(Value::from(encoded(&placeholder(&format!("OIDC login of {client} at {issuer}")))))
            }
            answer => answer.map(Value::from),
        }
    }

    fn wrong_count(self) -> String {
        self.wrong(match self {
            Self::ShootAdmin | Self::ShootAdminExpiring => {
                "4 arguments: shoot name, shoot namespace, expiration seconds, and target for garden project"
            }
            Self::ServiceAccount | Self::ServiceAccountExpiring => {
                "4 arguments: service account name, service account namespace, expiration seconds, and target"
            }
            Self::Oidc => "3 arguments: issuer url, client id, and target",
        })
    }

    fn wrong(self, expected: &str) -> String {
        let name = match self {
            Self::ShootAdmin | Self::ShootAdminExpiring => "getShootAdminKubeconfig",
            // The name in the messages of Landscaper.
            Self::ServiceAccount | Self::ServiceAccountExpiring => "getServiceAccountToken",
            Self::Oidc => "getOidcKubeconfig",
        };
        format!("templating function {name} expects {expected}")
    }
}

/// Returns a kubeconfig that leads nowhere, and whose context names the request.
pub(super) fn placeholder_for(request: &KubeconfigRequest) -> String {
    let KubeconfigRequest { user, namespace, name, .. } = request;
    let what = match user {
        ClusterUser::ShootAdmin => "admin of the shoot",
        ClusterUser::ServiceAccount => "service account",
    };
    encoded(&placeholder(&format!("{what} {namespace}/{name}")))
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
    use crate::capabilities::Capabilities;

    fn decoded(answer: &Value) -> Value {
        let text = BASE64.decode(answer.as_str().unwrap().as_bytes()).unwrap();
        groundwork_yaml::from_str(&String::from_utf8(text).unwrap()).unwrap()
    }

    fn placeholders() -> Kubeconfigs {
        Kubeconfigs::new(&Capabilities::default().with_placeholders(), None)
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
        let arguments = [text("robot"), text("default"), Argument::Number(600), target(&json!({}))];
        let made = ClusterFunction::ServiceAccount.call(&arguments, &placeholders()).unwrap();
        assert_eq!(decoded(&made)["current-context"], "service account default/robot");
        let made = ClusterFunction::ShootAdminExpiring.call(&arguments, &placeholders()).unwrap();
        assert_eq!(decoded(&made["kubeconfig"])["current-context"], "admin of the shoot default/robot");
        assert_eq!(made["expirationTimestamp"], 0);
        assert_eq!(made["expirationTimestampReadable"], "1970-01-01T00:00:00Z");
        let error = ClusterFunction::ServiceAccount.call(&arguments, &Kubeconfigs::default()).unwrap_err();
        assert!(error.starts_with("getServiceAccountKubeconfig is not available"), "{error}");
    }

    #[test]
    fn arguments_are_checked_as_landscaper_does() {
        let good = || vec![text("robot"), text("default"), Argument::Number(600), target(&json!({}))];
        let with = |index: usize, other: Argument| {
            let mut arguments = good();
            arguments[index] = other;
            ClusterFunction::ServiceAccount.call(&arguments, &placeholders()).unwrap_err()
        };
        let other = || Argument::Other("bool".to_owned());
        for (error, words) in [
            (
                ClusterFunction::ServiceAccount.call(&good()[..2], &placeholders()).unwrap_err(),
                "expects 4 arguments: service account name",
            ),
            (with(0, other()), "expects a string as 1st argument, namely the service account name"),
            (with(1, Argument::Number(1)), "as 2nd argument, namely the service account namespace"),
            (with(2, text("600")), "as 3rd argument, namely the expiration seconds: unsupported type string"),
            (with(2, other()), "unsupported type bool"),
            (with(3, text("cluster")), "expects a target object as 4th argument: unsupported type string"),
            (with(3, Argument::Map(Map::new())), "it has no metadata.name"),
        ] {
            assert!(error.contains(words), "{error}");
            assert!(error.starts_with("templating function getServiceAccountToken"), "{error}");
        }
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
        let made = decoded(&ClusterFunction::Oidc.call(&arguments, &Kubeconfigs::default()).unwrap());
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
            let error = ClusterFunction::Oidc.call(&arguments, &Kubeconfigs::default()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
