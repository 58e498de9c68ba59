//! Tests traces over OTLP with a real exporter and a real gRPC server. A process has one log, so
//! the second exporter runs in another process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use groundwork_telemetry::{Telemetry, TelemetryArguments, trace};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};
use tracing::Instrument;

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts the server on a free port, and returns the port.
    async fn start(&self, mut server: Server) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = server.add_service(TraceServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        port
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    fn service_names(&self) -> Vec<String> {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let attributes = resources.flat_map(|resource| &resource.resource.as_ref().unwrap().attributes);
        attributes
            .filter(|attribute| attribute.key == "service.name")
            .map(|attribute| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
                Value::StringValue(name) => name.clone(),
                other => format!("{other:?}"),
            })
            .collect()
    }
}

fn span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

/// The watch event starts the trace, which crosses the bus as text and a call as metadata.
async fn journey() {
    let watch = tracing::info_span!("watch event");
    let event = watch.in_scope(|| trace::current_traceparent().unwrap());

    let handler = tracing::info_span!("handle", service = "renderer");
    trace::set_parent(&handler, &event);
    let metadata = async {
        tokio::task::yield_now().await;
        let call = tracing::info_span!("call").entered();
        let mut request = Request::new(());
        request.metadata_mut().insert("authorization", "Bearer canary".parse().unwrap());
        let request = trace::Propagate.call(request).unwrap();
        drop(call);
        request.metadata().clone()
    }
    .instrument(handler)
    .await;
    answer(metadata).await;
}

/// Answers the call, in a task of its own.
async fn answer(metadata: MetadataMap) {
    let headers = metadata.into_headers();
    let mut request =
        http::Request::builder().uri("/groundwork.resolver.v1.Resolver/Resolve").body(()).unwrap();
    *request.headers_mut() = headers;
    let span = trace::server_span("resolver")(&request);
    tokio::spawn(
        async {
            tracing::info_span!("write").in_scope(|| tracing::info!("written"));
        }
        .instrument(span),
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_from_event_to_write() {
    let collector = Collector::default();
    let otlp_endpoint = Some(format!("http://127.0.0.1:{}", collector.start(Server::builder()).await));
    let arguments = TelemetryArguments { otlp_endpoint, log: "warn".into(), ..Default::default() };
    let telemetry = Telemetry::start("groundwork", &arguments).unwrap();
    journey().instrument(telemetry.span()).await;
    tracing::info_span!("another event").in_scope(|| ());
    tracing::debug_span!("too small").in_scope(|| ());
    tokio::time::timeout(Duration::from_secs(30), telemetry.flush()).await.unwrap();

    let spans = collector.spans();
    let (watch, handle, call) = (span(&spans, "watch event"), span(&spans, "handle"), span(&spans, "call"));
    let server = span(&spans, "groundwork.resolver.v1.Resolver/Resolve");
    let write = span(&spans, "write");
    assert!(watch.parent_span_id.is_empty(), "the span of the service must not be the root of all traces");
    assert_eq!(handle.parent_span_id, watch.span_id);
    assert_eq!(call.parent_span_id, handle.span_id);
    assert_eq!(server.parent_span_id, call.span_id);
    assert_eq!(write.parent_span_id, server.span_id);
    for child in [handle, call, server, write] {
        assert_eq!(child.trace_id, watch.trace_id, "{}", child.name);
    }
    let other = span(&spans, "another event");
    assert_ne!(other.trace_id, watch.trace_id);
    assert!(other.parent_span_id.is_empty());
    assert_eq!(spans.len(), 6, "{spans:?}");
    assert!(!format!("{spans:?}").contains("canary"));
    assert!(collector.service_names().iter().all(|name| name == "groundwork"));

    let again = Telemetry::start("groundwork", &TelemetryArguments::default()).unwrap_err();
    assert!(again.to_string().contains("already has a log"), "{again}");
}

/// Lets another process export a span, waits for its end, and returns its output.
async fn export_to(endpoint: &str, authorities: &Path) -> String {
    let child = Command::new(env!("CARGO_BIN_EXE_telemetry-probe"))
        .args(["export", endpoint])
        .env("SSL_CERT_FILE", authorities)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(60), child).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let foreign = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (trusted, untrusted) = (folder.path().join("own.pem"), folder.path().join("foreign.pem"));
    std::fs::write(&trusted, own.cert.pem()).unwrap();
    std::fs::write(&untrusted, foreign.cert.pem()).unwrap();
    let identity = Identity::from_pem(own.cert.pem(), own.signing_key.serialize_pem());
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    let collector = Collector::default();
    let endpoint = format!("https://localhost:{}", collector.start(server).await);

    let output = export_to(&endpoint, &untrusted).await;
    assert!(collector.spans().is_empty());
    assert!(output.contains("invalid peer certificate"), "{output}");

    export_to(&endpoint, &trusted).await;
    span(&collector.spans(), "over TLS");
}
