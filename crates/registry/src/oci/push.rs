//! Writes artifacts of a transport archive into a registry, unchanged.

use std::io::{self, Cursor};

use groundwork_component::{Blob, RepositoryError};
use ureq::http::{Method, Response};
use ureq::{Body, ResponseExt as _};

use super::allowance::Allowance;
use super::client::{self, Call, Client};
use super::{LARGEST_MANIFEST, RemoteRepository};
use crate::artifact::{self, BlobDescriptor, Manifest};
use crate::blobs::{self, Blobs, LARGEST_BLOB};
use crate::ctf::Ctf;
use crate::digest::Digest;
use crate::map::Registry;

/// Result for one artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Host, repository and tag.
    pub address: String,
    /// Digest of its manifest, which is the same in the archive and in the registry.
    pub digest: Digest,
    /// True if the registry had the artifact already, with this digest.
    pub is_unchanged: bool,
}

/// Reason that an artifact was not written.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The registry has the version with other content, and a version must keep its content.
    #[error(
        "{address} already exists with other content ({present}; the new content is {own}): use another version"
    )]
    Exists { address: String, present: String, own: String },
}

/// Writes every tagged artifact of the archive below the path of the registry. Blobs are written
/// before the manifests that refer to them, so readers never see an incomplete artifact. Blobs that
/// the registry has are not sent.
pub(crate) fn push(archive: &Ctf, registry: &Registry, replace: bool) -> Result<Vec<Pushed>, PushError> {
    let client = Client::for_writing(registry)?;
    let reading = client.within(&Allowance::unsaid());
    let mut pushed = Vec::new();
    for (repository, tag, digest) in archive.artifacts()? {
        let place = RemoteRepository::new(&client, client.below(&repository))?;
        let address = place.tagged(&tag);
        let present = RemoteRepository::new(&reading, client.below(&repository))?.find(&tag)?;
        let is_unchanged = present.as_ref() == Some(&digest);
        match present {
            Some(present) if !is_unchanged && !replace => {
                let (present, own) = (present.to_string(), digest.to_string());
                return Err(PushError::Exists { address, present, own });
            }
            _ if is_unchanged => {}
            _ => place.push(archive, &digest, &tag)?,
        }
        pushed.push(Pushed { address, digest, is_unchanged });
    }
    Ok(pushed)
}

impl RemoteRepository<'_> {
    /// Writes a manifest, after everything that it refers to.
    fn push(&self, archive: &Ctf, digest: &Digest, reference: &str) -> Result<(), RepositoryError> {
        let text = blobs::manifest_bytes(archive, digest)?;
        let manifest: Manifest = blobs::decode(&archive.address(digest), &text)?;
        for part in manifest.config.iter().chain(&manifest.layers) {
            self.push_blob(archive, digest, part)?;
        }
        for nested in &manifest.manifests {
            let nested = blobs::parse(archive, &nested.digest, digest)?;
            // This recursion ends: an index cannot contain its own digest, which depends on its
            // content.
            self.push(archive, &nested, &nested.to_string())?;
        }
        let media_type = manifest.media_type.as_deref().unwrap_or(artifact::MANIFEST);
        if text.len() as u64 > LARGEST_MANIFEST {
            return Err(RepositoryError::TooLarge {
                address: archive.address(digest),
                limit: LARGEST_MANIFEST,
            });
        }
        let url = self.client.url(&self.repository, &format!("manifests/{reference}"));
        let headers = [("content-type", media_type)];
        let open = || Ok(Blob::from_bytes("", text.clone()));
        let call = Call { method: &Method::PUT, url: &url, headers: &headers, body: Some(&open) };
        self.expect(call, &[201, 200, 202], &self.tagged(reference)).map(drop)
    }

    fn push_blob(
        &self,
        archive: &Ctf,
        manifest: &Digest,
        part: &BlobDescriptor,
    ) -> Result<(), RepositoryError> {
        let digest = blobs::parse(archive, &part.digest, manifest)?;
        let address = self.address(&digest);
        let url = self.client.url(&self.repository, &format!("blobs/{digest}"));
        let head = Call { method: &Method::HEAD, url: &url, headers: &[], body: None };
        if self.client.exchange(&self.repository, head, &address)?.status().as_u16() == 200 {
            return Ok(());
        }
        // Read the blob to its end first, to find a wrong digest: the registry's error would not
        // say what is wrong.
        let open = || blobs::blob(archive, &digest, LARGEST_BLOB);
        io::copy(&mut open()?.body, &mut io::sink())
            .map_err(|error| RepositoryError::of_read(&error, &archive.address(&digest)))?;
        let start_url = self.client.url(&self.repository, "blobs/uploads/");
        let nothing =
            || Ok(Blob { media_type: String::new(), size: Some(0), body: Box::new(Cursor::new([])) });
        let start = Call { method: &Method::POST, url: &start_url, headers: &[], body: Some(&nothing) };
        let started = self.expect(start, &[202], &address)?;
        let target = self.upload_address(&started, &digest, &address)?;
        let headers = [("content-type", "application/octet-stream")];
        let call = Call { method: &Method::PUT, url: &target, headers: &headers, body: Some(&open) };
        self.expect(call, &[201, 204], &address).map(drop)
    }

    /// Returns the address for the upload, which must be on the registry's own host, since
    /// credentials are sent there.
    fn upload_address(
        &self,
        started: &Response<Body>,
        digest: &Digest,
        address: &str,
    ) -> Result<String, RepositoryError> {
        let from = started.get_uri().to_string();
        let location = started.headers().get("location").and_then(|value| value.to_str().ok());
        let next = location.and_then(|location| client::redirect(&from, location));
        let own = next.filter(|next| client::origin(next) == client::origin(&from));
        let next = own.ok_or_else(|| {
            self.client.unreachable(address, "it does not name an address of its own for the upload")
        })?;
        let separator = if next.contains('?') { '&' } else { '?' };
        Ok(format!("{next}{separator}digest={digest}"))
    }

    fn expect(
        &self,
        call: Call<'_>,
        statuses: &[u16],
        address: &str,
    ) -> Result<Response<Body>, RepositoryError> {
        let response = self.client.exchange(&self.repository, call, address)?;
        let status = response.status().as_u16();
        if statuses.contains(&status) {
            return Ok(response);
        }
        Err(self.client.unreachable(address, &format!("it answers with status {status}")))
    }
}
