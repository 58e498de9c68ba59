//! `groundwork plan`: shows the effect of objects before they are applied.

mod cluster;
mod overrides;
mod text;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use groundwork_blueprint::Capabilities;
use groundwork_budget::TemplateLimits;
use groundwork_fleet::Preview;
use groundwork_lifecycle::{SignatureCheck, SignaturePolicy};
use groundwork_plan::{Environment, Landscape, Plan, plan};
use groundwork_registry::RepositoryMap;
use serde_json::Value;

use crate::diagnostic::{self, Diagnostic, Severity};
use crate::ending::Ending;
use crate::namespace::namespace;
use crate::stdout;
use crate::{stores, variants, wall};
use overrides::{Applied, Present};

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Files or directories with objects that would be applied: Installations, Contexts,
    /// ComponentVersionOverwrites, DataObjects, Targets, Secrets, ConfigMaps, PackageVariantSets.
    /// `-` is standard input.
    #[arg(short, long = "file", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Files or directories with the existing objects, in place of a cluster: the same kinds,
    /// Executions and DeployItems, as `kubectl get -o yaml` prints them. If sets are applied, also
    /// the objects that they select.
    #[arg(long, num_args = 1.., value_name = "PATH")]
    from: Vec<PathBuf>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
    output: PlanFormat,

    /// Namespace of objects that name none [default: that of the kube context; with `--from` it is
    /// `default`].
    #[arg(short, long, value_parser = namespace)]
    namespace: Option<String>,

    /// Map of repositories to the directories that hold their components [default: every
    /// repositories.yaml and components/repositories.yaml beside the input]
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_REPOSITORIES", value_parser = clap::builder::ValueParser::path_buf())]
    repositories: Option<PathBuf>,

    /// Show values that may come from Secrets.
    #[arg(long)]
    show_values: bool,

    #[command(flatten)]
    limits: TemplateLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// Lines for people.
    Text,
    /// The plan as JSON.
    Json,
}

/// Reads the input, plans, and prints the plan.
pub(crate) fn run(arguments: &PlanArguments) -> Ending {
    if arguments.from.is_empty() {
        return of_cluster(arguments);
    }
    let namespace = arguments.namespace.as_deref().unwrap_or("default");
    let mut diagnostics = Vec::new();
    let applied = Applied::read(&arguments.files, namespace, &mut diagnostics);
    let present = Present::read(&arguments.from, namespace, &applied.sets, &mut diagnostics);
    let variants = match applied.sets.is_empty() || has_errors(&diagnostics) {
        true => None,
        false => match variants::plan::of_documents(&present.all, namespace, &mut diagnostics) {
            Some(variants) => Some(variants),
            None => return Ending::Unusable,
        },
    };
    arguments.show(&present.landscape, &applied.landscape, variants.as_ref(), diagnostics)
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

fn of_cluster(arguments: &PlanArguments) -> Ending {
    cluster::run(arguments)
}

impl PlanArguments {
    /// Plans and prints, if the input can be used.
    fn show(
        &self,
        present: &Landscape,
        applied: &Landscape,
        variants: Option<&Preview>,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Ending {
        let beside: Vec<PathBuf> = self.files.iter().chain(&self.from).cloned().collect();
        let map = stores::repositories(self.repositories.as_deref(), &beside, &mut diagnostics);
        diagnostic::print(&diagnostics);
        if has_errors(&diagnostics) {
            return Ending::Unusable;
        }
        let plan = self.plan(present, applied, &map);
        let written = stdout::write(&match self.output {
            PlanFormat::Text => text::of(&plan, variants),
            PlanFormat::Json => {
                let mut json = serde_json::to_value(&plan).unwrap_or(Value::Null);
                if let Some(variants) = variants {
                    json["variants"] = serde_json::to_value(variants).unwrap_or(Value::Null);
                }
                format!("{json:#}\n")
            }
        });
        let is_quiet = |preview: &Preview| preview.is_empty() && !variants::plan::is_refused(preview);
        let is_empty = plan.is_empty() && variants.is_none_or(is_quiet);
        if written == Ending::Rendered && !is_empty { Ending::Failed } else { written }
    }

    fn plan(&self, present: &Landscape, applied: &Landscape, repositories: &RepositoryMap) -> Plan {
        let environment = Environment {
            repositories,
            capabilities: &Capabilities::system().limited(self.limits).with_placeholders(),
            signatures: Some(SignatureCheck {
                policy: SignaturePolicy::default(),
                now: jiff::Timestamp::now().as_second(),
            }),
            show_values: self.show_values,
            reads: None,
        };
        wall::evaluate(|| plan(present, applied, &environment))
    }
}
