//! Read-only file tree of a blueprint (`blueprints.md` 2).

mod archive;
mod inline;

use std::collections::BTreeMap;

pub use archive::{ArchiveError, ArchiveLimits};
pub use inline::InlineError;

/// Largest number of links followed for one path, which ends loops.
const MOST_LINKS: usize = 40;
/// File at the root of the tree that describes the blueprint.
pub const BLUEPRINT_FILE: &str = "blueprint.yaml";
/// Largest depth of nested folders, including the file. The tree is walked and dropped recursively,
/// so this also limits the stack.
const MOST_SEGMENTS: usize = 64;
/// Maximum bytes of a path, as in Linux file systems.
const LONGEST_PATH: usize = 4096;
/// Bytes of the longest path that is looked up. It is larger than [`LONGEST_PATH`], because a path
/// may contain redundant parts such as `./`.
const LONGEST_ASKED: usize = 16 * LONGEST_PATH;

/// Tree of files, folders and links. Paths never leave the tree: `..` above the root stays at the
/// root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filesystem {
    root: Directory,
}

type Directory = BTreeMap<String, Entry>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>),
    Directory(Directory),
    Link(String),
}

/// File or folder in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    pub name: String,
    /// Bytes of a file; 0 for a folder.
    pub size: usize,
    pub is_directory: bool,
}

/// Error of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("file does not exist")]
    NotFound,
    #[error("{0} is a directory")]
    IsDirectory(String),
    #[error("{0} is not a directory")]
    NotDirectory(String),
    #[error("too many levels of symbolic links")]
    TooManyLinks,
    #[error("the path {0} has more than {MOST_SEGMENTS} segments")]
    TooDeep(String),
    #[error("the path {0} is too long: entries have paths of up to {LONGEST_PATH} bytes")]
    TooLong(String),
    #[error("the link {0} leads out of the blueprint")]
    Escapes(String),
}

impl Filesystem {
    /// Returns the content of a file. Paths are relative to the root, with or without a leading `/`
    /// or `./`.
    ///
    /// # Errors
    ///
    /// The file does not exist, or the path is a directory.
    pub fn read(&self, path: &str) -> Result<&[u8], PathError> {
        match self.find(path)? {
            Found::File(content) => Ok(content),
            Found::Directory(_) => Err(PathError::IsDirectory(path.to_owned())),
        }
    }

    /// Reports whether any file contains these bytes.
    pub fn contain(&self, bytes: &[u8]) -> bool {
        let finder = memchr::memmem::Finder::new(bytes);
        self.contents().into_iter().any(|content| finder.find(content).is_some())
    }

