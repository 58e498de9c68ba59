//! Finds descriptor and contents of a component version from its manifest, in archives and
//! registries alike (`components.md` 6.2, 6.3).

use std::io::{self, Read};
use std::sync::Arc;

use groundwork_component::{Access, Blob, RepositoryError};
use serde::de::DeserializeOwned;

use crate::artifact::{self, ComponentConfig, LARGEST_DOCUMENT, Manifest};
use crate::artifact_set;
use crate::digest::{Digest, Verified};
use crate::tree::malformed;

/// Size limit of the content of a resource, in bytes.
pub(crate) const LARGEST_BLOB: u64 = 4 << 30;

/// Contents by digest. Implementations return unchecked bytes; the functions of this module compare
/// them with the digest.
pub(crate) trait Blobs {
    /// Name of a blob in messages.
    fn address(&self, digest: &Digest) -> String;

    /// Opens a manifest.
    fn manifest(&self, digest: &Digest) -> Result<Blob, RepositoryError>;

    /// Opens a blob that is not a manifest.
    fn blob(&self, digest: &Digest) -> Result<Blob, RepositoryError>;

    /// Reads a whole blob into memory.
    fn read(&self, blob: Blob, address: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        blob.read_all(address, limit)
    }

    /// Returns a document that was read before.
    fn document(&self, _: &Digest) -> Option<Arc<[u8]>> {
        None
    }

    /// Caches a document that has been compared with its digest.
    fn keep_document(&self, _: &Digest, _: &[u8]) {}
}

/// Returns the content of a blob, compared with its digest.
pub(crate) fn verified(
    blobs: &(impl Blobs + ?Sized),
    digest: &Digest,
    opened: Blob,
    limit: u64,
) -> Result<Blob, RepositoryError> {
    if opened.size.is_some_and(|size| size > limit) {
        return Err(RepositoryError::TooLarge { address: blobs.address(digest), limit });
    }
    let body = Verified::new(opened.body, digest.clone(), blobs.address(digest), limit);
    Ok(Blob { body: Box::new(body), ..opened })
}

pub(crate) fn blob(
    blobs: &(impl Blobs + ?Sized),
    digest: &Digest,
    limit: u64,
) -> Result<Blob, RepositoryError> {
    verified(blobs, digest, blobs.blob(digest)?, limit)
}

pub(crate) fn bytes(blobs: &(impl Blobs + ?Sized), digest: &Digest) -> Result<Vec<u8>, RepositoryError> {
    if let Some(known) = blobs.document(digest) {
        return Ok(known.to_vec());
    }
    let opened = blob(blobs, digest, LARGEST_DOCUMENT)?;
    let bytes = blobs.read(opened, &format!("the document {}", blobs.address(digest)), LARGEST_DOCUMENT)?;
    blobs.keep_document(digest, &bytes);
    Ok(bytes)
}

pub(crate) fn manifest_bytes(
    blobs: &(impl Blobs + ?Sized),
    digest: &Digest,
) -> Result<Vec<u8>, RepositoryError> {
    verified(blobs, digest, blobs.manifest(digest)?, LARGEST_DOCUMENT)?
        .read_all(&blobs.address(digest), LARGEST_DOCUMENT)
}

/// Returns the manifest behind a digest. An index stands for its first entry, which must be a
/// manifest.
pub(crate) fn main_manifest(
    blobs: &(impl Blobs + ?Sized),
    digest: &Digest,
) -> Result<(Digest, Vec<u8>, Manifest), RepositoryError> {
    let text = manifest_bytes(blobs, digest)?;
    let manifest: Manifest = decode(&blobs.address(digest), &text)?;
    match manifest.manifests.first() {
        Some(first) if manifest.config.is_none() => {
            let first = parse(blobs, &first.digest, digest)?;
            let text = manifest_bytes(blobs, &first)?;
            let manifest = decode(&blobs.address(&first), &text)?;
            Ok((first, text, manifest))
        }
        _ => Ok((digest.clone(), text, manifest)),
    }
}

