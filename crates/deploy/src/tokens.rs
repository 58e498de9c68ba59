//! Tokens of service accounts, for the servers that Targets name. A token for the home API server
//! must never go to another server.

use std::time::Duration;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_controller::ApiError;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::OnceCell;

use crate::kubeconfig::OidcConfig;
use crate::target::TargetError;

/// Default lifetime of a token, in seconds.
const LIFE: i64 = 86_400;
/// Shortest lifetime of a token that the API server issues, in seconds.
const SHORTEST_LIFE: i64 = 600;

/// Limits for the tokens that Targets request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRules {
    /// Longest lifetime of a token.
    pub longest: Duration,
    /// True if servers without TLS may get tokens, too.
    pub allows_plain: bool,
}

impl Default for TokenRules {
    fn default() -> Self {
        Self { longest: Duration::from_secs(86_400), allows_plain: false }
    }
}

impl TokenRules {
    /// Returns the lifetime to request, in seconds.
    ///
    /// # Errors
    ///
    /// The Target wants more than is allowed.
    pub(crate) fn life(self, wanted: Option<i64>) -> Result<i64, TargetError> {
        let longest = i64::try_from(self.longest.as_secs()).unwrap_or(i64::MAX).max(SHORTEST_LIFE);
        match wanted {
            Some(wanted) if wanted > longest => Err(TargetError::Content(format!(
                "expirationSeconds is {wanted}, but a token is valid for {longest} s at most (--longest-target-token): \
                 write a smaller value"
            ))),
            wanted => Ok(wanted.unwrap_or(LIFE.min(longest)).max(SHORTEST_LIFE)),
        }
    }

    /// Checks from the Target alone whether the server may get a token.
    ///
    /// # Errors
    ///
    /// The server has no TLS, or the token would be for the home API server.
    pub(crate) fn check(self, oidc: &OidcConfig) -> Result<(), TargetError> {
        let refused = |text: &str| Err(TargetError::Content(text.to_owned()));
        if !self.allows_plain && !oidc.server.starts_with("https://") {
            return refused(
                "oidcConfig.server must begin with https://: tokens are not sent without TLS \
                 (--allow-plain-oidc-targets allows it)",
            );
        }
        if oidc.audience.is_empty() || oidc.audience.iter().any(|audience| audience.trim().is_empty()) {
            return refused(
                "oidcConfig.audience must name the audience that the server trusts: without one the token would be for the API \
                 server of this cluster",
            );
        }
        Ok(())
    }
}

/// The audiences of the home API server, cached after the first request.
#[derive(Debug, Default)]
pub(crate) struct HomeAudiences(OnceCell<Vec<String>>);

impl HomeAudiences {
    /// Checks that the audiences are not those of the home API server.
    ///
    /// # Errors
    ///
    /// One of the audiences is, or the API server does not report its own.
    pub(crate) async fn check(
        &self,
        client: &Client,
        (namespace, account): (&str, &str),
        audiences: &[String],
    ) -> Result<(), TargetError> {
        // A token without an audience gets those of the API server. This one is used only to read
        // them, and then dropped.
        let ask = async || {
            let request = request(client, namespace, account, Vec::new(), SHORTEST_LIFE).await?;
            Ok::<_, TargetError>(request.spec.and_then(|spec| spec.audiences).unwrap_or_default())
        };
        let home = self.0.get_or_try_init(ask).await?;
        match audiences.iter().find(|audience| home.contains(audience)) {
            None => Ok(()),
            Some(_) => Err(TargetError::Content(
                "oidcConfig.audience is that of the API server of this cluster: the target server could use the token \
                 here; use another audience"
                    .to_owned(),
            )),
        }
    }
}

/// Requests a token of a service account.
///
/// # Errors
///
/// The API server refuses the token.
pub(crate) async fn token(
    client: &Client,
    namespace: &str,
    account: &str,
    audiences: Vec<String>,
    life: i64,
) -> Result<String, TargetError> {
    let answer = request(client, namespace, account, audiences, life).await?;
    Ok(answer.status.and_then(|status| status.token).unwrap_or_default())
}

async fn request(
    client: &Client,
    namespace: &str,
    account: &str,
    audiences: Vec<String>,
    life: i64,
) -> Result<TokenRequest, TargetError> {
    if !is_dns_subdomain(account) {
        return Err(TargetError::Content("serviceAccount.name is not a valid object name".to_owned()));
    }
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(audiences),
            expiration_seconds: Some(life),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let object = format!("a token of the service account {namespace}/{account}");
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    Ok(answer.map_err(|error| ApiError::new(&error, "create", &object, "serviceaccounts/token"))?)
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn oidc(server: &str, audience: &[&str]) -> OidcConfig {
        let config = json!({"server": server, "serviceAccount": {"name": "a"}, "audience": audience});
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn tokens_go_to_servers_with_an_audience_of_their_own_over_tls() {
        let rules = TokenRules::default();
        let said = |oidc: &OidcConfig| rules.check(oidc).err().map(|error| error.to_string());
        assert_eq!(said(&oidc("https://a", &["b"])), None);
        for (server, audience, word) in [
            ("http://a", &["b"][..], "--allow-plain-oidc-targets"),
            ("a", &["b"], "https://"),
            ("https://a", &[], "oidcConfig.audience"),
            ("https://a", &["b", " "], "oidcConfig.audience"),
        ] {
            assert!(said(&oidc(server, audience)).unwrap().contains(word), "{server} {audience:?}");
        }
        let plain = TokenRules { allows_plain: true, ..rules };
        assert_eq!(plain.check(&oidc("http://a", &["b"])), Ok(()));
    }

    #[test]
    fn lives_of_tokens_are_bounded() {
        let rules = TokenRules::default();
        assert_eq!(
            (rules.life(None), rules.life(Some(1)), rules.life(Some(3600))),
            (Ok(86_400), Ok(600), Ok(3600))
        );
        let error = rules.life(Some(31_536_000)).unwrap_err().to_string();
        assert!(
            error.contains("expirationSeconds is 31536000") && error.contains("86400 s at most"),
            "{error}"
        );
        let short = TokenRules { longest: Duration::from_secs(3600), ..rules };
        assert_eq!((short.life(None), short.life(Some(3601)).is_err()), (Ok(3600), true));
    }

    #[tokio::test]
    async fn audiences_of_the_home_server_are_asked_for_once() {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            assert!(request.uri().path().ends_with("/serviceaccounts/a/token"));
            let answer: Value = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                "spec": {"audiences": ["https://home"], "expirationSeconds": 600},
                "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"},
            });
            Ok::<_, std::io::Error>(http::Response::new(Body::from(answer.to_string().into_bytes())))
        });
        let client = Client::new(service, "default");
        let home = HomeAudiences::default();
        let check = async |audience: &str| home.check(&client, ("team", "a"), &[audience.to_owned()]).await;
        assert_eq!(check("elsewhere").await, Ok(()));
        let error = check("https://home").await.unwrap_err().to_string();
        assert!(error.contains("the API server of this cluster"), "{error}");
    }
}
