//! `repositories.yaml`: maps repository contexts to the stores that are read for them.
//!
//! ```yaml
//! repositories:
//! - context: {type: ociRegistry, baseUrl: registry.example.org/components}
//!   directory: stores/released      # relative to this file; or `archive:` with a tar
//! - context: {type: ociRegistry, baseUrl: registry.example.org/others}
//!   url: mirror.example.org/others  # registry in place of the base URL; `http://` for no TLS
//!   dockerConfig: config.json       # optional: file whose `auths` has the credentials
//!   ca: ca.pem                      # optional: certificates to trust in place of the system's
//! accesses:                         # see `outside/permissions.rs`
//! - type: wget
//!   url: https://files.example.org/shop
//! ```
//!
//! Conditions and messages still show the context; only the place that is read changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError, RepositoryKind};
use groundwork_yaml::{self as yaml, Content, Node, Step};

use crate::artifact::DESCRIPTOR_FILE;
use crate::ctf::{Ctf, CtfRepository, INDEX_FILE};
use crate::flat::Flat;
use crate::outside::{Fetcher, Permission, Permissions, WithOutside};
use crate::tree::malformed;
use crate::tree::{Stamp, Tree, stamp};

/// Actual location of the component versions of a repository context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// Common transport format, component archive, or directory of descriptors.
    Directory(PathBuf),
    /// Tar, compressed or not, of a common transport format, a component archive, or a directory of
    /// descriptors.
    Archive(PathBuf),
    /// Registry over HTTP.
    Registry(Registry),
}

impl Store {
    /// Returns a directory or archive if the path exists, or else a registry with this address.
    ///
    /// # Errors
    ///
    /// The path does not exist, and the text is not the address of a registry. The error is a
    /// sentence that says so.
    pub fn of_place(
        place: &str,
        docker_config: Option<PathBuf>,
        ca: Option<PathBuf>,
    ) -> Result<Self, String> {
        let path = Path::new(place);
        if path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        if path.exists() {
            return Ok(Self::Archive(path.to_owned()));
        }
        Registry::new(place, docker_config, ca).map(Self::Registry).map_err(|problem| {
            format!(
                "{place:?} is not an existing file or directory, and not the address of a registry: {problem}"
            )
        })
    }

    /// Opens the store as the repository of a context.
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Entry::new(context.clone(), self.clone()).repository(context)
    }

    /// Lists name and version of all component versions in a directory or archive. Registries
    /// cannot be listed.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or is a registry.
    pub fn versions(&self, context: &RepositoryContext) -> Result<Vec<(String, String)>, RepositoryError> {
        match open(self.path(), self, context)? {
            Files::Ctf(archive) => archive.versions(),
            Files::Flat(flat) => flat.versions(),
            Files::Registry(client) => Err(malformed(
                client.host().to_owned(),
                "the component versions of a registry cannot be listed: name a component version",
            )),
        }
    }

    /// Returns the path of a store made of files.
    fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Archive(path) => path,
            Self::Registry(_) => Path::new(""),
        }
    }
}

/// Writes every artifact of a transport archive below the path of a registry, under the repository
/// names of the archive. An existing tag with other content is left alone, unless `replace` is set.
///
/// # Errors
///
/// The archive cannot be read, or the registry refuses. Artifacts before the error are written.
pub fn push(
    directory: &Path,
    registry: &Registry,
    replace: bool,
) -> Result<Vec<crate::oci::Pushed>, crate::oci::PushError> {
    crate::oci::push(&Ctf::new(Tree::Directory(directory.to_owned())), registry, replace)
}

/// Registry with its credentials and certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// Host and path, with a scheme if it is not https.
    pub url: String,
    /// Docker configuration file with credentials; without it requests are anonymous.
    pub docker_config: Option<PathBuf>,
    /// PEM file of certificates to trust, in place of those of the system.
    pub ca: Option<PathBuf>,
}

impl Registry {
    /// Creates a registry from its address, as the map has it.
    ///
    /// # Errors
    ///
    /// The address is not valid; the error says why.
    pub fn new(url: &str, docker_config: Option<PathBuf>, ca: Option<PathBuf>) -> Result<Self, &'static str> {
        let registry = Self { url: url.to_owned(), docker_config, ca };
        registry.problem().map_or(Ok(registry), Err)
    }

    /// Returns scheme, host with port, and path without slashes at its ends.
    pub(crate) fn parts(&self) -> (&'static str, &str, &str) {
        let (scheme, rest) = match self.url.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some((_, rest)) => ("https", rest),
            None => ("https", self.url.as_str()),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        (scheme, host, path.trim_matches('/'))
    }

    /// Returns the error of an address.
    fn problem(&self) -> Option<&'static str> {
        let scheme = self.url.split_once("://").map(|(scheme, _)| scheme);
        let (_, host, path) = self.parts();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
        if scheme.is_some_and(|scheme| !["http", "https"].contains(&scheme)) {
            Some("url must begin with https:// or http://, or with a host")
        } else if self.url.contains('@') {
            Some("url must not contain credentials; put them into a file, and name it in dockerConfig")
        } else if host.is_empty() || !host.bytes().all(is_host) || path.contains(['?', '#', '%', ' ']) {
            Some("url must be a host and a path, such as registry.example.org/components")
        } else {
            None
        }
    }
}

