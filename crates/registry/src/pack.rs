//! Packs component versions of any store of files, or their sources, into a transport archive
//! (`components.md` 6.4).
//!
//! Sources of a component version are a folder with a `component-descriptor.yaml`. The content of a
//! resource without `access` is in the same folder: at the path of its member `input` (`{type:
//! dir|file, path: …, mediaType: …}`), or in `blueprint/` for a blueprint.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use groundwork_component::{Access, Descriptor, Repository as _, RepositoryError};
use serde_json::Value;

use crate::artifact::{BlobDescriptor, DESCRIPTOR_FILE, LARGEST_DOCUMENT, MANIFEST, Manifest};
use crate::blobs::{self, Blobs, LARGEST_BLOB};
use crate::ctf::{BLOB_DIRECTORY, Ctf, INDEX_FILE};
use crate::digest::Digest;
use crate::flat::Flat;
use crate::map::Store;
use crate::tree::{Tree, malformed};
use crate::write::{CtfWriter, WriteError, local_access, pack as pack_files, tar_header};

const BLUEPRINT_MEDIA_TYPE: &str = "application/vnd.gardener.landscaper.blueprint.layer.v1.tar";
const BLUEPRINT_TYPES: [&str; 2] = ["landscaper.gardener.cloud/blueprint", "blueprint"];
/// Paths of the lists whose entries have contents, in both schema versions.
const LISTS: [&str; 4] = ["/component/resources", "/component/sources", "/spec/resources", "/spec/sources"];
/// Limit for the files of one directory that becomes the content of a resource.
const MOST_FILES: usize = 100_000;

/// Reason that packing failed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error("{path}: malformed YAML: {problem}")]
    Yaml { path: PathBuf, problem: String },
    #[error(
        "{path} contains no component version: a component-descriptor.yaml is expected, an artifact-index.json, or \
         folders with one of them"
    )]
    Nothing { path: PathBuf },
    #[error(
        "{path}: {element:?} has neither access nor input: give it `input: {{type: dir, path: …}}` (or `type: file`)"
    )]
    NoContent { path: PathBuf, element: String },
    #[error("{path}: {element:?}: {problem}")]
    Input { path: PathBuf, element: String, problem: String },
}

impl CtfWriter {
    /// Adds everything at a path: a transport archive (directory, tar, tgz), whose artifacts stay
    /// the same to the byte; a component archive or a directory of descriptors; sources of one
    /// component version, or a directory of such sources.
    ///
    /// # Errors
    ///
    /// The path has no component version, or one cannot be read or written.
    pub fn add_all(&mut self, path: &Path) -> Result<(), PackError> {
        if path.is_file() {
            return self.add_tree(path, Tree::open_archive(path)?);
        }
        if path.join(INDEX_FILE).is_file() || path.join(DESCRIPTOR_FILE).is_file() {
            return self.add_tree(path, Tree::Directory(path.to_owned()));
        }
        let mut found = false;
        for folder in folders(path)? {
            if folder.join(INDEX_FILE).is_file() || folder.join(DESCRIPTOR_FILE).is_file() {
                self.add_all(&folder)?;
                found = true;
            }
        }
        if found { Ok(()) } else { Err(PackError::Nothing { path: path.to_owned() }) }
    }

    fn add_tree(&mut self, path: &Path, tree: Tree) -> Result<(), PackError> {
        if tree.file(INDEX_FILE)?.is_some() {
            return self.add_artifacts(&Ctf::new(tree));
        }
        if tree.file(DESCRIPTOR_FILE)?.is_none() {
            return Err(PackError::Nothing { path: path.to_owned() });
        }
        let text = tree.read(DESCRIPTOR_FILE, LARGEST_DOCUMENT)?;
        let mut document = groundwork_yaml::from_str(&String::from_utf8_lossy(&text)).map_err(|error| {
            PackError::Yaml { path: path.join(DESCRIPTOR_FILE), problem: error.to_string() }
        })?;
        let flat = Flat::new(tree)?;
        let mut layers: Vec<BlobDescriptor> = Vec::new();
        for list in LISTS {
            let elements = document.pointer_mut(list).and_then(Value::as_array_mut);
            for element in elements.into_iter().flatten() {
                let Some(layer) = self.content(path, &flat, element)? else { continue };
                if !layers.iter().any(|known| known.digest == layer.digest) {
                    layers.push(layer);
                }
            }
        }
        Ok(self.add_with_layers(&document, &layers)?)
    }

