use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::transport::ClientTlsConfig;
use tracing::Span;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;

use crate::{AdminServer, Health, Metrics, Shutdown, TelemetryArguments, log, trace};

/// Time for the last spans of a process to reach the collector.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Handles that a service needs. Clones share everything.
#[derive(Debug, Clone)]
pub struct Telemetry {
    pub metrics: Metrics,
    pub health: Health,
    pub shutdown: Shutdown,
    service: &'static str,
    provider: Option<Arc<SdkTracerProvider>>,
}

/// Reason that telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error(
        "--log is not a valid filter: {source}; write a level, or a list such as \"info,groundwork_bus=debug\""
    )]
    Filter { source: ParseError },
    /// The message does not show the URL, which may have a password.
    #[error(
        "--otlp-endpoint must be a URL such as http://localhost:4317, with http or https and without a user"
    )]
    Endpoint,
    #[error("cannot export traces to --otlp-endpoint: {source}")]
    Exporter { source: ExporterBuildError },
    #[error("traces can be exported only from within a Tokio runtime")]
    NoRuntime,
    #[error("this process already has a log; telemetry is started once and shared by its services")]
    AlreadyStarted,
    #[error("cannot serve health and metrics on {address}: {source}; choose another --admin-address")]
    AdminAddress { address: SocketAddr, source: io::Error },
}

impl Telemetry {
    /// Starts the parts that a process has once: the crypto provider for TLS, the log on standard
    /// output, and the export of traces if `--otlp-endpoint` names a collector. Call this before
    /// any use of TLS.
    ///
    /// `service` is the name of the process in logs and traces. The collector may start later.
    ///
    /// # Errors
    ///
    /// An argument is not valid, or the process has a log already.
    pub fn start(service: &'static str, arguments: &TelemetryArguments) -> Result<Self, TelemetryError> {
        // This fails only if the process already has a provider, which serves as well.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let log = log::layer(service, arguments.log_format, &arguments.log, io::stdout)?;
        let provider = arguments.collector().map(|endpoint| provider(service, endpoint)).transpose()?;
        let subscriber = tracing_subscriber::registry().with(trace::layer(provider.as_ref())).with(log);
        tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::AlreadyStarted)?;
        Ok(Self {
            metrics: Metrics::default(),
            health: Health::default(),
            shutdown: Shutdown::default(),
            service,
            provider: provider.map(Arc::new),
        })
    }

    /// Creates telemetry without log, export and crypto provider, for tests and one-shot commands.
    pub fn silent(service: &'static str) -> Self {
        Self {
            metrics: Metrics::default(),
            health: Health::default(),
            shutdown: Shutdown::default(),
            service,
            provider: None,
        }
    }

    /// Returns the telemetry for one of several services of a process. Names of its conditions
    /// begin with its name.
    #[must_use]
    pub fn of_service(&self, service: &'static str) -> Self {
        Self { service, health: self.health.scoped(service), ..self.clone() }
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// Returns the span to run a service in, which names the service in log lines. It is not part
    /// of any trace.
    pub fn span(&self) -> Span {
        // The macro needs literals: the name is that of `trace::SERVICE_SPAN`, the field that of
        // `log::SERVICE_FIELD`.
        tracing::info_span!(parent: None, "service", service = self.service)
    }

    /// Serves health and metrics, see [`AdminServer::start`]. Call this before the service connects
    /// to other servers, so that an operator can see which server it waits for.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn serve_admin(&self, address: SocketAddr) -> Result<AdminServer, TelemetryError> {
        AdminServer::start(address, self.health.clone(), self.metrics.clone()).await
    }

    /// Sends the finished spans to the collector, in at most 5 seconds. Spans that end later are
    /// lost.
    pub async fn flush(&self) {
        let Some(provider) = self.provider.clone() else { return };
        // The call blocks, and the connection to the collector needs the runtime in the meantime.
        let flushed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_LIMIT)).await;
        if let Ok(Err(error)) = flushed {
            tracing::warn!(%error, "the last traces did not reach the collector");
        }
    }
}

fn provider(service: &'static str, endpoint: &str) -> Result<SdkTracerProvider, TelemetryError> {
    let uri: http::Uri = endpoint.parse().map_err(|_| TelemetryError::Endpoint)?;
    let known_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    if !known_scheme || uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(TelemetryError::Endpoint);
    }
    tokio::runtime::Handle::try_current().map_err(|_| TelemetryError::NoRuntime)?;
    let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
    if uri.scheme_str() == Some("https") {
        // Without this the exporter trusts no certificate at all.
        exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
    }
    let exporter = exporter.build().map_err(|source| TelemetryError::Exporter { source })?;
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_endpoints_are_not_quoted() {
        for endpoint in ["localhost:4317", "ftp://h", "http://me:canary@h:1", "http://ca nary"] {
            let error = provider("test", endpoint).unwrap_err();
            assert!(matches!(error, TelemetryError::Endpoint), "{endpoint}: {error}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
        assert!(matches!(provider("test", "http://h:4317"), Err(TelemetryError::NoRuntime)));
    }

    #[test]
    fn service_span_is_where_the_layers_look_for_it() {
        tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            let span = Telemetry::silent("resolver").span();
            let metadata = span.metadata().unwrap();
            assert_eq!(metadata.name(), trace::SERVICE_SPAN);
            assert!(metadata.fields().field(log::SERVICE_FIELD).is_some());
        });
    }
}
