//! `groundwork blueprint docs`: writes a page about a blueprint.

mod markdown;
mod schema;

use std::path::Path;

use groundwork_api::{
    Blueprint as Definition, ImportDefinition, InstallationTemplate, TargetSource, TemplateExecutor,
};
use serde_json::Value;

use super::{DocsArguments, load};
use crate::ending::Ending;
use crate::stdout;
use crate::terminal::shown;
use markdown::{cell, code, table};

pub(super) fn run(arguments: &DocsArguments) -> Ending {
    let (blueprint, templates) = match load(&arguments.path) {
        Ok(loaded) => loaded,
        Err(ending) => return ending,
    };
    let title = arguments.title.clone().unwrap_or_else(|| name_of(&arguments.path));
    stdout::write(&shown(&page(&title, &blueprint.definition, &templates)))
}

/// Returns the name of a directory, or of an archive without its endings.
fn name_of(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let archive = [".tar.gz", ".tgz", ".tar"].into_iter().find_map(|ending| name.strip_suffix(ending));
    archive.map(str::to_owned).unwrap_or(name)
}

/// Writes the page about a blueprint whose defaults are filled in, with these static nested
/// installations.
fn page(title: &str, definition: &Definition, templates: &[InstallationTemplate]) -> String {
    let title = if title.is_empty() { "Blueprint".to_owned() } else { cell(title) };
    let sections = [
        imports(definition),
        exports(definition),
        local_types(definition),
        children(definition, templates),
        executions(definition),
    ];
    let sections = sections.into_iter().filter(|section| !section.is_empty());
    [format!("# {title}\n")].into_iter().chain(sections).collect::<Vec<_>>().join("\n")
}

fn imports(definition: &Definition) -> String {
    let mut rows = Vec::new();
    let mut details = Vec::new();
    walk_imports(&definition.imports, None, 0, &mut rows, &mut details);
    if rows.is_empty() {
        return "## Imports\n\nNone.\n".to_owned();
    }
    let columns = ["Name", "Type", "Required", "Default", "Rules", "Description"];
    format!("## Imports\n\n{}{}", table(columns, &rows), details.concat())
}

/// Adds a row for each import, with conditional imports below the import that they depend on. Text
/// that does not fit in a row goes to `details`.
fn walk_imports(
    imports: &[ImportDefinition],
    owner: Option<&str>,
    depth: usize,
    rows: &mut Vec<[String; 6]>,
    details: &mut Vec<String>,
) {
    for import in imports {
        let indent = if depth == 0 { String::new() } else { "&emsp;".repeat(depth - 1) + "↳ " };
        let schema = import.schema();
        let required = match (import.required == Some(false), owner) {
            (false, None) => "yes".to_owned(),
            (true, None) => "no".to_owned(),
            (false, Some(owner)) => format!("yes, if {} is given", code(owner)),
            (true, Some(owner)) => format!("no; only if {} is given", code(owner)),
        };
        rows.push([
            format!("{indent}{}", code(&import.name)),
            type_of(import.type_.as_deref(), schema, import.target_type.as_deref()),
            required,
            import.default_value().map(|value| code(&value.to_string())).unwrap_or_default(),
            schema.map(schema::rules).unwrap_or_default(),
            schema.map(schema::description).unwrap_or_default(),
        ]);
        details.extend(schema.and_then(|schema| section(&import.name, &schema::details(schema))));
        walk_imports(&import.imports, Some(&import.name), depth + 1, rows, details);
    }
}

fn section(name: &str, content: &str) -> Option<String> {
    (!content.is_empty()).then(|| format!("\n### {}\n\n{content}", code(name)))
}

/// Returns the type of the value in place of `data` where a schema gives one.
fn type_of(type_name: Option<&str>, schema: Option<&Value>, target_type: Option<&str>) -> String {
    let type_name = type_name.unwrap_or_default();
    let of = match target_type.filter(|target_type| !target_type.is_empty()) {
        Some(target_type) => code(target_type),
        None => schema.map(schema::type_of).unwrap_or_default(),
    };
    if of.is_empty() { cell(type_name) } else { format!("{}: {of}", cell(type_name)) }
}

fn exports(definition: &Definition) -> String {
    if definition.exports.is_empty() {
        return String::new();
    }
    let mut rows = Vec::new();
    let mut details = Vec::new();
    for export in &definition.exports {
        let schema = export.schema();
        rows.push([
            code(&export.name),
            type_of(export.type_.as_deref(), schema, export.target_type.as_deref()),
            schema.map(schema::rules).unwrap_or_default(),
            schema.map(schema::description).unwrap_or_default(),
        ]);
        details.extend(schema.and_then(|schema| section(&export.name, &schema::details(schema))));
    }
    format!("## Exports\n\n{}{}", table(["Name", "Type", "Rules", "Description"], &rows), details.concat())
}