    /// Returns the contents of all files, those of a folder ordered by name.
    pub(crate) fn contents(&self) -> Vec<&[u8]> {
        fn collect<'d>(directory: &'d Directory, contents: &mut Vec<&'d [u8]>) {
            for entry in directory.values() {
                match entry {
                    Entry::File(content) => contents.push(content),
                    Entry::Directory(directory) => collect(directory, contents),
                    Entry::Link(_) => {}
                }
            }
        }
        let mut contents = Vec::new();
        collect(&self.root, &mut contents);
        contents
    }

    /// Returns the entries of a directory, sorted by name. Links appear as the files or folders
    /// that they lead to.
    ///
    /// # Errors
    ///
    /// The directory does not exist.
    pub fn list(&self, path: &str) -> Result<Vec<FileInfo>, PathError> {
        let Found::Directory(directory) = self.find(path)? else {
            return Err(PathError::NotDirectory(path.to_owned()));
        };
        let info = |(name, entry): (&String, &Entry)| {
            let found = match entry {
                Entry::Link(_) => self.find(&format!("{path}/{name}")).ok()?,
                Entry::File(content) => Found::File(content),
                Entry::Directory(directory) => Found::Directory(directory),
            };
            let (size, is_directory) = match found {
                Found::File(content) => (content.len(), false),
                Found::Directory(_) => (0, true),
            };
            Some(FileInfo { name: name.clone(), size, is_directory })
        };
        Ok(directory.iter().filter_map(info).collect())
    }

    /// Adds a file and its parent folders. An existing entry of that path is replaced.
    ///
    /// # Errors
    ///
    /// The path is too long, or has too many segments.
    pub fn insert(&mut self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), PathError> {
        self.place(&bounded(path)?, Entry::File(content.into()));
        Ok(())
    }

    /// Adds a link and its parent folders. An existing entry of that path is replaced. The target
    /// need not exist.
    ///
    /// # Errors
    ///
    /// The path or the target is too long or has too many segments, or the link leads out of the
    /// tree.
    pub fn insert_link(&mut self, path: &str, target: &str) -> Result<(), PathError> {
        let segments = bounded(path)?;
        if !stays_inside(&segments, target)? {
            return Err(PathError::Escapes(format!("{} -> {}", head(path), head(target))));
        }
        self.place(&segments, Entry::Link(target.to_owned()));
        Ok(())
    }

    fn place(&mut self, path: &[&str], entry: Entry) {
        let Some((name, folders)) = path.split_last() else { return };
        let mut directory = &mut self.root;
        for folder in folders {
            let slot =
                directory.entry((*folder).to_owned()).or_insert_with(|| Entry::Directory(Directory::new()));
            if !matches!(slot, Entry::Directory(_)) {
                *slot = Entry::Directory(Directory::new());
            }
            let Entry::Directory(inner) = slot else { return };
            directory = inner;
        }
        match (directory.get_mut(*name), &entry) {
            // An archive may list a folder after its files, so an existing folder is kept.
            (Some(Entry::Directory(_)), Entry::Directory(_)) => {}
            _ => {
                directory.insert((*name).to_owned(), entry);
            }
        }
    }

    fn find(&self, path: &str) -> Result<Found<'_>, PathError> {
        if path.len() > LONGEST_ASKED {
            return Err(PathError::TooLong(head(path)));
        }
        let mut open: Vec<String> = segments(path).into_iter().rev().map(str::to_owned).collect();
        // Folders from the root to the current position, with their names.
        let mut stack: Vec<(&Directory, String)> = Vec::new();
        let mut links = 0;
        while let Some(name) = open.pop() {
            if name == ".." {
                stack.pop();
                continue;
            }
            let here = stack.last().map_or(&self.root, |(directory, _)| directory);
            match here.get(&name).ok_or(PathError::NotFound)? {
                Entry::Directory(directory) => stack.push((directory, name)),
                Entry::File(content) if open.is_empty() => return Ok(Found::File(content)),
                Entry::File(_) => return Err(PathError::NotFound),
                Entry::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(PathError::TooManyLinks);
                    }
                    if target.starts_with('/') {
                        stack.clear();
                    }
                    open.extend(segments(target).into_iter().rev().map(str::to_owned));
                }
            }
        }
        Ok(Found::Directory(stack.last().map_or(&self.root, |(directory, _)| directory)))
    }
}

