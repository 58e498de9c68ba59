//! Whole artifacts as one archive (`components.md` 6.8), generated while it is read.

use std::io::{self, BufRead as _, Read};

use flate2::read::MultiGzDecoder;
use groundwork_component::{Access, Blob, Repository, RepositoryError};
use serde_json::{Value, json};

use crate::artifact::{self, Manifest};
use crate::blobs::{self, Blobs, LARGEST_BLOB};
use crate::digest::Digest;
use crate::tree::malformed;
use crate::write::tar_header;

/// Limit for the layers of an artifact. Images have far fewer.
const MOST_LAYERS: usize = 1_000;
const BLOCK: u64 = 512;
const LARGEST_MANIFEST: u64 = 4 << 20;
const INDEX_FILES: [&str; 2] = ["index.json", "artifact-descriptor.json"];

/// Type of an OCI image layout in an archive, without the suffixes for packing.
const LAYOUT: &str = "application/vnd.ocm.software.oci.layout.v1";

/// Reports whether content of this media type is an artifact packed into an archive.
pub(crate) fn is_packed(media_type: &str) -> bool {
    let packed = media_type.strip_suffix("+gzip").unwrap_or(media_type);
    packed
        .strip_suffix("+tar")
        .is_some_and(|artifact| artifact == LAYOUT || artifact::is_manifest_type(&format!("{artifact}+json")))
}

/// Returns the digest, in hex, of the manifest of an artifact stored beside its component. Returns
/// `None` for other content.
pub(crate) fn digest_of_local(
    repository: &dyn Repository,
    (name, version): (&str, &str),
    access: &Access,
) -> Result<Option<String>, RepositoryError> {
    let Access::Local { media_type, .. } = access else { return Ok(None) };
    if !is_packed(media_type) {
        return Ok(blobs::manifest_of(access));
    }
    main_digest(repository.content(name, version, access)?, &access.to_string()).map(Some)
}

/// Returns one blob of a packed artifact, checked against its digest; `None` if the archive does
/// not have the blob.
pub(crate) fn part(
    content: &[u8],
    digest: &Digest,
    limit: u64,
    address: &str,
) -> Result<Option<Vec<u8>>, RepositoryError> {
    let broken = |error: io::Error| {
        malformed(address.to_owned(), &format!("the archive is not an artifact set: {error}"))
    };
    let mut archive = unpacked(Box::new(io::Cursor::new(content))).map_err(broken)?;
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        if name != format!("blobs/{}", digest.file_name()) && name != format!("blobs/sha256/{}", digest.hex())
        {
            continue;
        }
        if entry.size() > limit {
            return Err(RepositoryError::TooLarge { address: format!("{digest} of {address}"), limit });
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(limit).read_to_end(&mut bytes).map_err(broken)?;
        let actual = Digest::of(&bytes);
        return if actual == *digest {
            Ok(Some(bytes))
        } else {
            let (expected, actual) = (digest.to_string(), actual.to_string());
            Err(RepositoryError::Digest { address: address.to_owned(), expected, actual })
        };
    }
    Ok(None)
}

/// Opens an archive, compressed or not.
fn unpacked<'a>(body: Box<dyn Read + 'a>) -> io::Result<tar::Archive<io::Take<Box<dyn Read + 'a>>>> {
    let mut body = io::BufReader::new(body);
    let is_compressed = body.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let body: Box<dyn Read + 'a> =
        if is_compressed { Box::new(MultiGzDecoder::new(body)) } else { Box::new(body) };
    Ok(tar::Archive::new(body.take(LARGEST_BLOB)))
}

/// Returns the digest of the main manifest of a packed artifact. The manifest has to be in the
/// archive and match its digest. Layers are checked against the manifest when they are read.
pub(crate) fn main_digest(blob: Blob, address: &str) -> Result<String, RepositoryError> {
    let broken = |error: io::Error| match error.get_ref() {
        Some(source) if source.is::<RepositoryError>() => RepositoryError::of_read(&error, address),
        _ => malformed(address.to_owned(), &format!("the archive is not an artifact set: {error}")),
    };
    let mut archive = unpacked(blob.body).map_err(broken)?;
    let (mut index, mut documents) = (None, Documents::default());
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        let is_index = INDEX_FILES.contains(&name.as_str());
        // A larger entry is a layer, since manifests are small.
        if entry.size() > LARGEST_MANIFEST || !(is_index || name.starts_with("blobs/")) {
            continue;
        }
        let mut content = Vec::new();
        entry.by_ref().take(LARGEST_MANIFEST).read_to_end(&mut content).map_err(broken)?;
        if is_index {
            index = Some(content);
        } else {
            documents.add(&content);
        }
    }
    // Read to the end, where the blob compares its own digest.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
    let wrong = |problem: &str| malformed(address.to_owned(), problem);
    let index: Value = serde_json::from_slice(&index.ok_or_else(|| wrong("it has no index.json"))?)
        .map_err(|_| wrong("its index.json is not JSON"))?;
    let main = index.pointer("/annotations/software.ocm~1main").and_then(Value::as_str);
    let listed = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    let listed = listed.filter_map(|entry| entry.get("digest")?.as_str().and_then(Digest::parse));
    let main = match main {
        Some(main) => Digest::parse(main),
        None => documents.only_top_of(listed),
    };
    match main.filter(|digest| documents.digests.contains(digest)) {
        Some(digest) => Ok(digest.hex().to_owned()),
        None => Err(wrong("its index.json does not refer to exactly one manifest in the archive")),
    }
}

