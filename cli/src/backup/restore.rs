//! `groundwork restore`: creates the objects of a backup again, and holds their jobs.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::stream::{self, StreamExt as _};
use groundwork_api::Installation;
use groundwork_api::metadata::annotation;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::saved::{self, Created, Owners, kind_of, metadata, text, title};
use super::{chosen, counted};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, LiveError, next_page};
use crate::namespace::namespace;
use crate::stdout;
use crate::terminal::shown;

/// Objects that are created at the same time.
const AT_ONCE: usize = 8;
/// Objects per page of a list.
const PAGE: u32 = 500;

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// Files of `groundwork backup`, or of `kubectl get -o yaml`. `-` reads standard input.
    #[arg(value_name = "FILE", required_unless_present = "release")]
    files: Vec<PathBuf>,

    /// Let the services work on restored Installations again. Automatic jobs may begin at once.
    #[arg(long, conflicts_with = "files")]
    release: bool,

    /// Restore only what the files have of this namespace [default: everything in the files], or
    /// release this namespace [default: that of the kube context].
    #[arg(short, long, value_parser = namespace)]
    namespace: Option<String>,

    /// Release all namespaces.
    #[arg(short = 'A', long, requires = "release", conflicts_with_all = ["namespace", "files"])]
    all_namespaces: bool,
}

pub(crate) fn run(arguments: &RestoreArguments) -> Ending {
    if arguments.release {
        return release(arguments);
    }
    let mut objects = Vec::new();
    for file in &arguments.files {
        match read(file) {
            Ok(found) => objects.extend(found),
            Err(error) => {
                let text = format!("cannot read {}: {error}", file.display());
                diagnostic::print(&[Diagnostic::error(text)]);
                return Ending::Unusable;
            }
        }
    }
    live::run(async || {
        let cluster = Cluster::connect("restore").await?;
        let namespace = arguments.namespace.as_deref();
        let objects: Vec<Value> =
            objects.into_iter().filter(|object| is_within(object, namespace)).filter(is_known).collect();
        Ok(restore(&cluster.client, &objects).await)
    })
}

fn read(file: &Path) -> Result<Vec<Value>, String> {
    let mut content = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut content).map(drop),
        false => std::fs::read_to_string(file).map(|found| content = found),
    };
    read.map_err(|error| error.to_string())?;
    saved::read(&content)
}

/// Reports whether an object is in the namespace that the user has chosen.
fn is_within(object: &Value, namespace: Option<&str>) -> bool {
    let own = match text(object, "kind") {
        "Namespace" => metadata(object, "name"),
        _ => metadata(object, "namespace"),
    };
    namespace.is_none_or(|namespace| namespace == own)
}

/// Reports whether an object can be restored. Warnings name the others.
fn is_known(object: &Value) -> bool {
    let is_known = kind_of(text(object, "apiVersion"), text(object, "kind")).is_some();
    if !is_known {
        let text = format!("{} is left out: a landscape has no objects of this kind", shown(&title(object)));
        diagnostic::print(&[Diagnostic::warning(text)]);
    }
    is_known
}

/// Result for one object.
struct Restored {
    uid: String,
    /// False if the object existed, and stays as it is.
    is_new: bool,
    /// True if no service works on the object until the release.
    is_held: bool,
}

