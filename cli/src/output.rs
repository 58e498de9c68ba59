//! What rendering gave, for people and for programs.

mod objects;
mod text;

use std::io::{ErrorKind, Write as _};

use clap::ValueEnum;
use groundwork_api::Time;
use groundwork_yaml as yaml;
use serde_json::json;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::rendering::Rendering;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    Text,
    /// The objects that a cluster would hold, as a YAML stream.
    Yaml,
    /// The same as one `List`.
    Json,
}

/// Prints all renderings to standard output.
pub(crate) fn print(format: OutputFormat, renderings: &[Rendering<'_>], now: &Time) -> Ending {
    write(&match format {
        OutputFormat::Text => renderings.iter().map(text::show).collect::<Vec<_>>().join("\n"),
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

/// Writes bytes to standard output as they are, terminal sequences included.
pub(crate) fn write_bytes(bytes: &[u8]) -> Ending {
    let mut out = std::io::stdout().lock();
    ended(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes to standard output. A reader that goes away is no concern of ours; a full disk is.
pub(crate) fn write(text: &str) -> Ending {
    let mut out = anstream::stdout();
    ended(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn ended(written: std::io::Result<()>) -> Ending {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            diagnostic::print(&[Diagnostic::error(format!("cannot write to standard output: {error}"))]);
            Ending::Unusable
        }
        _ => Ending::Rendered,
    }
}
