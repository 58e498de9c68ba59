//! Blueprints that were transferred as whole OCI artifacts (`components.md` 6.7 form 2, 6.8).

use data_encoding::HEXLOWER;
use groundwork_blueprint::{ArchiveLimits, Filesystem};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const CONFIG_TYPE: &str = "application/vnd.gardener.landscaper.blueprint.config.v1";
/// Accepted media types of the first layer if the config does not identify a blueprint.
const LAYER_TYPES: [&str; 4] = [
    "application/vnd.gardener.landscaper.blueprint.v1+tar",
    "application/vnd.gardener.landscaper.blueprint.v1+tar+gzip",
    "application/vnd.gardener.landscaper.blueprint.layer.v1.tar",
    "application/vnd.gardener.landscaper.blueprint.layer.v1.tar+gzip",
];
/// Media type of the only layer of an artifact that follows an older convention for blueprints.
const OLD_LAYER_TYPE: &str = "application/tar+gzip";

const ARTIFACT_TYPES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1", "application/vnd.docker.distribution.manifest.v2"];
const INDEX_FILES: [&str; 2] = ["index.json", "artifact-descriptor.json"];
const MAIN_ANNOTATION: &str = "software.ocm/main";

/// Reports whether content of this media type is an artifact packed into an archive.
pub(super) fn is_artifact_set(media_type: &str) -> bool {
    let packed = media_type.strip_suffix("+gzip").unwrap_or(media_type);
    packed.strip_suffix("+tar").is_some_and(|artifact| ARTIFACT_TYPES.contains(&artifact))
}

/// Returns the archive with the blueprint, which is the first layer of the artifact.
pub(super) fn blueprint_layer(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let files = Filesystem::from_archive(bytes, ArchiveLimits::default())
        .map_err(|error| format!("artifact set: {error}"))?;
    let index = INDEX_FILES.into_iter().find_map(|name| files.read(name).ok());
    let index = json(index.ok_or("artifact set: it has no index.json")?)?;
    let manifest = json(blob(&files, main_manifest(&index)?)?)?;
    let layers = manifest.get("layers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let config_type = media_type(manifest.get("config").unwrap_or(&Value::Null));
    let layer = layers.first().unwrap_or(&Value::Null);
    let layer_type = media_type(layer);
    let accepted = config_type == CONFIG_TYPE
        || LAYER_TYPES.contains(&layer_type)
        || (layers.len() == 1 && layer_type == OLD_LAYER_TYPE);
    if !accepted {
        return Err(format!(
            "artifact does not match blueprint downloader (check config media type): config {config_type:?}, \
             first layer {layer_type:?}"
        ));
    }
    blob(&files, digest(layer)?).map(<[u8]>::to_vec)
}

/// Returns the digest of the manifest that the index marks as main, or of its only manifest.
fn main_manifest(index: &Value) -> Result<&str, String> {
    let main = index.get("annotations").and_then(|annotations| annotations.get(MAIN_ANNOTATION));
    if let Some(main) = main.and_then(Value::as_str) {
        return Ok(main);
    }
    match index.get("manifests").and_then(Value::as_array).map(Vec::as_slice) {
        Some([single]) => digest(single),
        _ => {
            Err(format!("artifact set: several manifests, but no annotation {MAIN_ANNOTATION} to choose one"))
        }
    }
}

fn media_type(descriptor: &Value) -> &str {
    descriptor.get("mediaType").and_then(Value::as_str).unwrap_or_default()
}

fn digest(descriptor: &Value) -> Result<&str, String> {
    let digest = descriptor.get("digest").and_then(Value::as_str);
    digest.ok_or_else(|| "artifact set: a digest is missing".to_owned())
}

/// Reads a blob from either of the two layouts in use, and checks the content against the digest.
fn blob<'a>(files: &'a Filesystem, digest: &str) -> Result<&'a [u8], String> {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    let places = [format!("blobs/sha256.{hex}"), format!("blobs/sha256/{hex}")];
    let bytes = places
        .iter()
        .find_map(|place| files.read(place).ok())
        .ok_or_else(|| format!("artifact set: blob {digest:?} does not exist"))?;
    let actual = format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)));
    if actual == digest {
        Ok(bytes)
    } else {
        Err(format!("digest mismatch for a blob of the artifact set: expected {digest}, got {actual}"))
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("artifact set: not the expected JSON: {error}"))
}
