//! `groundwork template helm`: renders charts to manifests, as `helm template` does (`helm.md` 17).

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use groundwork_blueprint::Capabilities as System;
use groundwork_budget::TemplateLimits;
use groundwork_gotemplate::{Deadline, Grants};
use groundwork_helm::values::{self, Setter, Table};
use groundwork_helm::{
    Capabilities, Chart, KubeVersion, Printing, Release, RenderError, Renderer, Request, TIME_LIMIT,
    check_release_name,
};
use groundwork_registry::load_chart_folder;

use super::{Failure, STANDARD_INPUT, unusable};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::{stdout, wall};

/// Name of the release if the user gives none, as in Helm.
const DEFAULT_NAME: &str = "release-name";
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug, Args)]
pub(super) struct HelmArguments {
    /// The chart: a directory, or an archive (.tgz).
    #[arg(value_name = "CHART")]
    chart: PathBuf,

    /// Name of the release.
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,

    /// Namespace of the release.
    #[arg(long, short, default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    /// Values, later files over earlier ones; `-` is standard input.
    #[arg(long, short = 'f', value_name = "FILE", num_args = 1..)]
    values: Vec<PathBuf>,

    #[command(flatten)]
    single: Single,

    #[command(flatten)]
    limits: TemplateLimits,

    /// Version of Kubernetes that the chart sees, such as 1.31.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,

    /// API versions that the chart sees beside the usual ones, such as `monitoring.coreos.com/v1`.
    #[arg(long, short, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,

    /// Render an upgrade of the release, not an installation.
    #[arg(long)]
    is_upgrade: bool,

    /// Print the files of `crds` first.
    #[arg(long)]
    include_crds: bool,

    /// Print only these files, by their paths in the chart, such as `templates/service.yaml`; `*`,
    /// `?` and `[a-z]` match as in a shell.
    #[arg(long, short, value_name = "PATH")]
    show_only: Vec<String>,

    /// Do not print hooks.
    #[arg(long)]
    no_hooks: bool,

    /// Do not print hooks that are tests.
    #[arg(long)]
    skip_tests: bool,

    /// Print rendered templates even if they are not YAML.
    #[arg(long)]
    debug: bool,

    /// Skip the check of the values against values.schema.json.
    #[arg(long)]
    skip_schema_validation: bool,

    /// Fail if a template reads a value that does not exist.
    #[arg(long)]
    strict: bool,

    /// Render as the deployer does without releases: revision 0, integers of the given values stay
    /// integers, no schema.
    #[arg(long)]
    render_only: bool,
}

/// Single values, which override those of files: first JSON, then the others.
#[derive(Debug, Args)]
struct Single {
    /// Values in JSON: `a.b={"c": 1}`.
    #[arg(long, value_name = "NAME=JSON")]
    set_json: Vec<String>,

    /// Values: `a.b=1,c[0]=x,d={1,2}`.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Values like those of --set, but all are strings.
    #[arg(long, value_name = "NAME=TEXT")]
    set_string: Vec<String>,

    /// Values that are the contents of files.
    #[arg(long, value_name = "NAME=FILE")]
    set_file: Vec<String>,

    /// A string that is taken literally, without any syntax.
    #[arg(long, value_name = "NAME=TEXT")]
    set_literal: Vec<String>,
}

pub(super) fn run(arguments: &HelmArguments) -> Ending {
    match render(&arguments.chart, arguments) {
        Ok(text) => stdout::write_bytes(text.as_bytes()),
        Err((ending, diagnostic)) => {
            diagnostic::print(&[*diagnostic]);
            ending
        }
    }
}

