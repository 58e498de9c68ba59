//! Clusters of Targets, with their clients. Clients are cached by the content of the Target, and
//! closed when unused for a while.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use groundwork_api::{ResourceExt, Target};
use groundwork_apply::{Answers, Cluster, Server};
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::target_sync::{KUBERNETES_CLUSTER, shoot_of_server};
use k8s_openapi::api::core::v1::Secret;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use moka::future::Cache;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::grants::{self, Granted};
use crate::issue::{ClusterUser, IssueError, Issued};
use crate::kubeconfig::{Access, OidcConfig, SelfConfig, with_user};
use crate::tokens::{HomeAudiences, TokenRules, token};

/// Maximum number of cached clients.
const KEPT_CLIENTS: u64 = 1000;
/// Time after which an unused client is closed.
const UNUSED: Duration = Duration::from_secs(600);
/// Time for which a service account's token is used. The shortest token of an API server is valid
/// for ten minutes.
const TOKEN_USE: Duration = Duration::from_secs(300);
/// Time limit for connecting to a cluster.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Reason why a Target does not lead to a cluster. The texts never quote the content of the Target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the type of the target is not {KUBERNETES_CLUSTER}")]
    Type,
    #[error("the content of the target cannot be used: {0}")]
    Content(String),
    #[error(
        "the kubeconfig of the target cannot be used: {field} is refused, because a target must contain its \
         credentials; write {instead} instead"
    )]
    Refused { field: &'static str, instead: &'static str },
    #[error("the secret {name} that the target names does not exist, or has no entry {key:?}")]
    Secret { name: String, key: String },
    /// An error of the API, which may go away by itself.
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error(
        "targets with selfConfig (the home cluster) cannot be used: the deployer runs without a kubeconfig of its own"
    )]
    NoHome,
}

/// The clusters of Targets, with their cached clients.
#[derive(Clone)]
pub struct Targets {
    /// Address and root certificates of the home cluster, without credentials.
    home: Option<Home>,
    manager: &'static str,
    answers: Answers,
    tokens: TokenRules,
    home_audiences: Arc<HomeAudiences>,
    clients: Cache<String, Arc<Cluster>>,
    token_clients: Cache<String, Arc<Cluster>>,
}

#[derive(Debug, Clone)]
struct Home {
    server: String,
    roots: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Targets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Targets").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl Targets {
    /// Creates the cache. `home` is the configuration of the home cluster, for Targets that are
    /// that cluster; only its address and root certificates are used. `manager` is the field
    /// manager of all writes, `answers` limits the answers of all clusters, and `tokens` limits the
    /// tokens of Targets.
    pub fn new(home: Option<&Config>, manager: &'static str, answers: Answers, tokens: TokenRules) -> Self {
        Self {
            home: home.map(|config| Home {
                server: config.cluster_url.to_string(),
                roots: config.root_cert.clone().unwrap_or_default(),
            }),
            manager,
            answers,
            tokens,
            home_audiences: Arc::default(),
            clients: Cache::builder().max_capacity(KEPT_CLIENTS).time_to_idle(UNUSED).build(),
            token_clients: Cache::builder().max_capacity(KEPT_CLIENTS).time_to_live(TOKEN_USE).build(),
        }
    }

    /// Returns the cluster of a Target, for one piece of work. Its answers use memory as long as
    /// the returned value lives.
    ///
    /// # Errors
    ///
    /// The Target has another type, or its Secret or token is not available.
    pub async fn cluster(&self, target: &Target, objects: &Objects) -> Result<Arc<Cluster>, TargetError> {
        if target.spec.type_ != KUBERNETES_CLUSTER {
            return Err(TargetError::Type);
        }
        let content = content(target, objects).await?;
        let namespace = target.namespace().unwrap_or_default();
        let connected = match Access::parse(&content)? {
            Access::Kubeconfig(kubeconfig) => {
                let make = async { self.connect(*kubeconfig).await };
                self.clients.try_get_with(fingerprint("", &content), make).await
            }
            access => {
                let make = async { self.connect(self.by_token(access, &namespace, objects).await?).await };
                let key = fingerprint(&namespace, &content);
                self.token_clients.try_get_with(key, make).await
            }
        };
        connected.map(|cluster| Arc::new(cluster.for_tenant(&namespace))).map_err(|error| (*error).clone())
    }

    /// Returns the address of the API server of a Target; `None` if the Target names none.
    ///
    /// # Errors
    ///
    /// As [`Targets::cluster`].
    pub async fn server(&self, target: &Target, objects: &Objects) -> Result<Option<String>, TargetError> {
        if target.spec.type_ != KUBERNETES_CLUSTER {
            return Err(TargetError::Type);
        }
        Ok(match Access::parse(&content(target, objects).await?)? {
            Access::Kubeconfig(kubeconfig) => server_of(&kubeconfig).map(str::to_owned),
            Access::Oidc(oidc) => Some(oidc.server),
            Access::Home(_) => self.home.as_ref().map(|home| home.server.clone()),
        })
    }

