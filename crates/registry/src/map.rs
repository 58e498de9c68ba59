//! `repositories.yaml`: which store stands for which repository context.
//!
//! ```yaml
//! repositories:
//! - context: {type: ociRegistry, baseUrl: registry.example.org/components}
//!   directory: stores/released      # relative to this file
//! ```
//!
//! Conditions and messages keep showing the context; only the place that is read from changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_yaml::{self as yaml, Content, Node, Step};

use crate::ctf::CtfDirectory;

/// The types of repository contexts that exist (`components.md` 1.5), without their version suffix.
const KNOWN_TYPES: [&str; 7] =
    ["ociRegistry", "OCIRegistry", "oci", "CommonTransportFormat", "ComponentArchive", "local", "inline"];

/// Stores by repository context.
#[derive(Debug, Clone, Default)]
pub struct RepositoryMap {
    /// How the map is called in messages.
    source: String,
    stores: Vec<(RepositoryContext, PathBuf)>,
}

/// Why a `repositories.yaml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}:{column}: {problem}")]
    Malformed { path: PathBuf, line: usize, column: usize, problem: String },
}

impl MapError {
    /// The place in the file, where one is known: line and column from 1.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Malformed { line, column, .. } => Some((*line, *column)),
        }
    }

    /// What is wrong, without the place.
    pub fn problem(&self) -> String {
        match self {
            Self::Unreadable { source, .. } => source.to_string(),
            Self::Malformed { problem, .. } => problem.clone(),
        }
    }
}

impl RepositoryMap {
    /// A map without entries; every lookup says that nothing is configured.
    pub fn empty(source: impl Into<String>) -> Self {
        Self { source: source.into(), stores: Vec::new() }
    }

    /// Reads a file. Directories in it are relative to the file.
    ///
    /// # Errors
    ///
    /// The file is unreadable, malformed, or maps one context twice.
    pub fn load(path: &Path) -> Result<Self, MapError> {
        let text = fs::read_to_string(path)
            .map_err(|source| MapError::Unreadable { path: path.to_owned(), source })?;
        let malformed = |position: yaml::Position, problem: String| MapError::Malformed {
            path: path.to_owned(),
            line: position.line,
            column: position.column,
            problem,
        };
        let document =
            yaml::parse_first(&text, yaml::Options { unique_keys: true, ..yaml::Options::default() })
                .map_err(|error| malformed(error.position(), error.message().to_owned()))?;
        let base = path.parent().unwrap_or(Path::new("."));
        let mut map = Self::empty(path.display().to_string());
        for (context, directory, position) in
            entries(&document).map_err(|(at, problem)| malformed(at, problem))?
        {
            if map.stores.iter().any(|(known, _)| known.is_same_place(&context)) {
                return Err(malformed(position, format!("the repository context {context} is mapped twice")));
            }
            map.stores.push((context, base.join(directory)));
        }
        Ok(map)
    }

    /// The contexts and the directories that stand for them.
    pub fn stores(&self) -> impl Iterator<Item = (&RepositoryContext, &Path)> {
        self.stores.iter().map(|(context, directory)| (context, directory.as_path()))
    }

    /// Takes in the stores of another map. Answers with a context that both map, to different directories.
    ///
    /// # Errors
    ///
    /// The context; nothing of the other map is taken then.
    pub fn merge(&mut self, other: Self) -> Result<(), RepositoryContext> {
        let clash = other.stores.iter().find(|(context, directory)| {
            self.stores.iter().any(|(known, other)| known.is_same_place(context) && other != directory)
        });
        if let Some((context, _)) = clash {
            return Err(context.clone());
        }
        self.source = format!("{} or {}", self.source, other.source);
        self.stores.extend(other.stores);
        Ok(())
    }

    /// Adds a store; later entries win.
    pub fn insert(&mut self, context: RepositoryContext, directory: impl Into<PathBuf>) {
        self.stores.insert(0, (context, directory.into()));
    }
}

impl Repositories for RepositoryMap {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        if let Some((_, directory)) = self.stores.iter().find(|(known, _)| known.is_same_place(context)) {
            return Ok(Arc::new(CtfDirectory::new(directory, context.clone())));
        }
        let type_name = context.type_name();
        if !KNOWN_TYPES.contains(&type_name.strip_suffix("/v1").unwrap_or(type_name)) {
            return Err(RepositoryError::UnknownType { type_name: type_name.to_owned() });
        }
        if let Some(member) = context.missing_member() {
            let problem = format!("a repository context of type {type_name} needs {member}");
            return Err(RepositoryError::Malformed { address: context.to_json(), problem });
        }
        Err(RepositoryError::NotMapped { context: context.to_json(), map: self.source.clone() })
    }
}

type Problem = (yaml::Position, String);

/// The entries with the place of each.
fn entries(document: &Node) -> Result<Vec<(RepositoryContext, String, yaml::Position)>, Problem> {
    if document.is_null() {
        return Ok(Vec::new());
    }
    only_members(document, &["repositories"])?;
    let Some(list) = document.get("repositories") else {
        return Err((document.position, "a list \"repositories\" is expected".to_owned()));
    };
    match &list.content {
        Content::Sequence(items) => items.iter().map(entry).collect(),
        Content::Null => Ok(Vec::new()),
        _ => Err((list.position, "repositories must be a list".to_owned())),
    }
}

fn entry(item: &Node) -> Result<(RepositoryContext, String, yaml::Position), Problem> {
    only_members(item, &["context", "directory"])?;
    let context = item
        .get("context")
        .filter(|context| matches!(context.content, Content::Mapping(_)))
        .and_then(|context| RepositoryContext::new(context.to_value()))
        .ok_or_else(|| {
            (item.position, "context must be a map such as {type: ociRegistry, baseUrl: …}".to_owned())
        })?;
    let directory = item
        .get("directory")
        .and_then(Node::as_str)
        .filter(|directory| !directory.is_empty())
        .ok_or_else(|| (item.position, "directory must name a directory".to_owned()))?;
    Ok((context, directory.to_owned(), item.position))
}

fn only_members(node: &Node, known: &[&str]) -> Result<(), Problem> {
    let Content::Mapping(members) = &node.content else {
        return Err((node.position, "a map is expected".to_owned()));
    };
    match members.iter().find(|member| !known.contains(&member.key.as_str())) {
        None => Ok(()),
        Some(member) => {
            let problem = format!("unknown field {:?}; known are {}", member.key, known.join(", "));
            Err((node.locate([Step::Key(&member.key)]), problem))
        }
    }
}
