//! One trace from the watch event to the write that it causes, received over OTLP.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use groundwork_tests::{System, SystemOptions, wait_for, workspace};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::echo_server::apply;
use crate::support::PATIENCE;

/// Receiver of the spans of all services.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let spans = resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts to listen, and returns the address.
    pub(crate) async fn start(&self) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = Server::builder().add_service(TraceServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Ok(format!("http://{address}"))
    }

    /// Returns all received spans as text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the names of the spans from each span with this name up to the root of its trace.
    fn ancestry(&self, of: &str) -> Vec<Vec<String>> {
        let spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = |span: &Span| {
            spans.iter().find(|other| other.span_id == span.parent_span_id && other.trace_id == span.trace_id)
        };
        let path = |span: &Span| {
            let line = std::iter::successors(Some(span), |span| parent(span));
            line.map(|span| span.name.clone()).collect()
        };
        spans.iter().filter(|span| span.name == of).map(path).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_spans_watch_bus_handler_call_and_write() -> Result<()> {
    let collector = Collector::default();
    let variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), collector.start().await?)];
    let repositories = Some(workspace().join("examples/echo-server/components/repositories.yaml"));
    let options = SystemOptions { repositories, variables, ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    apply(&system).await.map_err(|error| system.explained(error))?;
    let resolve = "groundwork.resolver.v1.Resolver/Resolve";
    for (span, ancestors) in [
        ("create executions", vec!["renderer handle", "watch event"]),
        // The resolver writes the condition, in a different process than the handler.
        ("patch installations/status", vec![resolve, "renderer handle", "watch event"]),
        ("update deployitems/status", vec!["deployer handle", "watch event"]),
    ] {
        let expected: Vec<String> = [span].into_iter().chain(ancestors).map(str::to_owned).collect();
        wait_for(&format!("a trace {expected:?}"), PATIENCE, async || {
            let found = collector.ancestry(span);
            if found.contains(&expected) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await?;
    }
    Ok(())
}
