//! Prints renderings as text, YAML or JSON.

mod baseline;
mod difference;
mod explain;
mod folder;
mod objects;
mod text;

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use groundwork_api::Time;
use groundwork_yaml as yaml;
use serde_json::json;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::rendering::Rendering;
use crate::stdout::write;
pub(crate) use baseline::{Baseline, DiffTarget, Uids};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Readable text.
    Text,
    /// The objects that a cluster would hold, as a YAML stream.
    Yaml,
    /// The objects that a cluster would hold, as one JSON `List`.
    Json,
}

/// Destination and format of rendered objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RenderOutput {
    Print(OutputFormat),
    /// Folder in which each object becomes a file.
    Folder(PathBuf),
}

impl FromStr for RenderOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("dir=") {
            Some("") => Err("the path after dir= is empty".to_owned()),
            Some(path) => Ok(Self::Folder(path.into())),
            None => OutputFormat::from_str(text, false)
                .map(Self::Print)
                .map_err(|_| "text, yaml, json or dir=PATH is expected".to_owned()),
        }
    }
}

/// Options for printing renderings.
#[derive(Debug)]
pub(crate) struct Presentation<'a> {
    pub(crate) output: &'a RenderOutput,
    /// Objects to compare with, in place of printing.
    pub(crate) diff: Option<&'a Baseline>,
    /// True if the report names the source of everything.
    pub(crate) explain: bool,
    /// Names of imports that were given on the command line.
    pub(crate) set: Vec<String>,
}

/// Prints all renderings to standard output, or writes them to files. Differences give the same
/// exit code as failures.
pub(crate) fn print(presentation: &Presentation<'_>, renderings: &[Rendering], now: &Time) -> Ending {
    if let Some(baseline) = presentation.diff {
        let rendered = objects::all(renderings, now);
        return match baseline.objects(&rendered).map(|former| difference::of(&former, &rendered)) {
            Ok(text) if text.is_empty() => Ending::Rendered,
            Ok(text) => match write(&text) {
                Ending::Rendered => Ending::Failed,
                ended => ended,
            },
            Err(error) => unusable(error),
        };
    }
    let format = match presentation.output {
        RenderOutput::Print(format) => *format,
        RenderOutput::Folder(path) => {
            return match folder::write(path, &objects::all(renderings, now)) {
                Ok(text) => write(&text),
                Err(error) => unusable(error),
            };
        }
    };
    write(&match format {
        OutputFormat::Text => {
            let show =
                |rendering| text::show(rendering, presentation.explain.then_some(&presentation.set[..]));
            renderings.iter().map(show).collect::<Vec<_>>().join("\n")
        }
        OutputFormat::Yaml => {
            let documents = objects::all(renderings, now);
            documents.iter().map(|document| format!("---\n{}", yaml::to_string(document))).collect()
        }
        OutputFormat::Json => {
            let items = objects::all(renderings, now);
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            format!("{list:#}\n")
        }
    })
}

fn unusable(error: Diagnostic) -> Ending {
    diagnostic::print(&[error]);
    Ending::Unusable
}
