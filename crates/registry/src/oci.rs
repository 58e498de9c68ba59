//! Component versions in an OCI registry (`components.md` 6.1 to 6.3).
//!
//! ```text
//! OciRepository (context) --name, version--> Place (one repository of the registry: Blobs)
//! Place --> Client (HTTP with Credentials)
//! ```

use std::sync::Arc;

use groundwork_component::{
    Access, Blob, Repository, RepositoryContext, RepositoryError, split_image_reference,
};

use crate::artifact::{self, MANIFEST_TYPES};
use crate::artifact_set;
use crate::blobs::{self, Blobs, LARGEST_BLOB};
use crate::digest::Digest;
use crate::tree::{malformed, shortened};

mod allowance;
mod challenge;
mod charts;
mod client;
mod kept;
mod keyring;
mod memory;
mod network;
mod ocm_credentials;
mod peers;
mod push;

pub use allowance::Allowance;
pub use charts::{
    Authorization, CHART, ChartClient, ChartError, LARGEST_CHART, RepositoryChartError, chart_of_content,
    is_packed_artifact, repository_url,
};
pub(crate) use client::{Call, Client};
pub use keyring::Keyring;
pub(crate) use keyring::{Consumer, Credentials};
pub use memory::{AnswerMemory, Holding};
pub use network::NetworkOptions;
pub(crate) use network::{Network, Reach};
pub(crate) use peers::Peers;
pub(crate) use push::push;
pub use push::{PushError, Pushed};

/// Size limit of a manifest in bytes. Registries refuse larger ones.
const LARGEST_MANIFEST: u64 = 4 << 20;
const DIGEST_HEADER: &str = "docker-content-digest";
/// Limit in characters for a text that a registry sends as a digest.
const LONGEST_DIGEST: usize = 100;

/// Bytes of a manifest, and the digest that the registry claims for them.
type Fetched = (Vec<u8>, Option<String>);

/// Registry as the repository of one context.
#[derive(Debug)]
pub(crate) struct OciRepository {
    pub(crate) client: Client,
    pub(crate) context: RepositoryContext,
    /// Access to contents in other registries; without it they cannot be read.
    pub(crate) peers: Option<Peers>,
}

/// One repository of a registry.
struct RemoteRepository<'a> {
    client: &'a Client,
    repository: String,
    /// Manifest that a tag led to, so that it is not fetched again by its digest.
    known: Option<(Digest, Vec<u8>)>,
}

impl<'a> RemoteRepository<'a> {
    /// Refuses an invalid repository name, which could change the address.
    fn new(client: &'a Client, repository: String) -> Result<Self, RepositoryError> {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let is_part = |part: &str| {
            part.bytes().all(is_letter)
                && part.bytes().any(|byte| byte.is_ascii_alphanumeric())
                && !part.contains("..")
        };
        if !repository.split('/').all(is_part) {
            let problem = format!("{repository:?} is not the name of a repository in a registry");
            return Err(malformed(client.host().to_owned(), &problem));
        }
        Ok(Self { client, repository, known: None })
    }

    fn tagged(&self, tag: &str) -> String {
        format!("{}/{}:{tag}", self.client.host(), self.repository)
    }

    /// Returns the digest behind a tag; `None` if the tag does not exist.
    fn find(&mut self, tag: &str) -> Result<Option<Digest>, RepositoryError> {
        let address = self.tagged(tag);
        if !is_tag(tag) {
            return Err(malformed(address, "the version cannot be a tag in a registry"));
        }
        let Some((bytes, promised)) = self.fetch(tag, &address)? else { return Ok(None) };
        let digest = Digest::of(&bytes);
        if let Some(promised) = promised.filter(|promised| *promised != digest.to_string()) {
            let (expected, actual) = (shortened(&promised, LONGEST_DIGEST), digest.to_string());
            return Err(RepositoryError::Digest { address, expected, actual });
        }
        self.known = Some((digest.clone(), bytes));
        Ok(Some(digest))
    }

    /// Fetches a manifest by tag or digest, with the digest that the registry claims for it.
    fn fetch(&self, reference: &str, address: &str) -> Result<Option<Fetched>, RepositoryError> {
        let accept = MANIFEST_TYPES.join(", ");
        let path = format!("manifests/{reference}");
        let Some(response) = self.client.get(&self.repository, &path, &accept, address)? else {
            return Ok(None);
        };
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let media_type =
            header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !artifact::is_manifest_type(media_type) {
            let problem = format!(
                "the registry answers with content type {media_type:?}, which is not the type of a manifest"
            );
            return Err(malformed(address.to_owned(), &problem));
        }
        let promised = header(DIGEST_HEADER).filter(|text| text.starts_with("sha256:")).map(str::to_owned);
        let bytes = self.client.read(response, &format!("the manifest {address}"), LARGEST_MANIFEST)?;
        Ok(Some((bytes, promised)))
    }
}

fn is_tag(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= 128 && text.bytes().all(is_letter)
}

