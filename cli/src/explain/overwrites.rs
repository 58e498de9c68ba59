//! `groundwork explain overwrites` (`components.md` 2, 4.5): explains from files, or asks the
//! resolver service of a cluster.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use groundwork_api::{ComponentVersionOverwrites, Context, Installation, ResourceExt};
use groundwork_blueprint::Capabilities;
use groundwork_component::{OverwriteCondition, Overwrites, Repositories};
use groundwork_lifecycle::{Inputs, ROOT_SCOPE, Resolution, Subject, assumed_context, findings, resolve};
use groundwork_yaml::Step;
use serde_json::{Value, json};

use super::change;
use super::references::{self, Told};
use crate::diagnostic::{self, Diagnostic, Severity};
use crate::ending::Ending;
use crate::input;
use crate::inventory::{Inventory, Key, Loaded};
use crate::namespace::namespace;
use crate::{stdout, stores, wall};

#[derive(Debug, Args)]
pub(super) struct OverwritesArguments {
    /// Files or directories with Installations, Contexts and ComponentVersionOverwrites, and the
    /// ConfigMaps of Contexts, as `kubectl get -o yaml` prints them. `-` is standard input.
    #[arg(
        short,
        long = "file",
        value_name = "PATH",
        required_unless_present = "installation",
        conflicts_with = "installation"
    )]
    files: Vec<PathBuf>,

    /// Explain an Installation of the cluster of the current kube context, NAMESPACE/NAME, as the
    /// resolver service sees it.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["change", "lint", "repositories"])]
    installation: Option<String>,

    /// A file with ComponentVersionOverwrites that would replace those of the same name: shows the
    /// Installations of the input that they would redirect.
    #[arg(long, value_name = "FILE")]
    change: Option<PathBuf>,

    /// Show only rules that cannot do what their author wants.
    #[arg(long, conflicts_with = "change")]
    lint: bool,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    namespace: String,

    /// Map of repositories to the stores of their components [default: every repositories.yaml and
    /// components/repositories.yaml beside the input]
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_REPOSITORIES", value_parser = clap::builder::ValueParser::path_buf())]
    repositories: Option<PathBuf>,

    #[command(flatten)]
    server: super::cluster::ServerArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Readable text.
    Text,
    /// A JSON list.
    Json,
}

/// Explanation of one Installation.
struct Explained {
    title: String,
    installation: Key,
    /// Message of the status condition; `None` if no overwrite applies.
    condition: Option<String>,
    references: Vec<Told>,
}

pub(super) fn run(arguments: &OverwritesArguments) -> Ending {
    if let Some(installation) = &arguments.installation {
        return of_cluster(arguments, installation);
    }
    let mut diagnostics = Vec::new();
    let inventory = read(&arguments.files, &arguments.namespace, &mut diagnostics);
    let map = stores::repositories(arguments.repositories.as_deref(), &arguments.files, &mut diagnostics);
    let change =
        arguments.change.as_ref().map(|file| read_change(file, &arguments.namespace, &mut diagnostics));
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        diagnostic::print(&diagnostics);
        return Ending::Unusable;
    }
    if arguments.lint {
        return lint(&inventory);
    }
    if inventory.installations.is_empty() {
        diagnostic::print(&[Diagnostic::error("the input contains no Installation")]);
        return Ending::Unusable;
    }
    let input = Input { inventory: &inventory, repositories: &map };
    match change {
        Some(change) => input.compare(&change, arguments.output),
        None => input.explain(arguments.output),
    }
}

fn of_cluster(arguments: &OverwritesArguments, installation: &str) -> Ending {
    super::cluster::run(installation, &arguments.server, arguments.output)
}

