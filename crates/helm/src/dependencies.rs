//! Dependencies of a chart: which subcharts are enabled, under which names, and the values that
//! parents import (`helm.md` 3).

use std::collections::HashMap;

use groundwork_go::semver::{Constraint, Version};
use groundwork_gotemplate::{Map, Value as Template};
use serde_json::Value;

use crate::chart::Chart;
use crate::error::RenderError;
use crate::metadata::Dependency;
use crate::objects;
use crate::values::{Coalesce, Table, path};

/// Removes the subcharts that conditions and tags disable, makes copies for aliases, and imports
/// values.
pub(crate) fn process(
    chart: &mut Chart,
    given: &Table,
    warnings: &mut Vec<String>,
) -> Result<(), RenderError> {
    enable(chart, given, "", warnings)?;
    import(chart, warnings)
}

/// Reports whether a version satisfies a constraint. An unreadable constraint or version is never
/// satisfied (`helm.md` 3.1).
pub(crate) fn fits(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.accepts(&version),
        _ => false,
    }
}

fn enable(
    chart: &mut Chart,
    values: &Table,
    path: &str,
    warnings: &mut Vec<String>,
) -> Result<(), RenderError> {
    let Some(entries) = chart.metadata.dependencies.take() else { return Ok(()) };
    let mut entries: Vec<Dependency> = entries.into_iter().flatten().collect();
    // From here on, subcharts refer to this chart by its current name.
    chart.name_in_paths = None;
    chart.charts = taken(&chart.charts, &mut entries);
    let mut coalesced = values.clone();
    Coalesce { warnings, keeps_nulls: false, forgives: !path.is_empty() }.fill(chart, &mut coalesced, "")?;
    tags(&mut entries, &coalesced, warnings);
    conditions(&mut entries, &coalesced, path, warnings);
    let off: Vec<String> =
        entries.iter().filter(|entry| !entry.enabled).map(|entry| entry.name.clone()).collect();
    chart.charts.retain(|sub| !off.iter().any(|name| name == sub.name()));
    entries.retain(|entry| !off.contains(&entry.name));
    for sub in &mut chart.charts {
        let inside = format!("{path}{}.", sub.name());
        enable(sub, &coalesced, &inside, warnings)?;
    }
    // Helm turns an empty list into a missing one.
    chart.metadata.dependencies = (!entries.is_empty()).then(|| entries.into_iter().map(Some).collect());
    Ok(())
}

/// Returns the charts without an entry, then one for each entry with a chart that fits. Entries are
/// renamed like their charts.
fn taken(charts: &[Chart], entries: &mut [Dependency]) -> Vec<Chart> {
    let is_for = |entry: &Dependency, chart: &Chart| {
        chart.name() == entry.name && fits(&entry.version, &chart.metadata.version)
    };
    let without = charts.iter().filter(|chart| !entries.iter().any(|entry| is_for(entry, chart)));
    let mut list: Vec<Chart> = without.cloned().collect();
    let chosen: Vec<Option<usize>> =
        entries.iter().map(|entry| charts.iter().position(|chart| is_for(entry, chart))).collect();
    let mut uses: HashMap<usize, usize> = HashMap::new();
    chosen.iter().flatten().for_each(|at| *uses.entry(*at).or_default() += 1);
    for (entry, at) in entries.iter_mut().zip(chosen) {
        if let Some(at) = at {
            let mut copy = charts[at].clone();
            if !entry.alias.is_empty() {
                copy.metadata.name.clone_from(&entry.alias);
                if uses.get(&at) == Some(&1) {
                    copy.name_in_paths = Some(charts[at].name().to_owned());
                }
            }
            list.push(copy);
        }
        if !entry.alias.is_empty() {
            entry.name.clone_from(&entry.alias);
        }
        entry.enabled = true;
    }
    list
}

fn tags(entries: &mut [Dependency], values: &Table, warnings: &mut Vec<String>) {
    let Some(Value::Object(tags)) = values.get("tags") else { return };
    for entry in entries {
        let (mut on, mut off) = (false, false);
        for tag in entry.tags.iter().flatten() {
            match tags.get(tag) {
                None => {}
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                Some(_) => warnings
                    .push(format!("Warning: Tag '{tag}' for chart {} returned non-bool value", entry.name)),
            }
        }
        // As in Helm, one enabled tag is enough, even beside disabled ones.
        entry.enabled = on || !off;
    }
}

