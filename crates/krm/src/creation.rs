//! Changes that the store makes to a new revision of a package (`packagevariants.md` 6.6 to 6.8),
//! before it renders the package.
//!
//! ```text
//! init | clone: copy, origin, context, merge keys | upgrade: merge, origin, context, merge keys ──> metadata, gates
//! ```
//!
//! Every function is idempotent. Kptfiles are edited as data, so unknown fields are kept.

mod context;
mod init;
mod merge_keys;
mod metadata;
mod origin;

use groundwork_yaml::tree::{Node, Pair};

use crate::file::{File, ReadError};
use crate::kptfile::write_strings;
use crate::package::{KPTFILE, Package};

pub use context::{restore_context, set_context};
pub use init::init_package;
pub use merge_keys::add_merge_keys;
pub use metadata::{set_package_metadata, set_readiness_gates};
pub use origin::{Origin, set_origin};

/// Reason why the root Kptfile of a package cannot be changed; all files stay unchanged then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreationError {
    /// The Kptfile is missing.
    #[error("package {0:?} is missing Kptfile")]
    MissingKptfile(String),
    /// The Kptfile is not YAML.
    #[error("Kptfile of package {package:?}: {cause}")]
    Syntax { package: String, cause: ReadError },
    /// The Kptfile contains no document, or several.
    #[error("Kptfile of package {package:?}: expected exactly one object, got {count}")]
    Documents { package: String, count: usize },
    /// The Kptfile contains a list or a scalar.
    #[error("Kptfile of package {0:?} must be a map")]
    NoMap(String),
}

/// Turns the files of an upstream's package into those of a new one (`packagevariants.md` 6.6). It
/// sets the name and the origin, adds the context in deployment repositories, and adds the merge
/// keys by which later merges find the objects. `source` is the path of the upstream's package, for
/// messages; `path` is the path of the new one.
///
/// # Errors
/// The root Kptfile is missing or cannot be parsed; see [`CreationError`].
pub fn clone_package(
    files: &mut Package,
    source: &str,
    path: &str,
    origin: &Origin,
    is_deployment: bool,
) -> Result<(), CreationError> {
    let name = path.rsplit('/').next().unwrap_or(path);
    set_origin(files, source, Some(name), origin)?;
    add_merge_keys(files);
    if is_deployment {
        set_context(files, path);
    }
    Ok(())
}

/// Edits the root Kptfile. Its bytes stay if its data is the same afterwards.
fn edit_kptfile(
    files: &mut Package,
    package: &str,
    edit: impl FnOnce(&mut Node),
) -> Result<(), CreationError> {
    let package = || package.to_owned();
    let text = files.get_mut(KPTFILE).ok_or_else(|| CreationError::MissingKptfile(package()))?;
    let mut file = File::read(text).map_err(|cause| CreationError::Syntax { package: package(), cause })?;
    let count = file.documents.len();
    let [document] = file.documents.as_mut_slice() else {
        return Err(CreationError::Documents { package: package(), count });
    };
    if document.root.as_mapping().is_none() {
        return Err(CreationError::NoMap(package()));
    }
    let before = document.root.clone();
    edit(&mut document.root);
    if !document.root.equals(&before) {
        write_strings(&mut document.root);
        *text = file.text();
    }
    Ok(())
}

/// Returns the map of a section, and creates a missing one after the sections `behind`; `None` if
/// the section has another type.
pub(crate) fn section<'a>(root: &'a mut Node, name: &str, behind: &[&str]) -> Option<&'a mut Node> {
    let mapping = root.as_mapping_mut()?;
    let at = mapping.pairs.iter().position(|pair| pair.name() == name);
    let at = at.unwrap_or_else(|| {
        let before = mapping.pairs.iter().rposition(|pair| behind.contains(&pair.name()));
        let at = before.map_or(mapping.pairs.len(), |before| before + 1);
        mapping.pairs.insert(at, Pair::new(name, Node::mapping(Vec::new())));
        at
    });
    let value = &mut mapping.pairs.get_mut(at)?.value;
    if value.is_null() {
        value.content = Node::mapping(Vec::new()).content;
    }
    value.as_mapping().is_some().then_some(value)
}

/// Returns the metadata of a Kptfile.
fn metadata_of(root: &mut Node) -> Option<&mut Node> {
    section(root, "metadata", &["apiVersion", "kind"])
}

/// Sets a string, unless it has that value already.
fn set_string(map: &mut Node, key: &str, text: &str) {
    let Some(mapping) = map.as_mapping_mut() else { return };
    match mapping.get_mut(key) {
        Some(found) if found.as_str() == Some(text) => {}
        Some(found) => found.set_text(text),
        None => mapping.set(key, Node::string(text)),
    }
}
