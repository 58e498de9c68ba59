//! Client of an API server for services, commands and tests: kube's client with other sockets.
//!
//! kube leaves Nagle's algorithm on: a write waits for the acknowledgement of the write before,
//! which a server without data to send delays by 40 ms. So the first request of each new
//! connection, which follows the last bytes of the TLS handshake, is 40 ms late. Connections are
//! new after an idle time, and when several requests run at once.
//!
//! kube repeats a refused request for almost three minutes. Behind an API server there may be
//! aggregated servers, and the API server refuses for those that do not run, so a user would wait
//! without any message. A client of [`connect`] gives up after about a second, and its caller says
//! why.
//!
//! [`answer`] reads answers of other servers, and [`weight`] estimates their memory once they are
//! parsed. A client of [`connect`] limits every answer to 256 MiB and two minutes, except for
//! watches and logs that are followed.

pub mod answer;
mod bounds;
pub mod weight;

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::client::retry::RetryPolicy;
use kube::{Client, Config, Error};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use crate::bounds::BoundsLayer;

/// Number of repetitions: their delays double, which makes 1.3 s.
const REPETITIONS: u32 = 8;

/// Creates a client without Nagle's algorithm.
///
/// # Errors
///
/// Certificates, keys, credentials or addresses of the configuration cannot be used.
pub fn connect(config: Config) -> Result<Client, Error> {
    // kube opens, or refuses, connections through proxies itself.
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    if CryptoProvider::get_default().is_none() {
        // This fails only if another thread has just installed a provider, which serves as well.
        let _ = aws_lc_rs::default_provider().install_default();
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(sockets())?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(BoundsLayer::new(config.cluster_url.to_string()))
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(repetitions).flatten())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(HttpClient::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// Returns the repetitions of requests that are answered with 429, 503 or 504. The server's
/// `Retry-After` counts more than these delays.
fn repetitions() -> Option<RetryLayer<RetryPolicy>> {
    let (shortest, longest) = (Duration::from_millis(5), Duration::from_secs(1));
    // Only a longest delay below the shortest is refused.
    RetryPolicy::new(shortest, longest, REPETITIONS, true).ok().map(RetryLayer::new)
}

fn sockets() -> HttpConnector {
    let mut sockets = HttpConnector::new();
    sockets.enforce_http(false);
    sockets.set_nodelay(true);
    sockets
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn what_is_written_waits_for_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let socket = sockets().oneshot(address).await.unwrap();
        assert!(socket.inner().nodelay().unwrap());
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test has started the server")]
    async fn a_server_that_stays_away_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = tokio::spawn(async move {
            for answered in 0.. {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let size = socket.read(&mut request).await.unwrap();
                if request[..size].starts_with(b"GET /count") {
                    return answered;
                }
                let answer =
                    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            0
        });
        let client = connect(Config::new(url)).unwrap();
        let get = |path: &str| hyper::Request::get(path).body(Vec::new()).unwrap();
        client.request_text(get("/api")).await.unwrap_err();
        // The server ends without an answer.
        client.request_text(get("/count")).await.unwrap_err();
        assert_eq!(server.await.unwrap(), 1 + REPETITIONS);
    }

    /// kube's errors about proxies still reach the user.
    #[tokio::test]
    async fn proxies_are_not_passed_over() {
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.proxy_url = Some("http://127.0.0.1:2".parse().unwrap());
        let refused = connect(config).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("proxy"), "{refused}");
    }
}
