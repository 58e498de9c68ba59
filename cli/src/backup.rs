//! `groundwork backup` and `groundwork restore`: the objects of landscapes, with their status, in a
//! file (`installations.md` 8.8).
//!
//! ```text
//! cluster --save--> JSON lines --saved::read--> objects --saved::ordered--> levels
//! levels --restore--> owners first: create, link to the new owner, write the status
//! ```

mod restore;
mod saved;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use groundwork_api::metadata::label;
use groundwork_api::{Context, DeployItem, Installation, Target, TargetSync};
use groundwork_lifecycle::{ImportedNames, living_scope};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, LiveError, next_page};
use crate::namespace::namespace;
use crate::stdout;

pub(crate) use restore::{RestoreArguments, run as restore};
use saved::{KINDS, SavedKind, is_running};

/// Objects per page of a list.
const PAGE: u32 = 200;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// File to write. It contains Secrets in plain text, so only its owner may read it. `-` writes
    /// to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Namespace to save [default: that of the kube context].
    #[arg(short, long, value_parser = namespace)]
    namespace: Option<String>,

    /// Save all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

/// Returns the namespace that the arguments mean; `None` stands for all.
fn chosen(namespace: Option<&String>, all_namespaces: bool, cluster: &Cluster) -> Option<String> {
    let default = || cluster.client.default_namespace().to_owned();
    (!all_namespaces).then(|| namespace.cloned().unwrap_or_else(default))
}

/// Saves the landscapes of a namespace, or of all.
pub(crate) fn run(arguments: &BackupArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("backup").await?;
        let namespace = chosen(arguments.namespace.as_ref(), arguments.all_namespaces, &cluster);
        let objects = save(&cluster.client, namespace.as_deref()).await?;
        let running = objects.iter().filter(|object| is_running(object)).count();
        if running > 0 {
            let text = format!(
                "{running} objects have a running job; a restore ends these jobs as failed. Save the landscape again \
                 when its jobs have ended"
            );
            diagnostic::print(&[Diagnostic::warning(text)]);
        }
        let mut lines = String::new();
        for object in &objects {
            lines.push_str(&object.to_string());
            lines.push('\n');
        }
        if arguments.output == Path::new("-") {
            return Ok(stdout::write_bytes(lines.as_bytes()));
        }
        write(&arguments.output, lines.as_bytes()).map_err(|error| {
            LiveError::Refused(format!("cannot write {}: {error}", arguments.output.display()))
        })?;
        let output = arguments.output.display();
        Ok(stdout::write(&format!("saved {} to {output}\n", counted(objects.iter()))))
    })
}

