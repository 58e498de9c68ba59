use std::fs;

use groundwork_component::{InlineSet, Overwrites, Reference, Repositories, Resolver};
use groundwork_testkit::fixture;
use serde_json::{Value, json};
use std::path::Path;

use super::*;
use crate::RepositoryMap;

fn store(directory: &Path) -> CtfRepository {
    let archive = Arc::new(Ctf::new(Tree::Directory(directory.to_owned())));
    CtfRepository { archive, context: context() }
}

fn blob(store: &impl Repository, reference: &str) -> Result<Vec<u8>, RepositoryError> {
    let access = Access::Local { reference: reference.to_owned(), media_type: String::new() };
    store.content("", "", &access)?.read_all(reference, 1 << 20)
}

fn context() -> RepositoryContext {
    RepositoryContext::new(json!({"type": "CommonTransportFormat", "filePath": "ctf"})).unwrap()
}

/// Reads the closure of `github.com/root:1.0.0`, and the contents of its resources with their
/// recorded digests.
#[test]
fn archive_of_another_tool() {
    let Some(directory) = fixture("landscaper/templates/shared_data/ctf-local-blobs") else { return };
    let mut map = RepositoryMap::empty("test");
    map.insert(context(), directory);
    let reference =
        Reference { repository: Some(context()), name: "github.com/root".into(), version: "1.0.0".into() };
    let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
    let substitution = overwrites.apply(&reference);
    let resolver = Resolver::new(&map, &overwrites, &inline, &substitution);
    let root = resolver.lookup(&substitution.effective).unwrap();
    let closure = resolver.closure(&root).unwrap();
    let ids: Vec<String> = closure.iter().map(|version| version.reference.to_string()).collect();
    assert_eq!(ids, ["github.com/root:1.0.0", "github.com/leaf:1.0.0"]);
    for (name, media_type) in
        [("mychart", "application/vnd.cncf.helm.chart.content.v1.tar+gzip"), ("myconfig", "application/yaml")]
    {
        let resource = closure[1].descriptor.resource(name).unwrap();
        let content = closure[1].content(&resource).unwrap();
        assert_eq!(content.media_type, media_type);
        let recorded = resource.element["digest"]["value"].as_str().unwrap();
        assert_eq!(Digest::of(&content.bytes).to_string(), format!("sha256:{recorded}"));
    }
    // The contexts in the descriptor stay, and the context that it was read with is added at the
    // end.
    let contexts = &closure[0].descriptor.document()["component"]["repositoryContexts"];
    assert_eq!(contexts[0]["baseUrl"], "example.com");
    assert_eq!(contexts[1], *context().as_value());
}

/// Archive under construction, document by document.
struct Archive(tempfile::TempDir);

impl Archive {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(BLOB_DIRECTORY)).unwrap();
        Self(directory)
    }

    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        fs::write(self.0.path().join(BLOB_DIRECTORY).join(digest.file_name()), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest.to_string(), "size": bytes.len()})
    }

    fn json(&self, media_type: &str, document: &Value) -> Value {
        self.blob(media_type, document.to_string().as_bytes())
    }

    /// Adds a manifest whose descriptor layer is `layer`.
    fn manifest(&self, config_type: &str, layer_type: &str, layer: &[u8]) -> Value {
        let layer = self.blob(layer_type, layer);
        let config = self.json(config_type, &json!({"componentDescriptorLayer": layer}));
        self.json(artifact::MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": [layer]}))
    }

    /// Reads `example.org/a:1.0.0` from the archive when its index lists these manifests in this
    /// order.
    fn read(&self, manifests: &[&Value]) -> Result<Option<String>, String> {
        let entry = |manifest: &&Value| json!({"repository": "component-descriptors/example.org/a", "tag": "1.0.0", "digest": manifest["digest"]});
        let artifacts: Vec<Value> = manifests.iter().map(entry).collect();
        let index = json!({"schemaVersion": 1, "artifacts": artifacts});
        fs::write(self.0.path().join(INDEX_FILE), index.to_string()).unwrap();
        let answer = store(self.0.path()).descriptor("example.org/a", "1.0.0");
        answer
            .map(|bytes| bytes.map(|bytes| String::from_utf8(bytes).unwrap()))
            .map_err(|error| error.to_string())
    }
}

fn tar_of(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, content).unwrap();
    archive.into_inner().unwrap()
}

const PLAIN: &str = "application/vnd.ocm.software.component-descriptor.v2+yaml";

/// Every media type of `components.md` 6.2, and the spellings of the file name inside.
#[test]
fn media_types() {
    let archive = Archive::new();
    for config in [
        "application/vnd.ocm.software.component.config.v1+json",
        "application/vnd.gardener.cloud.cnudie.component.config.v1+json",
        "application/vnd.oci.gardener.cloud.cnudie.component-descriptor-metadata.config.v2+json",
    ] {
        for layer in [
            "application/vnd.ocm.software.component-descriptor.v2+yaml+tar",
            "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml+tar",
            "application/vnd.oci.gardener.cloud.cnudie.component-descriptor.config.v2+yaml+tar",
        ] {
            for name in
                ["component-descriptor.yaml", "./component-descriptor.yaml", "/component-descriptor.yaml"]
            {
                let manifest = archive.manifest(config, layer, &tar_of(name, b"content"));
                assert_eq!(
                    archive.read(&[&manifest]),
                    Ok(Some("content".to_owned())),
                    "{config} {layer} {name}"
                );
            }
        }
        for layer in [
            PLAIN,
            "application/vnd.ocm.software.component-descriptor.v2+json",
            "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+json",
            "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml",
        ] {
            let manifest = archive.manifest(config, layer, b"content");
            assert_eq!(archive.read(&[&manifest]), Ok(Some("content".to_owned())), "{config} {layer}");
        }
    }
}

