use std::sync::Arc;

use groundwork_component::{Access, Overwrites, Reference, Repositories, Repository, Resolver};

use super::*;
use crate::RepositoryMap;
use crate::ctf::{Ctf, CtfRepository};
use crate::tree::Tree;

fn context() -> RepositoryContext {
    RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": "registry.example.org/components"}))
        .unwrap()
}

fn document(version: &str) -> Value {
    json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": "example.org/shop", "version": version, "provider": "p", "sources": [], "repositoryContexts": [],
        "componentReferences": [],
        "resources": [{"name": "data", "version": version, "type": "text", "relation": "local"}],
    }})
}

fn blob(text: &str) -> LocalBlob {
    LocalBlob { resource: "data".into(), media_type: "text/plain".into(), bytes: text.into() }
}

fn store(directory: &Path) -> CtfRepository {
    let mut writer = CtfWriter::create(directory, context()).unwrap();
    writer.add(&document("1.0.0+7"), &[blob("seven")]).unwrap();
    writer.add(&document("1.0.0+8"), &[blob("eight")]).unwrap();
    writer.finish().unwrap();
    let archive = Arc::new(Ctf::new(Tree::Directory(directory.to_owned())));
    CtfRepository { archive, context: context() }
}

/// Versions with a plus sign have tags without one, and resources lead to their content.
#[test]
fn round_trip() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path());
    let mut map = RepositoryMap::empty("test");
    map.insert(context(), directory.path());
    let reference =
        Reference { repository: Some(context()), name: "example.org/shop".into(), version: "1.0.0+8".into() };
    let (overwrites, inline) = (Overwrites::default(), groundwork_component::InlineSet::default());
    let substitution = overwrites.apply(&reference);
    let resolver = Resolver::new(&map, &overwrites, &inline, &substitution);
    let version = resolver.lookup(&substitution.effective).unwrap();
    let content = version.content(&version.descriptor.resource("data").unwrap()).unwrap();
    assert_eq!((content.bytes, content.media_type), (b"eight".to_vec(), "text/plain".to_owned()));
    assert_eq!(version.descriptor.repository_context(), Some(context()));
}

#[test]
fn writing_again_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path());
    let first = fs::read(directory.path().join(INDEX_FILE)).unwrap();
    store(directory.path());
    assert_eq!(fs::read(directory.path().join(INDEX_FILE)).unwrap(), first);
}

#[test]
fn absent_versions_are_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    assert_eq!(store.descriptor("example.org/shop", "2.0.0"), Ok(None));
    fs::write(directory.path().join(INDEX_FILE), r#"{"schemaVersion": 1, "artifacts": null}"#).unwrap();
    assert_eq!(store.descriptor("example.org/shop", "1.0.0+7"), Ok(None));
}

/// A single changed byte anywhere is detected (`components.md` 11, item 7).
#[test]
fn tampering_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let mut refused = 0;
    for entry in fs::read_dir(directory.path().join(BLOB_DIRECTORY)).unwrap() {
        let path = entry.unwrap().path();
        let original = fs::read(&path).unwrap();
        let mut changed = original.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(&path, changed).unwrap();
        for version in ["1.0.0+7", "1.0.0+8"] {
            let answer = store.descriptor("example.org/shop", version);
            refused += usize::from(matches!(answer, Err(RepositoryError::Digest { .. })));
        }
        for text in ["seven", "eight"] {
            let answer = content(&store, &Digest::of(text.as_bytes()).to_string());
            refused += usize::from(matches!(answer, Err(RepositoryError::Digest { .. })));
        }
        fs::write(&path, original).unwrap();
    }
    assert_eq!(refused, 8, "manifest, config, descriptor layer and blob of two versions");
}

#[test]
fn references_cannot_leave_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for reference in ["../../secret", "sha256:../../secret", ""] {
        assert!(matches!(content(&store, reference), Err(RepositoryError::Malformed { .. })), "{reference}");
    }
}

fn content(store: &CtfRepository, reference: &str) -> Result<Vec<u8>, RepositoryError> {
    let access = Access::Local { reference: reference.to_owned(), media_type: String::new() };
    store.content("", "", &access)?.read_all(reference, 1 << 20)
}

fn map_error(text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("repositories.yaml");
    fs::write(&path, text).unwrap();
    let error = RepositoryMap::load(&path).unwrap_err();
    let (line, column) = error.position().unwrap();
    format!("{line}:{column}: {}", error.problem())
}

#[test]
fn malformed_maps() {
    let entry = "- {context: {type: oci, baseUrl: r}, directory: a}\n";
    for (text, expected) in [
        ("a: [".to_owned(), "1:"),
        ("[]".to_owned(), "1:1: a map is expected"),
        ("repos: []".to_owned(), "1:1: unknown field \"repos\"; known are repositories"),
        ("repositories:\n- {context: x, directory: a}".to_owned(), "2:3: context must be a map"),
        (
            "repositories:\n- {context: {}, dir: a}".to_owned(),
            "2:17: unknown field \"dir\"; known are context, directory, archive, url, dockerConfig, ca",
        ),
        (
            "repositories:\n- {context: {}}".to_owned(),
            "2:3: one of directory, archive and url must name a store",
        ),
        (
            "repositories:\n- {context: {}, url: 'ftp://r/a'}".to_owned(),
            "2:3: url must begin with https:// or http://",
        ),
        (
            "repositories:\n- {context: {}, url: 'u:p@r/a'}".to_owned(),
            "2:3: url must not contain credentials",
        ),
        ("repositories:\n- {context: {}, url: /a}".to_owned(), "2:3: url must be a host and a path"),
        (
            "repositories:\n- {context: {}, directory: a, ca: b}".to_owned(),
            "2:3: dockerConfig and ca are allowed only with url",
        ),
        (format!("repositories:\n{entry}{entry}"), "3:3: the repository context r is mapped twice"),
    ] {
        let error = map_error(&text);
        assert!(error.starts_with(expected), "{error} does not begin with {expected}");
    }
}

#[test]
fn unmapped_contexts() {
    let map = RepositoryMap::empty("repositories.yaml");
    let open =
        |context: Value| map.open(&RepositoryContext::new(context).unwrap()).err().unwrap().to_string();
    assert_eq!(
        open(json!({"type": "ociRegistry", "baseUrl": "r"})),
        "no store is configured for the repository context {\"baseUrl\":\"r\",\"type\":\"ociRegistry\"}; add it to repositories.yaml"
    );
    assert_eq!(open(json!({"type": "warehouse"})), "repository type \"warehouse\" is unknown");
    assert_eq!(open(json!({})), "repository type \"\" is unknown");
}