    /// Makes a kubeconfig with a user of its own, by the rights of a Target, valid for this number
    /// of seconds.
    ///
    /// # Errors
    ///
    /// Fails as [`Targets::cluster`] does, and when the cluster refuses the user.
    pub async fn issue(
        &self,
        target: &Target,
        user: &ClusterUser,
        seconds: i64,
        objects: &Objects,
    ) -> Result<Issued, IssueError> {
        let cluster = self.cluster(target, objects).await?;
        match user {
            ClusterUser::ShootAdmin { namespace, name } => {
                let shoot = grants::shoot(namespace, name);
                let granted = grants::shoot_kubeconfig(&cluster, &shoot, seconds).await?;
                Ok(Issued { kubeconfig: granted.content.0, expiration: granted.expiration })
            }
            ClusterUser::ServiceAccount(account) => {
                let original = match Access::parse(&content(target, objects).await?)? {
                    Access::Kubeconfig(kubeconfig) => *kubeconfig,
                    Access::Oidc(oidc) => kubeconfig_of(&oidc.server, &oidc.ca_data, "")?,
                    Access::Home(_) => {
                        let home = self.home.as_ref().ok_or(TargetError::NoHome)?;
                        kubeconfig_of(&home.server, &bundle(&home.roots), "")?
                    }
                };
                let Granted { content, expiration } = grants::token(&cluster, account, seconds).await?;
                let kubeconfig = with_user(&original, &account.name, &content).ok_or_else(|| {
                    TargetError::Content("the kubeconfig lacks a cluster, user or context".to_owned())
                })?;
                let kubeconfig = groundwork_yaml::to_string(&kubeconfig).into_bytes();
                Ok(Issued { kubeconfig, expiration })
            }
        }
    }

    /// Returns the name of the Shoot of a Target, read from the server address in its kubeconfig;
    /// `None` if the address does not have the form of a Shoot's.
    ///
    /// # Errors
    ///
    /// As [`Targets::cluster`].
    pub async fn shoot_name(
        &self,
        target: &Target,
        objects: &Objects,
    ) -> Result<Option<String>, TargetError> {
        if target.spec.type_ != KUBERNETES_CLUSTER {
            return Err(TargetError::Type);
        }
        Ok(match Access::parse(&content(target, objects).await?)? {
            Access::Kubeconfig(kubeconfig) => {
                server_of(&kubeconfig).and_then(shoot_of_server).map(str::to_owned)
            }
            Access::Oidc(oidc) => shoot_of_server(&oidc.server).map(str::to_owned),
            Access::Home(_) => None,
        })
    }

    async fn connect(&self, kubeconfig: Kubeconfig) -> Result<Arc<Cluster>, TargetError> {
        // The error texts may quote credentials of the kubeconfig, so drop them.
        let unusable = |what: &str| TargetError::Content(what.to_owned());
        let server = server_of(&kubeconfig).unwrap_or_default();
        if !server.is_empty() && server.parse::<http::Uri>().is_err() {
            return Err(unusable(
                "its server is not a URL; write an address such as https://api.example.org:6443",
            ));
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|_| {
            unusable("the kubeconfig lacks a cluster, user or context, or its data is not base64")
        })?;
        check_server(&config.cluster_url)?;
        config.connect_timeout = Some(CONNECT_LIMIT);
        // `Cluster` tracks `Retry-After` for all users of a cluster, so the client itself must not
        // retry.
        config.default_retry = false;
        let authority = config.root_cert.as_deref().filter(|roots| !roots.is_empty()).map(authority);
        let server = Server { address: told(&config.cluster_url), authority };
        let client = groundwork_client::connect(config)
            .map_err(|_| unusable("certificates, keys or the server of the kubeconfig are not valid"))?;
        Ok(Arc::new(Cluster::new(client, server, self.manager, &self.answers)))
    }

    /// Connects with a token of a service account in the Target's namespace, and with nothing of
    /// the deployer's own.
    async fn by_token(
        &self,
        access: Access,
        namespace: &str,
        objects: &Objects,
    ) -> Result<Kubeconfig, TargetError> {
        let (server, authority, account, audiences, life) = match access {
            Access::Oidc(oidc) => {
                self.tokens.check(&oidc)?;
                let OidcConfig { server, ca_data, service_account, audience, expiration_seconds } = oidc;
                let account = service_account.name;
                let of = (namespace, account.as_str());
                self.home_audiences.check(objects.client(), of, &audience).await?;
                (server, ca_data, account, audience, expiration_seconds)
            }
            Access::Home(SelfConfig { service_account, expiration_seconds }) => {
                let home = self.home.as_ref().ok_or(TargetError::NoHome)?;
                let roots = bundle(&home.roots);
                (home.server.clone(), roots, service_account.name, Vec::new(), expiration_seconds)
            }
            Access::Kubeconfig(kubeconfig) => return Ok(*kubeconfig),
        };
        let life = self.tokens.life(life)?;
        let token = token(objects.client(), namespace, &account, audiences, life).await?;
        kubeconfig_of(&server, &authority, &token)
    }
}

