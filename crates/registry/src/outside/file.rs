//! Access type `file`: files of the store of a component, for the command.

use std::path::{Path, PathBuf};

use groundwork_component::{Blob, RepositoryError, StoredFile};
use percent_encoding::percent_decode_str;

use crate::blobs::LARGEST_BLOB;
use crate::digest::{Digest, Verified};
use crate::tree::{Tree, is_inside, malformed};

pub(super) fn open(tree: &Tree, file: &StoredFile) -> Result<Blob, RepositoryError> {
    let wrong = |problem: &str| malformed(format!("file {}", file.uri), problem);
    let path = path_of(&file.uri).map_err(wrong)?;
    let outside = || {
        wrong(
            "it is outside of the folder or archive of the component: write a path relative to that, or put the content \
             into the component",
        )
    };
    let name = name_in(tree, &path).ok_or_else(outside)?;
    let digest = match file.digest.as_str() {
        "" => None,
        text => Some(Digest::parse(text).ok_or_else(|| wrong("digest must be sha256: and 64 hex digits"))?),
    };
    let opened =
        tree.file(&name)?.ok_or_else(|| RepositoryError::Missing { address: tree.address(&name) })?;
    // A link in a folder may lead out of it.
    if let Tree::Directory(root) = tree
        && !is_below(root, &root.join(&name))
    {
        return Err(outside());
    }
    let body = Verified::new(opened.body, digest, tree.address(&name), LARGEST_BLOB);
    Ok(Blob { media_type: String::new(), size: Some(opened.size), body: Box::new(body) })
}

/// Returns the path of a URI. A text without a scheme is a path itself.
fn path_of(uri: &str) -> Result<PathBuf, &'static str> {
    let path = match uri.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
            let path = match rest.strip_prefix("//") {
                Some(rest) => {
                    let (host, _) = rest.split_once('/').ok_or("it has no path")?;
                    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                        return Err("it is on another host");
                    }
                    rest.strip_prefix(host).unwrap_or(rest)
                }
                None => rest,
            };
            percent_decode_str(path).decode_utf8().map_err(|_| "its path is not UTF-8")?.into_owned()
        }
        Some((scheme, _)) if !scheme.contains('/') => return Err("it does not begin with file:"),
        _ => uri.to_owned(),
    };
    if path.is_empty() { Err("it has no path") } else { Ok(PathBuf::from(path)) }
}

/// Returns the name of a path in a tree; `None` if it is outside.
fn name_in(tree: &Tree, path: &Path) -> Option<String> {
    let relative = match tree {
        _ if path.is_relative() => path.strip_prefix(".").unwrap_or(path).to_owned(),
        Tree::Directory(root) => {
            let (root, path) = (root.canonicalize().ok()?, path.canonicalize().ok()?);
            path.strip_prefix(root).ok()?.to_owned()
        }
        Tree::Archive(_) => return None,
    };
    relative.to_str().filter(|name| is_inside(name)).map(str::to_owned)
}

fn is_below(root: &Path, path: &Path) -> bool {
    match (root.canonicalize(), path.canonicalize()) {
        (Ok(root), Ok(path)) => path.starts_with(root),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn read(tree: &Tree, uri: &str, digest: &str) -> Result<Vec<u8>, String> {
        let file = StoredFile { uri: uri.to_owned(), digest: digest.to_owned(), media_type: String::new() };
        let read = open(tree, &file).and_then(|blob| blob.read_all(uri, 1 << 20));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn files_of_folders_and_archives() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(root.join("data/a b.txt"), "seven").unwrap();
        fs::write(folder.path().join("private"), "secret").unwrap();
        std::os::unix::fs::symlink("../private", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        let packed = folder.path().join("store.tar");
        let mut archive = tar::Builder::new(File::create(&packed).unwrap());
        archive.append_path_with_name(root.join("data/a b.txt"), "data/a b.txt").unwrap();
        archive.into_inner().unwrap();
        let (directory, archive) = (Tree::Directory(root.clone()), Tree::open_archive(&packed).unwrap());

        let digest = Digest::of(b"seven").to_string();
        for uri in ["data/a b.txt", "./data/a b.txt", "file:data/a%20b.txt", "FILE:data/a b.txt"] {
            for tree in [&directory, &archive] {
                assert_eq!(read(tree, uri, ""), Ok(b"seven".to_vec()), "{uri}");
                assert_eq!(read(tree, uri, &digest), Ok(b"seven".to_vec()), "{uri}");
            }
        }
        let absolute = format!("file://localhost{}/data/a%20b.txt", root.display());
        assert_eq!(read(&directory, &absolute, &digest), Ok(b"seven".to_vec()));
        let wrong = read(&directory, "data/a b.txt", &Digest::of(b"eight").to_string()).unwrap_err();
        assert!(wrong.starts_with("digest mismatch for "), "{wrong}");
        assert!(read(&directory, "data/a b.txt", "md5:0").unwrap_err().contains("64 hex digits"));

        let private = format!("file://{}/private", folder.path().display());
        for (tree, uri, words) in [
            (&directory, "../private", "outside of the folder"),
            (&directory, "data/../../private", "outside of the folder"),
            (&directory, "file:%2e%2e/private", "outside of the folder"),
            (&directory, private.as_str(), "outside of the folder"),
            (&directory, "/etc/passwd", "outside of the folder"),
            (&directory, "link", "outside of the folder"),
            (&directory, "up/private", "outside of the folder"),
            (&archive, absolute.as_str(), "outside of the folder"),
            (&archive, "../private", "outside of the folder"),
            (&directory, "data\\a", "outside of the folder"),
            (&directory, "file://other.example.org/x", "another host"),
            (&directory, "file:", "no path"),
            (&directory, "https://a.org/x", "does not begin with file:"),
            (&directory, "nothing", "does not exist"),
            (&directory, "data", "not a regular file"),
        ] {
            let error = read(tree, uri, "").unwrap_err();
            assert!(error.contains(words) && !error.contains("secret"), "{uri}: {error}");
        }
    }
}
