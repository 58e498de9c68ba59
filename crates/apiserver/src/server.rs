//! Port of the server: TLS with the client certificate of the front proxy, and the routes behind
//! it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use groundwork_grpc::Access;
use groundwork_telemetry::Condition;
use groundwork_telemetry::ports::{Guest, Limits, Port, Visit};
use kube::Client;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::certificate::{Certificate, CertificateError, CertificateFiles};
use crate::front_proxy::FrontProxy;
use crate::handling::{self, Handling};
use crate::registration::Registration;
use crate::storage::Storage;

/// Connections at a time, in total and from one address. All requests come from a few API servers.
const CONNECTIONS: Limits = Limits { all: 512, address: 512 };
/// Handshakes that may be under way at the same time.
const HANDSHAKES: usize = 64;
/// Interval between looks at the registration, the front proxy and the files with the certificate.
const REFRESH: Duration = Duration::from_secs(20);

/// Pause before the next attempt after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Reason why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    #[error("cannot listen on {address}: {source}")]
    Address { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the port of the aggregated API failed: {0}")]
    Ended(io::Error),
}

/// Server with an open port.
pub struct ApiServer {
    port: Port,
    certificate: Arc<Certificate>,
    storage: Arc<dyn Storage>,
    access: Access,
    client: Client,
    registration: Registration,
    ready: Condition,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// State that is read again while the server runs.
struct Trust {
    proxy: FrontProxy,
    tls: Arc<ServerConfig>,
}

/// Client of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    guest: Guest,
    /// The front proxy, if the client has shown its certificate.
    pub(crate) proxy: Option<Arc<FrontProxy>>,
}

impl Peer {
    pub(crate) fn has_asked(&self) {
        self.guest.has_asked();
    }
}

impl ApiServer {
    /// Binds the port (0: a free one, which `registration` then gets).
    ///
    /// # Errors
    ///
    /// The port is in use, or the certificate cannot be used.
    pub async fn bind(
        address: SocketAddr,
        files: Option<CertificateFiles>,
        mut registration: Registration,
        storage: Arc<dyn Storage>,
        access: Access,
        client: Client,
        ready: Condition,
    ) -> Result<Self, ApiServerError> {
        let certificate = Arc::new(Certificate::new(files, &registration.host())?);
        let port = Port::bind(address, CONNECTIONS).await;
        let port = port.map_err(|source| ApiServerError::Address { address, source })?;
        if registration.port == 0 {
            registration.port = port.address().port();
        }
        Ok(Self { port, certificate, storage, access, client, registration, ready })
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Registers the server, and answers requests until `end` is cancelled.
    ///
    /// # Errors
    ///
    /// The port is lost.
    pub async fn serve(self, end: CancellationToken) -> Result<(), ApiServerError> {
        let Self { port, certificate, storage, access, client, registration, ready } = self;
        let trust = Arc::new(RwLock::new(None));
        let handling = Handling::new(storage, access, end.clone());
        let router: Router = handling::router(handling);
        let address = port.address();
        let listener = Door { address, visits: accept(port, Arc::clone(&trust), end.clone()) };
        let serving = axum::serve(listener, router.into_make_service_with_connect_info::<Connection>());
        let keeping = keep(&client, &certificate, &registration, &trust, &ready);
        tracing::info!(%address, "serving an aggregated API to the API server of the cluster");
        let ended = tokio::select! {
            served = serving => served.map_err(ApiServerError::Ended),
            () = keeping => Ok(()),
            () = end.cancelled() => Ok(()),
        };
        registration.withdraw(&client).await;
        ended
    }
}

type Trusted = Arc<RwLock<Option<Trust>>>;

/// Keeps registration, front proxy and certificate up to date. Never ends.
async fn keep(
    client: &Client,
    certificate: &Arc<Certificate>,
    registration: &Registration,
    trust: &Trusted,
    ready: &Condition,
) {
    loop {
        certificate.renew();
        let kept = async {
            let proxy = FrontProxy::read(client).await?;
            let is_same = |known: &Option<Trust>| known.as_ref().is_some_and(|known| known.proxy == proxy);
            if !is_same(&trust.read().unwrap_or_else(PoisonError::into_inner)) {
                let tls = tls(&proxy, certificate)?;
                *trust.write().unwrap_or_else(PoisonError::into_inner) = Some(Trust { proxy, tls });
            }
            registration.ensure(client, certificate.own()).await.map_err(|error| error.to_string())
        };
        match kept.await {
            Ok(()) => ready.ready(),
            Err(problem) => {
                ready.not_ready(problem);
                // The API server needs some seconds to notice a new server.
                tokio::time::sleep(RETRY).await;
                continue;
            }
        }
        tokio::time::sleep(REFRESH).await;
    }
}

fn tls(proxy: &FrontProxy, certificate: &Arc<Certificate>) -> Result<Arc<ServerConfig>, String> {
    let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(certificate) as _;
    let mut config =
        ServerConfig::builder().with_client_cert_verifier(proxy.verifier()?).with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Accepts connections. Each handshake is a task of its own, so that a slow client delays nobody.
fn accept(port: Port, trust: Trusted, end: CancellationToken) -> mpsc::Receiver<(TlsStream<Visit>, Peer)> {
    let (sender, visits) = mpsc::channel(HANDSHAKES);
    let accepting = async move {
        loop {
            let visit = port.accept().await;
            let trusted = {
                let trust = trust.read().unwrap_or_else(PoisonError::into_inner);
                trust.as_ref().map(|trust| (Arc::clone(&trust.tls), trust.proxy.clone()))
            };
            // Before the front proxy is known, nobody could be told from it.
            let Some((tls, proxy)) = trusted else { continue };
            let sender = sender.clone();
            tokio::spawn(async move {
                let guest = visit.guest().clone();
                match TlsAcceptor::from(tls).accept(visit).await {
                    Ok(stream) => {
                        let shown = stream.get_ref().1.peer_certificates().and_then(|shown| shown.first());
                        let is_proxy = shown.is_some_and(|shown| proxy.is_proxy(shown));
                        let peer = Peer { guest, proxy: is_proxy.then(|| Arc::new(proxy)) };
                        // Fails if the server has ended, which closes the connection.
                        let _ = sender.send((stream, peer)).await;
                    }
                    Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
                }
            });
        }
    };
    tokio::spawn(async move { end.run_until_cancelled(accepting).await });
    visits
}

/// Connections after their handshakes, in the form that axum listens on.
struct Door {
    address: SocketAddr,
    visits: mpsc::Receiver<(TlsStream<Visit>, Peer)>,
}

impl Listener for Door {
    type Io = TlsStream<Visit>;
    type Addr = Peer;

    async fn accept(&mut self) -> (TlsStream<Visit>, Peer) {
        match self.visits.recv().await {
            Some(visit) => visit,
            // The server is ending.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Err(io::Error::other(format!("{} serves several addresses", self.address)))
    }
}

/// Client of a request, as handlers see it.
#[derive(Debug, Clone)]
pub(crate) struct Connection(pub(crate) Peer);

impl Connected<IncomingStream<'_, Door>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(stream.remote_addr().clone())
    }
}
