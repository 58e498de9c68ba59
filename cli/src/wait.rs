//! `groundwork wait`: waits until other servers are up, for images that have no shell to check
//! with.

use std::fmt;
use std::time::Duration;

use clap::Args;
use groundwork_bootstrap::wait::{Target, TargetError, wait};
use groundwork_controller::ClusterArguments;
use groundwork_telemetry::innermost_cause;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;

#[derive(Debug, Args)]
pub(crate) struct WaitArguments {
    /// Targets to wait for: tcp://HOST:PORT is up when it accepts connections,
    /// http://HOST:PORT/PATH when it answers with success, and `kube` when the API server of the
    /// current kube context is ready.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<Awaited>,

    /// Time limit for all of them together.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
}

#[derive(Debug, Clone)]
enum Awaited {
    Listener(Target),
    ApiServer,
}

impl std::str::FromStr for Awaited {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text == "kube" { Ok(Self::ApiServer) } else { text.parse().map(Self::Listener) }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener(target) => target.fmt(f),
            Self::ApiServer => f.write_str("kube"),
        }
    }
}

/// Waits until all targets are up. Exit code 1: some did not come up; the error names them.
pub(crate) fn run(arguments: &WaitArguments) -> Ending {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return unusable(&format!("cannot start: {error}")),
    };
    let outcome =
        wait(&arguments.targets, Duration::from_secs(arguments.limit), |target, limit| match target {
            Awaited::Listener(target) => target.ask(limit),
            Awaited::ApiServer => runtime.block_on(async {
                let asked = tokio::time::timeout(limit, api_server()).await;
                asked.unwrap_or_else(|_| Err("no answer".to_owned()))
            }),
        });
    match outcome {
        Ok(()) => Ending::Rendered,
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(error.to_string())]);
            Ending::Failed
        }
    }
}

fn unusable(problem: &str) -> Ending {
    diagnostic::print(&[Diagnostic::error(problem.to_owned())]);
    Ending::Unusable
}

/// Asks `/readyz`. Reads the kube configuration each time, because the file may not exist yet.
#[expect(clippy::disallowed_methods, reason = "the home API server is our own")]
async fn api_server() -> Result<(), String> {
    let client = ClusterArguments::default().client("wait").await.map_err(|error| error.to_string())?;
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map(drop).map_err(|error| innermost_cause(&error))
}