/// Reports whether a manifest is that of a component version; archives may have other artifacts,
/// too.
pub(crate) fn is_component(blobs: &(impl Blobs + ?Sized), digest: &Digest) -> Result<bool, RepositoryError> {
    let (_, _, manifest) = main_manifest(blobs, digest)?;
    Ok(manifest.config.is_some_and(|config| artifact::check_config_type(&config.media_type).is_ok()))
}

/// Returns the component descriptor of a manifest; `None` if the config has no type.
pub(crate) fn descriptor(
    blobs: &(impl Blobs + ?Sized),
    digest: &Digest,
) -> Result<Option<Vec<u8>>, RepositoryError> {
    let (digest, _, manifest) = main_manifest(blobs, digest)?;
    let place = blobs.address(&digest);
    let config = manifest.config.ok_or_else(|| malformed(place.clone(), "the manifest has no config"))?;
    if config.media_type.is_empty() {
        return Ok(None);
    }
    artifact::check_config_type(&config.media_type).map_err(|problem| malformed(place.clone(), &problem))?;
    let config_digest = parse(blobs, &config.digest, &digest)?;
    let config: ComponentConfig = decode(&blobs.address(&config_digest), &bytes(blobs, &config_digest)?)?;
    let layer = config.component_descriptor_layer.ok_or_else(|| {
        malformed(place.clone(), "invalid component descriptor config: it does not name a descriptor layer")
    })?;
    let layer_digest = parse(blobs, &layer.digest, &config_digest)?;
    let document = artifact::unpack_descriptor(&bytes(blobs, &layer_digest)?, &layer.media_type)
        .map_err(|problem| malformed(blobs.address(&layer_digest), &problem))?;
    Ok(Some(document))
}

/// Returns a local blob. A reference may list several digests, of a blob that was uploaded in
/// pieces. If the access declares an artifact, the digest is that of a manifest, and the content is
/// the artifact as an archive.
pub(crate) fn local(
    blobs: &(impl Blobs + ?Sized),
    place: &str,
    reference: &str,
    media_type: &str,
) -> Result<Blob, RepositoryError> {
    let digests = reference.split(',').map(|part| {
        let part = part.trim();
        Digest::parse(part)
            .ok_or_else(|| malformed(place.to_owned(), &format!("{part:?} is not a sha256 digest")))
    });
    let digests: Vec<Digest> = digests.collect::<Result<_, _>>()?;
    if let [digest] = &digests[..] {
        if artifact::is_manifest_type(media_type) {
            return artifact_set::of_manifest(blobs, digest);
        }
        return blob(blobs, digest, LARGEST_BLOB);
    }
    let (mut size, mut body): (Option<u64>, Box<dyn Read + Send>) = (Some(0), Box::new(io::empty()));
    for digest in &digests {
        let part = blob(blobs, digest, LARGEST_BLOB)?;
        size = size.zip(part.size).and_then(|(sum, size)| sum.checked_add(size));
        body = Box::new(body.chain(part.body));
    }
    Ok(Blob { media_type: String::new(), size, body: Box::new(body.take(LARGEST_BLOB)) })
}

/// Returns the digest of an artifact that is stored as a manifest beside its component.
pub(crate) fn manifest_of(access: &Access) -> Option<String> {
    match access {
        Access::Local { reference, media_type } if artifact::is_manifest_type(media_type) => {
            Digest::parse(reference).map(|digest| digest.hex().to_owned())
        }
        _ => None,
    }
}

pub(crate) fn parse(
    blobs: &(impl Blobs + ?Sized),
    text: &str,
    place: &Digest,
) -> Result<Digest, RepositoryError> {
    Digest::parse(text)
        .ok_or_else(|| malformed(blobs.address(place), &format!("{text:?} is not a sha256 digest")))
}

pub(crate) fn decode<T: DeserializeOwned>(address: &str, bytes: &[u8]) -> Result<T, RepositoryError> {
    serde_json::from_slice(bytes).map_err(|error| {
        malformed(address.to_owned(), &format!("the content is not the expected JSON: {error}"))
    })
}