    /// Writes the content of an element, and returns the access that leads to it. Returns `None` if
    /// the content is stored elsewhere.
    fn content(
        &self,
        folder: &Path,
        flat: &Flat,
        element: &mut Value,
    ) -> Result<Option<BlobDescriptor>, PackError> {
        let Some(members) = element.as_object_mut() else { return Ok(None) };
        let input = members.remove("input");
        let element_name = members.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let layer = match members.get("access") {
            Some(access) => match Access::parse(access) {
                Ok(access @ Access::Local { .. }) => {
                    let blob = flat.content("", "", &access)?;
                    let media_type = Some(access.media_type()).filter(|declared| !declared.is_empty());
                    let media_type = media_type.unwrap_or(&blob.media_type).to_owned();
                    self.write_body(blob.body, &media_type, &access.to_string())?
                }
                _ => return Ok(None),
            },
            None => {
                let type_name = members.get("type").and_then(Value::as_str).unwrap_or_default();
                let is_blueprint = BLUEPRINT_TYPES.contains(&type_name);
                let input = Input::read(input.as_ref(), is_blueprint, folder, &element_name)?;
                self.write_input(folder, &input, &element_name)?
            }
        };
        members.insert("access".to_owned(), local_access(&layer));
        Ok(Some(layer))
    }