async fn restore(client: &Client, objects: &[Value]) -> Ending {
    let owners = Owners::of(objects);
    let mut uids = HashMap::<usize, String>::new();
    let (mut new, mut held) = (HashSet::new(), HashSet::new());
    let (mut present, mut failed) = (0, false);
    for level in saved::ordered(objects, &owners) {
        let work = level.into_iter().map(|index| {
            let created = saved::created(&objects[index], &owners, |owner| uids.get(&owner).cloned());
            let is_below_held = owners.of_object(&objects[index]).iter().any(|owner| held.contains(owner));
            async move {
                match created {
                    Ok(created) => {
                        (index, restore_one(client, &objects[index], created, is_below_held).await)
                    }
                    Err(problem) => (index, Err(problem)),
                }
            }
        });
        // The level borrows the UIDs of the levels above, so its own are added afterwards.
        let done: Vec<_> = stream::iter(work.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect().await;
        for (index, outcome) in done {
            match outcome {
                Ok(Restored { uid, is_new, is_held }) => {
                    uids.insert(index, uid);
                    if is_held {
                        held.insert(index);
                    }
                    if is_new {
                        new.insert(index);
                    } else {
                        present += 1;
                    }
                }
                Err(problem) => {
                    failed = true;
                    let text = format!("{} was not restored: {problem}", title(&objects[index]));
                    diagnostic::print(&[Diagnostic::error(shown(&text).into_owned())]);
                }
            }
        }
    }
    let is_new = |(index, _): &(usize, &Value)| new.contains(index);
    let restored = objects.iter().enumerate().filter(is_new).map(|(_, object)| object);
    let mut summary = format!("restored {}", counted(restored));
    if present > 0 {
        summary.push_str(&format!("; {present} objects exist already and stay as they are"));
    }
    summary.push('\n');
    let is_held = held.iter().any(|index| text(&objects[*index], "kind") == "Installation");
    if is_held {
        summary.push_str(
            "no job starts until you run: groundwork restore --release, with -n NAMESPACE or --all-namespaces\n",
        );
    }
    match stdout::write(&summary) {
        Ending::Rendered if failed => Ending::Failed,
        written => written,
    }
}

/// Creates an object and writes its status. Returns its UID.
async fn restore_one(
    client: &Client,
    saved: &Value,
    created: Created,
    is_below_held: bool,
) -> Result<Restored, String> {
    let kind =
        kind_of(text(saved, "apiVersion"), text(saved, "kind")).expect("the object's kind was checked");
    let api = kind.api(client, Some(metadata(saved, "namespace")));
    let name = metadata(saved, "name");
    let object: DynamicObject = serde_json::from_value(created.object).map_err(|error| error.to_string())?;
    let (stored, is_new) = match api.create(&PostParams::default(), &object).await {
        Ok(stored) => (stored, true),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let found = api.get(name).await.map_err(|error| problem(&error))?;
            (found, false)
        }
        Err(error) => return Err(problem(&error)),
    };
    for owner in created.lost {
        let text = format!(
            "{} is restored without its owner, {owner}, which the backup does not have",
            title(saved)
        );
        diagnostic::print(&[Diagnostic::warning(shown(&text).into_owned())]);
    }
    let uid = stored.uid().unwrap_or_default();
    let is_held = is_new || is_below_held || stored.annotations().contains_key(annotation::HELD);
    // An interrupted restore left this object: it exists, is held and has no status.
    let has_status = stored.data.get("status").is_some_and(|status| status["jobID"].is_string());
    if kind.has_status() && is_held && !has_status {
        let generation = stored.metadata.generation.unwrap_or(1);
        if let Some(status) = saved::status(saved, generation, &Timestamp::now().to_string()) {
            let patch = json!({"status": status});
            let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            written.map_err(|error| format!("its status could not be written: {}", problem(&error)))?;
        }
    }
    Ok(Restored { uid, is_new, is_held })
}

fn problem(error: &kube::Error) -> String {
    groundwork_telemetry::innermost_cause(error)
}

/// Releases restored Installations.
fn release(arguments: &RestoreArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("restore").await?;
        let namespace = chosen(arguments.namespace.as_ref(), arguments.all_namespaces, &cluster);
        let api: Api<Installation> = match &namespace {
            Some(namespace) => Api::namespaced(cluster.client.clone(), namespace),
            None => Api::all(cluster.client.clone()),
        };
        let refused = |error: &kube::Error| LiveError::Refused(problem(error));
        let mut parameters = ListParams::default().limit(PAGE);
        let mut count = 0;
        loop {
            let page = api.list_metadata(&parameters).await.map_err(|error| refused(&error))?;
            let held = page.items.iter().filter(|found| found.annotations().contains_key(annotation::HELD));
            for found in held {
                let own: Api<Installation> =
                    Api::namespaced(cluster.client.clone(), &found.namespace().unwrap_or_default());
                let annotations = json!({(annotation::IGNORE): null, (annotation::HELD): null});
                let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
                let patched = own.patch_metadata(&found.name_any(), &PatchParams::default(), &patch).await;
                patched.map_err(|error| refused(&error))?;
                count += 1;
            }
            match next_page(&parameters, page.metadata.continue_)? {
                Some(next) => parameters = next,
                None => break,
            }
        }
        let kind = Installation::kind(&());
        let plural = if count == 1 { "" } else { "s" };
        Ok(stdout::write(&format!("released {count} {kind}{plural}\n")))
    })
}
