use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Args, Command, ValueEnum};

const DRAIN_SECONDS: u64 = 10;

/// Form of the lines on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// One line of text per event, for people.
    #[default]
    Human,
    /// One JSON object per line: `timestamp`, `level`, `service`, `target`, `message`, `trace_id`
    /// and `span_id` in a trace, `fields`, `spans`.
    Json,
}

/// Arguments that every service has.
///
/// The standard variables of OpenTelemetry's SDK for sampling, batches and headers
/// (`OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`, `OTEL_EXPORTER_OTLP_HEADERS`) have effect, too.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryArguments {
    /// Form of the log on standard output
    #[arg(long, value_enum, default_value_t, env = "GROUNDWORK_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Log filter: a level, or a list such as "info,groundwork_bus=debug"
    #[arg(long, default_value = "info", env = "GROUNDWORK_LOG", value_name = "FILTER")]
    pub log: String,

    /// Collector that receives traces over gRPC, such as http://localhost:4317; without one nothing
    /// is exported. With https the authorities of the system are trusted, or those in the file that
    /// SSL_CERT_FILE names
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    // The default is a free port of the loopback device: several services can run on one machine,
    // and other machines have no access unless the operator asks for it.
    /// Address of /healthz, /readyz and /metrics; port 0 takes a free one, which is logged
    #[arg(long, default_value = "127.0.0.1:0", env = "GROUNDWORK_ADMIN_ADDRESS", value_name = "ADDRESS")]
    pub admin_address: SocketAddr,

    /// Time for running work to end after a signal
    #[arg(long, default_value_t = DRAIN_SECONDS, env = "GROUNDWORK_DRAIN_SECONDS", value_name = "SECONDS")]
    pub drain_seconds: u64,
}

impl TelemetryArguments {
    /// Returns the collector. An empty value, as an environment variable may have it, means none.
    pub(crate) fn collector(&self) -> Option<&str> {
        self.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty())
    }

    pub(crate) fn drain_limit(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }
}

impl Default for TelemetryArguments {
    fn default() -> Self {
        defaults()
    }
}

/// Returns arguments with the defaults that their help shows. Environment variables have no effect.
///
/// Arguments implement `Default` by this function, so the values are not listed a second time.
pub fn defaults<A: Args>() -> A {
    let command = A::augment_args(Command::new("defaults").no_binary_name(true));
    let command = command.mut_args(|argument| argument.env(Resettable::Reset));
    // An argument without a default, or with an invalid one, ends the process here, so each test of
    // the service finds the mistake.
    let matches = command.try_get_matches_from(std::iter::empty::<OsString>());
    matches.and_then(|matches| A::from_arg_matches(&matches)).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Args)]
    struct Probe {
        // A variable that every process has.
        #[arg(long, env = "PATH", default_value = "unset")]
        path: String,
    }

    #[test]
    fn variables_do_not_change_defaults() {
        assert_eq!(defaults::<Probe>().path, "unset");
    }
}
