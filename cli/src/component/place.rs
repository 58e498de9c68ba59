//! Arguments that say where a command finds component versions.

use std::path::{Path, PathBuf};

use clap::Args;
use groundwork_component::{
    ComponentVersion, InlineSet, Overwrites, Reference, RepositoryContext, ResolveError, Resolver,
    Substitution,
};
use groundwork_registry::{RepositoryMap, Store};
use serde_json::{Value, json};

use crate::diagnostic::Diagnostic;
use crate::stores;

/// Component version as users write it: `NAME:VERSION`.
#[derive(Debug, Clone)]
pub(super) struct VersionName {
    pub(super) name: String,
    pub(super) version: String,
}

pub(super) fn version_name(text: &str) -> Result<VersionName, String> {
    match text.rsplit_once(':') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => {
            Ok(VersionName { name: name.to_owned(), version: version.to_owned() })
        }
        _ => Err("NAME:VERSION is expected, such as example.org/shop:1.2.0".to_owned()),
    }
}

/// Source of component versions.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// A directory, an archive (tar, tgz), or the address of a registry, such as
    /// registry.example.org/components (`http://` in front for one without TLS).
    #[arg(long, value_name = "PLACE", required_unless_present = "repositories")]
    from: Option<String>,

    /// File that maps repositories to stores, in place of --from. All of the stores are searched,
    /// in their order.
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_REPOSITORIES", conflicts_with = "from")]
    repositories: Option<PathBuf>,

    /// Repository context, a map in YAML or JSON: sets subPath and componentNameMapping of --from,
    /// or selects a repository of --repositories.
    #[arg(long, value_name = "CONTEXT", value_parser = context)]
    context: Option<RepositoryContext>,

    #[command(flatten)]
    registry: RegistryArguments,
}

/// Credentials and certificates for a registry.
#[derive(Debug, Args)]
pub(super) struct RegistryArguments {
    /// A docker configuration file; its `auths` entry for the host is used to log in.
    #[arg(long, value_name = "FILE")]
    pub(super) docker_config: Option<PathBuf>,

    /// A PEM file of certificates to trust, in place of those of the system.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
}

fn context(text: &str) -> Result<RepositoryContext, String> {
    let value = groundwork_yaml::from_str(text).map_err(|error| error.to_string())?;
    let context = Some(value).filter(Value::is_object).and_then(RepositoryContext::new);
    context.ok_or_else(|| "a map is expected, such as {type: ociRegistry, baseUrl: …}".to_owned())
}

/// Component stores that a command searches, in order.
pub(super) struct ComponentStores {
    pub(super) map: RepositoryMap,
    contexts: Vec<RepositoryContext>,
}

impl PlaceArguments {
    /// Returns the stores of a directory or archive.
    pub(super) fn of_files(path: &Path) -> Self {
        Self {
            from: Some(path.display().to_string()),
            repositories: None,
            context: None,
            registry: RegistryArguments { docker_config: None, ca: None },
        }
    }

    pub(super) fn open(&self) -> Result<ComponentStores, Diagnostic> {
        let Some(from) = &self.from else { return self.open_map() };
        let RegistryArguments { docker_config, ca } = &self.registry;
        let store = Store::of_place(from, docker_config.clone(), ca.clone()).map_err(Diagnostic::error)?;
        let context = self.context.clone().unwrap_or_else(|| context_of(&store, from));
        let mut map = RepositoryMap::empty("a repositories.yaml (--repositories in place of --from)");
        map.insert_store(context.clone(), store);
        Ok(ComponentStores { map, contexts: vec![context] })
    }

    fn open_map(&self) -> Result<ComponentStores, Diagnostic> {
        let mut diagnostics = Vec::new();
        let map = stores::repositories(self.repositories.as_deref(), &[], &mut diagnostics);
        if let Some(error) = diagnostics.pop() {
            return Err(error);
        }
        let contexts = match &self.context {
            Some(context) => vec![context.clone()],
            None => map.stores().map(|(context, _)| context.clone()).collect(),
        };
        Ok(ComponentStores { map, contexts })
    }
}

/// Returns a repository context that fits a store.
pub(super) fn context_of(store: &Store, place: &str) -> RepositoryContext {
    let value = match store {
        Store::Registry(_) => json!({"type": "ociRegistry", "baseUrl": place}),
        Store::Directory(_) | Store::Archive(_) => {
            json!({"type": "CommonTransportFormat", "filePath": place})
        }
    };
    RepositoryContext::new(value).expect("an object is not null")
}

impl ComponentStores {
    /// Finds the first repository that holds a version, and returns both.
    pub(super) fn find(
        &self,
        wanted: &VersionName,
    ) -> Result<(RepositoryContext, ComponentVersion), Diagnostic> {
        let mut missing = Vec::new();
        for context in &self.contexts {
            let reference = Reference {
                repository: Some(context.clone()),
                name: wanted.name.clone(),
                version: wanted.version.clone(),
            };
            match self.with_resolver(&reference, |resolver| resolver.lookup(&reference)) {
                Ok(version) => return Ok((context.clone(), version)),
                Err(ResolveError::NotFound { places, .. }) => missing.extend(places),
                Err(error) => return Err(Diagnostic::error(error.to_string())),
            }
        }
        let VersionName { name, version } = wanted;
        let places = if missing.is_empty() { "no repository".to_owned() } else { missing.join(", ") };
        Err(Diagnostic::error(format!("component version \"{name}:{version}\" not found in {places}")))
    }

    /// Calls `work` with a resolver without overwrites, for the references of a version.
    pub(super) fn with_resolver<T>(&self, root: &Reference, work: impl FnOnce(&Resolver<'_>) -> T) -> T {
        let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
        let substitution: Substitution = overwrites.apply(root);
        work(&Resolver::new(&self.map, &overwrites, &inline, &substitution))
    }
}