/// Stores by repository context. Clones share opened stores.
#[derive(Debug, Clone, Default)]
pub struct RepositoryMap {
    /// Name of the map in messages.
    source: String,
    entries: Vec<Entry>,
    /// Places outside of component repositories that contents may come from.
    permissions: Arc<Permissions>,
    /// Access to registries that have no entry; without it they cannot be used.
    network: Option<Arc<crate::oci::Network>>,
}

#[derive(Debug, Clone)]
struct Entry {
    context: RepositoryContext,
    store: Store,
    opened: Arc<Mutex<Option<Opened>>>,
}

/// Store that has been opened.
#[derive(Debug, Clone)]
struct Opened {
    /// Stamp of the archive when it was opened. If the archive has another stamp by now, it is
    /// opened again.
    stamp: Option<Stamp>,
    files: Files,
}

#[derive(Debug, Clone)]
enum Files {
    Ctf(Arc<Ctf>),
    Flat(Arc<Flat>),
    Registry(crate::oci::Client),
}

impl Entry {
    fn new(context: RepositoryContext, store: Store) -> Self {
        Self { context, store, opened: Arc::default() }
    }

    fn repository(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Ok(match self.files(context)? {
            Files::Ctf(archive) => Arc::new(CtfRepository { archive, context: context.clone() }),
            Files::Flat(flat) => flat,
            Files::Registry(client) => of_registry(client, context),
        })
    }

    /// Returns the files of a store that is not a registry.
    fn tree(&self, context: &RepositoryContext) -> Result<Option<Tree>, RepositoryError> {
        Ok(match self.files(context)? {
            Files::Ctf(archive) => Some(archive.tree().clone()),
            Files::Flat(flat) => Some(flat.tree().clone()),
            Files::Registry(_) => None,
        })
    }

    /// Opens a repository; a registry gets this allowance of time.
    fn repository_within(
        &self,
        context: &RepositoryContext,
        allowance: &crate::oci::Allowance,
    ) -> Result<Arc<dyn Repository>, RepositoryError> {
        match self.files(context)? {
            Files::Registry(client) => Ok(of_registry(client.within(allowance), context)),
            _ => self.repository(context),
        }
    }

    fn files(&self, context: &RepositoryContext) -> Result<Files, RepositoryError> {
        let (path, stamp) = match &self.store {
            Store::Archive(path) => (path.as_path(), stamp(path)),
            other => (other.path(), None),
        };
        let mut kept = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(opened) if opened.stamp == stamp => Ok(opened.files.clone()),
            _ => {
                let files = open(path, &self.store, context)?;
                *kept = Some(Opened { stamp, files: files.clone() });
                Ok(files)
            }
        }
    }
}

fn of_registry(client: crate::oci::Client, context: &RepositoryContext) -> Arc<dyn Repository> {
    Arc::new(crate::oci::OciRepository { client, context: context.clone(), peers: None })
}

/// Opens files. Their content shows the format; only for an empty directory does the context
/// decide.
fn open(path: &Path, store: &Store, context: &RepositoryContext) -> Result<Files, RepositoryError> {
    let tree = match store {
        Store::Archive(_) => Tree::open_archive(path)?,
        Store::Directory(_) => Tree::Directory(path.to_owned()),
        Store::Registry(registry) => {
            return Ok(Files::Registry(crate::oci::Client::new(registry)?));
        }
    };
    let is_flat = match context.kind() {
        Some(RepositoryKind::Local | RepositoryKind::ComponentArchive) => true,
        _ => tree.file(INDEX_FILE)?.is_none() && tree.file(DESCRIPTOR_FILE)?.is_some(),
    };
    Ok(if is_flat { Files::Flat(Arc::new(Flat::new(tree)?)) } else { Files::Ctf(Arc::new(Ctf::new(tree))) })
}

/// Reason that a `repositories.yaml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}:{column}: {problem}")]
    Malformed { path: PathBuf, line: usize, column: usize, problem: String },
}