enum Found<'a> {
    File(&'a [u8]),
    Directory(&'a Directory),
}

/// Returns a path as messages show it: relative to the root, without leading `/` and `./`.
pub(crate) fn shown_path(path: &str) -> &str {
    path.trim_start_matches("./").trim_start_matches('/')
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect()
}

/// Returns the segments of a path, or an error if the path is too long for an entry.
fn bounded(path: &str) -> Result<Vec<&str>, PathError> {
    if path.len() > LONGEST_PATH {
        return Err(PathError::TooLong(head(path)));
    }
    let segments = segments(path);
    if segments.len() > MOST_SEGMENTS { Err(PathError::TooDeep(head(path))) } else { Ok(segments) }
}

/// Reports whether a link at this path stays in the tree, judged by its text. An absolute link does
/// not.
fn stays_inside(path: &[&str], target: &str) -> Result<bool, PathError> {
    let segments = bounded(target)?;
    let mut depth = Some(path.len().saturating_sub(1));
    for segment in segments {
        depth = depth.and_then(|depth| if segment == ".." { depth.checked_sub(1) } else { Some(depth + 1) });
    }
    Ok(depth.is_some() && !target.starts_with('/'))
}

/// Returns the quoted start of a path, enough to recognize it.
fn head(path: &str) -> String {
    const SHOWN: usize = 64;
    if path.len() <= SHOWN {
        return format!("{path:?}");
    }
    format!("{:?}…", &path[..path.floor_char_boundary(SHOWN)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Filesystem {
        let mut files = Filesystem::default();
        files.insert("VERSION", "0.0.0").unwrap();
        files.insert("templates/a.yaml", "a").unwrap();
        files.place(&["templates", "up"], Entry::Link("../VERSION".into()));
        files.place(&["top"], Entry::Link("/templates".into()));
        files.place(&["loop"], Entry::Link("loop".into()));
        files.place(&["out"], Entry::Link("../../../../VERSION".into()));
        files
    }

    #[test]
    fn paths() {
        let files = tree();
        for path in [
            "VERSION",
            "/VERSION",
            "./VERSION",
            "../VERSION",
            "/../../VERSION",
            "templates/../VERSION",
            "templates/up",
            "top/up",
            "out",
            "top/../VERSION",
        ] {
            assert_eq!(files.read(path), Ok(&b"0.0.0"[..]), "{path}");
        }
        assert_eq!(files.read("nope"), Err(PathError::NotFound));
        assert_eq!(files.read("VERSION/x"), Err(PathError::NotFound));
        assert_eq!(files.read("templates"), Err(PathError::IsDirectory("templates".into())));
        assert_eq!(files.read("loop"), Err(PathError::TooManyLinks));
    }

    /// A tree of 20,000 folders once overflowed the stack when it was dropped.
    #[test]
    fn paths_are_bounded() {
        let mut files = Filesystem::default();
        let deep = |segments: usize| format!("{}b", "a/".repeat(segments - 1));
        assert_eq!(files.insert(&deep(MOST_SEGMENTS), "x"), Ok(()));
        assert_eq!(files.read(&deep(MOST_SEGMENTS)), Ok(&b"x"[..]));
        let error = files.insert(&deep(MOST_SEGMENTS + 1), "x").unwrap_err().to_string();
        assert!(error.ends_with("… has more than 64 segments") && error.len() < 160, "{error}");
        let error = files.insert(&deep(20_000), "x").unwrap_err().to_string();
        assert!(
            error.ends_with("… is too long: entries have paths of up to 4096 bytes") && error.len() < 150,
            "{error}"
        );
        assert!(files.insert(&"a".repeat(LONGEST_PATH + 1), "x").is_err());
    }

    #[test]
    fn links_stay_inside() {
        let mut files = tree();
        assert_eq!(files.insert_link("a/b", "../VERSION"), Ok(()));
        assert_eq!(files.read("a/b"), Ok(&b"0.0.0"[..]));
        for (path, target) in
            [("a/b", "../../VERSION"), ("a", ".."), ("a", "/etc/passwd"), ("a", "b/../../x")]
        {
            let error = files.insert_link(path, target).unwrap_err().to_string();
            assert_eq!(error, format!("the link {path:?} -> {target:?} leads out of the blueprint"));
        }
    }

    #[test]
    fn listings_are_sorted_and_follow_links() {
        let names: Vec<_> =
            tree().list("/").unwrap().into_iter().map(|info| (info.name, info.is_directory)).collect();
        let names: Vec<_> = names.iter().map(|(name, is_directory)| (name.as_str(), *is_directory)).collect();
        assert_eq!(names, [("VERSION", false), ("out", false), ("templates", true), ("top", true)]);
        assert_eq!(tree().list("VERSION"), Err(PathError::NotDirectory("VERSION".into())));
    }
}
