//! Folder of the user on the host, and the check to which project it belongs.
//!
//! Compose knows a project only by its name, so a second checkout that is started under the name of
//! the first one gets its volumes. This folder distinguishes the two: it has a password of the
//! trial cluster, and the name of the project.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::files::{self, Owner};
use crate::kubeconfig::{Login, kubeconfig};
use crate::nats;
use crate::state::{ADMIN, State};
use crate::{BootstrapError, CredentialsArguments};

const PASSWORD: &str = "nats-password";
const PROJECT: &str = "project";

/// Returns an error if the folder and the volumes belong to different trial clusters.
pub(crate) fn check(arguments: &CredentialsArguments) -> Result<(), BootstrapError> {
    let (folder, project) = (&arguments.host_folder, arguments.project.clone());
    match State::load(&arguments.folder) {
        Ok(state) => {
            // Only a state that was created before the NATS user `reader` existed lacks its
            // password.
            let Some(password) = state.passwords.get(nats::READER) else { return Ok(()) };
            let is_ours = read(&folder.join(PASSWORD))?.is_some_and(|found| found == *password);
            if is_ours || !is_used(&arguments.data)? {
                Ok(())
            } else {
                Err(BootstrapError::OtherCheckout { project })
            }
        }
        // Without a state the volumes are empty, because they are new or were removed. Only the
        // project that owns the folder may go on with it.
        Err(BootstrapError::NoState { .. }) => match read(&folder.join(PROJECT))? {
            Some(owner) if owner != project => Err(BootstrapError::OtherProject { owner, project }),
            _ => Ok(()),
        },
        Err(failure) => Err(failure),
    }
}

/// Reports whether a server has started to write data. Servers start only after the host folder is
/// complete.
fn is_used(data: &[PathBuf]) -> Result<bool, BootstrapError> {
    for folder in data {
        let failed = |source| BootstrapError::File { what: "read", path: folder.clone(), source };
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(data.is_empty())
}

fn read(path: &Path) -> Result<Option<String>, BootstrapError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BootstrapError::File { what: "read", path: path.to_owned(), source }),
    }
}

/// Writes the files for the user.
pub(crate) fn write(
    arguments: &CredentialsArguments,
    state: &State,
    host: Owner,
) -> Result<(), BootstrapError> {
    let folder = &arguments.host_folder;
    files::folder(folder, host)?;
    let login = Login::Token(state.token(ADMIN));
    let config = kubeconfig(&arguments.host_url, &state.authority, &login, None);
    files::write(&folder.join("kubeconfig"), &config, host)?;
    let password = state.passwords.get(nats::READER).map_or("", String::as_str);
    files::write(&folder.join(PROJECT), &format!("{}\n", arguments.project), host)?;
    // Written last, because these two files mark the folder as belonging to these volumes.
    files::write(&folder.join(PASSWORD), password, host)
}
