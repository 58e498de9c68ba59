//! The functions of a package (`packagevariants.md` 8). None is built in yet: a package that asks for one cannot be rendered, since a
//! function that is skipped publishes wrong content.

use groundwork_yaml::tree::Node;

use crate::file::File;
use crate::package::{Package, directory, is_kptfile, is_of_git};

/// Why a package cannot be rendered; the text alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error(
        "package {package:?}: function {function:?}: function {image:?} is not available: no container runtime is configured and it is not built in"
    )]
    NotAvailable { package: String, function: String, image: String },
    #[error(
        "package {package:?}: function {exec:?}: must run with `--allow-exec` option to allow running function binaries"
    )]
    Exec { package: String, exec: String },
}

/// Runs the functions of a package and of its subpackages, those of the deepest first.
///
/// # Errors
/// A function that cannot be had.
pub fn render(files: &Package) -> Result<Package, RenderError> {
    let mut kptfiles: Vec<(&String, &String)> =
        files.iter().filter(|(path, _)| is_kptfile(path) && !is_of_git(path)).collect();
    kptfiles.sort_by_key(|(path, _)| (std::cmp::Reverse(path.matches('/').count()), path.as_str()));
    for (path, text) in kptfiles {
        let documents = File::read(text).map(|file| file.documents).unwrap_or_default();
        let Some(root) = documents.first().map(|document| &document.root) else { continue };
        let functions = ["mutators", "validators"]
            .into_iter()
            .filter_map(|list| root.at(&["pipeline", list]).and_then(Node::as_sequence))
            .flat_map(|list| &list.items);
        if let Some(function) = functions.into_iter().next() {
            return Err(unavailable(directory(path), function));
        }
    }
    Ok(files.clone())
}

fn unavailable(package: &str, function: &Node) -> RenderError {
    let text = |field: &str| {
        function.get(field).and_then(Node::text).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let package = if package.is_empty() { "." } else { package }.to_owned();
    match (text("exec"), text("image")) {
        (Some(exec), _) => RenderError::Exec { package, exec },
        (None, image) => {
            let image = image.unwrap_or_default();
            RenderError::NotAvailable {
                package,
                function: text("name").unwrap_or_else(|| image.clone()),
                image,
            }
        }
    }
}
