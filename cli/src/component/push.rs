//! `groundwork component push`: writes component versions into a registry.

use std::path::PathBuf;

use clap::Args;
use groundwork_registry::{CtfWriter, PushError, Registry, push};

use super::pack::{failed, pack};
use super::place::RegistryArguments;
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::stdout;
use crate::terminal::shown;

#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// Sources to write: everything that `component pack` takes. The content of a transport archive
    /// keeps its digests.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,

    /// The registry: host and path, as in the baseUrl of a repository context; `http://` in front
    /// is for one without TLS.
    #[arg(long, value_name = "REGISTRY")]
    to: String,

    /// Path below that of the registry under which the repositories lie: the subPath of a
    /// repository context.
    #[arg(long, value_name = "PATH", default_value = "")]
    sub_path: String,

    /// Replace existing versions whose content differs.
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    registry: RegistryArguments,
}

pub(super) fn run(arguments: &PushArguments) -> Result<Ending, Diagnostic> {
    let RegistryArguments { docker_config, ca } = &arguments.registry;
    let registry = Registry::new(&arguments.to, docker_config.clone(), ca.clone())
        .map_err(|problem| Diagnostic::error(format!("--to: {problem}")))?;
    let staging =
        tempfile::tempdir().map_err(|error| failed(&format!("cannot create a temporary folder: {error}")))?;
    let add = |writer: &mut CtfWriter| arguments.sources.iter().try_for_each(|source| writer.add_all(source));
    pack(&arguments.sub_path, staging.path(), add)?;
    let pushed = match push(staging.path(), &registry, arguments.replace) {
        Ok(pushed) => pushed,
        Err(error @ PushError::Exists { .. }) => {
            diagnostic::print(&[Diagnostic::error(format!("{error}; --replace overwrites it"))]);
            return Ok(Ending::Failed);
        }
        Err(error) => return Err(failed(&error)),
    };
    let lines = pushed.iter().map(|artifact| {
        let state = if artifact.is_unchanged { "unchanged" } else { "written" };
        format!("{}@{} {state}\n", shown(&artifact.address), artifact.digest)
    });
    Ok(stdout::write(&lines.collect::<String>()))
}
