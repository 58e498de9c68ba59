//! Reads files into documents.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use groundwork_yaml::{self as yaml, Content, Node};

use crate::diagnostic::{Diagnostic, Source};

pub(crate) use groundwork_api::strict::Schemas;

/// File name of a repository map. It is not a manifest, and has its own argument.
pub(crate) const REPOSITORIES_FILE: &str = "repositories.yaml";
const MANIFEST_ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
const STANDARD_INPUT: &str = "-";
/// Size limit of a file in bytes. Manifests are far smaller.
const LARGEST_FILE: u64 = 32 << 20;

/// Manifest and its place in a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) source: Rc<Source>,
    pub(crate) node: Node,
}

impl Document {
    pub(crate) fn text(&self, member: &str) -> &str {
        self.node.get(member).and_then(Node::as_str).unwrap_or_default()
    }

    /// Returns `metadata.name` or another member of the metadata.
    pub(crate) fn metadata(&self, member: &str) -> Option<&str> {
        self.node.get("metadata")?.get(member)?.as_str()
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).at(&self.source, self.node.position)
    }

    /// Returns the name of the object for messages.
    pub(crate) fn title(&self) -> String {
        match (self.text("kind"), self.metadata("name")) {
            ("", _) => "document".to_owned(),
            (kind, Some(name)) => format!("{kind} {name:?}"),
            (kind, None) => kind.to_owned(),
        }
    }
}

/// Reads every manifest under the paths. Lists are split into their items, and empty documents are
/// left out.
pub(crate) fn read(paths: &[PathBuf], diagnostics: &mut Vec<Diagnostic>) -> Vec<Document> {
    let mut documents = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        for file in files(path, diagnostics) {
            // The user may name a file and its directory; read the file once.
            if seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                read_file(&file, &mut documents, diagnostics);
            }
        }
    }
    documents
}

/// Returns a file itself, or the manifests directly in a directory.
fn files(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            diagnostics.push(Diagnostic::error(format!("cannot read directory {}: {error}", path.display())));
            return Vec::new();
        }
    };
    let is_manifest = |file: &PathBuf| {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        MANIFEST_ENDINGS.contains(&ending) && file.is_file() && !file.ends_with(REPOSITORIES_FILE)
    };
    let mut files: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_manifest).collect();
    files.sort();
    if files.is_empty() {
        let message = format!("directory {} contains no manifests (*.yaml, *.yml, *.json)", path.display());
        diagnostics.push(Diagnostic::error(message));
    }
    files
}

fn read_file(path: &Path, documents: &mut Vec<Document>, diagnostics: &mut Vec<Diagnostic>) {
    let (name, text) = if path == Path::new(STANDARD_INPUT) {
        ("standard input".to_owned(), read_text(std::io::stdin().lock()))
    } else {
        (path.display().to_string(), std::fs::File::open(path).and_then(read_text))
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return diagnostics.push(Diagnostic::error(format!("cannot read {name}: {error}"))),
    };
    let source = Rc::new(Source::new(name, text));
    match yaml::parse_all(&source.text, yaml::Options { unique_keys: true, ..yaml::Options::default() }) {
        Ok(nodes) => {
            for node in nodes {
                expand(node, &source, documents, diagnostics);
            }
        }
        Err(error) => {
            let message = format!("malformed YAML: {}", error.message());
            diagnostics.push(Diagnostic::error(message).at(&source, error.position()));
        }
    }
}

fn read_text(reader: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    reader.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(std::io::Error::other(format!("the file is larger than {LARGEST_FILE} bytes")));
    }
    Ok(text)
}

/// Adds a document, or the items of a `List`.
fn expand(node: Node, source: &Rc<Source>, documents: &mut Vec<Document>, diagnostics: &mut Vec<Diagnostic>) {
    if node.is_null() {
        return;
    }
    if !matches!(node.content, Content::Mapping(_)) {
        let message = "a Kubernetes object is expected here";
        return diagnostics.push(Diagnostic::error(message).at(source, node.position));
    }
    let document = Document { source: Rc::clone(source), node };
    let is_list = document.text("apiVersion") == "v1" && document.text("kind") == "List";
    if !is_list {
        return documents.push(document);
    }
    match document.node.get("items").map(|items| &items.content) {
        Some(Content::Sequence(items)) => {
            for item in items {
                expand(item.clone(), source, documents, diagnostics);
            }
        }
        None | Some(Content::Null) => {}
        Some(_) => diagnostics.push(document.error("items of a List must be a list")),
    }
}
