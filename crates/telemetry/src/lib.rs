//! Common start of every service: logs, traces, metrics, health and shutdown.
//!
//! A `main.rs` parses its arguments and calls [`run`]; the body gets a [`Telemetry`] with
//! everything that it needs:
//!
//! ```no_run
//! use clap::Parser;
//! use groundwork_telemetry::TelemetryArguments;
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     telemetry: TelemetryArguments,
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let arguments = Arguments::parse();
//!     groundwork_telemetry::run("resolver", &arguments.telemetry, async |telemetry| {
//!         let bus = telemetry.health.condition("bus");
//!         bus.ready();
//!         telemetry.shutdown.requested().await;
//!         Ok::<(), std::io::Error>(())
//!     })
//! }
//! ```
//!
//! This crate never logs or traces headers and tokens. Its messages about arguments give only the
//! name of the argument.

mod admin;
mod arguments;
mod causes;
mod health;
mod log;
mod metrics;
pub mod ports;
mod run;
mod shutdown;
mod start;
pub mod trace;

pub use admin::AdminServer;
pub use arguments::{LogFormat, TelemetryArguments, defaults};
pub use causes::{innermost_cause, with_causes};
pub use health::{Condition, Health};
pub use metrics::{LATENCY_BUCKETS, MetricDescription, Metrics};
pub use run::run;
pub use shutdown::{Shutdown, Unfinished};
pub use start::{Telemetry, TelemetryError};
