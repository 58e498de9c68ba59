//! Arguments with which a service finds the bus and the API server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use groundwork_bus::{Bus, BusError, JournalLimits, Login, NatsOptions};
use groundwork_telemetry::Telemetry;
use http::header::{HeaderValue, USER_AGENT};
use kube::config::AuthInfo;
use kube::{Client, Config};

use crate::casualties::Casualties;
use crate::connection::spawn_bus_health_check;

/// Address of the bus, and options for it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bus")]
pub struct BusArguments {
    /// NATS server: nats://host:port or tls://host:port, several separated by commas.
    #[arg(
        long = "nats",
        env = "GROUNDWORK_NATS_URL",
        value_name = "URL",
        default_value = "nats://127.0.0.1:4222"
    )]
    pub nats: String,
    /// Name to log in with.
    #[arg(long, env = "GROUNDWORK_NATS_USER", value_name = "NAME", requires = "nats_password_file")]
    pub nats_user: Option<String>,
    /// File that holds the password.
    #[arg(long, env = "GROUNDWORK_NATS_PASSWORD_FILE", value_name = "FILE")]
    pub nats_password_file: Option<PathBuf>,
    /// Credentials file of a NATS user, in place of name and password.
    #[arg(long, env = "GROUNDWORK_NATS_CREDENTIALS", value_name = "FILE", conflicts_with = "nats_user")]
    pub nats_credentials: Option<PathBuf>,
    /// PEM file with certificates to trust; with it, TLS is required.
    #[arg(long, env = "GROUNDWORK_NATS_CA", value_name = "FILE")]
    pub nats_ca: Option<PathBuf>,
    /// Number of NATS servers that store the stream.
    #[arg(long, env = "GROUNDWORK_NATS_REPLICAS", value_name = "COUNT", default_value_t = 1)]
    pub nats_replicas: usize,
    /// Maximum size of the stream in bytes; when it is full, the watcher stops publishing and
    /// reports that.
    #[arg(
        long,
        env = "GROUNDWORK_NATS_MAX_BYTES",
        value_name = "BYTES",
        default_value_t = groundwork_bus::MAX_BYTES
    )]
    pub nats_max_bytes: u64,
    /// Maximum size in bytes of the journal, which has the decisions of services with their
    /// reasons; beyond it the oldest entries are discarded. Only the watcher's setting counts.
    #[arg(
        long,
        env = "GROUNDWORK_JOURNAL_MAX_BYTES",
        value_name = "BYTES",
        default_value_t = JournalLimits::default().max_bytes
    )]
    pub journal_max_bytes: u64,
    /// Age at which entries of the journal are discarded, such as 7d or 12h; only the watcher's
    /// setting counts.
    #[arg(long, env = "GROUNDWORK_JOURNAL_MAX_AGE", value_name = "DURATION", default_value = "7d", value_parser = age)]
    pub journal_max_age: Duration,
}

/// An age: a number of days, hours, minutes or seconds.
fn age(text: &str) -> Result<Duration, String> {
    let span: jiff::Span =
        text.parse().map_err(|_| "a time such as 7d, 12h or 30m is expected".to_owned())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let age = span.to_duration(days).ok().and_then(|age| Duration::try_from(age).ok());
    age.filter(|age| !age.is_zero()).ok_or_else(|| "a positive time such as 7d or 12h is expected".to_owned())
}

/// Part of the cluster that a service works on.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArguments {
    /// Namespaces to work on, separated by commas; all if none is given. All services need the same
    /// value.
    #[arg(long, env = "GROUNDWORK_NAMESPACES", value_name = "NAMES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
}

/// Folder with the record of work during which earlier processes died.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "State")]
pub struct StateArguments {
    /// Folder that outlives the process and that no other replica uses. The service records its
    /// current work there, so that the next process postpones the work during which this one died,
    /// and sets that work aside after three deaths in a row. Without the folder no work is
    /// recorded.
    #[arg(long, env = "GROUNDWORK_STATE_FOLDER", value_name = "PATH")]
    pub state_folder: Option<PathBuf>,
}

