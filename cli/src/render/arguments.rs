//! Arguments of `groundwork render`.

use std::path::PathBuf;

use clap::Args;
use groundwork_budget::TemplateLimits;
use serde_json::Value;

use super::overrides::assignment;
use crate::namespace::namespace;
use crate::output::{DiffTarget, RenderOutput};

#[derive(Debug, Args)]
pub(crate) struct RenderArguments {
    /// Files or directories with Installations and what they need: Contexts,
    /// ComponentVersionOverwrites, DataObjects, Targets, ConfigMaps, Secrets. Of a directory, only
    /// the YAML and JSON files directly in it are read. `-` is standard input.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Output: text, yaml or json (the objects that a cluster would hold), or dir=PATH, which
    /// writes each object to a file.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: RenderOutput,

    /// Show the differences from the objects in this folder, as `-o dir=PATH` wrote them, or, with
    /// the word `cluster`, from those of the cluster of the current kube context. The status is not
    /// compared. Exit code 1 if there is a difference.
    #[arg(long, value_name = "DIR|cluster", conflicts_with = "output")]
    pub(crate) diff: Option<DiffTarget>,

    /// Show the source of everything: of each import, the execution, file and line behind each
    /// object, and the reason that an import of a nested installation was left out.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Map of repositories to the directories that hold their components [default: every
    /// repositories.yaml and components/repositories.yaml beside the input]
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_REPOSITORIES", value_parser = clap::builder::ValueParser::path_buf())]
    pub(crate) repositories: Option<PathBuf>,

    /// A value for a data import of the blueprint of the Installations in the input, in place of
    /// the object that the import names; read as YAML.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, Value)>,

    /// Exports of deploy items, a YAML map from the name of an item, or its path
    /// (`shop/web/server`), to its values. Items of the mock type export the values in their
    /// configuration.
    #[arg(long, value_name = "FILE")]
    pub(crate) exports: Option<PathBuf>,

    /// File that keeps the state of executions from run to run.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// Show values of imports in messages, even though they may be secret.
    #[arg(long)]
    pub(crate) show_values: bool,

    #[command(flatten)]
    pub(crate) limits: TemplateLimits,
}