/// Replaces a file by one that only its owner may read. A failed write leaves the former file.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Returns the number of objects by kind, such as `2 Installations and 1 Target`.
fn counted<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for object in objects {
        *counts.entry(object["kind"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let ordered = KINDS.iter().filter_map(|kind| Some((kind, counts.get(kind.kind)?)));
    let parts: Vec<String> = ordered.map(|(kind, count)| kind.counted(*count)).collect();
    match parts.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// Reads all objects of the landscapes, in the order of the kinds.
async fn save(client: &Client, namespace: Option<&str>) -> Result<Vec<Value>, LiveError> {
    let mut found = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.is_of_landscape) {
        found.extend(list(client, kind, namespace, "").await?);
    }
    let used = Used::of(&found);
    let mut objects = Vec::new();
    for kind in KINDS.iter().filter(|kind| !kind.is_of_landscape) {
        let mut names: BTreeSet<NamespacedName> = match kind.kind {
            "Namespace" => used.namespaces.iter().map(|name| (None, name.clone())).collect(),
            "Secret" => used.secrets.clone(),
            _ => used.config_maps.clone(),
        };
        if kind.kind == "Secret" {
            // The list already has states and exports in full.
            let labels = format!("{} in ({},{})", label::HOLDS, label::HOLDS_EXPORTS, label::HOLDS_STATE);
            let own = list(client, kind, namespace, &labels).await?;
            for secret in &own {
                names.remove(&place(secret));
            }
            objects.extend(own);
        }
        for (namespace, name) in names {
            let object = kind.api(client, namespace.as_deref()).get_opt(&name).await;
            // An Installation may name a Secret that does not exist yet.
            objects.extend(object.map_err(|error| refused(kind, &error))?.map(|object| value(object, kind)));
        }
    }
    objects.extend(found);
    Ok(objects)
}

/// Namespace and name; a Namespace has no namespace.
type NamespacedName = (Option<String>, String);

fn place(object: &Value) -> NamespacedName {
    let part = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
    (part("namespace"), part("name").unwrap_or_default())
}

/// Objects of users that a landscape names.
#[derive(Debug, Default)]
struct Used {
    namespaces: BTreeSet<String>,
    secrets: BTreeSet<NamespacedName>,
    config_maps: BTreeSet<NamespacedName>,
}

impl Used {
    fn of(objects: &[Value]) -> Self {
        let mut used = Self::default();
        for object in objects {
            used.add(object);
        }
        used
    }

    fn add(&mut self, object: &Value) {
        let Some(namespace) = object["metadata"]["namespace"].as_str() else { return };
        self.namespaces.insert(namespace.to_owned());
        let mut secrets = Vec::new();
        match object["kind"].as_str().unwrap_or_default() {
            "Installation" => {
                let Some(installation) = read::<Installation>(object) else { return };
                let names = ImportedNames::of(&installation, &living_scope(&installation));
                secrets.extend(names.secrets);
                let maps = names.config_maps.into_iter().map(|name| (Some(namespace.to_owned()), name));
                self.config_maps.extend(maps);
            }
            "Target" => {
                let target = read::<Target>(object);
                secrets.extend(target.and_then(|target| target.spec.secret_ref).map(|secret| secret.name));
            }
            "TargetSync" => {
                secrets.extend(read::<TargetSync>(object).map(|sync| sync.spec.secret_ref.name));
            }
            "DeployItem" => {
                let exported = read::<DeployItem>(object).and_then(|item| item.status?.export_ref);
                secrets.extend(exported.map(|reference| reference.name));
            }
            "Context" => {
                let Some(context) = read::<Context>(object) else { return };
                secrets.extend(context.pull_secrets().map(str::to_owned));
                let map = context.ocm_config_map();
                self.config_maps.extend(map.map(|name| (Some(namespace.to_owned()), name.to_owned())));
                for (_, signature) in &context.verification_signatures {
                    let keys = &signature.public_key_secret_reference;
                    let references = keys.iter().chain(&signature.ca_certificate_secret_reference);
                    secrets.extend(references.map(|reference| reference.name.clone()));
                }
            }
            _ => {}
        }
        self.secrets.extend(secrets.into_iter().map(|name| (Some(namespace.to_owned()), name)));
    }
}

fn read<K: DeserializeOwned>(object: &Value) -> Option<K> {
    serde_json::from_value(object.clone()).ok()
}

/// Lists all objects of a kind, page by page.
async fn list(
    client: &Client,
    kind: &SavedKind,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<Value>, LiveError> {
    let api = kind.api(client, namespace);
    let mut parameters = ListParams::default().labels(labels).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&parameters).await.map_err(|error| refused(kind, &error))?;
        found.extend(page.items.into_iter().map(|object| value(object, kind)));
        match next_page(&parameters, page.metadata.continue_)? {
            Some(next) => parameters = next,
            None => return Ok(found),
        }
    }
}

/// Returns an object as it is saved. Objects of a list have neither kind nor version.
fn value(mut object: DynamicObject, kind: &SavedKind) -> Value {
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = Value::from(kind.version);
    value["kind"] = Value::from(kind.kind);
    value
}

fn refused(kind: &SavedKind, error: &kube::Error) -> LiveError {
    let problem = groundwork_telemetry::innermost_cause(error);
    LiveError::Refused(format!("cannot read {}: {problem}", kind.plural))
}

impl SavedKind {
    /// Returns the objects of this kind in a namespace, or in all.
    fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = self.resource();
        match namespace.filter(|_| self.kind != "Namespace") {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }
}