fn local_types(definition: &Definition) -> String {
    let types = definition.local_types.iter();
    let types: Vec<String> = types
        .filter_map(|(name, schema)| section(&format!("local://{name}"), &schema::whole(schema)))
        .collect();
    if types.is_empty() { String::new() } else { format!("## Local types\n{}", types.concat()) }
}

fn children(definition: &Definition, templates: &[InstallationTemplate]) -> String {
    if templates.is_empty() && definition.subinstallation_executions.is_empty() {
        return String::new();
    }
    let mut text = "## Nested installations\n\n".to_owned();
    if !templates.is_empty() {
        let rows: Vec<[String; 4]> = templates.iter().map(child).collect();
        text.push_str(&table(["Name", "Blueprint", "Imports", "Exports"], &rows));
    }
    if !definition.subinstallation_executions.is_empty() {
        let names = definition.subinstallation_executions.iter().map(|executor| code(&executor.name));
        let names = names.collect::<Vec<_>>().join(", ");
        let blank = if templates.is_empty() { "" } else { "\n" };
        let more = if templates.is_empty() { "" } else { "Further " };
        let are = if more.is_empty() { "Nested ones" } else { "ones" };
        text.push_str(&format!("{blank}{more}{are} are rendered by {names}.\n"));
    }
    text
}

/// Returns the row of a nested installation: its imports and exports by its own names, and the
/// names in the blueprint where they differ.
fn child(template: &InstallationTemplate) -> [String; 4] {
    let blueprint = match &template.blueprint {
        Some(blueprint) if blueprint.filesystem.get().is_some() => "written into it".to_owned(),
        Some(blueprint) => code(blueprint.reference.as_deref().unwrap_or_default()),
        None => String::new(),
    };
    let wired = |own: &str, other: &str, arrow: &str| {
        if own == other { code(own) } else { format!("{} {arrow} {}", code(own), code(other)) }
    };
    let mut taken = Vec::new();
    for import in template.imports.iter().flat_map(|imports| imports.data.iter()) {
        taken.push(wired(&import.name, import.data_ref.as_deref().unwrap_or_default(), "←"));
    }
    for import in template.imports.iter().flat_map(|imports| imports.targets.iter()) {
        let from = match import.source() {
            Ok(TargetSource::Single(name) | TargetSource::MapRef(name) | TargetSource::ListRef(name)) => {
                name.to_owned()
            }
            Ok(TargetSource::List(names)) => format!("[{}]", names.join(", ")),
            Ok(TargetSource::Map(names)) => {
                let names = names.into_iter().map(|(key, name)| format!("{key}: {name}"));
                format!("{{{}}}", names.collect::<Vec<_>>().join(", "))
            }
            Err(_) => String::new(),
        };
        taken.push(wired(&import.name, &from, "←"));
    }
    let exports = template.exports.iter();
    let data = exports.clone().flat_map(|exports| exports.data.iter());
    let data = data.map(|export| wired(&export.name, &export.data_ref, "→"));
    let targets = exports.flat_map(|exports| exports.targets.iter());
    let targets = targets.map(|export| wired(&export.name, &export.target, "→"));
    let given: Vec<String> = data.chain(targets).collect();
    [code(template.name()), blueprint, taken.join("<br>"), given.join("<br>")]
}

fn executions(definition: &Definition) -> String {
    let lists: [(&str, &[TemplateExecutor]); 4] = [
        ("import", &definition.import_executions),
        ("subinstallation", &definition.subinstallation_executions),
        ("deploy", &definition.deploy_executions),
        ("export", &definition.export_executions),
    ];
    let rows: Vec<[String; 4]> = lists
        .into_iter()
        .flat_map(|(kind, executors)| executors.iter().map(move |executor| (kind, executor)))
        .map(|(kind, executor)| {
            let file = executor.file.as_deref().filter(|_| executor.template.get().is_none());
            let place = file.map_or_else(|| "in blueprint.yaml".to_owned(), code);
            [
                code(&executor.name),
                kind.to_owned(),
                cell(executor.type_.as_deref().unwrap_or_default()),
                place,
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("## Executions\n\n{}", table(["Name", "Renders", "Language", "Template"], &rows))
}

#[cfg(test)]
mod tests;
