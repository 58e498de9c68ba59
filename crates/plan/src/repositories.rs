//! Cache of component versions for one plan, as each job has one (`components.md` 4.3).
//!
//! It makes all parts of the plan refer to the same content, and accesses an unreachable registry
//! only once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::Context;
use groundwork_component::{Access, Blob, LoadedDescriptor, Repository, RepositoryContext, RepositoryError};

use crate::environment::Sources;

/// Bytes of the largest cached content. Larger content is read again for each use.
const LARGEST: u64 = 4 << 20;
/// Largest number of cached contents.
const MOST: usize = 64;

/// Cached responses by request.
type Kept<K, V> = Mutex<HashMap<K, Result<V, RepositoryError>>>;

pub(crate) struct ReadOnce<'a> {
    inner: &'a dyn Sources,
    opened: Kept<Opened, Arc<dyn Repository>>,
}

/// Namespace, names of pull secrets, and repository. Other credentials may have access to other
/// content.
type Opened = (String, Vec<String>, String);

impl<'a> ReadOnce<'a> {
    pub(crate) fn new(inner: &'a dyn Sources) -> Self {
        Self { inner, opened: Mutex::default() }
    }
}

impl Sources for ReadOnce<'_> {
    fn open_for(
        &self,
        namespace: &str,
        context: Option<&Context>,
        repository: &RepositoryContext,
    ) -> Result<Arc<dyn Repository>, RepositoryError> {
        let pull_secrets = context.into_iter().flat_map(Context::pull_secrets).map(str::to_owned);
        let key = (namespace.to_owned(), pull_secrets.collect(), repository.to_json());
        once(&self.opened, key, || {
            let inner = self.inner.open_for(namespace, context, repository)?;
            Ok(Arc::new(Reading {
                inner,
                descriptors: Mutex::default(),
                loaded: Mutex::default(),
                contents: Mutex::default(),
            }))
        })
    }
}

type Version = (String, String);
type Contents = Mutex<HashMap<(Version, Access), (String, Arc<[u8]>)>>;

struct Reading {
    inner: Arc<dyn Repository>,
    descriptors: Kept<Version, Option<Vec<u8>>>,
    /// Decoded descriptors, by version and the context that they were decoded for.
    loaded: Kept<(Version, String), Option<LoadedDescriptor>>,
    /// Media type and bytes of each content that was read.
    contents: Contents,
}

impl Repository for Reading {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        once(&self.descriptors, version_of(name, version), || self.inner.descriptor(name, version))
    }

    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        once(&self.loaded, (version_of(name, version), context.to_json()), || {
            self.inner.load(name, version, context)
        })
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let key = (version_of(name, version), access.clone());
        let found = self.contents.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((media_type, bytes)) = found {
            return Ok(Blob::from_bytes(media_type, bytes.to_vec()));
        }
        let blob = self.inner.content(name, version, access)?;
        if blob.size.is_none_or(|size| size > LARGEST) {
            return Ok(blob);
        }
        let media_type = blob.media_type.clone();
        let bytes = blob.read_all(&access.to_string(), LARGEST)?;
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if contents.len() < MOST {
            contents.insert(key, (media_type.clone(), bytes.as_slice().into()));
        }
        Ok(Blob::from_bytes(media_type, bytes))
    }

    fn artifact_digest(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Option<String>, RepositoryError> {
        self.inner.artifact_digest(name, version, access)
    }
}

fn version_of(name: &str, version: &str) -> Version {
    (name.to_owned(), version.to_owned())
}

fn once<K: Eq + Hash, V: Clone>(
    kept: &Kept<K, V>,
    key: K,
    read: impl FnOnce() -> Result<V, RepositoryError>,
) -> Result<V, RepositoryError> {
    let found = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    found.unwrap_or_else(|| {
        let answer = read();
        kept.lock().unwrap_or_else(PoisonError::into_inner).insert(key, answer.clone());
        answer
    })
}
