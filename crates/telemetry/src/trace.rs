//! Traces across processes: sends the context of a span as a W3C `traceparent`, and continues the
//! trace of a received one.
//!
//! Without a collector no spans are recorded, and a received context is passed on unchanged, so a
//! process without a collector leaves no gap in the trace.
//!
//! A span without a context and outside of another span is the root of a new trace.

use std::collections::HashMap;

use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// Header of W3C Trace Context, the same in gRPC metadata, NATS headers and CloudEvents.
pub const TRACEPARENT: &str = "traceparent";

/// Name of the span that lasts as long as a service. The span names the service in logs, and is not
/// part of any trace.
pub(crate) const SERVICE_SPAN: &str = "service";

/// Libraries that the exporter uses. Exporting their spans would create new spans without end.
const OWN_NOISE: [&str; 6] = ["h2", "hyper", "hyper_util", "opentelemetry", "tonic", "tower"];

/// Returns the `traceparent` of the current span; `None` outside of a trace.
pub fn current_traceparent() -> Option<String> {
    traceparent(&Span::current())
}

/// Returns the `traceparent` of a span, for the work that it causes in other processes; `None` if
/// the span is not in a trace.
///
/// This starts the span, so that its parent can no longer be set.
pub fn traceparent(span: &Span) -> Option<String> {
    let mut headers = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut headers);
    headers.remove(TRACEPARENT)
}

/// Makes `span` a child of the remote span that `traceparent` names.
///
/// Call this before the span is entered for the first time. A text that is not a `traceparent` is
/// ignored, as the specification of Trace Context requires.
pub fn set_parent(span: &Span, traceparent: &str) {
    let headers = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    if context.span().span_context().is_valid()
        && let Err(error) = span.set_parent(context)
    {
        tracing::debug!(%error, "a span does not continue the trace that caused it");
    }
}

/// Writes the context of the current span into the metadata of a call.
pub fn inject(metadata: &mut MetadataMap) {
    if let Some(value) = current_traceparent().and_then(|text| MetadataValue::try_from(text).ok()) {
        metadata.insert(TRACEPARENT, value);
    }
}

/// Returns the `traceparent` in the metadata of a call, for [`set_parent`].
pub fn extract(metadata: &MetadataMap) -> Option<String> {
    metadata.get(TRACEPARENT)?.to_str().ok().map(str::to_owned)
}

/// Interceptor for clients that adds the context of the calling span to every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Propagate;

impl Interceptor for Propagate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        inject(request.metadata_mut());
        Ok(request)
    }
}

/// Returns a function that creates the span of a call on a server, for
/// `Server::builder().trace_fn(trace::server_span("resolver"))`.
///
/// The span has service and method, and continues the trace of the caller. Other headers are not
/// read.
pub fn server_span(
    service: &'static str,
) -> impl Fn(&http::Request<()>) -> Span + Clone + Send + Sync + 'static {
    move |request| {
        let path = request.uri().path();
        let (rpc_service, method) = path.trim_start_matches('/').split_once('/').unwrap_or(("", path));
        let span = tracing::info_span!(
            parent: None,
            "grpc",
            otel.name = format!("{rpc_service}/{method}"),
            otel.kind = "server",
            service,
            rpc.system = "grpc",
            rpc.service = rpc_service,
            rpc.method = method,
        );
        if let Some(parent) = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok()) {
            set_parent(&span, parent);
        }
        span
    }
}

/// Returns the layer that follows traces, and records them if a collector is set.
pub(crate) fn layer<S>(provider: Option<&SdkTracerProvider>) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    match provider {
        Some(provider) => tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("groundwork"))
            .with_location(false)
            .with_threads(false)
            .with_filter(filter_fn(belongs_to_traces))
            .boxed(),
        // The no-op tracer still passes on the context of the parent.
        None => tracing_opentelemetry::layer()
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && belongs_to_traces(metadata)))
            .boxed(),
    }
}

fn belongs_to_traces(metadata: &Metadata<'_>) -> bool {
    let origin = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::INFO
        && metadata.name() != SERVICE_SPAN
        // The exporter's own targets begin with `opentelemetry_` or `opentelemetry-`.
        && !OWN_NOISE.contains(&origin)
        && !origin.starts_with("opentelemetry")
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Runs `act` with the layers of a process that exports no traces.
    fn without_collector(act: impl FnOnce()) {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(None)), act);
    }

    #[test]
    fn context_passes_unchanged_without_collector() {
        without_collector(|| {
            let outer = tracing::info_span!("outer");
            set_parent(&outer, PARENT);
            let _outer = outer.enter();
            let _inner = tracing::info_span!("inner").entered();
            assert_eq!(current_traceparent().as_deref(), Some(PARENT));

            let mut metadata = MetadataMap::new();
            inject(&mut metadata);
            assert_eq!(extract(&metadata).as_deref(), Some(PARENT));
        });
    }

    #[test]
    fn nothing_comes_from_nothing() {
        without_collector(|| {
            let _span = tracing::info_span!("alone").entered();
            assert_eq!(current_traceparent(), None);
            let mut metadata = MetadataMap::new();
            inject(&mut metadata);
            assert!(metadata.is_empty());
        });
        // The process has no layer at all.
        assert_eq!(current_traceparent(), None);
    }

    #[test]
    fn broken_parents_are_ignored() {
        for text in
            ["", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", &PARENT[..52], "00-é"]
        {
            without_collector(|| {
                let span = tracing::info_span!("span");
                set_parent(&span, text);
                assert_eq!(traceparent(&span), None, "{text:?}");
            });
        }
    }

    #[test]
    fn server_span_continues_the_trace_of_the_call() {
        without_collector(|| {
            let request = http::Request::builder()
                .uri("http://h/groundwork.resolver.v1.Resolver/Resolve")
                .header(TRACEPARENT, PARENT)
                .body(())
                .unwrap();
            let span = server_span("resolver")(&request);
            assert_eq!(traceparent(&span).as_deref(), Some(PARENT));
        });
    }
}
