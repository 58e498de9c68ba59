//! Repository map of a file, which is read again when the file changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::{Allowance, Keyring, MapError, NetworkOptions, RepositoryMap};
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};

/// Minimum time between two checks of the file.
const LOOK: Duration = Duration::from_secs(1);

/// Map and its file.
#[derive(Debug)]
pub struct MapFile {
    path: Option<PathBuf>,
    network: NetworkOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    map: Arc<RepositoryMap>,
    stamp: Option<Stamp>,
    looked: Instant,
}

/// Time and size of a file, which show that it has changed.
type Stamp = (SystemTime, u64);

impl MapFile {
    /// Reads the file. Without a file the map is empty, and its messages say so.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn open(path: Option<&Path>, network: NetworkOptions) -> Result<Self, MapError> {
        let map = match path {
            Some(path) => RepositoryMap::load(path)?,
            None => RepositoryMap::empty("the file of --repositories (none is given)"),
        };
        let stamp = path.and_then(stamp);
        let map = map.with_network(network.clone());
        let state = State { map: Arc::new(map), stamp, looked: Instant::now() };
        Ok(Self { path: path.map(Path::to_owned), network, state: Mutex::new(state) })
    }

    /// Returns the current map of the file. If the file has become invalid, the former map stays,
    /// and the log gives the reason.
    pub fn map(&self) -> Arc<RepositoryMap> {
        self.map_after(LOOK)
    }

    fn map_after(&self, pause: Duration) -> Arc<RepositoryMap> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &self.path
            && state.looked.elapsed() >= pause
        {
            state.looked = Instant::now();
            let stamp = stamp(path);
            if stamp != state.stamp {
                state.stamp = stamp;
                match RepositoryMap::load(path) {
                    Ok(map) => {
                        tracing::info!(path = %path.display(), "the repository map was read again");
                        state.map = Arc::new(map.with_network(self.network.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the changed repository map cannot be used; the previous one stays in \
                                                use");
                    }
                }
            }
        }
        Arc::clone(&state.map)
    }
}

/// Repositories of a map, with the credentials of one Context and an allowance.
#[derive(Debug, Clone)]
pub struct ContextRepositories {
    pub map: Arc<RepositoryMap>,
    pub keyring: Arc<Keyring>,
    pub allowance: Allowance,
}

impl Repositories for ContextRepositories {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        self.map.open_with(context, &self.keyring, &self.allowance)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_follows_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("repositories.yaml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let entry = "- context: {type: ociRegistry, baseUrl: example.org}\n  directory: own\n";
        write("repositories: []\n");
        let file = MapFile::open(Some(&path), NetworkOptions::default()).unwrap();
        let stores = || file.map_after(Duration::ZERO).stores().count();
        assert_eq!(stores(), 0);
        write(&format!("repositories:\n{entry}"));
        assert_eq!(stores(), 1);
        write("repositories: 5 is no list\n");
        assert_eq!(stores(), 1, "what cannot be used changes nothing");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(stores(), 1);
        write("repositories: []\n");
        assert_eq!(stores(), 0);
        assert_eq!(MapFile::open(None, NetworkOptions::default()).unwrap().map().stores().count(), 0);
    }
}
