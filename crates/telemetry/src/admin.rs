use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::task::JoinHandle;

use crate::ports::{Limits, Port, serve};
use crate::{Health, Metrics, TelemetryError};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
/// Limits of connections; few clients scrape metrics or probe health.
const CONNECTIONS: Limits = Limits { all: 128, address: 32 };

/// Server of `/healthz`, `/readyz` and `/metrics` over HTTP, which runs until it is dropped.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl AdminServer {
    /// Binds `address` (port 0: a free one) and starts to serve. The address is logged.
    ///
    /// - `/healthz`: 200 as long as the process can answer
    /// - `/readyz`: 200, or 503 with one line `name: reason` for each condition that is not met
    /// - `/metrics`: OpenMetrics 1.0
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn start(
        address: SocketAddr,
        health: Health,
        metrics: Metrics,
    ) -> Result<Self, TelemetryError> {
        let bound = Port::bind(address, CONNECTIONS).await;
        let port = bound.map_err(|source| TelemetryError::AdminAddress { address, source })?;
        let address = port.address();
        let router = Router::new()
            .route("/healthz", get(async || ([(CONTENT_TYPE, PLAIN)], "ok\n")))
            .route("/readyz", get(readyz).with_state(health))
            .route("/metrics", get(serve_metrics).with_state(metrics));
        let task = tokio::spawn(async move {
            if let Err(error) = serve(port, router).await {
                tracing::error!(%error, "the admin server failed");
            }
        });
        tracing::info!(%address, "serving /healthz, /readyz and /metrics");
        Ok(Self { address, task })
    }

    /// Returns the address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answer = (StatusCode, [(http::HeaderName, &'static str); 1], String);

async fn readyz(State(health): State<Health>) -> Answer {
    let problems = health.problems();
    let (status, text) = if problems.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, problems.join("\n") + "\n")
    };
    (status, [(CONTENT_TYPE, PLAIN)], text)
}

async fn serve_metrics(State(metrics): State<Metrics>) -> Answer {
    match metrics.encode() {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, OPEN_METRICS)], text),
        Err(_) => {
            let text = "a metric could not be written\n".to_owned();
            (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, PLAIN)], text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Returns head and body of the answer.
    async fn get(address: SocketAddr, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn endpoints() {
        let (health, metrics) = (Health::default(), Metrics::default());
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = AdminServer::start(free, health.clone(), metrics.clone()).await.unwrap();
        let address = server.address();
        assert_ne!(address.port(), 0);

        let (head, body) = get(address, "/readyz").await;
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        assert_eq!(body, "process: starting\n");
        let (head, body) = get(address, "/healthz").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(body, "ok\n");

        let (bus, api) = (health.condition("bus"), health.condition("api"));
        bus.not_ready("no connection to nats://localhost:4222");
        let (_, body) = get(address, "/readyz").await;
        assert_eq!(body, "bus: no connection to nats://localhost:4222\napi: starting\n");

        bus.ready();
        api.ready();
        let (head, body) = get(address, "/readyz").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(body, "ok\n");

        metrics.register("events", "Events", &[], Counter::<u64>::default()).inc();
        let (head, body) = get(address, "/metrics").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains(&format!("content-type: {OPEN_METRICS}")), "{head}");
        assert!(body.contains("\ngroundwork_events_total 1\n") && body.ends_with("# EOF\n"), "{body}");
    }

    #[tokio::test]
    async fn address_in_use_is_an_error_that_names_it() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = AdminServer::start(address, Health::default(), Metrics::default()).await.unwrap_err();
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
