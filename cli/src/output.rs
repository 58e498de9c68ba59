//! What rendering gave, for people and for programs.

mod objects;
mod text;

use std::io::Write as _;

use groundwork_api::Time;
use groundwork_yaml as yaml;
use serde_json::json;

use crate::arguments::OutputFormat;
use crate::rendering::Rendering;

/// Prints all renderings to standard output.
pub(crate) fn print(format: OutputFormat, renderings: &[Rendering<'_>], now: &Time) {
    let text = match format {
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
    };
    // A reader that goes away is no concern of ours.
    let _ = anstream::stdout().write_all(text.as_bytes());
}