    fn write_input(&self, folder: &Path, input: &Input, element: &str) -> Result<BlobDescriptor, PackError> {
        let path = folder.join(&input.path);
        let unreadable = |error: &std::io::Error| PackError::Input {
            path: folder.to_owned(),
            element: element.to_owned(),
            problem: format!("cannot read {}: {error}", path.display()),
        };
        if !input.is_directory {
            let file = File::open(&path).map_err(|error| unreadable(&error))?;
            return Ok(self.write_body(file, &input.media_type, &path.display().to_string())?);
        }
        let files = files_below(&path).map_err(|error| unreadable(&error))?;
        let packed = pack_files(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
        Ok(self.write_body(&packed[..], &input.media_type, &path.display().to_string())?)
    }

    /// Replaces the descriptor of a version that was added. Contents and repository name stay.
    ///
    /// # Errors
    ///
    /// The store is not a transport archive, or does not have the version.
    pub fn replace_descriptor(
        &mut self,
        source: &Store,
        name: &str,
        version: &str,
        document: &Value,
    ) -> Result<(), PackError> {
        let tree = match source {
            Store::Directory(path) => Tree::Directory(path.clone()),
            Store::Archive(path) => Tree::open_archive(path)?,
            Store::Registry(registry) => {
                return Err(RepositoryError::Offline { address: registry.url.clone() }.into());
            }
        };
        let archive = Ctf::new(tree);
        for (repository, tag, digest) in archive.artifacts()? {
            if !blobs::is_component(&archive, &digest)? {
                continue;
            }
            let text = blobs::descriptor(&archive, &digest)?;
            let found = text.and_then(|text| Descriptor::name_and_version(&text).ok());
            if found.is_none_or(|found| found != (name.to_owned(), version.to_owned())) {
                continue;
            }
            let (_, _, manifest) = blobs::main_manifest(&archive, &digest)?;
            // The first layer is the descriptor; the others are contents.
            let contents = manifest.layers.get(1..).unwrap_or_default();
            self.add_with_layers(document, contents)?;
            self.rename_last(repository, tag);
            return Ok(());
        }
        Err(PackError::Nothing { path: PathBuf::from(format!("{name}:{version}")) })
    }

    /// Copies the artifacts of another archive.
    fn add_artifacts(&mut self, archive: &Ctf) -> Result<(), PackError> {
        for (repository, tag, digest) in archive.artifacts()? {
            let media_type = self.copy(archive, &digest)?;
            self.add_artifact(repository, tag, &digest, media_type);
        }
        Ok(())
    }

    /// Copies a manifest with everything that it refers to.
    fn copy(&self, archive: &Ctf, digest: &Digest) -> Result<String, PackError> {
        let text = blobs::manifest_bytes(archive, digest)?;
        let manifest: Manifest = blobs::decode(&archive.address(digest), &text)?;
        for part in manifest.config.iter().chain(&manifest.layers) {
            let part = blobs::parse(archive, &part.digest, digest)?;
            let blob = blobs::blob(archive, &part, LARGEST_BLOB)?;
            self.write_body(blob.body, "", &archive.address(&part))?;
        }
        for nested in &manifest.manifests {
            self.copy(archive, &blobs::parse(archive, &nested.digest, digest)?)?;
        }
        self.write_body(&text[..], "", &archive.address(digest))?;
        Ok(manifest.media_type.unwrap_or_else(|| MANIFEST.to_owned()))
    }
}

/// Location of the content of an element, as its sources give it.
struct Input {
    path: PathBuf,
    is_directory: bool,
    media_type: String,
}

impl Input {
    fn read(
        input: Option<&Value>,
        is_blueprint: bool,
        folder: &Path,
        element: &str,
    ) -> Result<Self, PackError> {
        let wrong = |problem: &str| PackError::Input {
            path: folder.to_owned(),
            element: element.to_owned(),
            problem: problem.to_owned(),
        };
        let default = if is_blueprint { BLUEPRINT_MEDIA_TYPE } else { "application/x-tar" };
        let Some(input) = input else {
            if !is_blueprint || !folder.join("blueprint").is_dir() {
                return Err(PackError::NoContent { path: folder.to_owned(), element: element.to_owned() });
            }
            let path = PathBuf::from("blueprint");
            return Ok(Self { path, is_directory: true, media_type: default.to_owned() });
        };
        let members = input.as_object().ok_or_else(|| wrong("input must be a map"))?;
        if let Some(other) = members.keys().find(|key| !["type", "path", "mediaType"].contains(&key.as_str()))
        {
            return Err(wrong(&format!(
                "input has the unknown member {other:?}; use type, path and mediaType"
            )));
        }
        let text = |member: &str| members.get(member).and_then(Value::as_str).unwrap_or_default();
        let is_directory = match text("type") {
            "dir" => true,
            "file" => false,
            _ => return Err(wrong("the type of input must be dir or file")),
        };
        if text("path").is_empty() {
            return Err(wrong("input needs a path"));
        }
        let media_type = match text("mediaType") {
            "" if is_directory => default,
            "" => "application/octet-stream",
            given => given,
        };
        Ok(Self { path: text("path").into(), is_directory, media_type: media_type.to_owned() })
    }
}

/// Returns the subfolders in the order of their names.
fn folders(path: &Path) -> Result<Vec<PathBuf>, PackError> {
    let entries = fs::read_dir(path)
        .map_err(|error| malformed(path.display().to_string(), &format!("cannot be read: {error}")))?;
    let mut folders: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

/// Returns all regular files below a folder, in the order of their relative names. Links are not
/// followed.
fn files_below(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                open.push(path);
                continue;
            }
            if !kind.is_file() {
                let problem = format!("{} is neither a file nor a folder", path.display());
                return Err(std::io::Error::other(problem));
            }
            let relative = path.strip_prefix(folder).unwrap_or(&path);
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            files.push((parts.join("/"), fs::read(&path)?));
            if files.len() > MOST_FILES {
                return Err(std::io::Error::other(format!("it has more than {MOST_FILES} files")));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a transport archive directory as one tar, optionally compressed. The index comes first,
/// then the blobs in the order of their names, so that equal directories give equal files.
///
/// # Errors
///
/// The directory cannot be read, or the file cannot be written.
pub fn write_archive(directory: &Path, target: &Path, is_compressed: bool) -> Result<(), WriteError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError::Io { path, source }
    };
    let file = File::create(target).map_err(failed(target))?;
    let mut names = vec![INDEX_FILE.to_owned()];
    let blobs = directory.join(BLOB_DIRECTORY);
    let entries = fs::read_dir(&blobs).map_err(failed(&blobs))?;
    let mut found: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| format!("{BLOB_DIRECTORY}/{}", entry.file_name().to_string_lossy()))
        .collect();
    found.sort();
    names.extend(found);
    if is_compressed {
        let mut encoder = GzEncoder::new(file, flate2::Compression::default());
        write_tar(directory, &names, &mut encoder)?;
        encoder.finish().map(drop).map_err(failed(target))
    } else {
        let mut file = std::io::BufWriter::new(file);
        write_tar(directory, &names, &mut file)?;
        file.flush().map_err(failed(target))
    }
}

fn write_tar(directory: &Path, names: &[String], target: &mut impl std::io::Write) -> Result<(), WriteError> {
    for name in names {
        let path = directory.join(name);
        let failed = |source| WriteError::Io { path: path.clone(), source };
        let mut file = File::open(&path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        target.write_all(&tar_header(name, size)).map_err(failed)?;
        let copied = std::io::copy(&mut file, target).map_err(failed)?;
        let padding = copied.next_multiple_of(512) - copied;
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), padding), target).map_err(failed)?;
    }
    let end = [0; 1024];
    target.write_all(&end).map_err(|source| WriteError::Io { path: directory.to_owned(), source })
}

#[cfg(test)]
mod tests;
