//! `groundwork component tree`: prints a component version and its references.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use groundwork_component::{GraphEntry, GraphState};
use serde_json::{Value, json};

use super::place::{PlaceArguments, VersionName, version_name};
use crate::diagnostic::Diagnostic;
use crate::ending::Ending;
use crate::stdout;
use crate::terminal::shown;

#[derive(Debug, Args)]
pub(super) struct TreeArguments {
    /// The component version, as NAME:VERSION.
    #[arg(value_name = "NAME:VERSION", value_parser = version_name)]
    version: VersionName,

    #[command(flatten)]
    place: PlaceArguments,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Readable text.
    Text,
    /// A JSON list of references, depth first.
    Json,
}

/// Reference, with the resources of the version that it leads to.
struct Line {
    entry: GraphEntry,
    /// Name, type and access type of each resource.
    resources: Vec<[String; 3]>,
}

pub(super) fn run(arguments: &TreeArguments) -> Result<Ending, Diagnostic> {
    let place = arguments.place.open()?;
    let (_, root) = place.find(&arguments.version)?;
    let lines: Vec<Line> = place.with_resolver(&root.reference, |resolver| {
        let lines = resolver.graph(&root.reference).into_iter().map(|entry| {
            let version = match entry.state {
                GraphState::Followed => resolver.lookup(&entry.substitution.effective).ok(),
                _ => None,
            };
            let resources =
                version.iter().flat_map(|version| version.descriptor.resources()).map(|resource| {
                    let access = resource.access().get("type").and_then(Value::as_str).unwrap_or_default();
                    [resource.name.clone(), resource.type_name.clone(), access.to_owned()]
                });
            Line { resources: resources.collect(), entry }
        });
        lines.collect()
    });
    let has_failed =
        lines.iter().any(|line| matches!(line.entry.state, GraphState::Failed(_) | GraphState::Limit(_)));
    let ended = stdout::write(&match arguments.output {
        Format::Text => text(&lines),
        Format::Json => {
            let items: Vec<Value> = lines.iter().map(json).collect();
            format!("{:#}\n", Value::from(items))
        }
    });
    Ok(match ended {
        Ending::Rendered if has_failed => Ending::Failed,
        ended => ended,
    })
}

fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { entry, resources } in lines {
        let indent = 2 * entry.depth.min(100);
        let name = if entry.name.is_empty() { String::new() } else { format!("{}: ", entry.name) };
        let state = match &entry.state {
            GraphState::Followed => String::new(),
            GraphState::Repeated => " (as above)".to_owned(),
            GraphState::Failed(cause) => format!(" failed: {cause}"),
            GraphState::Limit(limit) => format!(" ends here: the closure exceeds {limit}"),
        };
        let line = format!("{name}{}{state}", entry.substitution.effective);
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{:indent$}{}", "", shown(&line));
        for [name, type_name, access] in resources {
            let line = format!("- {name} ({type_name}, {access})");
            let _ = writeln!(text, "{:indent$}  {}", "", shown(&line));
        }
    }
    text
}

fn json(line: &Line) -> Value {
    let GraphEntry { depth, name, substitution, state, .. } = &line.entry;
    let (state, message) = match state {
        GraphState::Followed => ("followed", None),
        GraphState::Repeated => ("repeated", None),
        GraphState::Failed(cause) => ("failed", Some(cause)),
        GraphState::Limit(limit) => ("limit", Some(limit)),
    };
    let resources: Vec<Value> = line
        .resources
        .iter()
        .map(|[name, type_name, access]| json!({"name": name, "type": type_name, "access": access}))
        .collect();
    json!({
        "depth": depth, "name": name, "componentName": substitution.effective.name,
        "version": substitution.effective.version, "state": state, "message": message, "resources": resources,
    })
}
