//! Report of a rendering as text.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use groundwork_api::DeployItem;
use groundwork_component::OverwriteCondition;
use groundwork_lifecycle::{JobOutcome, OverwriteReport};
use groundwork_yaml as yaml;
use serde_json::Value;

use crate::rendering::{Published, Rendering};
use crate::rules;
use crate::terminal::shown;

const TITLE: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// Shows an Installation and all those nested in it: component reference, deploy items, exports,
/// failure.
///
/// With `explain`, the names given on the command line, the report names the source of everything,
/// too.
pub(super) fn show(rendering: &Rendering, explain: Option<&[String]>) -> String {
    let show = |rendering| show_one(rendering, explain);
    rendering.all().into_iter().map(show).collect::<Vec<_>>().join("\n")
}

fn show_one(rendering: &Rendering, explain: Option<&[String]>) -> String {
    let mut text = format!("{TITLE}{}{TITLE:#}\n", shown(&rendering.title()));
    let JobOutcome { overwrites, deploy_items, children, .. } = &rendering.outcome;
    if let Some(report) = overwrites {
        show_overwrites(&mut text, report);
    }
    if let Some(reason) = &rendering.waits_for {
        let _ = writeln!(text, "\n  {FAINT}not rendered{FAINT:#}: {}", shown(reason));
        return text;
    }
    for item in deploy_items {
        show_item(&mut text, item);
    }
    let error = rendering.error();
    if deploy_items.is_empty() && children.is_empty() && error.is_none() {
        text.push_str("\n  no deploy items\n");
    }
    if !children.is_empty() {
        let names: Vec<&str> = children.iter().map(|child| child.template.as_str()).collect();
        let _ = writeln!(text, "\n  nested installations: {}", shown(&names.join(", ")));
    }
    show_exports(&mut text, &rendering.published);
    if let Some(set) = explain {
        text.push_str(&super::explain::explain(rendering, set));
    }
    if let Some(error) = error {
        let cause = &error.cause;
        let _ = writeln!(text, "\n  {BAD}failed{BAD:#} {}/{}", cause.operation, cause.reason);
        // The dump of the templates' input is long; `-o yaml` and `-o json` have it.
        let message = cause.message.split("\ntemplate input:\n").next().unwrap_or_default();
        push_indented(&mut text, message, 4);
    }
    text
}

/// Shows the objects that an Installation exports into its scope.
fn show_exports(text: &mut String, published: &Published) {
    match published {
        Published::Nothing | Published::Failed(_) => {}
        Published::Unknown(reason) => {
            let _ = writeln!(text, "\n  Exports {FAINT}not known{FAINT:#}: {}", shown(reason));
        }
        Published::Objects { exports, .. } => {
            text.push_str("\n  Exports\n");
            let data = exports.data.iter().map(|(name, value)| (name, "DataObject", value.clone()));
            let targets = exports
                .targets
                .iter()
                .map(|(name, target)| (name, "Target", Value::from(target.type_name.as_str())));
            for (name, kind, value) in data.chain(targets) {
                let value = yaml::to_string(&value);
                if value.lines().count() == 1 {
                    let _ = writeln!(text, "    {kind} {}: {}", shown(name), shown(value.trim_end()));
                } else {
                    let _ = writeln!(text, "    {kind} {}:", shown(name));
                    push_indented(text, &value, 6);
                }
            }
        }
    }
}

fn show_overwrites(text: &mut String, report: &OverwriteReport) {
    text.push_str("\n  Overwrites\n");
    if report.outcomes.is_empty() {
        text.push_str("    no rules\n");
    }
    for (index, (rule, outcome)) in report.rules.rules().iter().zip(&report.outcomes).enumerate() {
        let _ = writeln!(text, "    {}", rules::describe(index, rule, outcome));
    }
    let substitution = &report.substitution;
    let _ = writeln!(text, "    written:   {}", shown(&rules::located(&substitution.original)));
    let _ = writeln!(text, "    effective: {}", shown(&rules::located(&substitution.effective)));
    let condition = OverwriteCondition::from(substitution);
    let status = if condition.status { "True" } else { "False" };
    let _ =
        writeln!(text, "    condition ComponentReferenceOverwrite {status}, reason {:?}:", condition.reason);
    push_indented(text, &condition.message, 6);
}

fn show_item(text: &mut String, item: &DeployItem) {
    let name = shown(item.metadata.name.as_deref().unwrap_or_default());
    let type_name = shown(&item.spec.type_);
    let _ = writeln!(text, "\n  {TITLE}DeployItem {name}{TITLE:#} {FAINT}{type_name}{FAINT:#}");
    if let Some(target) = &item.spec.target {
        let target = format!("{}/{}", target.namespace.as_deref().unwrap_or_default(), target.name);
        let _ = writeln!(text, "    target: {}", shown(&target));
    }
    if let Some(config) = item.spec.config.get() {
        push_indented(text, &yaml::to_string(config), 4);
    }
}

fn push_indented(text: &mut String, block: &str, indent: usize) {
    for line in block.lines() {
        let _ = writeln!(text, "{:indent$}{}", "", shown(line));
    }
}
