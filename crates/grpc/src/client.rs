//! gRPC clients.

use std::path::{Path, PathBuf};
use std::time::Duration;

use groundwork_telemetry::trace;
use secrecy::ExposeSecret;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use crate::token::TokenSource;

/// Channel for generated clients: `ResolverClient::new(channel)`.
pub type Channel = InterceptedService<tonic::transport::Channel, Identity>;

const CONNECT: Duration = Duration::from_secs(5);
/// Interval at which an idle connection is checked, so that a dead one is found before the next
/// call needs it.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(10);
/// Pauses before the second and further attempts of a call.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Reason that a channel cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The message does not show the URL, which may have a password.
    #[error("the address of the server must be a URL such as http://resolver:8080, with http or https")]
    Url,
    #[error("cannot read the certificates to trust in {path}: {source}")]
    Ca { path: PathBuf, source: std::io::Error },
    #[error("TLS cannot be used: {source}")]
    Tls { source: tonic::transport::Error },
}

/// Creates a channel to a server. The channel connects with the first call, and again after a lost
/// connection.
///
/// For an `https` URL, the channel trusts the certificates in the PEM file `ca`, or without it
/// those of the system.
///
/// # Errors
///
/// The URL or the file cannot be used. A server that is down is an error of each call instead.
pub fn connect(url: &str, ca: Option<&Path>, token: TokenSource) -> Result<Channel, ClientError> {
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| ClientError::Url)?;
    let mut endpoint = endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_ANSWER);
    match endpoint.uri().scheme_str() {
        Some("http") => {}
        Some("https") => {
            let tls = match ca {
                Some(path) => {
                    let pem = std::fs::read(path)
                        .map_err(|source| ClientError::Ca { path: path.to_owned(), source })?;
                    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
                }
                None => ClientTlsConfig::new().with_enabled_roots(),
            };
            endpoint = endpoint.tls_config(tls).map_err(|source| ClientError::Tls { source })?;
        }
        _ => return Err(ClientError::Url),
    }
    Ok(InterceptedService::new(endpoint.connect_lazy(), Identity { token }))
}

/// Adds the token and the trace of the caller to every call.
#[derive(Debug, Clone)]
pub struct Identity {
    token: TokenSource,
}

impl Interceptor for Identity {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        trace::inject(request.metadata_mut());
        let token = self.token.token().map_err(|error| Status::unavailable(error.to_string()))?;
        if let Some(token) = token {
            let text = format!("Bearer {}", token.expose_secret());
            let mut value = MetadataValue::<Ascii>::try_from(text).map_err(|_| {
                Status::unauthenticated(
                    "the token of this client contains characters that are not allowed in a token",
                )
            })?;
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// Makes a call, and repeats it after a pause while the answer is `UNAVAILABLE`: five attempts in
/// under two seconds. Only for calls that are safe to repeat.
///
/// # Errors
///
/// Error of the last attempt.
pub async fn retry<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    for pause in PAUSES {
        match call().await {
            Err(status) if status.code() == Code::Unavailable => {
                tracing::debug!(why = status.message(), "the call failed; trying again");
                tokio::time::sleep(pause).await;
            }
            answer => return answer,
        }
    }
    call().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_carry_the_token() {
        let mut identity = Identity { token: TokenSource::fixed("t0ken") };
        let request = identity.call(Request::new(())).unwrap();
        let value = request.metadata().get("authorization").unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer t0ken");
        assert!(!format!("{request:?}").contains("t0ken"));

        let mut nobody = Identity { token: TokenSource::none() };
        assert!(nobody.call(Request::new(())).unwrap().metadata().get("authorization").is_none());

        let mut broken = Identity { token: TokenSource::fixed("t\n") };
        assert_eq!(broken.call(Request::new(())).unwrap_err().code(), Code::Unauthenticated);
    }

    #[tokio::test]
    async fn wrong_urls_are_not_quoted() {
        for url in ["", "resolver:8080", "ftp://user:hidden@host", "http://"] {
            let error = connect(url, None, TokenSource::none()).unwrap_err();
            assert!(matches!(error, ClientError::Url), "{url}: {error}");
        }
    }

    #[tokio::test]
    async fn only_what_may_pass_is_tried_again() {
        let attempts = async |code: Code, until: usize| {
            let mut made = 0;
            let answer = retry(async || {
                made += 1;
                if made < until { Err(Status::new(code, "")) } else { Ok(made) }
            });
            let answer = answer.await.map_err(|status| status.code());
            (made, answer)
        };
        assert_eq!(attempts(Code::Unavailable, 3).await, (3, Ok(3)));
        assert_eq!(attempts(Code::NotFound, 3).await, (1, Err(Code::NotFound)));
        assert_eq!(attempts(Code::Unavailable, 9).await, (5, Err(Code::Unavailable)));
    }
}
