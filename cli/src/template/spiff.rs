//! `groundwork template spiff`: evaluates the spiff++ language.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clap::{Args, ValueEnum};
use groundwork_budget::TemplateLimits;
use groundwork_spiff::{
    Clock, Document, Engine, Error, Features, Files, HostFunction, Output, Randomness, Unresolved, Value,
};
use groundwork_yaml::Position;

use super::{Failure, STANDARD_INPUT, read, unusable};
use crate::diagnostic::{self, Diagnostic, Source};
use crate::ending::Ending;
use crate::{stdout, wall};

/// Name of a document that has none of its own.
const DEFAULT_SOURCE: &str = "template";
/// Largest size of a file that a template reads, in bytes.
const LARGEST_FILE: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(super) struct SpiffArguments {
    /// The template; `-` is standard input. Each of several documents is evaluated on its own.
    #[arg(value_name = "TEMPLATE")]
    template: PathBuf,

    /// Stubs, the nearest first: their values override those of the template.
    #[arg(value_name = "STUB")]
    stubs: Vec<PathBuf>,

    /// File for the nodes marked `&state`, kept from run to run: read as the last stub if it
    /// exists, and written when the evaluation succeeds.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Named values that expressions can refer to, a YAML map.
    #[arg(long, value_name = "FILE")]
    bindings: Option<PathBuf>,

    /// Parts of the language that are off by default.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',')]
    features: Vec<Feature>,

    /// Folder whose files the functions `read`, `lookup_file`, `list_files` and `list_dirs` may
    /// read; paths are relative to it, and cannot lead out of it. Without it, they fail.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Value that the function `env` returns for a name. May be given several times. Without it,
    /// the function fails: templates never see the variables of the process.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,

    #[command(flatten)]
    limits: TemplateLimits,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    if name.is_empty() {
        return Err("the name before = is empty".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Returns the function `env` (`spiff.md` 11.5) for these variables.
fn environment(variables: &[(String, String)]) -> HostFunction {
    let variables: BTreeMap<String, String> = variables.iter().cloned().collect();
    HostFunction::new(move |arguments| {
        let names: Vec<String> =
            arguments.iter().enumerate().map(names_of).collect::<Result<Vec<_>, _>>()?.concat();
        match &names[..] {
            [] => Err("env takes at least one name".to_owned()),
            [name] => {
                let value = variables.get(name);
                value
                    .map(|value| Value::string(value.as_str()))
                    .ok_or_else(|| format!("environment variable '{name}' not set"))
            }
            names => Ok(Value::map(
                names
                    .iter()
                    .filter_map(|name| Some((name.as_str(), Value::string(variables.get(name)?.as_str())))),
            )),
        }
    })
}

/// Returns the names in one argument of `env`: a simple value, or a list of them.
fn names_of((index, argument): (usize, &Value)) -> Result<Vec<String>, String> {
    let simple = |value: &Value| match value {
        Value::String(text) => Some(text.to_string()),
        Value::Int(number) | Value::Data(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    match argument {
        Value::Nil => Ok(Vec::new()),
        Value::List(list) => {
            let names: Option<Vec<String>> = list.values().map(simple).collect();
            names.ok_or_else(|| format!("elements of list(arg {index}) to join must be simple values"))
        }
        other => simple(other)
            .map(|name| vec![name])
            .ok_or_else(|| format!("env argument {index} must be simple value or list")),
    }
}

/// Files below a folder. The operating system resolves each path inside of it, links included.
#[derive(Debug)]
struct RootFiles(Dir);

impl RootFiles {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let opened = Dir::open_ambient_dir(folder, ambient_authority());
        opened.map(Self).map_err(|error| unusable(format!("cannot read {}: {error}", folder.display())))
    }
}

impl Files for RootFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let metadata = self.0.metadata(path).map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        if metadata.len() > LARGEST_FILE {
            return Err(format!("it has {} bytes, more than the allowed {LARGEST_FILE}", metadata.len()));
        }
        self.0.read(path).map_err(|error| error.to_string())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let entries = self.0.read_dir(path).map_err(|error| error.to_string())?;
        let name = |entry: std::io::Result<cap_std::fs::DirEntry>| {
            entry
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .map_err(|error| error.to_string())
        };
        entries.map(name).collect()
    }

    fn is_directory(&self, path: &str) -> Option<bool> {
        self.0.metadata(path).ok().map(|metadata| metadata.is_dir())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Feature {
    /// Control structures such as `<<if` and `<<for`.
    Control,
    /// Expressions inside of longer strings.
    Interpolation,
}

fn engine(features: &[Feature], limits: TemplateLimits) -> Engine {
    let has = |feature| features.contains(&feature);
    let features = Features { control: has(Feature::Control), interpolation: has(Feature::Interpolation) };
    let random = |buffer: &mut [u8]| getrandom::fill(buffer).map_err(|error| error.to_string());
    Engine::new()
        .with_limits(limits.into())
        .with_features(features)
        .with_randomness(Randomness::new(random))
        .with_clock(Clock::new(SystemTime::now))
}

pub(super) fn run(arguments: &SpiffArguments) -> Ending {
    match evaluate(&arguments.template, arguments) {
        Ok(text) => stdout::write(&text),
        Err((ending, diagnostic)) => {
            diagnostic::print(&[*diagnostic]);
            ending
        }
    }
}

/// File that was read.
struct Text {
    source: Rc<Source>,
    name: String,
}

impl Text {
    fn read(file: &Path) -> Result<Self, Failure> {
        let bytes = read(file)?;
        let name = if file == Path::new(STANDARD_INPUT) {
            DEFAULT_SOURCE.to_owned()
        } else {
            file.display().to_string()
        };
        let text = String::from_utf8(bytes).map_err(|_| unusable(format!("{name} is not UTF-8")))?;
        Ok(Self { source: Rc::new(Source::public(name.clone(), text)), name })
    }

    fn document(&self, engine: &Engine) -> Result<Document, Failure> {
        Document::read(&self.source.text, &self.name, engine.limits())
            .map_err(|error| unusable(error.to_string()))
    }
}

fn evaluate(template: &Path, arguments: &SpiffArguments) -> Result<String, Failure> {
    let engine = engine(&arguments.features, arguments.limits);
    let engine = match &arguments.root {
        Some(folder) => engine.with_files(Arc::new(RootFiles::open(folder)?)),
        None => engine,
    };
    let engine = match arguments.variables.is_empty() {
        true => engine,
        false => engine.with_function("env", environment(&arguments.variables)),
    };
    let mut texts = vec![Text::read(template)?];
    for stub in &arguments.stubs {
        texts.push(Text::read(stub)?);
    }
    let state = arguments.state.as_ref().filter(|file| file.exists());
    if let Some(file) = state {
        texts.push(Text::read(file)?);
    }
    let stubs = texts[1..].iter().map(|text| text.document(&engine)).collect::<Result<Vec<_>, _>>()?;
    let bindings = match &arguments.bindings {
        Some(file) => Some(read_bindings(file)?),
        None => None,
    };
    let documents = Document::read_all(&texts[0].source.text, &texts[0].name, engine.limits())
        .map_err(|error| unusable(error.to_string()))?;
    let several = documents.len() > 1;
    if several && arguments.state.is_some() {
        return Err(unusable("--state works only with a template of one document".to_owned()));
    }
    let outputs = wall::evaluate(|| engine.cascade_stream(&documents, &stubs, bindings.as_ref()));
    let mut printed = String::new();
    for output in outputs.map_err(|error| failed(&error, &texts))? {
        if let Some(file) = &arguments.state {
            write_state(file, &output)?;
        }
        if several && output.is_temporary() {
            continue;
        }
        if several {
            printed.push_str("---\n");
        }
        printed.push_str(&output.to_yaml());
    }
    Ok(printed)
}

/// Reads values that the user vouches for: their numbers are data numbers (`spiff.md` 14.2).
fn read_bindings(file: &Path) -> Result<Value, Failure> {
    let value = super::read_data(file)?;
    if !value.is_object() {
        return Err(unusable(format!("{} is not a map of named values", file.display())));
    }
    Ok(Value::from_bindings(&value))
}

/// Writes a new file and renames it: after a crash the file has the old state or the new one.
fn write_state(file: &Path, output: &Output) -> Result<(), Failure> {
    let text = output
        .state()
        .map_or_else(|| "{}\n".to_owned(), |state| Document::from_value(state.clone()).to_yaml());
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| unusable(format!("cannot write {}: {error}", file.display())))
}

/// Returns spiff's report, and below it the line of the first node with an error.
fn failed(error: &Error, texts: &[Text]) -> Failure {
    let diagnostic = Diagnostic::error(error.to_string());
    let located = match error {
        Error::Unresolved(report) => report.nodes.first().and_then(|node| locate(node, texts)),
        _ => None,
    };
    let diagnostic = match located {
        Some((source, position)) => diagnostic.at(source, position),
        None => diagnostic,
    };
    (Ending::Failed, Box::new(diagnostic))
}

fn locate<'t>(node: &Unresolved, texts: &'t [Text]) -> Option<(&'t Rc<Source>, Position)> {
    let (line, column) = node.position()?;
    let text = texts.iter().find(|text| text.name == node.source())?;
    let position = Position { line: usize::try_from(line).ok()?, column: usize::try_from(column).ok()? };
    Some((&text.source, position))
}
