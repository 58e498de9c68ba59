//! `groundwork template`: Go templates, spiff++ templates and Helm charts on their own.

mod helm;
mod spiff;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use groundwork_blueprint::Capabilities;
use groundwork_budget::TemplateLimits;
use groundwork_gotemplate::{
    Deadline, Error, Functions, Grants, Limits, MissingKey, Options, Template, Value,
};
use groundwork_yaml::{self as yaml, Position};

use crate::diagnostic::{self, Diagnostic, Source};
use crate::ending::Ending;
use crate::{stdout, wall};

const STANDARD_INPUT: &str = "-";
/// Time limit of one template.
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct TemplateArguments {
    #[command(subcommand)]
    command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
enum TemplateCommand {
    /// Render a Go template with the functions of sprig.
    ///
    /// Templates may read the clock and make random values; the environment and the network are
    /// denied to them. The time zone is UTC. Exit code 0: the template was rendered. 1: it cannot
    /// be parsed or rendered; nothing is printed to standard output. 2: the input cannot be used.
    Go(GoArguments),
    /// Evaluate a spiff++ template, merged with stubs.
    ///
    /// Reads only the given files. Exit code 0: the document is printed. 1: expressions have no
    /// value, or a limit was reached; standard output stays empty. 2: the input cannot be used.
    Spiff(spiff::SpiffArguments),
    /// Render a Helm chart as `helm template` does, without a cluster.
    ///
    /// Does not need Helm. Reads only the chart and the given files; `lookup` finds nothing. Exit
    /// code 0: the manifests are printed. 1: the chart cannot be rendered; standard output stays
    /// empty. 2: the input cannot be used.
    Helm(Box<helm::HelmArguments>),
}

#[derive(Debug, Args)]
struct GoArguments {
    /// The template; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The data of the template, JSON or YAML [default: null]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,

    /// Value of a key that a map does not have.
    #[arg(long, value_enum, default_value_t = MissingKeyName::Default)]
    missingkey: MissingKeyName,

    /// Further templates; each is known by its file name and by the names that it defines.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    define: Vec<PathBuf>,

    #[command(flatten)]
    limits: TemplateLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissingKeyName {
    /// An absent value, which prints as `<no value>`.
    #[value(alias = "invalid")]
    Default,
    /// The zero of the map's values.
    Zero,
    /// An error.
    Error,
}

impl From<MissingKeyName> for MissingKey {
    fn from(name: MissingKeyName) -> MissingKey {
        match name {
            MissingKeyName::Default => MissingKey::Default,
            MissingKeyName::Zero => MissingKey::Zero,
            MissingKeyName::Error => MissingKey::Error,
        }
    }
}

pub(crate) fn run(arguments: &TemplateArguments) -> Ending {
    let arguments = match &arguments.command {
        TemplateCommand::Go(arguments) => arguments,
        TemplateCommand::Spiff(arguments) => return spiff::run(arguments),
        TemplateCommand::Helm(arguments) => return helm::run(arguments),
    };
    match render(&arguments.file, arguments) {
        Ok(bytes) => stdout::write_bytes(&bytes),
        Err((ending, diagnostic)) => {
            diagnostic::print(&[*diagnostic]);
            ending
        }
    }
}

/// Sets the permissions and limits of a template. Each render needs its own options, because the
/// deadline is an absolute time.
fn options(missing_key: MissingKey, limits: TemplateLimits) -> Options {
    let system = Capabilities::system();
    let end = Instant::now() + TIME_LIMIT;
    let deadline = Some(Deadline::new(move || Instant::now() >= end));
    Options {
        missing_key,
        limits: Limits { deadline, ..limits.into() },
        grants: Grants { clock: system.clock, randomness: system.randomness, ..Grants::default() },
        ..Options::default()
    }
}

type Failure = (Ending, Box<Diagnostic>);

fn render(file: &Path, arguments: &GoArguments) -> Result<Vec<u8>, Failure> {
    let data = match &arguments.data {
        Some(file) => read_data(file)?,
        None => serde_json::Value::Null,
    };
    let options = options(arguments.missingkey.into(), arguments.limits);
    let functions = Arc::new(Functions::sprig());
    let mut sources: Vec<Rc<Source>> = Vec::new();
    let mut set: Option<Template> = None;
    for file in arguments.define.iter().map(PathBuf::as_path).chain([file]) {
        let bytes = read(file)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        sources.push(Rc::new(Source::public(file.display().to_string(), text)));
        let name = template_name(file);
        let parsed = wall::evaluate(|| match &set {
            None => Template::parse(&name, &bytes, &functions, &options),
            Some(set) => set.parse_associated(&name, &bytes),
        });
        set = Some(parsed.map_err(|error| failed(&error, &sources))?);
    }
    let value = Value::from_json(&data, options.numbers);
    let rendered = wall::evaluate(|| set.map_or_else(|| Ok(Vec::new()), |set| set.render(value)));
    rendered.map_err(|error| failed(&error, &sources))
}

/// Returns the name that Go gives to a template read from a file.
fn template_name(file: &Path) -> String {
    file.file_name().map_or_else(|| STANDARD_INPUT.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns the error, with the line in the latest source of that name.
fn failed(error: &Error, sources: &[Rc<Source>]) -> Failure {
    let diagnostic = Diagnostic::error(error.to_string());
    let source = sources.iter().rfind(|source| template_name(Path::new(&source.name)) == error.template());
    let diagnostic = match source {
        Some(source) if error.line() > 0 => {
            let line = source.text.lines().nth(error.line() - 1).unwrap_or_default();
            // The engine counts bytes from 0, and messages count characters from 1.
            let column = error
                .column()
                .map_or(1, |bytes| 1 + line.char_indices().take_while(|(at, _)| *at < bytes).count());
            diagnostic.at(source, Position { line: error.line(), column })
        }
        _ => diagnostic,
    };
    (Ending::Failed, Box::new(diagnostic))
}

fn unusable(message: String) -> Failure {
    (Ending::Unusable, Box::new(Diagnostic::error(message)))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let result = if file == Path::new(STANDARD_INPUT) {
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    result.map_err(|error| unusable(format!("cannot read {}: {error}", file.display())))
}

fn read_data(file: &Path) -> Result<serde_json::Value, Failure> {
    let bytes = read(file)?;
    let text = String::from_utf8(bytes).map_err(|_| unusable(format!("{} is not UTF-8", file.display())))?;
    if file.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_str(&text)
            .map_err(|error| unusable(format!("{} is not JSON: {error}", file.display())));
    }
    yaml::from_str(&text).map_err(|error| unusable(format!("{} is not YAML: {error}", file.display())))
}