fn render(path: &Path, arguments: &HelmArguments) -> Result<String, Failure> {
    let chart = load(path).map_err(unusable)?;
    let mut capabilities = Capabilities::default();
    if let Some(version) = &arguments.kube_version {
        capabilities.kube_version =
            KubeVersion::parse(version).map_err(|error| unusable(error.to_string()))?;
    }
    capabilities.api_versions.extend(arguments.api_versions.iter().cloned());
    let release = Release {
        name: arguments.name.clone(),
        namespace: arguments.namespace.clone(),
        revision: if arguments.render_only { 0 } else { 1 },
        is_upgrade: arguments.is_upgrade && !arguments.render_only,
    };
    let values = given_values(arguments)?;
    check_release_name(&release.name).map_err(|error| unusable(error.to_string()))?;
    let request = Request {
        values,
        release: Some(release),
        capabilities,
        include_crds: arguments.include_crds,
        skip_schema: arguments.skip_schema_validation || arguments.render_only,
        strict: arguments.strict,
        ..granted(arguments.limits)
    };
    let printing = Printing {
        show_only: arguments.show_only.clone(),
        no_hooks: arguments.no_hooks,
        skip_tests: arguments.skip_tests,
    };
    let renderer = Renderer::new(chart);
    let rendered = match wall::evaluate(|| renderer.render(&request)) {
        Ok(rendered) => rendered,
        Err(error @ RenderError::Manifest { .. }) if arguments.debug => {
            print_unread(&renderer, &request, &printing)?;
            return Err(failed(error));
        }
        Err(error @ RenderError::Manifest { .. }) => {
            return Err(failed(format!("{error}\n\nUse --debug flag to render out invalid YAML")));
        }
        Err(error) => return Err(failed(error)),
    };
    let warnings: Vec<Diagnostic> = rendered.warnings.iter().map(Diagnostic::warning).collect();
    diagnostic::print(&warnings);
    rendered.printed(&printing).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    (Ending::Failed, Box::new(Diagnostic::error(error.to_string())))
}

/// Prints files that are not YAML, so that a user sees the error in them.
fn print_unread(renderer: &Renderer, request: &Request, printing: &Printing) -> Result<(), Failure> {
    let files = wall::evaluate(|| renderer.files(request)).map_err(failed)?;
    let text: String = files.iter().map(|(path, text)| format!("---\n# Source: {path}\n{text}\n")).collect();
    let text = printing.of_text(format!("{}\n", text.trim())).map_err(failed)?;
    stdout::write_bytes(text.as_bytes());
    Ok(())
}

/// Sets the permissions of templates, and their time limit.
fn granted(limits: TemplateLimits) -> Request {
    let system = System::system();
    let end = Instant::now() + TIME_LIMIT;
    Request {
        grants: Grants { clock: system.clock, randomness: system.randomness, ..Grants::default() },
        deadline: Some(Deadline::new(move || Instant::now() >= end)),
        limits,
        ..Request::default()
    }
}

fn load(path: &Path) -> Result<Chart, String> {
    if path.is_dir() {
        return load_chart_folder(path);
    }
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Chart::from_archive(&bytes).map_err(|error| error.to_string())
}

fn given_values(arguments: &HelmArguments) -> Result<Table, Failure> {
    let mut given = Table::new();
    for file in &arguments.values {
        let bytes = read(file).map_err(unusable)?;
        let read = if arguments.render_only { values::from_yaml_with_integers } else { values::from_yaml };
        let table = read(&bytes);
        values::overlay(
            &mut given,
            table.map_err(|error| unusable(format!("failed to parse {}: {error}", file.display())))?,
        );
    }
    let Single { set_json, set, set_string, set_file, set_literal } = &arguments.single;
    let options = [
        ("set-json", Setter::Json, set_json),
        ("set", Setter::Typed, set),
        ("set-string", Setter::Text, set_string),
        ("set-file", Setter::File, set_file),
        ("set-literal", Setter::Literal, set_literal),
    ];
    let mut file_text = |name: &str| {
        let bytes = read(Path::new(name))?;
        String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))
    };
    for (option, setter, texts) in options {
        for text in texts {
            setter
                .apply(text, &mut given, &mut file_text)
                .map_err(|error| unusable(format!("failed parsing --{option} data: {error}")))?;
        }
    }
    Ok(given)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let result = if file == Path::new(STANDARD_INPUT) {
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    result.map_err(|error| format!("cannot read {}: {error}", file.display()))
}
