//! `groundwork component fetch`: writes the content of a resource.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use groundwork_component::{Blob, RepositoryError};

use super::place::{PlaceArguments, VersionName, version_name};
use crate::diagnostic::Diagnostic;
use crate::ending::Ending;

#[derive(Debug, Args)]
pub(super) struct FetchArguments {
    /// The component version, as NAME:VERSION.
    #[arg(value_name = "NAME:VERSION", value_parser = version_name)]
    version: VersionName,

    /// Name of the resource.
    resource: String,

    #[command(flatten)]
    place: PlaceArguments,

    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &FetchArguments) -> Result<Ending, Diagnostic> {
    let (_, version) = arguments.place.open()?.find(&arguments.version)?;
    let failed = |error: &dyn std::fmt::Display| Diagnostic::error(error.to_string());
    let resource = version.descriptor.resource(&arguments.resource).map_err(|error| failed(&error))?;
    let (access, blob) = version.open(&resource).map_err(|error| failed(&error))?;
    let address = access.to_string();
    match &arguments.output {
        Some(path) => to_file(blob, &address, path).map(|()| Ending::Rendered),
        None => to_standard_output(blob, &address),
    }
}

/// Writes the file as a whole or not at all: into a partial file that is renamed at the end.
fn to_file(mut blob: Blob, address: &str, path: &Path) -> Result<(), Diagnostic> {
    let unwritable =
        |error: &io::Error| Diagnostic::error(format!("cannot write {}: {error}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let partial = folder.join(format!(".{}.partial", path.file_name().unwrap_or_default().to_string_lossy()));
    let mut file = std::fs::File::create(&partial).map_err(|error| unwritable(&error))?;
    let copied = copy(&mut blob, &mut file, address)
        .and_then(|()| std::fs::rename(&partial, path).map_err(|error| unwritable(&error)));
    if copied.is_err() {
        // Removing the partial file is best effort: the error of the copy is the one that the user
        // needs.
        drop(std::fs::remove_file(&partial));
    }
    copied
}

fn to_standard_output(mut blob: Blob, address: &str) -> Result<Ending, Diagnostic> {
    let mut out = io::stdout().lock();
    copy(&mut blob, &mut out, address)?;
    out.flush().map_err(|error| Diagnostic::error(format!("cannot write to standard output: {error}")))?;
    Ok(Ending::Rendered)
}

/// Copies the content. Reading may fail at the very end, where the digest is compared, so errors of
/// reading and of writing are kept apart.
fn copy(blob: &mut Blob, target: &mut impl Write, address: &str) -> Result<(), Diagnostic> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match blob.body.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read
                .map_err(|error| Diagnostic::error(RepositoryError::of_read(&error, address).to_string()))?,
        };
        if count == 0 {
            return Ok(());
        }
        target
            .write_all(&buffer[..count])
            .map_err(|error| Diagnostic::error(format!("cannot write the content: {error}")))?;
    }
}
