use groundwork_component::{Repository, RepositoryContext};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::Store;

const NAME: &str = "example.org/shop";

fn context() -> RepositoryContext {
    RepositoryContext::new(json!({"type": "CommonTransportFormat", "filePath": "x"})).unwrap()
}

/// Creates a folder with files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn packed(source: &Path) -> Result<TempDir, PackError> {
    let target = tempfile::tempdir().unwrap();
    let mut writer = CtfWriter::create(target.path(), context())?;
    writer.add_all(source)?;
    writer.finish()?;
    Ok(target)
}

fn repository(path: &Path) -> std::sync::Arc<dyn Repository> {
    Store::of_place(&path.display().to_string(), None, None).unwrap().open(&context()).unwrap()
}

fn content(repository: &dyn Repository, name: &str, version: &str, resource: &str) -> (String, Vec<u8>) {
    let text = repository.descriptor(name, version).unwrap().unwrap();
    let descriptor = groundwork_component::Descriptor::parse(&text).unwrap();
    let access = Access::parse(descriptor.resource(resource).unwrap().access()).unwrap();
    let bytes = repository.content(name, version, &access).unwrap().read_all("blob", 1 << 20).unwrap();
    (access.media_type().to_owned(), bytes)
}

const HEAD: &str = "meta: {schemaVersion: v2}\ncomponent:\n  name: example.org/shop\n  version: 1.0.0+7\n  provider: p\n  sources: []\n  repositoryContexts: []\n  componentReferences: []\n";

fn descriptor(resources: &str) -> String {
    format!("{HEAD}  resources:\n{resources}")
}

/// Sources become an archive: a directory, a tar and a compressed tar, all with the same closure
/// (`components.md` 11, item 7).
#[test]
fn sources_in_every_form() {
    let resources = "  - {name: bp, type: blueprint, version: '1', relation: local}\n  - {name: text, type: t, version: '1', relation: local, input: {type: file, path: a.txt, mediaType: text/plain}}\n  - {name: tree, type: t, version: '1', relation: local, input: {type: dir, path: tree}}\n  - {name: image, type: ociImage, version: '1', relation: external, access: {type: ociArtifact, imageReference: 'a/b:1'}}\n";
    let sources = folder(&[
        ("component-descriptor.yaml", &descriptor(resources)),
        ("blueprint/blueprint.yaml", "apiVersion: x"),
        ("a.txt", "seven"),
        ("tree/b/c", "c"),
    ]);
    let directory = packed(sources.path()).unwrap();
    let (tar, tgz) = (directory.path().join("../a.tar"), directory.path().join("../a.tgz"));
    let archives = tempfile::tempdir().unwrap();
    let (tar, tgz) =
        (archives.path().join(tar.file_name().unwrap()), archives.path().join(tgz.file_name().unwrap()));
    write_archive(directory.path(), &tar, false).unwrap();
    write_archive(directory.path(), &tgz, true).unwrap();
    for place in [directory.path(), &tar, &tgz] {
        let store = Store::of_place(&place.display().to_string(), None, None).unwrap();
        assert_eq!(store.versions(&context()).unwrap(), [(NAME.to_owned(), "1.0.0+7".to_owned())]);
        let repository = repository(place);
        let (media_type, bytes) = content(&*repository, NAME, "1.0.0+7", "bp");
        assert_eq!(media_type, BLUEPRINT_MEDIA_TYPE);
        assert!(bytes.starts_with(b"blueprint.yaml"));
        let text = content(&*repository, NAME, "1.0.0+7", "text");
        assert_eq!(text, ("text/plain".to_owned(), b"seven".to_vec()));
        let (media_type, bytes) = content(&*repository, NAME, "1.0.0+7", "tree");
        assert!(media_type == "application/x-tar" && bytes.starts_with(b"b/c"));
    }
    // Packing the result again does not change it.
    for place in [directory.path(), &tar, &tgz] {
        let again = packed(place).unwrap();
        let index = |path: &Path| fs::read(path.join(INDEX_FILE)).unwrap();
        assert_eq!(index(again.path()), index(directory.path()));
    }
    let flipped = tempfile::tempdir().unwrap();
    let target = flipped.path().join("x.tar");
    let mut bytes = fs::read(&tar).unwrap();
    let at = bytes.windows(5).position(|window| window == b"seven").unwrap();
    bytes[at] ^= 1;
    fs::write(&target, bytes).unwrap();
    let error = packed(&target).unwrap_err().to_string();
    assert!(error.starts_with("digest mismatch for "), "{error}");
}

/// A component archive keeps its blobs under any name, and a folder of versions gives all of them.
#[test]
fn component_archives() {
    let resources = "  - {name: data, type: t, version: '1', relation: local, access: {type: localFilesystemBlob, fileName: myblob, mediaType: text/plain}}\n";
    let text = descriptor(resources);
    let other = text.replace("1.0.0+7", "2.0.0");
    let source = folder(&[
        ("one/component-descriptor.yaml", &text),
        ("one/blobs/myblob", "seven"),
        ("two/component-descriptor.yaml", &other),
        ("two/blobs/myblob", "eight"),
        ("README.md", "no version"),
    ]);
    let target = packed(source.path()).unwrap();
    let repository = repository(target.path());
    for (version, expected) in [("1.0.0+7", "seven"), ("2.0.0", "eight")] {
        let found = content(&*repository, NAME, version, "data");
        assert_eq!(found, ("text/plain".to_owned(), expected.as_bytes().to_vec()));
    }
}

#[test]
fn what_cannot_be_packed_is_told() {
    let refused = |files: &[(&str, &str)], expected: &str| {
        let source = folder(files);
        let error = packed(source.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(&[("a", "b")], "contains no component version");
    refused(&[(DESCRIPTOR_FILE, "a: [")], "malformed YAML");
    let resource = |rest: &str| {
        descriptor(&format!("  - {{name: data, type: t, version: '1', relation: local{rest}}}\n"))
    };
    refused(&[(DESCRIPTOR_FILE, &resource(""))], "\"data\" has neither access nor input");
    refused(&[(DESCRIPTOR_FILE, &resource(", input: {type: web, path: a}"))], "must be dir or file");
    refused(&[(DESCRIPTOR_FILE, &resource(", input: {type: file}"))], "input needs a path");
    refused(&[(DESCRIPTOR_FILE, &resource(", input: {type: file, path: none}"))], "cannot read ");
    refused(&[(DESCRIPTOR_FILE, &resource(", input: {type: file, path: a, compres: true}"))], "\"compres\"");
    refused(
        &[(DESCRIPTOR_FILE, &resource(", access: {type: localBlob, localReference: ../a, mediaType: x}"))],
        "is not the name of a file in it",
    );
}
