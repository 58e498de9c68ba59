//! Page that plans a change: a form for objects, and the plan that the services made for them.

mod sets;

use groundwork_plan::{
    Change, Field, ObjectChange, Plan, PlannedExport, PlannedInstallation, PlannedItem, Redirection,
};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::Page;
use super::parts::installation_path;
use crate::landscape::NamespacedName;
use crate::planning::{ADDRESS, Planned};

/// Number of objects, and of roots, that are shown. `groundwork plan` prints all.
const MOST_SHOWN: usize = 300;
/// Number of differences shown for one object.
const MOST_FIELDS: usize = 40;

/// The form and the result of its last submission.
#[derive(Debug, Serialize)]
pub(crate) struct PlanPage {
    /// Namespace for objects that name none.
    pub(crate) namespace: String,
    /// Reason why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    #[serde(flatten)]
    pub(crate) planned: Planned,
    /// Text that the visitor typed.
    #[serde(skip)]
    pub(crate) text: String,
    /// Key that proves that the form was made for this visitor.
    #[serde(skip)]
    pub(crate) key: String,
}

impl Page for PlanPage {
    fn title(&self) -> String {
        "Plan".to_owned()
    }

    fn controls(&self) -> Markup {
        html! {
            p {
                "Shows the effect of applying these objects: Installations, Contexts, ComponentVersionOverwrites, \
                 DataObjects, Targets, Secrets, ConfigMaps, PackageVariantSets. No object is applied, and values that \
                 may come from Secrets are hidden."
            }
            form method="post" action=(ADDRESS) class="stacked typed" {
                input type="hidden" name="key" value=(self.key);
                label for="namespace" { "Namespace of objects without one" }
                input id="namespace" name="namespace" value=(self.namespace) autocomplete="off";
                label for="objects" { "Objects, as YAML or JSON" }
                // The HTML parser drops the first line break in a text area, so one is added.
                textarea id="objects" name="objects" rows="16" required spellcheck="false" { "\n" (self.text) }
                button type="submit" { "Plan" }
            }
        }
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! {
            @if let Some(problem) = &self.problem { p class="problem" role="alert" { (problem) } }
            @let Planned { plan, variants } = &self.planned;
            @if plan.is_some() || variants.is_some() { h2 { "Result" } }
            @if let Some(plan) = plan { (result(plan)) }
            @if let Some(variants) = variants { (sets::result(variants)) }
        }
    }
}

fn result(plan: &Plan) -> Markup {
    let applied: Vec<&ObjectChange> =
        plan.applied.iter().filter(|object| object.change != Change::Unchanged).collect();
    html! {
        @if plan.is_empty() { p { "No changes." } }
        @else { p { (plan.summary()) } }
        @for problem in &plan.problems { p class="problem" { (problem) } }
        @if !applied.is_empty() {
            h3 { "Objects that are applied" }
            ul class="tree" { @for object in applied.iter().take(MOST_SHOWN) { li { (of_object(object)) } } }
            (more(applied.len()))
        }
        @if !plan.installations.is_empty() {
            h3 { "Jobs, in the order in which they run" }
            ul class="tree" {
                @for planned in plan.installations.iter().take(MOST_SHOWN) { li { (of_installation(planned, true)) } }
            }
            (more(plan.installations.len()))
        }
    }
}

fn more(all: usize) -> Markup {
    let left_out = all.saturating_sub(MOST_SHOWN);
    html! { @if left_out > 0 { p { (left_out) " more are not shown; " code { "groundwork plan" } " prints all." } } }
}

fn of_object(object: &ObjectChange) -> Markup {
    html! {
        (badge(object.change)) " " (object.kind) " " (object.namespace) "/" (object.name)
        (fields(&object.fields))
    }
}

fn of_installation(planned: &PlannedInstallation, is_root: bool) -> Markup {
    let path = planned.path.join("/");
    // An Installation that the plan creates does not have a page yet.
    let place = (planned.name.as_ref())
        .filter(|_| planned.change != Change::Created)
        .map(|name| NamespacedName::new(&planned.namespace, name));
    html! {
        @if !is_root { (badge(planned.change)) " " }
        "Installation "
        @match place {
            Some(place) => a href=(installation_path(&place)) { (planned.namespace) "/" (path) },
            None => strong { (planned.namespace) "/" (path) },
        }
        @if let Some(start) = planned.start { ": " (start) }
        @for reason in &planned.reasons { p class="note" { "because " (reason) } }
        @for place in &planned.redirected { (redirection(place)) }
        // The list of applied objects already shows the fields of a root.
        @if !is_root { (fields(&planned.fields)) }
        @if let Some(error) = &planned.error {
            div class="error" { strong { "The job would fail" } pre { (error) } }
        }
        @if let Some(reason) = &planned.waits_for { p class="note" { (badge(Change::Unknown)) " " (reason) } }
        @if !(planned.items.is_empty() && planned.exports.is_empty() && planned.nested.is_empty()) {
            ul {
                @for item in &planned.items { li { (of_item(item)) } }
                @for export in &planned.exports { li { (of_export(export)) } }
                @for nested in &planned.nested { li { (of_installation(nested, false)) } }
            }
        }
    }
}

fn of_item(item: &PlannedItem) -> Markup {
    html! {
        (badge(item.change)) " item " (item.template)
        @if let Some(name) = &item.name { " " span class="note" { (name) } }
        @if item.change == Change::Unchanged { " " span class="note" { "deployed again without changes" } }
        (fields(&item.fields))
    }
}

fn of_export(export: &PlannedExport) -> Markup {
    html! {
        (badge(export.change)) " export " (export.key) " " span class="note" { (export.kind) " " (export.name) }
        @if !export.wakes.is_empty() { ", imported by " (export.wakes.join(", ")) }
        @if let Some(reason) = &export.reason { p class="note" { (reason) } }
        (fields(&export.fields))
    }
}

fn redirection(Redirection { path, before, after }: &Redirection) -> Markup {
    let place = if path.is_empty() { "component" } else { path };
    html! {
        @match (before, after) {
            (Some(before), Some(after)) => p { (place) ": " (before) " becomes " strong { (after) } },
            (None, Some(after)) => p { (place) ": new: " strong { (after) } },
            (Some(before), None) => p { (place) ": " (before) " is no longer used" },
            (None, None) => {},
        }
    }
}

fn badge(change: Change) -> Markup {
    let class = match change {
        Change::Created => "badge succeeded",
        Change::Changed => "badge running",
        Change::Deleted => "badge failed",
        Change::Unchanged | Change::Unknown => "badge new",
    };
    html! { span class=(class) { (change.as_str()) } }
}

fn fields(fields: &[Field]) -> Markup {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    html! {
        @if !fields.is_empty() {
            dl class="facts" {
                @for field in fields.iter().take(MOST_FIELDS) {
                    dt { (field.path) }
                    dd { del { (value(&field.old)) } " " ins { (value(&field.new)) } }
                }
            }
            @if fields.len() > MOST_FIELDS { p class="note" { (fields.len() - MOST_FIELDS) " more differences" } }
        }
    }
}
