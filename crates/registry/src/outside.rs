//! Contents outside of component repositories, where an operator permits them (`components.md`
//! 6.10).
//!
//! ```text
//! RepositoryMap ──accesses──> Permissions ─┐
//! WithOutside (one repository) ──> Fetcher ┴─> download, commit, object: Client
//!                                              chart: ChartClient
//!                                              file: the tree of the store
//! ```

mod chart;
mod commit;
mod download;
mod file;
mod object;
mod permissions;
mod signing;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use groundwork_component::{
    Access, Blob, LoadedDescriptor, Outside, Repository, RepositoryContext, RepositoryError,
};
use ureq::Body;
use ureq::http::Response;

use crate::blobs::LARGEST_BLOB;
use crate::digest::Verified;
use crate::map::Registry;
use crate::oci::{Allowance, Client, Consumer, Keyring, NetworkOptions, Reach};
use crate::tree::{Tree, malformed};
use permissions::{ContentAddress, Kind};

pub(crate) use permissions::{Permission, Permissions};

/// Repository whose contents outside of component repositories are fetched from where they are.
pub(crate) struct WithOutside {
    /// Repository of the component versions, if there is one.
    pub(crate) inner: Option<Arc<dyn Repository>>,
    pub(crate) fetcher: Fetcher,
}

/// Access to contents outside of component repositories for one piece of work.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) options: NetworkOptions,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) allowance: Allowance,
    /// Files of the component's store; `None` in services.
    pub(crate) files: Option<Tree>,
}

impl WithOutside {
    fn missing<T>(access: &Access) -> Result<T, RepositoryError> {
        Err(RepositoryError::Missing { address: access.to_string() })
    }
}

impl Repository for WithOutside {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        self.inner.as_ref().map_or(Ok(None), |inner| inner.descriptor(name, version))
    }

    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        self.inner.as_ref().map_or(Ok(None), |inner| inner.load(name, version, context))
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        match (access, &self.inner) {
            (Access::Outside(outside), _) => self.fetcher.fetch(outside),
            (_, Some(inner)) => inner.content(name, version, access),
            (_, None) => Self::missing(access),
        }
    }

    fn artifact_digest(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Option<String>, RepositoryError> {
        match (access, &self.inner) {
            (Access::Outside(Outside::Chart(chart)), _) => chart::manifest_digest(&self.fetcher, chart),
            (Access::Outside(_), _) => Ok(None),
            (_, Some(inner)) => inner.artifact_digest(name, version, access),
            (_, None) => Self::missing(access),
        }
    }
}

impl Fetcher {
    fn fetch(&self, outside: &Outside) -> Result<Blob, RepositoryError> {
        match outside {
            Outside::Download(download) => download::open(self, download),
            Outside::Commit(commit) => commit::open(self, commit),
            Outside::Object(object) => object::open(self, object),
            Outside::Chart(chart) => chart::open(self, chart),
            Outside::File(file) => match &self.files {
                Some(tree) => file::open(tree, file),
                None => {
                    let problem = "the access type file works only where the command reads the component from files; \
                                   put the content into the component";
                    Err(malformed(file.uri.clone(), problem))
                }
            },
        }
    }

    /// Returns the entry that permits a place. `address` is its name in messages.
    fn permission(
        &self,
        kind: Kind,
        place: &ContentAddress,
        address: &str,
    ) -> Result<&Permission, RepositoryError> {
        self.permissions.find(kind, place).ok_or_else(|| RepositoryError::NotPermitted {
            address: address.to_owned(),
            type_name: kind.name().to_owned(),
            map: self.permissions.map().to_owned(),
        })
    }

    /// Returns the credentials of an entry, before those of the Context.
    fn keyring(&self, permission: &Permission) -> Result<Arc<Keyring>, RepositoryError> {
        let Some(path) = &permission.ocm_config else { return Ok(Arc::clone(&self.keyring)) };
        let mut keyring = Keyring::of_ocm_file(path)?;
        keyring.extend(&self.keyring);
        Ok(Arc::new(keyring))
    }

    /// Returns the file of certificates to trust, in place of those of the system.
    fn authorities<'a>(&'a self, permission: &'a Permission) -> Option<&'a PathBuf> {
        permission.ca.as_ref().or(self.options.ca.as_ref())
    }

    fn roots(&self, permission: &Permission) -> Result<Option<Vec<u8>>, RepositoryError> {
        let Some(path) = self.authorities(permission) else { return Ok(None) };
        fs::read(path).map(Some).map_err(|error| {
            let (address, cause) = (path.display().to_string(), error.to_string());
            RepositoryError::Unreadable { address, cause }
        })
    }

    /// Returns the addresses that a client may connect to. `named` is the host, with its port if it
    /// has one, that an entry names.
    fn reach(&self, named: Option<String>) -> Reach {
        if self.options.only_public { Reach::Public { and: named } } else { Reach::All }
    }

    /// Creates a client for a scheme and an authority.
    fn client(&self, permission: &Permission, origin: &str, reach: Reach) -> Result<Client, RepositoryError> {
        let registry = Registry::new(origin, None, self.authorities(permission).cloned())
            .map_err(|problem| malformed(origin.to_owned(), problem))?;
        Ok(Client::plain(&registry, reach)?.within(&self.allowance))
    }
}

/// Credentials for a request.
#[derive(Default)]
struct Authority {
    /// Value of the header `Authorization`.
    header: Option<String>,
    /// Source of the credentials, for messages.
    source: Option<String>,
}

impl Authority {
    fn find(keyring: &Keyring, consumer: Consumer, host: &str, path: &str) -> Self {
        let found = keyring.find_for(consumer, host, path.trim_matches('/'));
        Self {
            header: found.as_ref().and_then(|found| found.credentials.header()),
            source: found.map(|found| found.source.to_owned()),
        }
    }
}

/// Returns the content of an answer under its media type, at most [`LARGEST_BLOB`] bytes.
fn content(
    client: &Client,
    response: Response<Body>,
    address: &str,
    credentials: Option<String>,
) -> Result<Blob, RepositoryError> {
    let address = address.to_owned();
    match response.status().as_u16() {
        200..300 => {}
        404 | 410 => return Err(RepositoryError::Missing { address }),
        401 | 403 => {
            let credentials = credentials.unwrap_or_else(|| "none".to_owned());
            return Err(RepositoryError::Denied { address, credentials });
        }
        status @ 300..=399 => {
            let cause = format!("it redirects with status {status}, which is not followed here");
            return Err(client.unreachable(&address, &cause));
        }
        status => return Err(client.unreachable(&address, &format!("it answers with status {status}"))),
    }
    let header = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    let media_type = header.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_owned();
    let blob = client.blob(response, &address);
    if blob.size.is_some_and(|size| size > LARGEST_BLOB) {
        return Err(RepositoryError::TooLarge { address, limit: LARGEST_BLOB });
    }
    Ok(Blob { media_type, body: Box::new(Verified::new(blob.body, None, address, LARGEST_BLOB)), ..blob })
}

#[cfg(test)]
mod tests;
