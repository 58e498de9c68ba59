use std::path::Path;

use groundwork_component::{
    Descriptor, InlineSet, Overwrites, Reference, Repositories, RepositoryContext, ResolveError, Resolver,
};
use groundwork_testkit::fixture;
use serde_json::json;

use super::*;
use crate::{RepositoryMap, Store};

fn context(type_name: &str) -> RepositoryContext {
    RepositoryContext::new(json!({"type": type_name, "filePath": "x", "baseUrl": "x"})).unwrap()
}

fn map(type_name: &str, store: Store) -> RepositoryMap {
    let mut map = RepositoryMap::empty("test");
    map.insert_store(context(type_name), store);
    map
}

/// Returns the closure of a component as identities, with the contents of its first resources.
fn closure(map: &RepositoryMap, type_name: &str, name: &str, version: &str) -> Result<Vec<String>, String> {
    let reference =
        Reference { repository: Some(context(type_name)), name: name.into(), version: version.into() };
    let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
    let substitution = overwrites.apply(&reference);
    let resolver = Resolver::new(map, &overwrites, &inline, &substitution);
    let text = |error: ResolveError| error.to_string();
    let root = resolver.lookup(&substitution.effective).map_err(text)?;
    let closure = resolver.closure(&root).map_err(text)?;
    Ok(closure.iter().map(|version| version.reference.to_string()).collect())
}

fn content(map: &RepositoryMap, type_name: &str, reference: &str) -> Result<Vec<u8>, String> {
    let access = Access::Local { reference: reference.to_owned(), media_type: String::new() };
    let repository = map.open(&context(type_name)).map_err(|error| error.to_string())?;
    let read = repository.content("", "", &access).and_then(|blob| blob.read_all(reference, 1 << 20));
    read.map_err(|error| error.to_string())
}

/// Directories in the format of another tool (`components.md` 6.6), including broken ones.
#[test]
fn directories_of_descriptors() {
    let Some(root) = fixture("landscaper/components/localocmrepos") else { return };
    let store = |name: &str| map("local", Store::Directory(root.join(name)));
    let valid = store("valid-components");
    let found = closure(&valid, "local", "example.com/landscaper-component", "1.0.0").unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    // The content of a resource that is a directory is packed.
    let packed = content(&valid, "local", "blueprint").unwrap();
    let mut archive = tar::Archive::new(&packed[..]);
    let names: Vec<_> =
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
    assert_eq!(names, [Path::new("blueprint.yaml")]);
    assert!(!content(&valid, "local", "genericresource").unwrap().is_empty());
    let dangling = store("components-with-invalid-reference");
    let index = Flat::new(Tree::Directory(root.join("components-with-invalid-reference"))).unwrap();
    let (name, version) = index.index().unwrap().keys().next().unwrap().clone();
    let error = closure(&dangling, "local", &name, &version).unwrap_err();
    assert!(error.contains("unable to resolve component reference"), "{error}");
    // The descriptor can be read, although its content cannot be fetched.
    let odd = Flat::new(Tree::Directory(root.join("components-with-invalid-access-type"))).unwrap();
    let bytes = odd.index().unwrap().values().next().unwrap().clone();
    let descriptor = Descriptor::parse(&bytes).unwrap();
    let resource = descriptor.to_schema(groundwork_component::SchemaVersion::V2);
    let access = &resource["component"]["resources"][0]["access"];
    assert!(Access::parse(access).unwrap_err().to_string().contains("not supported"), "{access}");
}

const DESCRIPTOR: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/a
  version: 1.0.0+7
  provider: p
  repositoryContexts: []
  sources: []
  componentReferences: []
  resources: []
";

/// A component archive in its three forms (`components.md` 6.5).
#[test]
fn component_archives() {
    let folder = tempfile::tempdir().unwrap();
    let digest = Digest::of(b"named after its content");
    let wrong = Digest::of(b"something else");
    let files = [
        ("component-descriptor.yaml", DESCRIPTOR.as_bytes()),
        (&format!("blobs/{}", digest.file_name()), b"named after its content"),
        (&format!("blobs/{}", wrong.file_name()), b"tampered with"),
        ("blobs/tree/a/b", b"b"),
        ("blobs/tree/c", b"c"),
    ];
    let directory = folder.path().join("directory");
    for (name, bytes) in &files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let packed = pack(files);
    let tar = folder.path().join("a.tar");
    std::fs::write(&tar, &packed).unwrap();
    let tgz = folder.path().join("a.tgz");
    let mut encoder =
        flate2::write::GzEncoder::new(std::fs::File::create(&tgz).unwrap(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &packed).unwrap();
    encoder.finish().unwrap();
    for store in [Store::Directory(directory), Store::Archive(tar), Store::Archive(tgz)] {
        for type_name in ["ComponentArchive", "ociRegistry"] {
            let map = map(type_name, store.clone());
            let found = closure(&map, type_name, "example.org/a", "1.0.0+7");
            assert_eq!(found, Ok(vec!["example.org/a:1.0.0+7".to_owned()]));
            assert!(closure(&map, type_name, "example.org/b", "1.0.0").unwrap_err().contains("not found"));
            let read = |reference: &str| content(&map, type_name, reference);
            assert_eq!(read(&digest.to_string()), Ok(b"named after its content".to_vec()));
            assert_eq!(read(&digest.file_name()), Ok(b"named after its content".to_vec()));
            let error = read(&wrong.to_string()).unwrap_err();
            assert!(error.starts_with("digest mismatch"), "{error}");
            let tree = read("tree").unwrap();
            assert_eq!(tree, pack([("a/b", &b"b"[..]), ("c", b"c")]));
            for outside in ["../component-descriptor.yaml", "/etc/passwd", "", "tree/../.."] {
                let error = read(outside).unwrap_err();
                assert!(error.contains("is not the name of a file in it"), "{outside}: {error}");
            }
            assert!(read("absent").unwrap_err().contains("does not exist"));
        }
    }
}

#[test]
fn directories_with_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = Flat::new(Tree::Directory(folder.path().to_owned())).unwrap();
    std::fs::write(folder.path().join("one"), DESCRIPTOR).unwrap();
    assert_eq!(store.descriptor("example.org/a", "1.0.0+7"), Ok(Some(DESCRIPTOR.as_bytes().to_vec())));
    std::fs::write(folder.path().join("two"), DESCRIPTOR).unwrap();
    let store = Flat::new(Tree::Directory(folder.path().to_owned())).unwrap();
    let error = store.descriptor("example.org/a", "1.0.0+7").unwrap_err().to_string();
    assert!(error.ends_with("example.org/a:1.0.0+7 is also described by another file"), "{error}");
    std::fs::write(folder.path().join("two"), "no descriptor").unwrap();
    let error = store.descriptor("example.org/a", "1.0.0+7").unwrap_err().to_string();
    let problem = "the file is not a component descriptor, but each file here must be one: component descriptor has no \
                   name or no version";
    assert!(error.contains(problem), "{error}");
}