fn read(files: &[PathBuf], namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Inventory {
    let documents = input::read(files, diagnostics);
    Inventory::new(documents, namespace, diagnostics)
}

fn read_change(file: &Path, namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Inventory {
    let change = read(&[file.to_owned()], namespace, diagnostics);
    if change.overwrites.is_empty() {
        let message = format!("--change: {} contains no ComponentVersionOverwrites", file.display());
        diagnostics.push(Diagnostic::error(message));
    }
    change
}

/// Prints the problems of all rules of the input.
fn lint(inventory: &Inventory) -> Ending {
    let mut diagnostics = Vec::new();
    for ((_, name), Loaded { object, document }) in &inventory.overwrites {
        for finding in findings(name, &Overwrites::from(object)) {
            let Subject::OverwriteRule(rule) = finding.about else { continue };
            let position = document.node.locate([Step::Key("overwrites"), Step::Index(rule)]);
            diagnostics.push(Diagnostic::warning(finding.message).at(&document.source, position));
        }
    }
    if inventory.overwrites.is_empty() {
        diagnostic::print(&[Diagnostic::error("the input contains no ComponentVersionOverwrites")]);
        return Ending::Unusable;
    }
    diagnostic::print(&diagnostics);
    if diagnostics.is_empty() { Ending::Rendered } else { Ending::Failed }
}

struct Input<'a> {
    inventory: &'a Inventory,
    repositories: &'a dyn Repositories,
}

impl Input<'_> {
    fn explain(&self, format: Format) -> Ending {
        let mut diagnostics = Vec::new();
        let mut explained = Vec::new();
        for loaded in self.inventory.installations.values() {
            let of = |key: &Key| self.inventory.overwrites.get(key).map(|loaded| &loaded.object);
            let (found, resolution) = self.one(&loaded.object, of);
            for warning in &resolution.warnings {
                if matches!(warning.about, Subject::OverwriteRule(_)) {
                    diagnostics.push(Diagnostic::warning(format!("{}: {}", found.title, warning.message)));
                }
            }
            if let Some(error) = &resolution.error {
                diagnostics.push(loaded.document.error(format!("{}: {}", found.title, error.message)));
            }
            explained.push(found);
        }
        diagnostic::print(&diagnostics);
        let has_failed = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
            || explained.iter().flat_map(|found| &found.references).any(Told::has_failed);
        let text = match format {
            Format::Text => explained
                .iter()
                .map(|found| references::text(&found.title, &found.references))
                .collect::<Vec<_>>()
                .join("\n"),
            Format::Json => {
                let items: Vec<Value> = explained.iter().map(Explained::json).collect();
                format!("{:#}\n", Value::from(items))
            }
        };
        match stdout::write(&text) {
            Ending::Rendered if has_failed => Ending::Failed,
            ended => ended,
        }
    }

    /// Prints what the changed overwrites would redirect, Installation by Installation.
    fn compare(&self, change: &Inventory, format: Format) -> Ending {
        let (mut text, mut items, mut users) = (String::new(), Vec::new(), 0);
        for loaded in self.inventory.installations.values() {
            let installation = &loaded.object;
            let is_user = self.context(installation).is_some_and(|(namespace, context)| {
                let name = context.overwrites().unwrap_or_default().to_owned();
                change.overwrites.contains_key(&(namespace, name))
            });
            if !is_user {
                continue;
            }
            users += 1;
            let present = |key: &Key| self.inventory.overwrites.get(key).map(|loaded| &loaded.object);
            let changed = |key: &Key| match change.overwrites.get(key) {
                Some(loaded) => Some(&loaded.object),
                None => present(key),
            };
            let (before, (after, _)) = (self.one(installation, present).0, self.one(installation, changed));
            let differences = change::compare(&before.references, &after.references);
            if differences.is_empty() {
                continue;
            }
            text.push_str(&change::text(&after.title, &differences));
            let (namespace, name) = after.installation;
            items.push(json!({
                "namespace": namespace, "name": name, "changes": change::json(&differences),
            }));
        }
        let names: Vec<&str> = change.overwrites.keys().map(|(_, name)| name.as_str()).collect();
        let summary = format!(
            "{} of {users} Installations that use {} would be redirected\n",
            items.len(),
            names.join(", ")
        );
        stdout::write(&match format {
            Format::Text => summary + &text,
            Format::Json => format!("{:#}\n", Value::from(items)),
        })
    }

    fn context(&self, installation: &Installation) -> Option<(String, Context)> {
        let namespace = installation.namespace().unwrap_or_default();
        let key = (namespace.clone(), installation.spec.context().to_owned());
        let found = self.inventory.contexts.get(&key).map(|loaded| loaded.object.clone());
        found.or_else(|| assumed_context(installation)).map(|context| (namespace, context))
    }

    /// Explains one Installation with the overwrites of a given name in `overwrites`.
    fn one<'o>(
        &self,
        installation: &Installation,
        overwrites: impl Fn(&Key) -> Option<&'o ComponentVersionOverwrites>,
    ) -> (Explained, Resolution) {
        let namespace = installation.namespace().unwrap_or_default();
        let context = self.context(installation).map(|(_, context)| context);
        let name = context.as_ref().and_then(Context::overwrites).map(str::to_owned);
        let overwrites = name.and_then(|name| overwrites(&(namespace.clone(), name)));
        let inputs = Inputs {
            installation,
            context: context.as_ref(),
            overwrites,
            objects: &self.inventory.imported(&namespace),
            repositories: self.repositories,
            blueprint: None,
            capabilities: &Capabilities::default(),
            scope: ROOT_SCOPE,
            states: None,
            cache: None,
            offline: None,
            signatures: None,
        };
        let resolution = wall::evaluate(|| resolve(&inputs));
        let rules = overwrites.map(Overwrites::from).unwrap_or_default();
        let entries = resolution.graph(self.repositories);
        let report = resolution.overwrites.as_ref();
        let explained = Explained {
            title: format!("Installation {namespace}/{}", installation.name_any()),
            installation: (namespace, installation.name_any()),
            condition: report.map(|report| OverwriteCondition::from(&report.substitution).message),
            references: entries.into_iter().map(|entry| Told::new(entry, &rules)).collect(),
        };
        (explained, resolution)
    }
}

impl Explained {
    fn json(&self) -> Value {
        let (namespace, name) = &self.installation;
        json!({
            "namespace": namespace, "name": name, "condition": self.condition,
            "references": references::json(&self.references),
        })
    }
}