/// Small blobs of an archive: manifests, indexes and configs.
#[derive(Default)]
struct Documents {
    digests: Vec<Digest>,
    /// Digests of the manifests that indexes in the archive name.
    named: Vec<Digest>,
    /// Digests of manifests that are about another one, such as a signature.
    referrers: Vec<Digest>,
}

impl Documents {
    fn add(&mut self, content: &[u8]) {
        if self.digests.len() >= MOST_LAYERS {
            return;
        }
        let digest = Digest::of(content);
        if let Ok(Value::Object(document)) = serde_json::from_slice::<Value>(content) {
            if document.get("subject").is_some_and(Value::is_object) {
                self.referrers.push(digest.clone());
            }
            let parts = document.get("manifests").and_then(Value::as_array).into_iter().flatten();
            let parts = parts.filter_map(|part| part.get("digest")?.as_str().and_then(Digest::parse));
            self.named.extend(parts.take(MOST_LAYERS));
        }
        self.digests.push(digest);
    }

    /// Returns the one entry of an OCI image layout that is neither a part of another entry nor
    /// about another one; `None` if there are several.
    fn only_top_of(&self, listed: impl Iterator<Item = Digest>) -> Option<Digest> {
        let mut tops: Vec<Digest> = Vec::new();
        for digest in listed {
            if !self.named.contains(&digest) && !self.referrers.contains(&digest) && !tops.contains(&digest) {
                tops.push(digest);
            }
        }
        if tops.len() == 1 { tops.pop() } else { None }
    }
}

/// Returns the archive of the artifact with this digest. An index stands for its first manifest.
pub(crate) fn of_manifest(blobs: &(impl Blobs + ?Sized), digest: &Digest) -> Result<Blob, RepositoryError> {
    let (digest, text, manifest) = blobs::main_manifest(blobs, digest)?;
    // All members of a manifest are optional, so any JSON object would parse as one.
    if manifest.config.is_none() && manifest.layers.is_empty() {
        return Err(malformed(blobs.address(&digest), "the manifest has neither a config nor layers"));
    }
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

/// Returns the descriptors of config and layers, each once.
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
        // `chain` takes the reader by value, so leave an empty one in its place.
        let former = std::mem::replace(&mut self.body, Box::new(io::empty()));
        let content = Exact { inner: content, left: size };
        let entry = io::Cursor::new(header).chain(content).chain(io::repeat(0).take(padding));
        self.body = Box::new(former.chain(entry));
        self.size += BLOCK + size + padding;
    }
}

/// Reader that yields exactly this number of bytes. After fewer bytes, the next part of the archive
/// would be read in their place; more bytes would shift it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::pack;

    fn digest(files: &[(&str, &[u8])]) -> Result<String, String> {
        let blob = Blob::from_bytes("", pack(files.iter().copied()));
        main_digest(blob, "set").map_err(|error| error.to_string())
    }

    #[test]
    fn the_manifest_of_a_packed_artifact() {
        let manifest = br#"{"schemaVersion": 2}"#;
        let main = Digest::of(manifest);
        let entry = json!({"digest": main.to_string()});
        let only = json!({"manifests": [entry]}).to_string();
        let chosen = json!({
            "manifests": [entry, {"digest": Digest::of(b"x").to_string()}], "annotations": {"software.ocm/main": main.to_string()},
        });
        let chosen = chosen.to_string();
        let flat = format!("blobs/{}", main.file_name());
        let nested = format!("./blobs/sha256/{}", main.hex());
        for (index, text, place) in
            [("index.json", &only, &flat), ("artifact-descriptor.json", &chosen, &nested)]
        {
            // Index and manifest may come in either order.
            for files in [
                [(index, text.as_bytes()), (place.as_str(), &manifest[..])],
                [(place, manifest), (index, text.as_bytes())],
            ] {
                assert_eq!(digest(&files).as_deref(), Ok(main.hex()));
            }
        }
        let altered: &[u8] = br#"{"schemaVersion": 3}"#;
        for (files, problem) in [
            (
                vec![("index.json", only.as_bytes()), (flat.as_str(), altered)],
                "does not refer to exactly one manifest in the archive",
            ),
            (vec![("index.json", only.as_bytes())], "does not refer to exactly one manifest in the archive"),
            (vec![(flat.as_str(), &manifest[..])], "has no index.json"),
            (vec![("index.json", &b"x"[..])], "is not JSON"),
            (
                vec![("index.json", &br#"{"manifests": []}"#[..])],
                "does not refer to exactly one manifest in the archive",
            ),
        ] {
            let error = digest(&files).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(main_digest(Blob::from_bytes("", vec![7; 2000]), "set").is_err());
        assert!(is_packed("application/vnd.ocm.software.oci.layout.v1+tar"));
        assert!(is_packed("application/vnd.ocm.software.oci.layout.v1+tar+gzip"));
        assert!(
            is_packed("application/vnd.oci.image.manifest.v1+tar+gzip")
                && is_packed("application/vnd.oci.image.index.v1+tar")
        );
        assert!(
            !is_packed("application/x-tar+gzip") && !is_packed("application/vnd.oci.image.manifest.v1+json")
        );
    }
}
