//! `groundwork-bootstrap`: prepares a trial cluster before and after its API server starts, and
//! prints the Secrets of a NATS server.
//!
//! ```text
//! credentials:  State (one file, made once) ──> a folder for each program, the host's kubeconfig
//! cluster:      wait for the API server ──> CRDs, accounts, permissions ──> a token per service
//! nats-secrets: passwords ──> Secrets of Kubernetes on standard output
//! ```

mod cluster;
mod files;
mod host;
mod kubeconfig;
mod nats;
mod recipients;
mod state;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Services that have an account in the cluster and a user on the bus.
const SERVICES: [&str; 6] = ["watcher", "resolver", "renderer", "deployer", "variant", "console"];
/// Namespace of the services' accounts.
const NAMESPACE: &str = "groundwork-system";

/// Prepares a trial cluster: credentials, objects of its API server, Secrets of NATS users.
#[derive(Debug, Parser)]
#[command(name = "groundwork-bootstrap", version)]
struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Make certificates, passwords and kubeconfigs for all programs.
    ///
    /// Each file goes to the folder of the program that needs it. Existing ones are kept.
    Credentials(CredentialsArguments),
    /// Apply CRDs, accounts and permissions, and write tokens.
    ///
    /// Waits for the API server first. Each service gets a token.
    Cluster(ClusterArguments),
    /// Print Secrets with the passwords of the NATS users, new ones each time.
    NatsSecrets {
        /// Namespace of the Secrets.
        #[arg(short, long, default_value = NAMESPACE)]
        namespace: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CredentialsArguments {
    /// Folder with one folder for each program.
    #[arg(long, value_name = "FOLDER", default_value = "/credentials")]
    folder: PathBuf,
    /// Folders with data, which get the user of the programs as owner.
    #[arg(long = "data", value_name = "FOLDER")]
    data: Vec<PathBuf>,
    /// User and group that the programs run as.
    #[arg(long, value_name = "ID", default_value_t = 65532)]
    user: u32,
    /// Folder for the files of the user on the host: kubeconfig and NATS password.
    #[arg(long, value_name = "FOLDER")]
    host_folder: PathBuf,
    /// Owner of the files in it [default: the owner of the file of --owner-of].
    #[arg(long, value_name = "ID", env = "GROUNDWORK_UID", value_parser = id)]
    host_user: Option<Id>,
    /// Group of the files in it [default: the group of the file of --owner-of].
    #[arg(long, value_name = "ID", env = "GROUNDWORK_GID", value_parser = id)]
    host_group: Option<Id>,
    /// File that belongs to the user on the host.
    #[arg(long, value_name = "FILE")]
    owner_of: Option<PathBuf>,
    /// Project of Compose that the folders belong to.
    #[arg(long, value_name = "NAME", default_value = "groundwork")]
    project: String,
    /// Take over volumes or a host folder that another checkout or project has used.
    #[arg(long, env = "GROUNDWORK_ADOPT", value_parser = clap::builder::FalseyValueParser::new())]
    adopt: bool,
    /// The API server as seen from the host.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:9446")]
    host_url: String,
    /// The API server as seen from the programs.
    #[arg(long, value_name = "URL", default_value = "https://kube-apiserver:6443")]
    api_server: String,
    /// Path at which the programs find their folder.
    #[arg(long, value_name = "FOLDER", default_value = "/run/groundwork")]
    mounted_at: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// The folder that `groundwork-bootstrap credentials` has filled.
    #[arg(long, value_name = "FOLDER", default_value = "/credentials")]
    folder: PathBuf,
    /// User and group that the services run as.
    #[arg(long, value_name = "ID", default_value_t = 65532)]
    user: u32,
    /// The API server.
    #[arg(long, value_name = "URL", default_value = "https://kube-apiserver:6443")]
    api_server: String,
    /// Time to wait for the API server.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
    /// Apply the permissions of a package store, and those of users on its package revisions.
    #[arg(long)]
    package_store: bool,
}

/// User or group; an empty environment variable means none.
#[derive(Debug, Clone, Copy)]
struct Id(Option<u32>);

fn id(text: &str) -> Result<Id, std::num::ParseIntError> {
    if text.is_empty() { Ok(Id(None)) } else { text.parse().map(|id| Id(Some(id))) }
}

/// Reason that a trial cluster cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error("cannot {what} {path}: {source}")]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error(
        "{path} was written by another version, or is damaged ({reason}); `docker compose down --volumes` removes it \
         with all data of this trial cluster, then `docker compose up` creates a new one"
    )]
    Stale { path: PathBuf, reason: String },
    #[error(
        "the volumes of the project {project:?} contain the trial cluster of another checkout or host folder: the \
         password in GROUNDWORK_HOST_FOLDER (./.groundwork if it is not set) does not belong to it. No file was \
         written. To run a second trial cluster, set COMPOSE_PROJECT_NAME, GROUNDWORK_HOST_FOLDER and other ports, as \
         \"A second one\" in docs/compose.md shows. To use the existing cluster from here, because its folder was \
         moved or removed, set GROUNDWORK_ADOPT=true for this start"
    )]
    OtherCheckout { project: String },
    #[error(
        "GROUNDWORK_HOST_FOLDER (./.groundwork if it is not set) belongs to the project {owner:?}, but this project is \
         {project:?}, which would replace the kubeconfig in it. No file was written. Set GROUNDWORK_HOST_FOLDER to \
         another folder, as \"A second one\" in docs/compose.md shows; or remove the folder, if the project {owner:?} \
         no longer exists"
    )]
    OtherProject { owner: String, project: String },
    #[error("{path} does not exist: run `groundwork-bootstrap credentials` first")]
    NoState { path: PathBuf },
    #[error("cannot create a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error(
        "the API server at {url} did not come up within {seconds} s ({reason}); `docker compose logs kube-apiserver \
         etcd` may show the cause. If the data is from another version, remove it with `docker compose down --volumes`"
    )]
    NotUp { url: String, seconds: u64, reason: String },
    #[error(
        "the API server at {url} does not accept the credentials in {path}, because it was started with other ones: \
         restart it with `docker compose up --force-recreate`"
    )]
    NotAccepted { url: String, path: PathBuf },
    #[error("the API server refuses {what}: {source}")]
    Refused { what: String, source: Box<kube::Error> },
    #[error("{what} was applied but is not served after {seconds} s")]
    NotServed { what: String, seconds: u64 },
    #[error("cannot use {what}: {reason}")]
    Manifest { what: &'static str, reason: String },
    #[error("cannot write to standard output: {0}")]
    Output(std::io::Error),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().step) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(step: &Step) -> Result<(), BootstrapError> {
    match step {
        Step::Credentials(arguments) => recipients::run(arguments),
        Step::Cluster(arguments) => cluster::run(arguments),
        Step::NatsSecrets { namespace } => {
            std::io::stdout().write_all(nats::secrets(namespace).as_bytes()).map_err(BootstrapError::Output)
        }
    }
}
