use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn header(name: &str, size: u64, kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_entry_type(kind);
    header.set_cksum();
    header
}

fn tar_of(entries: &[(&str, &[u8], tar::EntryType)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content, kind) in entries {
        archive.append(&header(name, content.len() as u64, *kind), *content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn open(bytes: &[u8]) -> Result<Tree, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    std::fs::write(&path, bytes).unwrap();
    Tree::open_archive(&path).map_err(|error| error.to_string())
}

#[test]
fn files_of_an_archive() {
    use tar::EntryType::{Directory, Regular, Symlink};
    let packed = tar_of(&[
        ("./a/", b"", Directory),
        ("./a/one", b"1", Regular),
        ("b", b"old", Regular),
        ("b", b"new", Regular),
        ("link", b"", Symlink),
    ]);
    for bytes in [packed.clone(), gzip(&packed)] {
        let tree = open(&bytes).unwrap();
        assert_eq!(tree.read("a/one", 10), Ok(b"1".to_vec()));
        assert_eq!(tree.read("b", 10), Ok(b"new".to_vec()));
        assert!(matches!(tree.read("b", 2), Err(RepositoryError::TooLarge { limit: 2, .. })));
        assert!(matches!(tree.read("link", 10), Err(RepositoryError::Missing { .. })));
        let names: Vec<_> = tree.list("").unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(tree.list("a").unwrap(), [Entry { name: "one".into(), is_directory: false }]);
    }
}

/// Hostile archives (`components.md` 6.6): entries that lead out of the archive, truncated files,
/// and content that expands without end.
#[test]
fn hostile_archives() {
    use tar::EntryType::Regular;
    for name in ["../a", "/etc/passwd", "a/../../b"] {
        let error = open(&tar_of(&[(name, b"x", Regular)])).unwrap_err();
        assert!(error.contains("leaves the archive"), "{error}");
    }
    let whole = tar_of(&[("a", &[7; 4096], Regular)]);
    assert!(open(&whole[..1024]).unwrap_err().contains("broken tar"));
    assert!(open(&gzip(&whole)[..40]).unwrap_err().contains("broken gzip"));
    assert!(
        open(b"no archive at all, but long enough to be looked at by somebody who reads headers").is_err()
    );
    let bomb = gzip(&vec![0; 80 << 20]);
    assert!(open(&bomb).unwrap_err().contains("is larger than"), "{}", bomb.len());
    let mut archive = tar::Builder::new(Vec::new());
    let entry = header("a", 0, Regular);
    for _ in 0..=MOST_ENTRIES {
        archive.append(&entry, &b""[..]).unwrap();
    }
    assert!(open(&archive.into_inner().unwrap()).unwrap_err().contains("more than 100000 entries"));
}

#[test]
fn names_inside() {
    for name in ["a", "a/b", "sha256.00"] {
        assert!(is_inside(name), "{name}");
    }
    for name in ["", "/", "/a", "..", "a/..", "./a", "a//b", "a\\b", "a\0", "a/"] {
        assert!(!is_inside(name), "{name:?}");
    }
}