impl MapError {
    /// Returns the place in the file, where it is known: line and column from 1.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Malformed { line, column, .. } => Some((*line, *column)),
        }
    }

    /// Returns the problem without the place.
    pub fn problem(&self) -> String {
        match self {
            Self::Unreadable { source, .. } => source.to_string(),
            Self::Malformed { problem, .. } => problem.clone(),
        }
    }
}

impl RepositoryMap {
    /// Creates a map without entries, whose lookups all fail with the message that no store is
    /// configured.
    pub fn empty(source: impl Into<String>) -> Self {
        let source = source.into();
        Self { permissions: Arc::new(Permissions::new(source.as_str())), source, ..Self::default() }
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
        let permissions = permissions(&document).map_err(|(at, problem)| malformed(at, problem))?;
        for permission in permissions {
            Arc::make_mut(&mut map.permissions).add(permission.below(base));
        }
        for (context, store, position) in
            entries(&document).map_err(|(at, problem)| malformed(at, problem))?
        {
            if map.entries.iter().any(|known| known.context.is_same_place(&context)) {
                return Err(malformed(position, format!("the repository context {context} is mapped twice")));
            }
            let store = match store {
                Store::Directory(path) => Store::Directory(base.join(path)),
                Store::Archive(path) => Store::Archive(base.join(path)),
                Store::Registry(registry) => Store::Registry(Registry {
                    docker_config: registry.docker_config.map(|path| base.join(path)),
                    ca: registry.ca.map(|path| base.join(path)),
                    ..registry
                }),
            };
            map.entries.push(Entry::new(context, store));
        }
        Ok(map)
    }

    #[cfg(test)]
    pub(crate) fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Iterates over the contexts and their stores.
    pub fn stores(&self) -> impl Iterator<Item = (&RepositoryContext, &Store)> {
        self.entries.iter().map(|entry| (&entry.context, &entry.store))
    }

    /// Adds the stores of another map.
    ///
    /// # Errors
    ///
    /// Both maps have this context with different stores. Then no store of the other map is added.
    pub fn merge(&mut self, other: Self) -> Result<(), RepositoryContext> {
        let clash = other.entries.iter().find(|entry| {
            self.entries
                .iter()
                .any(|known| known.context.is_same_place(&entry.context) && known.store != entry.store)
        });
        if let Some(entry) = clash {
            return Err(entry.context.clone());
        }
        self.source = format!("{} or {}", self.source, other.source);
        Arc::make_mut(&mut self.permissions).merge(&other.permissions, &self.source);
        self.entries.extend(other.entries);
        Ok(())
    }

    /// Adds a directory; later entries win.
    pub fn insert(&mut self, context: RepositoryContext, directory: impl Into<PathBuf>) {
        self.insert_store(context, Store::Directory(directory.into()));
    }

    /// Adds a store; later entries win.
    pub fn insert_store(&mut self, context: RepositoryContext, store: Store) {
        self.entries.insert(0, Entry::new(context, store));
    }

    /// Finds the store of a context.
    pub fn find(&self, context: &RepositoryContext) -> Option<&Store> {
        self.entry(context).map(|entry| &entry.store)
    }

    fn entry(&self, context: &RepositoryContext) -> Option<&Entry> {
        self.entries.iter().find(|known| known.context.is_same_place(context))
    }
}

impl RepositoryMap {
    /// Adds access to registries that a repository context names and that have no entry.
    #[must_use]
    pub fn with_network(mut self, options: crate::oci::NetworkOptions) -> Self {
        self.network = Some(Arc::new(crate::oci::Network::new(options)));
        self
    }

    /// Opens a repository with the credentials of one Context and an allowance for all its
    /// requests. Entries of the map with a docker configuration of their own keep it.
    ///
    /// # Errors
    ///
    /// As [`Repositories::open`].
    pub fn open_with(
        &self,
        context: &RepositoryContext,
        keyring: &Arc<crate::oci::Keyring>,
        allowance: &crate::oci::Allowance,
    ) -> Result<Arc<dyn Repository>, RepositoryError> {
        let is_registry = context.kind() == Some(RepositoryKind::Registry);
        let (inner, tree) = match (&self.network, self.entry(context)) {
            (_, Some(entry)) => (entry.repository_within(context, allowance)?, entry.tree(context)?),
            (Some(network), None) if is_registry && context.missing_member().is_none() => {
                (network.open(context, keyring, allowance)?, None)
            }
            _ if context.kind() == Some(RepositoryKind::Outside) => {
                return Ok(self.with_outside(None, None, keyring, allowance));
            }
            _ => return self.open(context),
        };
        Ok(self.with_outside(Some(inner), tree, keyring, allowance))
    }

