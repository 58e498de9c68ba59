//! A deployer of your own: items of the type `example.org/note` become files in a folder.
//!
//! ```text
//! DeployItem {type: example.org/note, config: {file: greeting, text: hello}} ──> FOLDER/greeting
//! ```
//!
//! Start it beside the services, with `--nats` and a kube context as they have:
//!
//! ```text
//! cargo run -p groundwork-deploy --example own-deployer -- --folder /tmp/notes
//! ```
//!
//! It shares the queue of the mock deployer's name only if that one does not run: a queue of
//! another name needs a right of the NATS user, see `docs/contributing/add-a-deployer.md`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use futures::FutureExt as _;
use groundwork_apply::Answers;
use groundwork_controller::{
    ClusterArguments, ProcessContext, RunningService, ServiceArguments, ServiceError,
};
use groundwork_deploy::{
    Deployer, DeployerService, Failure, Registration, Removal, Round, RoundOutcome, Step, TargetSelectors,
    Targets, TokenRules,
};
use groundwork_lifecycle::deployer::{invalid_configuration, missing_configuration};
use groundwork_lifecycle::{OperationError, Reason};
use serde::Deserialize;
use serde_json::{Map, json};

/// Configuration of an item. Unknown members are errors: nothing that a user writes is without
/// effect in silence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    file: String,
    text: String,
}

struct Notes {
    folder: PathBuf,
}

impl Notes {
    fn configuration(&self, round: &Round<'_>) -> Result<(PathBuf, String), OperationError> {
        let config = round.item.spec.config.get().ok_or_else(missing_configuration)?;
        let Configuration { file, text } = serde_json::from_value(config.clone())
            .map_err(|error| invalid_configuration(format!("spec.config: {error}")))?;
        // A name with a slash would leave the folder.
        let is_plain = file.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_plain || file.is_empty() {
            let text = "spec.config.file: only letters, digits and dashes are possible";
            return Err(invalid_configuration(text));
        }
        Ok((self.folder.join(file), text))
    }
}

/// An error that may go away is transient: the loop tries again until the time of the item is over.
fn failed(error: &std::io::Error) -> OperationError {
    OperationError::transient("WriteNote", Reason::TargetCluster, error.to_string())
}

#[async_trait]
impl Deployer for Notes {
    fn type_name(&self) -> &'static str {
        "example.org/note"
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let (path, text) = self.configuration(round)?;
        std::fs::write(&path, text).map_err(|error| failed(&error))?;
        let exports = Map::from_iter([("path".to_owned(), json!(path.display().to_string()))]);
        Ok(Step {
            outcome: RoundOutcome::Done,
            provider_status: None,
            exports: Some(exports),
            warnings: Vec::new(),
        })
    }

    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure> {
        // An item whose configuration cannot be read has never written a file.
        let Ok((path, _)) = self.configuration(round) else { return Ok(Removal::Done) };
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&error).into()),
            Ok(()) | Err(_) => Ok(Removal::Done),
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Folder for the files of items
    #[arg(long)]
    folder: PathBuf,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = "deployer";
    const PROGRAM: &'static str = "own-deployer";
    const ABOUT: &'static str = "Write items of the type example.org/note to files";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        // Items of this type need no Target; a deployer into clusters gets them from here.
        let targets = Targets::new(None, "own-deployer", Answers::default(), TokenRules::default());
        let mut service = DeployerService::new(context, Self::SERVICE, Self::PROGRAM, targets, 0);
        service.register(Registration {
            deployer: Arc::new(Notes { folder: self.folder }),
            queue: Self::SERVICE,
            condition: "index",
            identity: "own-deployer".to_owned(),
            name: Self::PROGRAM,
            version: env!("CARGO_PKG_VERSION"),
            selectors: TargetSelectors::default(),
            namespaces: self.cluster.namespaces,
            concurrency: 4,
        });
        Ok(service.run().map(Ok).boxed())
    }
}

fn main() -> ExitCode {
    groundwork_controller::main::<Arguments>()
}
