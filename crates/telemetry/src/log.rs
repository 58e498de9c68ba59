//! Log lines on standard output.

use std::fmt;
use std::io::IsTerminal;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields, MakeWriter};
use tracing_subscriber::layer::{Filter, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::{LogFormat, TelemetryError};

/// Field of spans that names the service. The innermost one wins. Lines outside of such spans name
/// the service of the process.
pub(crate) const SERVICE_FIELD: &str = "service";

/// Returns the layer that writes the events that pass `filter`.
pub(crate) fn layer<S, W>(
    service: &'static str,
    format: LogFormat,
    filter: &str,
    writer: W,
) -> Result<Box<dyn Layer<S> + Send + Sync>, TelemetryError>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = events_of(filter)?;
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match format {
        LogFormat::Human => {
            let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            layer.with_ansi(colours).with_filter(filter).boxed()
        }
        LogFormat::Json => {
            let layer = layer.with_ansi(false).fmt_fields(JsonFields::new());
            layer.event_format(JsonLines { service }).with_filter(filter).boxed()
        }
    })
}

/// Filter for libraries whose errors our code logs itself, once and in our words. Without it, each
/// attempt to reach a server that is down would add an ERROR line of each library. A user's filter
/// that names these libraries wins.
const QUIET: &str = "async_nats=off,kube_client::client=off,kube_client::client::tls=warn";

/// Returns the filter for events as the user gives it, and for spans down to `info` in any case: a
/// warning needs the span that names its service, even if the user wants only warnings.
fn events_of<S>(filter: &str) -> Result<impl Filter<S> + Send + Sync + use<S>, TelemetryError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // Parse the user's filter alone first, so that an error quotes only the user's text.
    EnvFilter::builder().parse(filter).map_err(|source| TelemetryError::Filter { source })?;
    // The later of two directives for the same target wins, so the user's filter comes last.
    let events = EnvFilter::builder()
        .parse(format!("{QUIET},{filter}"))
        .map_err(|source| TelemetryError::Filter { source })?;
    Ok(FilterExt::<S>::or(
        events,
        filter_fn(|metadata| metadata.is_span() && *metadata.level() <= Level::INFO),
    ))
}

/// Writes one JSON object per line.
struct JsonLines {
    service: &'static str,
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'static str,
    service: &'a str,
    target: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
    /// Spans, the outermost first.
    #[serde(skip_serializing_if = "<[Span]>::is_empty")]
    spans: &'a [Span],
}

#[derive(Serialize)]
struct Span {
    name: &'static str,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let spans = context.event_scope().map(spans).unwrap_or_default();
        let named = spans.iter().rev().find_map(|span| span.fields.get(SERVICE_FIELD)?.as_str());
        let (trace_id, span_id) = identity().unzip();
        let line = Line {
            timestamp,
            level: event.metadata().level().as_str(),
            service: named.unwrap_or(self.service),
            target: event.metadata().target(),
            message: fields.message,
            trace_id,
            span_id,
            fields: fields.others,
            spans: &spans,
        };
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

/// Returns trace id and span id of the current span.
fn identity() -> Option<(String, String)> {
    let context = Context::current();
    let span = context.span();
    let identity = span.span_context();
    identity.is_valid().then(|| (identity.trace_id().to_string(), identity.span_id().to_string()))
}

fn spans<'a, S>(scope: Scope<'a, S>) -> Vec<Span>
where
    S: Subscriber + LookupSpan<'a>,
{
    let from_root = scope.from_root();
    from_root
        .map(|span| {
            let extensions = span.extensions();
            // `JsonFields` has written the fields, so this is a JSON object.
            let fields = extensions
                .get::<FormattedFields<JsonFields>>()
                .and_then(|fields| serde_json::from_str(fields).ok())
                .unwrap_or_default();
            Span { name: span.name(), fields }
        })
        .collect()
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.put(field, format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.put(field, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::trace;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `act` logs.
    fn logged(format: LogFormat, filter: &str, act: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let log = layer("process", format, filter, move || writer.clone()).unwrap();
        let subscriber = tracing_subscriber::registry().with(trace::layer(None)).with(log);
        tracing::subscriber::with_default(subscriber, act);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn json(filter: &str, act: impl FnOnce()) -> Vec<Value> {
        let text = logged(LogFormat::Json, filter, act);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn json_lines_have_service_level_message_and_trace() {
        let lines = json("info", || {
            tracing::warn!(attempts = 3, late = true, "try \"again\"\nlater");
            let span = tracing::info_span!("handle", service = "resolver", key = "ns/a");
            trace::set_parent(&span, PARENT);
            let _entered = span.enter();
            tracing::info!(reason = %"x", "inside");
        });
        assert_eq!(lines.len(), 2);
        let (outside, inside) = (&lines[0], &lines[1]);
        assert_eq!(outside["service"], "process");
        assert_eq!(outside["level"], "WARN");
        assert_eq!(outside["message"], "try \"again\"\nlater");
        assert_eq!(outside["target"], "groundwork_telemetry::log::tests");
        assert_eq!(outside["fields"], serde_json::json!({"attempts": 3, "late": true}));
        assert!(outside["timestamp"].as_str().unwrap().ends_with('Z'));
        assert_eq!(outside.get("trace_id"), None);

        assert_eq!(inside["service"], "resolver");
        assert_eq!(inside["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(inside["span_id"], "b7ad6b7169203331");
        assert_eq!(inside["fields"], serde_json::json!({"reason": "x"}));
        assert_eq!(
            inside["spans"],
            serde_json::json!([{"name": "handle", "service": "resolver", "key": "ns/a"}])
        );
    }

    /// A filter on events removes neither the service nor the trace from the events that pass.
    #[test]
    fn filter_leaves_the_surroundings() {
        let lines = json("warn", || {
            let span = tracing::info_span!("handle", service = "resolver");
            trace::set_parent(&span, PARENT);
            let _entered = span.enter();
            tracing::info!("not wanted");
            tracing::warn!("wanted");
        });
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["message"], "wanted");
        assert_eq!(lines[0]["service"], "resolver");
        assert_eq!(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    }

    #[test]
    fn libraries_are_quiet_unless_they_are_named() {
        let act = || {
            tracing::error!(target: "async_nats::connector", "connection closed");
            tracing::error!(target: "kube_client::client::builder", "failed with error");
            tracing::warn!(target: "kube_client::client::tls", "kept");
        };
        let targets = |filter: &str| -> Vec<String> {
            json(filter, act).iter().map(|line| line["target"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(targets("info"), ["kube_client::client::tls"]);
        assert_eq!(targets("info,async_nats=debug"), ["async_nats::connector", "kube_client::client::tls"]);
        let both = ["kube_client::client::builder", "kube_client::client::tls"];
        assert_eq!(targets("kube_client::client::builder=error"), both);
    }

    #[test]
    fn lines_for_people() {
        let text = logged(LogFormat::Human, "info", || {
            let _entered = tracing::info_span!("handle", service = "resolver").entered();
            tracing::info!(key = "ns/a", "inside");
            tracing::debug!("not wanted");
        });
        assert_eq!(text.lines().count(), 1);
        assert!(
            text.contains("INFO") && text.contains("service=\"resolver\"") && text.contains("inside"),
            "{text}"
        );
    }

    #[test]
    fn wrong_filter_is_an_error() {
        let layer = layer::<tracing_subscriber::Registry, _>("p", LogFormat::Json, "a=b=c", io::sink);
        let error = layer.map(drop).unwrap_err().to_string();
        assert!(error.contains("--log"), "{error}");
    }
}
