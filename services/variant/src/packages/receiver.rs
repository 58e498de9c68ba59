//! Receiver of webhooks: a git host reports a push, and the store reads the repository at once
//! (`packagevariants.md` 6.10). A report has no other effect, so its content is only checked.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::post;
use data_encoding::HEXLOWER_PERMISSIVE;
use futures::StreamExt as _;
use groundwork_api::Repository;
use groundwork_bus::{Kind, ObjectId};
use groundwork_telemetry::ports::{Limits, Port, serve};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// Connections at a time, in total and from one address.
pub(crate) const CONNECTIONS: Limits = Limits { all: 256, address: 64 };
/// Limit for a report in bytes: GitHub sends up to 25 MiB.
const MAX_REPORT: usize = 25 << 20;
/// Time limit for a report.
const TIME: Duration = Duration::from_secs(30);
/// Headers with a signature: the HMAC-SHA-256 of the body in hexadecimal, with or without the name
/// of the algorithm. GitHub, Gitea, Forgejo, Bitbucket.
const SIGNATURES: [&str; 4] =
    ["x-hub-signature-256", "x-gitea-signature", "x-forgejo-signature", "x-hub-signature"];
/// Header of GitLab, which sends the secret itself.
const TOKEN: &str = "x-gitlab-token";

/// Serves reports until `end` is cancelled.
pub(crate) async fn receive_reports(port: Port, shared: Arc<Shared>, end: CancellationToken) {
    let router = Router::new().route("/hooks/{namespace}/{repository}", post(receive)).with_state(shared);
    if let Some(Err(error)) = end.run_until_cancelled(serve(port, router)).await {
        tracing::error!(%error, "the server of webhooks failed; repositories are read by their schedules");
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> (StatusCode, &'static str) {
    let key = ObjectId::new(Kind::of::<Repository>(), Some(&namespace), &name);
    let hook = shared.store.as_ref().and_then(|store| store.hook(&key));
    // One answer for all of these, so that nobody learns which Repositories exist.
    let refused = (
        StatusCode::UNAUTHORIZED,
        "the report is not accepted: the Repository is not known here, its Secret has no webhookSecret, or the signature is \
         wrong\n",
    );
    let Some((secret, waker)) = hook else { return refused };
    let checked = tokio::time::timeout(TIME, is_authentic(&secret, &headers, body)).await;
    match checked {
        Ok(Ok(true)) => {
            waker.wake().await;
            (StatusCode::ACCEPTED, "the repository is read now\n")
        }
        Ok(Ok(false)) => refused,
        Ok(Err(TooLargeError)) => (StatusCode::PAYLOAD_TOO_LARGE, "the report is longer than 25 MiB\n"),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the report did not arrive within 30 seconds\n"),
    }
}

/// The report exceeds the limit.
#[derive(Debug)]
struct TooLargeError;

/// Checks the signature of a report, or the token. An incomplete report has a wrong signature.
async fn is_authentic(secret: &SecretString, headers: &HeaderMap, body: Body) -> Result<bool, TooLargeError> {
    let Some(mut mac) = mac(secret) else { return Ok(false) };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(token) = header(TOKEN) {
        // Two codes are compared instead of the texts, because that takes the same time for all.
        let (mut own, mut given) = (mac.clone(), mac);
        own.update(secret.expose_secret().as_bytes());
        given.update(token.as_bytes());
        return Ok(given.verify_slice(&own.finalize().into_bytes()).is_ok());
    }
    let mut signatures = SIGNATURES.iter().filter_map(|name| header(name));
    let Some(signature) = signatures.next() else { return Ok(false) };
    let signature = signature.strip_prefix("sha256=").unwrap_or(signature);
    let Ok(signature) = HEXLOWER_PERMISSIVE.decode(signature.as_bytes()) else { return Ok(false) };
    let mut length = 0;
    let mut parts = body.into_data_stream();
    while let Some(Ok(part)) = parts.next().await {
        length += part.len();
        if length > MAX_REPORT {
            return Err(TooLargeError);
        }
        mac.update(&part);
    }
    Ok(mac.verify_slice(&signature).is_ok())
}

/// Returns the code for a secret; `None` without a secret, which would accept everybody.
fn mac(secret: &SecretString) -> Option<Hmac<Sha256>> {
    let secret = Some(secret.expose_secret()).filter(|secret| !secret.is_empty())?;
    Hmac::new_from_slice(secret.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn checked(secret: &str, header: (&'static str, &str), body: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header.0, header.1.parse().unwrap());
        is_authentic(&secret.to_owned().into(), &headers, Body::from(body)).await.unwrap()
    }

    /// The first signature is the example of GitHub's documentation.
    #[tokio::test]
    async fn signatures() {
        let secret = "It's a Secret to Everybody";
        let code = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let signed = format!("sha256={code}");
        for (header, body, expected) in [
            (("x-hub-signature-256", signed.as_str()), "Hello, World!", true),
            (("x-gitea-signature", code), "Hello, World!", true),
            (("x-hub-signature-256", signed.as_str()), "Hello, World", false),
            (("x-hub-signature-256", "sha256=zz"), "Hello, World!", false),
            (("x-hub-signature-256", "sha256="), "Hello, World!", false),
            (("x-gitlab-token", secret), "anything", true),
            (("x-gitlab-token", "It's"), "anything", false),
            (("x-other", code), "Hello, World!", false),
        ] {
            assert_eq!(checked(secret, header, body).await, expected, "{header:?} {body}");
        }
        assert!(!checked("", ("x-gitlab-token", ""), "").await);
    }

    #[tokio::test]
    async fn long_reports() {
        let mut headers = HeaderMap::new();
        headers.insert("x-gitea-signature", "00".parse().unwrap());
        let body = Body::from(vec![b'x'; MAX_REPORT + 1]);
        assert!(is_authentic(&"secret".to_owned().into(), &headers, body).await.is_err());
    }
}
