//! Explains a rendering: the source of each import, and the execution behind each object.

use std::fmt::Write as _;

use groundwork_api::{Installation, TargetImport, TargetSource};
use groundwork_blueprint::{ImportSource, Origin};

use crate::rendering::{Published, Rendering};
use crate::terminal::shown;

/// Returns the lines for one Installation, without those nested in it.
pub(super) fn explain(rendering: &Rendering, set: &[String]) -> String {
    let mut text = String::new();
    let outcome = &rendering.outcome;
    if !outcome.imports.sources.is_empty() {
        text.push_str("\n  Where imports come from\n");
    }
    for (name, source) in &outcome.imports.sources {
        let is_set = rendering.path.len() == 1 && set.contains(name);
        let source = match source {
            ImportSource::Mapping => format!("importDataMappings.{name}"),
            ImportSource::Default => "the default of the blueprint".to_owned(),
            ImportSource::Execution => "an import execution".to_owned(),
            ImportSource::Installation if is_set => "--set".to_owned(),
            ImportSource::Installation => source_object(&rendering.installation, name),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "    {}: {}", shown(name), shown(&source));
    }
    if !outcome.dropped.is_empty() {
        text.push_str("\n  Left out\n");
    }
    for dropped in &outcome.dropped {
        let _ = writeln!(text, "    {}", shown(&dropped.to_string()));
    }
    let templates = outcome.execution.as_ref().and_then(|execution| execution.spec.templates().ok());
    let items = templates.iter().flat_map(|templates| templates.iter()).zip(&outcome.origins.deploy_items);
    let items = items.map(|(item, origin)| (format!("deploy item {}", item.name), origin));
    let children = outcome
        .children
        .iter()
        .map(|child| (format!("nested installation {}", child.template), &child.origin));
    let exports = match &rendering.published {
        Published::Objects { origins, .. } => origins.exports.iter().collect(),
        _ => Vec::new(),
    };
    let exports = exports.into_iter().map(|(name, origin)| (format!("export {name}"), origin));
    let lines: Vec<String> =
        items.chain(children).chain(exports).map(|(what, origin)| place(&what, origin)).collect();
    if !lines.is_empty() {
        text.push_str("\n  Where objects come from\n");
        lines.iter().for_each(|line| text.push_str(line));
    }
    text
}

fn place(what: &str, origin: &Origin) -> String {
    format!("    {}: {}\n", shown(what), shown(&origin.to_string()))
}

/// Returns the object that an import of the Installation names.
fn source_object(installation: &Installation, name: &str) -> String {
    let entry = |key: Option<&str>| key.map(|key| format!(", key {key}")).unwrap_or_default();
    let data = installation.spec.data_imports().iter().find(|import| import.name == name);
    if let Some(import) = data {
        let object = import.data_ref.as_deref().filter(|name| !name.is_empty());
        return match (object, &import.secret_ref, &import.config_map_ref) {
            (Some(object), _, _) => format!("DataObject {object}"),
            (None, Some(secret), _) => format!("Secret {}{}", secret.name, entry(secret.entry())),
            (None, None, Some(map)) => format!("ConfigMap {}{}", map.name, entry(map.entry())),
            (None, None, None) => "nothing".to_owned(),
        };
    }
    let target = installation.spec.target_imports().iter().find(|import| import.name == name);
    match target.map(TargetImport::source) {
        Some(Ok(TargetSource::Single(name))) => format!("Target {name}"),
        Some(Ok(TargetSource::List(names))) => format!("Targets {}", names.join(", ")),
        Some(Ok(TargetSource::Map(names))) => {
            let entries: Vec<String> = names.iter().map(|(key, name)| format!("{key} = {name}")).collect();
            format!("Targets {}", entries.join(", "))
        }
        Some(Ok(TargetSource::ListRef(name) | TargetSource::MapRef(name))) => {
            format!("the import {name} of the parent")
        }
        Some(Err(_)) | None => "nothing".to_owned(),
    }
}