/// Returns a kubeconfig for a server, with a token.
fn kubeconfig_of(server: &str, authority: &str, token: &str) -> Result<Kubeconfig, TargetError> {
    let mut cluster = json!({"server": server});
    if !authority.is_empty() {
        cluster["certificate-authority-data"] = json!(authority);
    }
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "target",
        "clusters": [{"name": "target", "cluster": cluster}],
        "users": [{"name": "target", "user": {"token": token}}],
        "contexts": [{"name": "target", "context": {"cluster": "target", "user": "target"}}],
    });
    serde_json::from_value(kubeconfig).map_err(|_| TargetError::Content("its server is not valid".to_owned()))
}

/// Returns the server of the current context.
fn server_of(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?;
    cluster.cluster.as_ref()?.server.as_deref()
}

/// Returns certificates as base64 of PEM.
fn bundle(roots: &[Vec<u8>]) -> String {
    let mut pem = String::new();
    for root in roots {
        let base64 = data_encoding::BASE64.encode(root);
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in base64.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    if pem.is_empty() { pem } else { data_encoding::BASE64.encode(pem.as_bytes()) }
}

/// Rejects addresses that can never be those of a server.
fn check_server(server: &http::Uri) -> Result<(), TargetError> {
    let wrong = |what: &str| Err(TargetError::Content(what.to_owned()));
    if !matches!(server.scheme_str(), Some("https" | "http")) {
        return wrong("its server must begin with https:// or http://");
    }
    let authority = server.authority().map_or("", http::uri::Authority::as_str);
    if authority.contains('@') {
        return wrong(
            "its server contains a user name or password; use a token, or a client certificate with its key, instead",
        );
    }
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    let host = server.host().unwrap_or_default();
    if host.is_empty() || !host.bytes().all(is_host) {
        return wrong("its server has no valid host: write a name in ASCII letters, or an IP address");
    }
    Ok(())
}

/// Formats an address for messages, without credentials.
fn told(server: &http::Uri) -> String {
    let host = server.host().unwrap_or_default();
    let port = server.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    let path = server.path().trim_end_matches('/');
    format!("{}://{host}{port}{path}", server.scheme_str().unwrap_or("https"))
}

/// Returns a fingerprint of certificates that does not depend on their order.
fn authority(roots: &[Vec<u8>]) -> String {
    let mut roots: Vec<_> = roots.iter().map(Sha256::digest).collect();
    roots.sort();
    data_encoding::HEXLOWER.encode(&Sha256::digest(roots.concat()))
}

/// Returns the content of a Target, from its Secret or from the Target itself.
async fn content(target: &Target, objects: &Objects) -> Result<Value, TargetError> {
    let Some(reference) = &target.spec.secret_ref else {
        return Ok(target.spec.config.get().cloned().unwrap_or_default());
    };
    let namespace = target.namespace().unwrap_or_default();
    let missing = |key: &str| TargetError::Secret { name: reference.name.clone(), key: key.to_owned() };
    let secret = objects.get::<Secret>(&namespace, &reference.name).await?.ok_or_else(|| missing(""))?;
    let entries = secret.data.unwrap_or_default();
    let parsed = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        groundwork_yaml::from_str(&text)
            .map_err(|_| TargetError::Content("an entry of its secret is not valid YAML".to_owned()))
    };
    if let Some(key) = reference.entry() {
        return parsed(&entries.get(key).ok_or_else(|| missing(key))?.0);
    }
    let members = entries.iter().map(|(key, bytes)| Ok((key.clone(), parsed(&bytes.0)?)));
    Ok(Value::Object(members.collect::<Result<Map<_, _>, TargetError>>()?))
}

fn fingerprint(namespace: &str, content: &Value) -> String {
    let digest =
        Sha256::new().chain_update(namespace).chain_update([0]).chain_update(content.to_string()).finalize();
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(server: &str) -> String {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let targets = Targets::new(None, "test", Answers::default(), TokenRules::default());
        let connected = targets.connect(serde_json::from_value(kubeconfig).unwrap()).await;
        match connected {
            Ok(_) => String::new(),
            Err(TargetError::Content(text)) => text,
            Err(error) => panic!("{server}: {error}"),
        }
    }

    /// These addresses can never be right, so no server is contacted.
    #[tokio::test]
    async fn servers_that_can_never_be_right() {
        for (server, words) in [
            ("file:///etc/passwd", "not a URL"),
            ("file://localhost/etc/passwd", "begin with https://"),
            ("gopher://api.example.org", "begin with https://"),
            ("api.example.org:6443", "begin with https://"),
            ("https://", "not a URL"),
            ("https://\u{e4}pi.example.org", "not a URL"),
            ("https://ap%ffi.example.org", "not a URL"),
            ("https://me:canary@api.example.org", "user name or password"),
            ("not an address", "not a URL"),
        ] {
            let text = refusal(server).await;
            assert!(text.contains(words) && !text.contains("canary"), "{server}: {text:?}");
        }
        for server in ["https://api.example.org:6443", "http://127.0.0.1:1/base", "https://[::1]:6443"] {
            assert_eq!(refusal(server).await, "", "{server}");
        }
    }
}