    /// Adds the contents outside of component repositories to a repository.
    fn with_outside(
        &self,
        inner: Option<Arc<dyn Repository>>,
        tree: Option<Tree>,
        keyring: &Arc<crate::oci::Keyring>,
        allowance: &crate::oci::Allowance,
    ) -> Arc<dyn Repository> {
        let fetcher = Fetcher {
            permissions: Arc::clone(&self.permissions),
            options: self.network.as_ref().map(|network| network.options().clone()).unwrap_or_default(),
            keyring: Arc::clone(keyring),
            allowance: allowance.clone(),
            // A map with a network belongs to a service, which must not read files for others.
            files: tree.filter(|_| self.network.is_none()),
        };
        Arc::new(WithOutside { inner, fetcher })
    }
}

impl Repositories for RepositoryMap {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let of_command =
            |inner, tree| self.with_outside(inner, tree, &Arc::default(), &crate::oci::Allowance::unsaid());
        if let Some(entry) = self.entry(context) {
            return Ok(of_command(Some(entry.repository(context)?), entry.tree(context)?));
        }
        if context.kind() == Some(RepositoryKind::Outside) {
            return Ok(of_command(None, None));
        }
        let type_name = context.type_name();
        if context.kind().is_none() {
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

/// Parses the entries, with the position of each.
fn entries(document: &Node) -> Result<Vec<(RepositoryContext, Store, yaml::Position)>, Problem> {
    if document.is_null() {
        return Ok(Vec::new());
    }
    only_members(document, &["repositories", "accesses"])?;
    if document.get("repositories").or(document.get("accesses")).is_none() {
        return Err((document.position, "a list \"repositories\" is expected".to_owned()));
    }
    list(document, "repositories")?.iter().map(entry).collect()
}

/// Parses the places outside of component repositories that contents may come from.
fn permissions(document: &Node) -> Result<Vec<Permission>, Problem> {
    let permission = |item: &Node| {
        only_members(item, &Permission::MEMBERS)?;
        let text = |member: &str| item.get(member).and_then(Node::as_str).filter(|text| !text.is_empty());
        Permission::read(text).map_err(|problem| (item.position, problem))
    };
    list(document, "accesses")?.iter().map(permission).collect()
}

fn list<'a>(document: &'a Node, member: &str) -> Result<&'a [Node], Problem> {
    let Some(list) = document.get(member) else { return Ok(&[]) };
    match &list.content {
        Content::Sequence(items) => Ok(items),
        Content::Null => Ok(&[]),
        _ => Err((list.position, format!("{member} must be a list"))),
    }
}

fn entry(item: &Node) -> Result<(RepositoryContext, Store, yaml::Position), Problem> {
    only_members(item, &["context", "directory", "archive", "url", "dockerConfig", "ca"])?;
    let context = item
        .get("context")
        .filter(|context| matches!(context.content, Content::Mapping(_)))
        .and_then(|context| RepositoryContext::new(context.to_value()))
        .ok_or_else(|| {
            (item.position, "context must be a map such as {type: ociRegistry, baseUrl: …}".to_owned())
        })?;
    let text = |member: &str| item.get(member).and_then(Node::as_str).filter(|text| !text.is_empty());
    let store = match (text("directory"), text("archive"), text("url")) {
        (Some(path), None, None) => Store::Directory(path.into()),
        (None, Some(path), None) => Store::Archive(path.into()),
        (None, None, Some(url)) => Store::Registry(Registry {
            url: url.to_owned(),
            docker_config: text("dockerConfig").map(PathBuf::from),
            ca: text("ca").map(PathBuf::from),
        }),
        _ => {
            let problem = "one of directory, archive and url must name a store";
            return Err((item.position, problem.to_owned()));
        }
    };
    match &store {
        Store::Registry(registry) => {
            if let Some(problem) = registry.problem() {
                return Err((item.position, problem.to_owned()));
            }
        }
        _ if text("dockerConfig").or(text("ca")).is_some() => {
            return Err((item.position, "dockerConfig and ca are allowed only with url".to_owned()));
        }
        _ => {}
    }
    Ok((context, store, item.position))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// I-31: both spellings of the member lead to the same store, and an error names the member if
    /// it is missing.
    #[test]
    fn the_base_url_is_needed_in_either_spelling() {
        let context = |value: Value| RepositoryContext::new(value).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut map = RepositoryMap::default();
        map.insert(context(json!({"type": "ociRegistry", "baseUrl": "example.org/c"})), folder.path());
        assert!(map.open(&context(json!({"type": "ociRegistry", "baseURL": "example.org/c"}))).is_ok());
        let error = map.open(&context(json!({"type": "ociRegistry"}))).err().unwrap().to_string();
        assert!(error.ends_with("a repository context of type ociRegistry needs baseUrl"), "{error}");
    }
}
