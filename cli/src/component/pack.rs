//! `groundwork component pack`: writes component versions into an archive.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use groundwork_component::RepositoryContext;
use groundwork_registry::{CtfWriter, PackError, Store, write_archive};
use serde_json::json;

use super::place::context_of;
use crate::diagnostic::Diagnostic;
use crate::ending::Ending;
use crate::stdout;
use crate::terminal::shown;

#[derive(Debug, Args)]
pub(super) struct PackArguments {
    /// Sources to pack: a folder with a component-descriptor.yaml and the contents of its resources
    /// (blueprints in `blueprint/`, others at the path in `input: {type: dir|file, path: …}`), a
    /// component archive, a transport archive (directory, tar, tgz), or a folder of such folders.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,

    /// The archive to write: a file that ends in .tar, .tgz or .tar.gz, or else a directory. An
    /// existing archive is replaced.
    #[arg(long, value_name = "TARGET")]
    to: PathBuf,

    /// Folder of the repositories in the archive, in front of component-descriptors/.
    #[arg(long, value_name = "PATH", default_value = "")]
    sub_path: String,
}

pub(super) fn run(arguments: &PackArguments) -> Result<Ending, Diagnostic> {
    let staged = Staged { sub_path: &arguments.sub_path, target: &arguments.to };
    let packed =
        staged.write(|writer| arguments.sources.iter().try_for_each(|source| writer.add_all(source)))?;
    let lines = packed.iter().map(|(name, version)| format!("{}\n", shown(&format!("{name}:{version}"))));
    Ok(stdout::write(&lines.collect::<String>()))
}

/// Writes an archive as a whole or not at all, and prints its content.
pub(super) fn write_packed(
    target: &Path,
    add: impl FnOnce(&mut CtfWriter) -> Result<(), PackError>,
) -> Result<Vec<(String, String)>, Diagnostic> {
    Staged { sub_path: "", target }.write(add)
}

struct Staged<'a> {
    sub_path: &'a str,
    target: &'a Path,
}

impl Staged<'_> {
    fn write(
        &self,
        add: impl FnOnce(&mut CtfWriter) -> Result<(), PackError>,
    ) -> Result<Vec<(String, String)>, Diagnostic> {
        let target = self.target;
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_compressed = name.ends_with(".tgz") || name.ends_with(".tar.gz");
        let is_file = is_compressed || name.ends_with(".tar");
        if !is_file {
            check_directory(target)?;
        }
        let staging = staging(target)?;
        let versions = pack(self.sub_path, staging.path(), add)?;
        if is_file {
            write_archive(staging.path(), target, is_compressed).map_err(|error| failed(&error))?;
        } else {
            replace(target, staging.path())?;
        }
        Ok(versions)
    }
}

/// Packs into a directory, and prints its content.
pub(super) fn pack(
    sub_path: &str,
    directory: &Path,
    add: impl FnOnce(&mut CtfWriter) -> Result<(), PackError>,
) -> Result<Vec<(String, String)>, Diagnostic> {
    let context = json!({"type": "CommonTransportFormat", "filePath": "archive", "subPath": sub_path});
    let context = RepositoryContext::new(context).expect("an object is not null");
    let mut writer = CtfWriter::create(directory, context).map_err(|error| failed(&error))?;
    add(&mut writer).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))?;
    let store = Store::Directory(directory.to_owned());
    store.versions(&context_of(&store, "archive")).map_err(|error| failed(&error))
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(error.to_string())
}

/// Creates a directory beside the target, so that the finished archive can be renamed into its
/// place.
fn staging(target: &Path) -> Result<tempfile::TempDir, Diagnostic> {
    let beside = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::tempdir_in(beside)
        .map_err(|error| Diagnostic::error(format!("cannot write into {}: {error}", beside.display())))
}

/// Refuses to replace a directory that is not an archive: it may hold other files of the user.
fn check_directory(target: &Path) -> Result<(), Diagnostic> {
    let is_free = !target.exists() || target.join("artifact-index.json").is_file() || is_empty(target);
    if is_free {
        return Ok(());
    }
    let message = format!(
        "{} exists and is not a transport archive, so it is not replaced: remove it, or name another file",
        target.display()
    );
    Err(Diagnostic::error(message))
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn replace(target: &Path, staged: &Path) -> Result<(), Diagnostic> {
    let failed =
        |error: std::io::Error| Diagnostic::error(format!("cannot write {}: {error}", target.display()));
    fs::create_dir_all(target).map_err(failed)?;
    for part in ["artifact-index.json", "blobs"] {
        let (from, to) = (staged.join(part), target.join(part));
        if to.is_dir() {
            fs::remove_dir_all(&to).map_err(failed)?;
        }
        fs::rename(from, to).map_err(failed)?;
    }
    Ok(())
}