impl StateArguments {
    /// Opens the record of keys that were being handled when earlier processes of this name died.
    ///
    /// # Errors
    ///
    /// The folder cannot be used.
    pub fn casualties(&self, process: &str) -> Result<Casualties, ConnectError> {
        let Some(folder) = &self.state_folder else { return Ok(Casualties::default()) };
        Casualties::open(folder, process)
            .map_err(|source| ConnectError::State { path: folder.clone(), source })
    }
}

/// Reason why a service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read the NATS password from {path}: {source}")]
    Password { path: PathBuf, source: std::io::Error },
    #[error(
        "cannot keep state in {path}: {source}; set --state-folder to a folder that this process may write, or omit it"
    )]
    State { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("no usable Kubernetes configuration: {0}; set KUBECONFIG, or run in a pod")]
    Configuration(#[from] kube::config::InferConfigError),
    #[error("no client for the API server: {0}")]
    Client(#[from] kube::Error),
}

impl BusArguments {
    /// Connects a service. Its readiness reports from now on whether the bus answers; see
    /// [`spawn_bus_health_check`].
    ///
    /// # Errors
    ///
    /// The arguments cannot be used.
    pub async fn connect_service(&self, telemetry: &Telemetry) -> Result<Bus, ConnectError> {
        let bus = self.connect(telemetry.service()).await?;
        spawn_bus_health_check(&bus, telemetry);
        Ok(bus)
    }

    /// Connects to the bus. Returns soon, even when the server is away.
    ///
    /// # Errors
    ///
    /// The arguments cannot be used.
    pub async fn connect(&self, service: &str) -> Result<Bus, ConnectError> {
        let mut options = NatsOptions::new(&self.nats);
        options.name = format!("groundwork-{service}");
        options.replicas = self.nats_replicas;
        options.max_bytes = self.nats_max_bytes;
        options.journal = JournalLimits { max_bytes: self.journal_max_bytes, max_age: self.journal_max_age };
        options.ca.clone_from(&self.nats_ca);
        if let Some(file) = &self.nats_credentials {
            options.login = Login::Credentials(file.clone());
        } else if let (Some(user), Some(path)) = (&self.nats_user, &self.nats_password_file) {
            let password = std::fs::read_to_string(path)
                .map_err(|source| ConnectError::Password { path: path.clone(), source })?;
            options.login = Login::Password { user: user.clone(), password: password.trim_end().to_owned() };
        }
        Ok(Bus::connect(options).await?)
    }
}

impl ClusterArguments {
    /// Creates a client for the API server of the environment's configuration. Every request
    /// carries the name of the service.
    ///
    /// # Errors
    ///
    /// There is no usable configuration.
    pub async fn client(&self, service: &str) -> Result<Client, ConnectError> {
        Self::client_of(Config::infer().await?, service)
    }

    /// Returns the configuration for talking to the same API server as another user: its address
    /// and the certificates to trust, without the credentials of this process.
    ///
    /// # Errors
    ///
    /// There is no usable configuration.
    pub async fn anonymous_config(&self) -> Result<Config, ConnectError> {
        let mut config = Config::infer().await?;
        config.auth_info = AuthInfo::default();
        Ok(config)
    }

    /// Creates a client of a service from a configuration.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn client_of(mut config: Config, service: &str) -> Result<Client, ConnectError> {
        let agent = format!("groundwork-{service}/{}", env!("CARGO_PKG_VERSION"));
        // Service names are fixed texts of letters, so the header value is always valid.
        config.headers.extend(HeaderValue::from_str(&agent).map(|agent| (USER_AGENT, agent)));
        Ok(groundwork_client::connect(config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, seconds) in [("7d", 604_800), ("12h", 43_200), ("1h 30m", 5400), ("90s", 90)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "0s", "-1h", "1 month", "soon"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
