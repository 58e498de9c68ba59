//! gRPC servers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use groundwork_telemetry::ports::Port;
use groundwork_telemetry::{Health, Telemetry, trace};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic::transport::{Identity, ServerTlsConfig};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::access::Access;
use crate::admission::{AdmissionLayer, Callers};
use crate::arguments::GrpcArguments;
use crate::incoming::incoming;
use crate::limits::{Ledger, Limits};

const KEEPALIVE: Duration = Duration::from_secs(30);
/// Time for running calls to end at shutdown; watches of health would never end by themselves.
const GRACE: Duration = Duration::from_secs(3);

/// Reason that a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot answer calls on {address}: {source}; choose another --grpc-address")]
    Address { address: SocketAddr, source: std::io::Error },
    #[error("cannot read {path} of --grpc-tls-cert or --grpc-tls-key: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("--grpc-tls-cert and --grpc-tls-key must be given together")]
    HalfTls,
    #[error("--grpc-tls-cert and --grpc-tls-key do not contain a certificate with its key: {source}")]
    Tls { source: tonic::transport::Error },
    #[error("cannot set up gRPC reflection: {source}")]
    Reflection { source: tonic_reflection::server::Error },
    #[error("the gRPC server failed: {source}")]
    Ended { source: tonic::transport::Error },
}

/// Server with an open port. Clients can connect already, and get answers once it
/// [serves](Server::serve).
pub struct Server {
    service: &'static str,
    port: Port,
    tls: Option<ServerTlsConfig>,
    health: Health,
    limits: Limits,
    may_be_anonymous: bool,
    callers: Option<Callers>,
    routes: RoutesBuilder,
    names: Vec<&'static str>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address())
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the port.
    ///
    /// # Errors
    ///
    /// The address is in use, or the files for TLS cannot be used.
    pub async fn bind(arguments: &GrpcArguments, telemetry: &Telemetry) -> Result<Self, ServerError> {
        let tls = tls(arguments)?;
        let address = arguments.grpc_address;
        let limits = Limits::default();
        let bound = Port::bind(address, limits.connections).await;
        let port = bound.map_err(|source| ServerError::Address { address, source })?;
        Ok(Self {
            service: telemetry.service(),
            port,
            tls,
            health: telemetry.health.clone(),
            limits,
            may_be_anonymous: arguments.anonymous_inline_calls,
            callers: None,
            routes: RoutesBuilder::default(),
            names: Vec::new(),
        })
    }

    /// Returns the address of the port, including a chosen port number.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the URL for clients on this machine.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    /// Requires a token from every caller, except for health and reflection. With
    /// `--anonymous-inline-calls`, calls without a token reach the services, which refuse those
    /// that name an object. The services check the permissions on the objects that a call names.
    #[must_use]
    pub fn for_callers_of(mut self, access: Access) -> Self {
        self.callers = Some(Callers { access, may_be_anonymous: self.may_be_anonymous });
        self
    }

    /// Sets other limits than the default.
    #[must_use]
    pub fn within(mut self, limits: Limits) -> Self {
        self.port = self.port.within(limits.connections);
        self.limits = limits;
        self
    }

    /// Adds a generated service, which needs [`crate::with_limits!`].
    #[must_use]
    pub fn with<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.routes.add_service(service);
        self.names.push(S::NAME);
        self
    }

    /// Serves until `end` is cancelled; running calls then have 3 seconds.
    ///
    /// # Errors
    ///
    /// The contracts cannot be read, or the port failed.
    pub async fn serve(mut self, end: CancellationToken) -> Result<(), ServerError> {
        let (reporter, health) = tonic_health::server::health_reporter();
        self.routes.add_service(health);
        let mut reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(groundwork_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Clients that show the details of errors need their descriptors, too.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .with_service_name("grpc.health.v1.Health");
        for name in &self.names {
            reflection = reflection.with_service_name(*name);
        }
        let reflection = reflection.build_v1().map_err(|source| ServerError::Reflection { source })?;
        self.routes.add_service(reflection);

        let ledger = Ledger::new(self.limits);
        let mut server = tonic::transport::Server::builder()
            .trace_fn(trace::server_span(self.service))
            .max_concurrent_streams(ledger.limits().streams)
            .timeout(ledger.limits().call_time)
            .http2_keepalive_interval(Some(KEEPALIVE));
        let is_encrypted = self.tls.is_some();
        if let Some(tls) = self.tls {
            let tls = tls.timeout(ledger.limits().request_time);
            server = server.tls_config(tls).map_err(|source| ServerError::Tls { source })?;
        }
        tracing::info!(address = %self.port.address(), is_encrypted, "serving gRPC calls");
        let serving = server
            .layer(AdmissionLayer { ledger, callers: self.callers })
            .add_routes(self.routes.routes())
            .serve_with_incoming_shutdown(incoming(self.port), end.clone().cancelled_owned());
        tokio::select! {
            ended = serving => ended.map_err(|source| ServerError::Ended { source }),
            () = report(&reporter, &self.names, &self.health) => Ok(()),
            // The graceful shutdown would wait for watches of health, which never end by
            // themselves.
            () = async { end.cancelled().await; tokio::time::sleep(GRACE).await } => Ok(()),
        }
    }
}

/// Sets the health of the services to the readiness of the process. Never ends.
async fn report(reporter: &HealthReporter, names: &[&'static str], health: &Health) {
    let mut is_ready = health.is_ready();
    loop {
        let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        // The empty name stands for the whole server.
        for name in names.iter().copied().chain([""]) {
            reporter.set_service_status(name, status).await;
        }
        is_ready = !is_ready;
        health.until(is_ready).await;
    }
}

fn tls(arguments: &GrpcArguments) -> Result<Option<ServerTlsConfig>, ServerError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|source| ServerError::Unreadable { path: path.clone(), source })
    };
    match (&arguments.grpc_tls_cert, &arguments.grpc_tls_key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let identity = Identity::from_pem(read(certificate)?, read(key)?);
            Ok(Some(ServerTlsConfig::new().identity(identity)))
        }
        _ => Err(ServerError::HalfTls),
    }
}
