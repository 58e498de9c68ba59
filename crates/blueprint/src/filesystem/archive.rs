//! Reads a tar archive, compressed or not, as a file tree (`blueprints.md` 2.3, `components.md`
//! 6.7).

use std::io::Read;

use flate2::read::GzDecoder;
use tar::EntryType;

use super::{Directory, Entry, Filesystem, PathError, bounded, head, stays_inside};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Limits for archives, which come from untrusted sources.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// Bytes after decompression, headers included.
    pub bytes: u64,
    pub entries: usize,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, entries: 10_000 }
    }
}

/// Error in an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    #[error("the archive is broken: {0}")]
    Broken(String),
    #[error("the archive contains more than {0} bytes")]
    TooLarge(u64),
    #[error("the archive contains more than {0} entries")]
    TooMany(usize),
    #[error("the archive entry {0} leads out of the archive")]
    Escapes(String),
    #[error("the archive contains an invalid entry: {0}")]
    Path(PathError),
}

impl Filesystem {
    /// Unpacks a tar or a gzipped tar. The first bytes decide which of the two it is, not the media
    /// type. Links must stay inside the tree; hard links and devices are skipped.
    ///
    /// # Errors
    ///
    /// See [`ArchiveError`].
    pub fn from_archive(bytes: &[u8], limits: ArchiveLimits) -> Result<Self, ArchiveError> {
        let mut plain = Vec::new();
        let bytes = if bytes.starts_with(&GZIP_MAGIC) {
            let broken = |error: std::io::Error| ArchiveError::Broken(error.to_string());
            GzDecoder::new(bytes).take(limits.bytes + 1).read_to_end(&mut plain).map_err(broken)?;
            &plain[..]
        } else {
            bytes
        };
        if bytes.len() as u64 > limits.bytes {
            return Err(ArchiveError::TooLarge(limits.bytes));
        }
        unpack(bytes, limits)
    }
}

fn unpack(bytes: &[u8], limits: ArchiveLimits) -> Result<Filesystem, ArchiveError> {
    let broken = |error: std::io::Error| ArchiveError::Broken(error.to_string());
    let mut files = Filesystem::default();
    let mut archive = tar::Archive::new(bytes);
    for (count, entry) in archive.entries().map_err(broken)?.enumerate() {
        if count >= limits.entries {
            return Err(ArchiveError::TooMany(limits.entries));
        }
        let mut entry = entry.map_err(broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let segments = inside(&path)?;
        match entry.header().entry_type() {
            EntryType::Directory => files.place(&segments, Entry::Directory(Directory::new())),
            EntryType::Regular | EntryType::Continuous => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).map_err(broken)?;
                files.place(&segments, Entry::File(content));
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default();
                let target = String::from_utf8_lossy(&target).into_owned();
                check_link(&segments, &target)?;
                files.place(&segments, Entry::Link(target));
            }
            _ => {}
        }
    }
    Ok(files)
}

/// Returns the segments of a relative path without `..`, and an error for any other path.
fn inside(path: &str) -> Result<Vec<&str>, ArchiveError> {
    let segments = bounded(path).map_err(ArchiveError::Path)?;
    if path.starts_with('/') || segments.contains(&"..") {
        return Err(ArchiveError::Escapes(head(path)));
    }
    Ok(segments)
}

fn check_link(segments: &[&str], target: &str) -> Result<(), ArchiveError> {
    if stays_inside(segments, target).map_err(ArchiveError::Path)? {
        return Ok(());
    }
    Err(ArchiveError::Escapes(format!("{} -> {}", head(&segments.join("/")), head(target))))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn archive(add: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        add(&mut builder);
        builder.into_inner().unwrap()
    }

    fn header(kind: EntryType, name: &str, size: usize) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size as u64);
        // The name is written directly, because `set_path` rejects the names that these tests need.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        header
    }

    fn file(name: &str, content: &str) -> Vec<u8> {
        archive(|tar| {
            tar.append(&header(EntryType::Regular, name, content.len()), content.as_bytes()).unwrap();
        })
    }

    fn link(name: &str, target: &str) -> Vec<u8> {
        archive(|tar| {
            let mut header = header(EntryType::Symlink, name, 0);
            header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
            header.set_cksum();
            tar.append(&header, &b""[..]).unwrap();
        })
    }

    fn unpack(bytes: &[u8]) -> Result<Filesystem, String> {
        Filesystem::from_archive(bytes, ArchiveLimits::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn plain_and_compressed() {
        let plain = file("./a/b.yaml", "content");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&plain).unwrap();
        for bytes in [plain, gzip.finish().unwrap()] {
            assert_eq!(unpack(&bytes).unwrap().read("a/b.yaml"), Ok(&b"content"[..]));
        }
    }

    #[test]
    fn nothing_leaves_the_archive() {
        for bytes in [
            file("../x", ""),
            file("/etc/x", ""),
            file("a/../../x", ""),
            link("a", "../x"),
            link("a", "/etc/passwd"),
            link("d/a", "../../x"),
        ] {
            assert!(unpack(&bytes).unwrap_err().contains("leads out of the archive"));
        }
        assert!(unpack(&link("d/a", "../x")).is_ok());
        assert_eq!(unpack(&link("hard", "x")).unwrap().read("hard"), Err(super::super::PathError::NotFound));
    }

    /// A name of 100,000 folders once crashed the process when the tree was dropped.
    #[test]
    fn deep_names_are_refused() {
        for (name, problem) in [
            (format!("{}b", "a/".repeat(100)), "64 segments"),
            (format!("{}b", "a/".repeat(100_000)), "4096 bytes"),
        ] {
            let bytes = archive(|tar| {
                let mut header = tar::Header::new_gnu();
                header.set_size(0);
                tar.append_data(&mut header, &name, &b""[..]).unwrap();
            });
            let error = unpack(&bytes).unwrap_err();
            assert!(error.contains(problem) && error.len() < 300, "{error}");
        }
        let target = format!("{}b", "a/".repeat(40_000));
        let bytes = archive(|tar| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, "link", &target).unwrap();
        });
        assert!(unpack(&bytes).unwrap_err().contains("4096 bytes"));
    }

    #[test]
    fn broken_and_oversized() {
        assert!(unpack(b"not a tar, but long enough to be looked at").unwrap_err().contains("broken"));
        assert!(unpack(&[0x1f, 0x8b, 1, 2, 3]).unwrap_err().contains("broken"));
        let limits = ArchiveLimits { bytes: 100, entries: 10 };
        assert_eq!(Filesystem::from_archive(&file("a", "b"), limits), Err(ArchiveError::TooLarge(100)));
        let many = archive(|tar| {
            for _ in 0..3 {
                tar.append(&header(EntryType::Regular, "a", 0), &b""[..]).unwrap();
            }
        });
        let limits = ArchiveLimits { bytes: 1 << 20, entries: 2 };
        assert_eq!(Filesystem::from_archive(&many, limits), Err(ArchiveError::TooMany(2)));
    }
}