fn conditions(entries: &mut [Dependency], values: &Table, path: &str, warnings: &mut Vec<String>) {
    for entry in entries {
        for part in entry.condition.trim().split(',').filter(|part| !part.is_empty()) {
            match path::value(values, &format!("{path}{part}")) {
                Ok(Value::Bool(flag)) => {
                    // As in Helm, the first path with a boolean decides, and the others are
                    // ignored.
                    entry.enabled = *flag;
                    break;
                }
                Ok(_) => warnings.push(format!(
                    "Warning: Condition path '{part}' for chart {} returned non-bool value",
                    entry.name
                )),
                Err(_) => {}
            }
        }
    }
}

fn import(chart: &mut Chart, warnings: &mut Vec<String>) -> Result<(), RenderError> {
    for sub in &mut chart.charts {
        import(sub, warnings)?;
    }
    let Some(mut entries) = chart.metadata.dependencies.take() else { return Ok(()) };
    let mut values = Table::new();
    Coalesce { warnings, keeps_nulls: true, forgives: false }.fill(chart, &mut values, "")?;
    if entries.iter().flatten().any(|entry| entry.import_values.is_some()) {
        let shared = objects::from_table(&values);
        let imported = Map::default();
        for entry in entries.iter_mut().flatten() {
            import_entry(entry, &shared, &imported, warnings);
        }
        match (plain(&shared), plain(&imported)) {
            (Some(with_imports), Some(imported)) => {
                values = with_imports;
                Coalesce { warnings, keeps_nulls: true, forgives: false }.tables(
                    &mut values,
                    &imported,
                    "",
                    true,
                );
            }
            _ => warnings
                .push("Warning: ImportValues import a table into itself; nothing is imported".to_owned()),
        }
    }
    chart.values = values;
    chart.metadata.dependencies = Some(entries);
    Ok(())
}

/// Imports the values of an entry. As in Helm, an imported table is shared with the values, not
/// copied: later imports into it change the values, too.
fn import_entry(entry: &mut Dependency, values: &Map, imported: &Map, warnings: &mut Vec<String>) {
    let Some(wishes) = entry.import_values.take() else { return };
    let mut done = Vec::new();
    for wish in wishes {
        let Some((child, parent, is_pair)) = pair(&wish) else { continue };
        done.push(serde_json::json!({"child": child, "parent": parent}));
        match shared_table(values, &format!("{}.{child}", entry.name)) {
            Ok(table) => merge_shared(imported, &nested(&parent, table), warnings, 0),
            Err(part) => {
                let of = if is_pair { format!(" from chart {}", entry.name) } else { String::new() };
                warnings.push(format!("Warning: ImportValues missing table{of}: {part:?} is not a table"));
            }
        }
    }
    entry.import_values = (!done.is_empty()).then_some(done);
}

/// Maximum levels of tables that are merged; deeper ones are left as they are.
const DEEPEST_TABLE: usize = 300;

fn merge_shared(above: &Map, below: &Map, warnings: &mut Vec<String>, depth: usize) {
    if above.is_same(below) || depth > DEEPEST_TABLE {
        return;
    }
    for (key, value) in below.entries() {
        match (above.get(&key), value) {
            (None, value) => above.insert(key, value),
            (Some(Template::Map(inner)), Template::Map(value)) => {
                merge_shared(&inner, &value, warnings, depth + 1);
            }
            (Some(_), Template::Map(_)) => {
                warnings
                    .push(format!("warning: cannot overwrite table with non table for {}", key.to_text()));
            }
            (Some(Template::Map(_)), value) if !value.is_nil() => {
                warnings.push(format!(
                    "warning: destination for {} is a table. Ignoring non-table value",
                    key.to_text()
                ));
            }
            _ => {}
        }
    }
}

/// Returns the table at a path, or the first part that is not a table.
fn shared_table(values: &Map, path: &str) -> Result<Map, String> {
    path.split('.').try_fold(values.clone(), |table, part| match table.get(part.as_bytes()) {
        Some(Template::Map(inner)) => Ok(inner),
        _ => Err(part.to_owned()),
    })
}

/// Returns the table, nested under a path.
fn nested(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.rsplit('.').fold(table, |inner, part| Map::from_iter([(part.into(), Template::Map(inner))]))
}

fn plain(map: &Map) -> Option<Table> {
    match Template::Map(map.clone()).to_json()? {
        Value::Object(table) => Some(table),
        _ => None,
    }
}

/// Returns the source and the target path of an import, and whether both were written.
fn pair(wish: &Value) -> Option<(String, String, bool)> {
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => "<nil>".to_owned(),
        Some(other) => other.to_string(),
    };
    match wish {
        Value::String(name) => Some((format!("exports.{name}"), ".".to_owned(), false)),
        Value::Object(members) => Some((text(members.get("child")), text(members.get("parent")), true)),
        _ => None,
    }
}
