//! A whole artifact as one archive (`components.md` 6.8), made while it is read.

use std::io::{self, Read};

use groundwork_component::{Blob, RepositoryError};
use serde_json::json;

use crate::artifact::{self, Manifest};
use crate::blobs::{self, Blobs, LARGEST_BLOB};
use crate::digest::Digest;
use crate::tree::malformed;
use crate::write::tar_header;

/// Layers that an artifact may have.
const MOST_LAYERS: usize = 1_000;
const BLOCK: u64 = 512;

/// The archive of the artifact that a digest leads to; of an index its first manifest.
pub(crate) fn of_manifest(blobs: &(impl Blobs + ?Sized), digest: &Digest) -> Result<Blob, RepositoryError> {
    let (digest, text, manifest) = blobs::main_manifest(blobs, digest)?;
    let place = blobs.address(&digest);
    let media_type = manifest.media_type.clone().unwrap_or_else(|| artifact::MANIFEST.to_owned());
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{"mediaType": media_type, "digest": digest.to_string(), "size": text.len()}],
        "annotations": {"software.ocm/main": digest.to_string()},
    });
    let mut set = Set { size: 0, body: Box::new(io::empty()) };
    let layout = br#"{"imageLayoutVersion":"1.0.0"}"#;
    set.append("oci-layout", layout.len() as u64, Box::new(&layout[..]));
    let index = index.to_string().into_bytes();
    set.append("index.json", index.len() as u64, Box::new(io::Cursor::new(index)));
    set.append(&name(&digest), text.len() as u64, Box::new(io::Cursor::new(text)));
    for (digest, size) in contents(blobs, &digest, &manifest)? {
        let opened = blobs::blob(blobs, &digest, LARGEST_BLOB)?;
        if opened.size.is_some_and(|found| found != size) {
            let problem = format!("it has {} bytes instead of {size}", opened.size.unwrap_or_default());
            return Err(malformed(blobs.address(&digest), &problem));
        }
        set.append(&name(&digest), size, opened.body);
        if set.size > LARGEST_BLOB {
            return Err(RepositoryError::TooLarge { address: place, limit: LARGEST_BLOB });
        }
    }
    let end = 2 * BLOCK;
    let body = set.body.chain(io::repeat(0).take(end));
    let media_type = format!("{}+tar", media_type.strip_suffix("+json").unwrap_or(&media_type));
    Ok(Blob { media_type, size: Some(set.size + end), body: Box::new(body) })
}

/// Config and layers, each once.
fn contents(
    blobs: &(impl Blobs + ?Sized),
    place: &Digest,
    manifest: &Manifest,
) -> Result<Vec<(Digest, u64)>, RepositoryError> {
    if manifest.layers.len() > MOST_LAYERS {
        let problem = format!("the manifest has more than {MOST_LAYERS} layers");
        return Err(malformed(blobs.address(place), &problem));
    }
    let mut found: Vec<(Digest, u64)> = Vec::new();
    for content in manifest.config.iter().chain(&manifest.layers) {
        let digest = blobs::parse(blobs, &content.digest, place)?;
        if found.iter().all(|(known, _)| *known != digest) {
            found.push((digest, content.size));
        }
    }
    Ok(found)
}

fn name(digest: &Digest) -> String {
    format!("blobs/{}", digest.file_name())
}

struct Set {
    size: u64,
    body: Box<dyn Read + Send>,
}

impl Set {
    fn append(&mut self, name: &str, size: u64, content: Box<dyn Read + Send>) {
        let header = tar_header(name, size);
        let padding = size.next_multiple_of(BLOCK) - size;
        let former = std::mem::replace(&mut self.body, Box::new(io::empty()));
        let content = Exact { inner: content, left: size };
        let entry = io::Cursor::new(header).chain(content).chain(io::repeat(0).take(padding));
        self.body = Box::new(former.chain(entry));
        self.size += BLOCK + size + padding;
    }
}

/// So many bytes and no others: what follows in the archive would be read in their place.
struct Exact {
    inner: Box<dyn Read + Send>,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("the content is longer than its manifest says"))?;
        Ok(count)
    }
}
