//! Prints a plan as text.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use groundwork_fleet::Preview;
use groundwork_plan::{Change, Field, Plan, PlannedExport, PlannedInstallation, PlannedItem, Redirection};
use serde_json::Value;

use crate::rules;
use crate::terminal::shown;
use crate::variants;

const TITLE: Style = Style::new().bold();
const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const CHANGED: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// Describes the changes object by object, and how many there are.
pub(super) fn of(plan: &Plan, variants: Option<&Preview>) -> String {
    let mut text = of_installations(plan);
    if let Some(variants) = variants {
        if plan.is_empty() {
            text.clear();
        }
        text.push_str(&variants::plan::show(variants));
    }
    text
}

fn of_installations(plan: &Plan) -> String {
    if plan.is_empty() {
        return "no changes\n".to_owned();
    }
    let mut text = String::new();
    for problem in &plan.problems {
        line(&mut text, 0, &format!("{BAD}!{BAD:#} {}", shown(problem)));
    }
    for object in plan.applied.iter().filter(|object| object.change != Change::Unchanged) {
        let name = format!("{} {}/{}", object.kind, object.namespace, object.name);
        line(&mut text, 0, &format!("{} {}", mark(object.change), shown(&name)));
        fields(&mut text, 1, &object.fields);
    }
    for installation in &plan.installations {
        show(&mut text, 0, installation);
    }
    let _ = writeln!(text, "{}", plan.summary());
    text
}

fn show(text: &mut String, depth: usize, planned: &PlannedInstallation) {
    let title = format!("{}/{}", planned.namespace, planned.path.join("/"));
    let start = planned.start.map(|start| format!(": {start}")).unwrap_or_default();
    let mark = if depth == 0 { String::new() } else { format!("{} ", mark(planned.change)) };
    line(text, depth, &format!("{mark}{TITLE}Installation {}{TITLE:#}{start}", shown(&title)));
    let depth = depth + 1;
    for reason in &planned.reasons {
        line(text, depth, &format!("{FAINT}because{FAINT:#} {}", shown(&reason.to_string())));
    }
    planned.redirected.iter().for_each(|place| redirection(text, depth, place));
    // The applied object of a root has shown the changed fields already.
    if planned.start.is_none() {
        fields(text, depth, &planned.fields);
    }
    if let Some(error) = &planned.error {
        line(text, depth, &format!("{BAD}!{BAD:#} the job would fail: {}", shown(error)));
    }
    if let Some(reason) = &planned.waits_for {
        line(text, depth, &format!("? {}", shown(reason)));
    }
    planned.items.iter().for_each(|item| show_item(text, depth, item));
    planned.exports.iter().for_each(|export| show_export(text, depth, export));
    planned.nested.iter().for_each(|nested| show(text, depth, nested));
}

fn show_item(text: &mut String, depth: usize, item: &PlannedItem) {
    let name = item.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let title = format!("item {}{name}", item.template);
    let again = if item.change == Change::Unchanged { ": stays as it is" } else { "" };
    line(text, depth, &format!("{} {}{again}", mark(item.change), shown(&title)));
    fields(text, depth + 2, &item.fields);
}

fn show_export(text: &mut String, depth: usize, export: &PlannedExport) {
    let wakes = match &export.wakes[..] {
        [] => String::new(),
        names => format!(", imported by {}", names.join(", ")),
    };
    let title = format!("export {} ({} {}){wakes}", export.key, export.kind, export.name);
    line(text, depth, &format!("{} {}", mark(export.change), shown(&title)));
    fields(text, depth + 2, &export.fields);
    if let Some(reason) = &export.reason {
        line(text, depth + 2, &shown(reason));
    }
}

fn redirection(text: &mut String, depth: usize, Redirection { path, before, after }: &Redirection) {
    let place = if path.is_empty() { "component" } else { path };
    let what = match (before, after) {
        (Some(before), Some(after)) => format!("{} -> {}", rules::located(before), rules::located(after)),
        (None, Some(after)) => format!("new: {}", rules::located(after)),
        (Some(before), None) => format!("no longer used: {}", rules::located(before)),
        (None, None) => return,
    };
    line(text, depth, &format!("{}: {}", shown(place), shown(&what)));
}

fn mark(change: Change) -> String {
    let style = match change {
        Change::Created => ADDED,
        Change::Changed => CHANGED,
        Change::Deleted => REMOVED,
        Change::Unchanged | Change::Unknown => Style::new(),
    };
    format!("{style}{}{style:#}", change.mark())
}

fn fields(text: &mut String, depth: usize, fields: &[Field]) {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    for field in fields {
        let change = format!("{}: {} -> {}", field.path, value(&field.old), value(&field.new));
        line(text, depth, &shown(&change));
    }
}

fn line(text: &mut String, depth: usize, content: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{:indent$}{content}", "", indent = 2 * depth.min(40));
}