/// The first entry of an image index is used. Of two artifacts with the same tag, the last one is
/// used.
#[test]
fn indexes_and_duplicates() {
    let archive = Archive::new();
    let [first, second] =
        ["first", "second"].map(|content| archive.manifest(artifact::CONFIG, PLAIN, content.as_bytes()));
    let index = archive.json(
        "application/vnd.oci.image.index.v1+json",
        &json!({"schemaVersion": 2, "manifests": [first, second]}),
    );
    assert_eq!(archive.read(&[&index]), Ok(Some("first".to_owned())));
    assert_eq!(archive.read(&[&first, &second]), Ok(Some("second".to_owned())));
    assert_eq!(archive.read(&[&second, &first]), Ok(Some("first".to_owned())));
    assert_eq!(archive.read(&[]), Ok(None));
}

#[test]
fn artifacts_that_are_no_components() {
    let archive = Archive::new();
    assert_eq!(archive.read(&[&archive.manifest("", PLAIN, b"x")]), Ok(None));
    let empty_config = archive.json(artifact::CONFIG, &json!({}));
    let nested = archive.json("", &json!({"manifests": [archive.json("", &json!({"manifests": []}))]}));
    for (manifest, problem) in [
        (archive.manifest("application/x", PLAIN, b"x"), "artifact is no component: application/x"),
        (
            archive.manifest(artifact::CONFIG, "application/x", b"x"),
            "invalid config media type \"application/x\"",
        ),
        (
            archive.manifest(artifact::CONFIG, artifact::DESCRIPTOR_TAR, &tar_of("other", b"x")),
            "no component descriptor found in tar",
        ),
        (archive.manifest(artifact::CONFIG, artifact::DESCRIPTOR_TAR, b"no tar"), "broken tar: "),
        (
            archive.json(artifact::MANIFEST, &json!({"config": empty_config})),
            "invalid component descriptor config",
        ),
        (archive.json(artifact::MANIFEST, &json!([])), "not the expected JSON"),
        (nested, "the manifest has no config"),
        (json!({"digest": "sha256:0"}), "\"sha256:0\" is not a sha256 digest"),
        (json!({"digest": Digest::of(b"lost").to_string()}), "does not exist"),
    ] {
        let error = archive.read(&[&manifest]).unwrap_err();
        assert!(error.contains(problem), "{error} lacks {problem}");
    }
}

/// A blob may be stored in several pieces.
#[test]
fn pieces_are_joined() {
    let archive = Archive::new();
    let [a, b] = ["one ", "two"].map(|text| archive.blob("", text.as_bytes()));
    let store = store(archive.0.path());
    let reference = format!("{}, {}", a["digest"].as_str().unwrap(), b["digest"].as_str().unwrap());
    assert_eq!(blob(&store, &reference), Ok(b"one two".to_vec()));
}

#[test]
fn no_archive_at_all() {
    let mut map = RepositoryMap::empty("test");
    map.insert(context(), "/nowhere/at/all");
    let error = map.open(&context()).unwrap().descriptor("a", "1").unwrap_err();
    assert_eq!(error.to_string(), format!("/nowhere/at/all/{INDEX_FILE} does not exist"));
}

/// Without this check, a pipe without a writer blocked the reader for ever.
#[test]
fn only_regular_files_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join(INDEX_FILE);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let store = store(directory.path());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(store.descriptor("a", "1")));
    let answer = receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("reading ends");
    assert_eq!(answer.unwrap_err().to_string(), format!("{}: it is not a regular file", pipe.display()));
}

/// Deeply nested JSON would exhaust the stack. The first reader refuses it: of the index, a
/// manifest, its config.
#[test]
fn json_that_nests_without_end_is_refused() {
    const DEEP: usize = 100_000;
    let deep = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
    let archive = Archive::new();
    let config = archive.blob(artifact::CONFIG, deep.as_bytes());
    for manifest in [
        archive.blob(artifact::MANIFEST, deep.as_bytes()),
        archive.json(artifact::MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": []})),
    ] {
        let error = archive.read(&[&manifest]).unwrap_err();
        assert!(error.contains("not the expected JSON") && error.len() < 500, "{error}");
    }
    let index = format!("{{\"schemaVersion\": 1, \"artifacts\": {deep}}}");
    fs::write(archive.0.path().join(INDEX_FILE), index).unwrap();
    let error = store(archive.0.path()).descriptor("example.org/a", "1.0.0").unwrap_err().to_string();
    assert!(error.contains(INDEX_FILE) && error.len() < 500, "{error}");
}