impl Blobs for RemoteRepository<'_> {
    fn address(&self, digest: &Digest) -> String {
        format!("{}/{}@{digest}", self.client.host(), self.repository)
    }

    fn manifest(&self, digest: &Digest) -> Result<Blob, RepositoryError> {
        if let Some((known, bytes)) = &self.known
            && known == digest
        {
            return Ok(Blob::from_bytes("", bytes.clone()));
        }
        let address = self.address(digest);
        let fetched = self.fetch(&digest.to_string(), &address)?;
        let (bytes, _) = fetched.ok_or(RepositoryError::Missing { address })?;
        Ok(Blob::from_bytes("", bytes))
    }

    fn blob(&self, digest: &Digest) -> Result<Blob, RepositoryError> {
        let address = self.address(digest);
        let response = self.client.get(&self.repository, &format!("blobs/{digest}"), "*/*", &address)?;
        match response {
            Some(response) => Ok(self.client.blob(response, &address)),
            None => Err(RepositoryError::Missing { address }),
        }
    }

    fn read(&self, blob: Blob, address: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        self.client.allowance().read_all(blob, address, limit)
    }

    fn document(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.client.kept().document(&self.repository, digest)
    }

    fn keep_document(&self, digest: &Digest, content: &[u8]) {
        self.client.kept().keep_document(&self.repository, digest, content);
    }
}

impl OciRepository {
    fn place(&self, name: &str) -> Result<RemoteRepository<'_>, RepositoryError> {
        RemoteRepository::new(
            &self.client,
            self.client.below(&artifact::repository_path(&self.context, name)?),
        )
    }

    /// Returns the client for an artifact or blob, and its name at that host.
    fn client_of(&self, reference: &str) -> Result<(Client, String), RepositoryError> {
        let (host, rest) = split_image_reference(reference);
        let name = host.split_once("://").map_or(host.as_str(), |(_, name)| name);
        if name == self.client.host() {
            return Ok((self.client.clone(), rest));
        }
        match &self.peers {
            Some(peers) => Ok((peers.client(&host)?, rest)),
            None => Err(RepositoryError::Elsewhere { address: reference.to_owned() }),
        }
    }
}

/// Fetches an artifact as an archive.
fn fetch_artifact(client: &Client, reference: &str) -> Result<Blob, RepositoryError> {
    let (place, digest) = find_artifact(client, reference)?;
    artifact_set::of_manifest(&place, &digest)
}

/// Returns the repository of an artifact, and the digest of its manifest or index.
fn find_artifact<'a>(
    client: &'a Client,
    reference: &str,
) -> Result<(RemoteRepository<'a>, Digest), RepositoryError> {
    let (tagged, digest) = match reference.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (reference, None),
    };
    let (repository, tag) = tagged.split_once(':').unwrap_or((tagged, "latest"));
    let mut place = RemoteRepository::new(client, repository.to_owned())?;
    let digest = match digest {
        Some(text) => Digest::parse(text)
            .ok_or_else(|| malformed(place.tagged(tag), &format!("{text:?} is not a sha256 digest")))?,
        None => place.find(tag)?.ok_or_else(|| RepositoryError::Missing { address: place.tagged(tag) })?,
    };
    Ok((place, digest))
}

impl Repository for OciRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let mut place = self.place(name)?;
        match place.find(&artifact::tag(version))? {
            Some(manifest) => blobs::descriptor(&place, &manifest),
            None => Ok(None),
        }
    }

    fn content(&self, name: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        match access {
            Access::Local { reference, media_type } => {
                let place = self.place(name)?;
                let address = format!("{}/{}", self.client.host(), place.repository);
                blobs::local(&place, &address, reference, media_type)
            }
            Access::Artifact { reference } => {
                let (client, rest) = self.client_of(reference)?;
                fetch_artifact(&client, &rest)
            }
            Access::RelativeArtifact { reference } => {
                fetch_artifact(&self.client, reference.trim_start_matches('/'))
            }
            Access::Outside(_) => Err(RepositoryError::Elsewhere { address: access.to_string() }),
            Access::Layer { repository, digest, .. } => {
                let (client, name) = self.client_of(repository)?;
                let place = RemoteRepository::new(&client, name)?;
                let problem = || malformed(repository.clone(), &format!("{digest:?} is not a sha256 digest"));
                blobs::blob(&place, &Digest::parse(digest).ok_or_else(problem)?, LARGEST_BLOB)
            }
        }
    }

    fn artifact_digest(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Option<String>, RepositoryError> {
        let (client, rest) = match access {
            Access::Artifact { reference } => self.client_of(reference)?,
            Access::RelativeArtifact { reference } => {
                (self.client.clone(), reference.trim_start_matches('/').to_owned())
            }
            other => return artifact_set::digest_of_local(self, (name, version), other),
        };
        let (_, digest) = find_artifact(&client, &rest)?;
        Ok(Some(digest.hex().to_owned()))
    }
}

#[cfg(test)]
mod tests;
