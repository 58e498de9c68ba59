use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::world::pack;
use super::*;

/// Packed artifact with one layer. File names have `separator` between the algorithm and the
/// digits.
struct Artifact {
    config_type: &'static str,
    layer_type: &'static str,
    index: &'static str,
    separator: char,
    annotated: bool,
}

const BLUEPRINT_CONFIG: &str = "application/vnd.gardener.landscaper.blueprint.config.v1";
const USUAL: Artifact = Artifact {
    config_type: BLUEPRINT_CONFIG,
    layer_type: "application/x",
    index: "index.json",
    separator: '.',
    annotated: false,
};

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    let digest = format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)));
    json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
}

impl Artifact {
    fn pack(&self) -> Vec<u8> {
        let blueprint = "{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Blueprint}";
        let layer = pack([("blueprint.yaml", blueprint.as_bytes())]);
        let manifest = json!({
            "config": {"mediaType": self.config_type, "digest": "sha256:0"},
            "layers": [descriptor(self.layer_type, &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        let mut index = json!({"manifests": [entry]});
        if self.annotated {
            index["annotations"] = json!({"software.ocm/main": entry["digest"]});
            index["manifests"] = json!([{"digest": "sha256:1"}, entry]);
        }
        let name = |bytes: &[u8]| {
            format!("blobs/sha256{}{}", self.separator, HEXLOWER.encode(&Sha256::digest(bytes)))
        };
        pack([
            (self.index, index.to_string().as_bytes()),
            (name(&layer).as_str(), layer.as_slice()),
            (name(&manifest).as_str(), manifest.as_slice()),
        ])
    }
}

/// Returns the error message of an Installation with this blueprint resource, or `None` if it
/// renders.
fn render(bytes: &[u8], rest: &str) -> Option<String> {
    let shop = format!(
        "{{kind: Component, in: R1, id: 'example.org/shop:1.0.0', resources: [{{name: bp, type: blueprint, \
         base64: '{}', {rest}}}]}}",
        BASE64.encode(bytes)
    );
    let installation = installation(&format!("{SHOP_REFERENCE}\n  blueprint: {{ref: {{resourceName: bp}}}}"));
    world(&[&installation, CONTEXT, &shop]).render().error.map(|error| error.cause.message)
}

const OCI: &str = "mediaType: application/vnd.oci.image.manifest.v1+tar";

/// `components.md` 6.7 form 2 and 6.8 (item 12 of `components.md` 11): covers each layout of the
/// archive and each mark of a blueprint.
#[test]
fn accepted_artifacts() {
    let old_layer = "application/tar+gzip";
    let layer = "application/vnd.gardener.landscaper.blueprint.layer.v1.tar+gzip";
    for artifact in [
        USUAL,
        Artifact { index: "artifact-descriptor.json", ..USUAL },
        Artifact { separator: '/', ..USUAL },
        Artifact { annotated: true, ..USUAL },
        Artifact { config_type: "application/x", layer_type: layer, ..USUAL },
        Artifact { config_type: "", layer_type: old_layer, ..USUAL },
    ] {
        assert_eq!(render(&artifact.pack(), OCI), None);
    }
    let docker = "mediaType: application/vnd.docker.distribution.manifest.v2+tar+gzip, gzip: true";
    assert_eq!(render(&USUAL.pack(), docker), None);
}

#[test]
fn refused_artifacts() {
    let mut changed = USUAL.pack();
    let place = changed.windows(4).position(|window| window == b"kind").unwrap();
    changed[place] = b'K';
    for (bytes, problem) in [
        (
            Artifact { config_type: "application/x", ..USUAL }.pack(),
            "artifact does not match blueprint downloader (check config media type): config \"application/x\"",
        ),
        (changed, "digest mismatch for a blob of the artifact set"),
        (Artifact { index: "other.json", ..USUAL }.pack(), "it has no index.json"),
        (Artifact { separator: '-', ..USUAL }.pack(), "does not exist"),
        (pack([("index.json", b"[".as_slice())]), "not the expected JSON"),
        (pack([("index.json", b"{}".as_slice())]), "several manifests"),
        (b"no archive".to_vec(), "artifact set: "),
    ] {
        let message = render(&bytes, OCI).expect("this job fails");
        assert!(message.contains(problem), "{message} lacks {problem}");
    }
}
