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

/// How long the last spans of a process may take to reach the collector.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// What a service needs from its surroundings. Clones share everything.
#[derive(Debug, Clone)]
pub struct Telemetry {
    pub metrics: Metrics,
    pub health: Health,
    pub shutdown: Shutdown,
    service: &'static str,
    provider: Option<Arc<SdkTracerProvider>>,
}

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("--log is no filter: {source}; write a level, or a list such as \"info,groundwork_bus=debug\"")]
    Filter { source: ParseError },
    /// The text is not shown: it may hold a password.
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
    /// Starts what a process has once: the crypto provider for TLS, the log on standard output, and the export of traces if
    /// `--otlp-endpoint` names a collector. To be called before anything that speaks TLS.
    ///
    /// `service` is the name of the process in logs and traces. The collector need not be there yet.
    ///
    /// # Errors
    ///
    /// An argument is wrong, or the process has been given a log before.
    pub fn start(service: &'static str, arguments: &TelemetryArguments) -> Result<Self, TelemetryError> {
        // Fails only if the process has a provider already, and then that one serves.
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

    /// For a process that does without: nothing is logged, exported or installed. For tests and one-shot commands.
    pub fn silent(service: &'static str) -> Self {
        Self {
            metrics: Metrics::default(),
            health: Health::default(),
            shutdown: Shutdown::default(),
            service,
            provider: None,
        }
    }

    /// The same for one of several services of a process: names of its conditions begin with its name.
    #[must_use]
    pub fn of_service(&self, service: &'static str) -> Self {
        Self { service, health: self.health.scoped(service), ..self.clone() }
    }

    /// The name of the service.
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// The span to run a service in: log lines from within name the service. It is no part of traces.
    pub fn span(&self) -> Span {
        // The name is that of `trace::SERVICE_SPAN`, the field that of `log::SERVICE_FIELD`; the macro wants them in full.
        tracing::info_span!(parent: None, "service", service = self.service)
    }

    /// Serves health and metrics; see [`AdminServer::start`]. To be called before the service connects to anything, so that
    /// everybody can see what it waits for.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn serve_admin(&self, address: SocketAddr) -> Result<AdminServer, TelemetryError> {
        AdminServer::start(address, self.health.clone(), self.metrics.clone()).await
    }

    /// Sends the spans that have ended to the collector, waiting for at most 5 seconds. Spans that end later are lost.
    pub async fn flush(&self) {
        let Some(provider) = self.provider.clone() else { return };
        // It blocks, and the connection to the collector needs the runtime meanwhile.
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
        // The exporter alone would trust nobody.
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
