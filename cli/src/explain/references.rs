//! References with the overwrite rules that match them, as text and as JSON.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use groundwork_component::{GraphEntry, GraphState, Overwrites, Reference, RuleOutcome};
use serde_json::{Value, json};

use crate::rules;
use crate::terminal::shown;

const TITLE: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// Reference of a component closure.
#[derive(Debug)]
pub(super) struct Told {
    /// Number of references between the component of the Installation and this one.
    pub(super) depth: usize,
    /// Local name of the reference; empty for the component itself.
    pub(super) name: String,
    pub(super) original: Reference,
    pub(super) effective: Reference,
    /// Rules whose source matches.
    pub(super) rules: Vec<ToldRule>,
    pub(super) state: GraphState,
}

/// Overwrite rule whose source matches.
#[derive(Debug)]
pub(super) struct ToldRule {
    /// Number of the rule in its list, from 1.
    pub(super) number: usize,
    /// Fields that earlier rules have set, each with the number of that rule; empty if this rule
    /// applies.
    pub(super) conflicts: Vec<(String, usize)>,
    /// Line of the text output.
    pub(super) text: String,
}

impl Told {
    pub(super) fn new(entry: GraphEntry, overwrites: &Overwrites) -> Self {
        let matching = entry.outcomes.iter().zip(overwrites.rules()).enumerate();
        let matching = matching.filter_map(|(index, (outcome, rule))| {
            let conflicts = match outcome {
                RuleOutcome::Applied => Vec::new(),
                RuleOutcome::Ignored(conflicts) => {
                    conflicts.iter().map(|(attribute, by)| (attribute.field().to_owned(), by + 1)).collect()
                }
                RuleOutcome::NotMatched(_) | RuleOutcome::NotReached => return None,
            };
            Some(ToldRule { number: index + 1, conflicts, text: rules::describe(index, rule, outcome) })
        });
        Self {
            depth: entry.depth,
            rules: matching.collect(),
            name: entry.name,
            original: entry.substitution.original,
            effective: entry.substitution.effective,
            state: entry.state,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, GraphState::Failed(_) | GraphState::Limit(_))
    }
}

/// Prints the component of an Installation and everything that it refers to, below a title.
pub(super) fn text(title: &str, references: &[Told]) -> String {
    let mut text = format!("{TITLE}{}{TITLE:#}\n", shown(title));
    if references.is_empty() {
        text.push_str("\n  names no component\n");
    }
    for told in references {
        let indent = 2 + 2 * told.depth.min(100);
        if told.depth == 0 {
            let effective = rules::located(&told.effective);
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "\n  component {}{}", shown(&effective), ending(&told.state));
        } else {
            let (name, effective) = (shown(&told.name), rules::located(&told.effective));
            let _ = writeln!(text, "{:indent$}{name}: {}{}", "", shown(&effective), ending(&told.state));
        }
        if told.original != told.effective {
            let original = rules::located(&told.original);
            let _ = writeln!(text, "{:indent$}  {FAINT}written: {}{FAINT:#}", "", shown(&original));
        }
        for rule in &told.rules {
            let _ = writeln!(text, "{:indent$}  {}", "", rule.text);
        }
    }
    text
}

fn ending(state: &GraphState) -> String {
    match state {
        GraphState::Followed => String::new(),
        GraphState::Repeated => format!(" {FAINT}(as above){FAINT:#}"),
        GraphState::Failed(cause) => format!(" {BAD}failed{BAD:#}: {}", shown(cause)),
        GraphState::Limit(limit) => {
            format!(" {BAD}ends here{BAD:#}: the closure exceeds {}", shown(limit))
        }
    }
}

/// Returns the references as JSON.
pub(super) fn json(references: &[Told]) -> Value {
    references.iter().map(one).collect()
}

fn one(told: &Told) -> Value {
    let (state, message) = match &told.state {
        GraphState::Followed => ("followed", ""),
        GraphState::Repeated => ("repeated", ""),
        GraphState::Failed(cause) => ("failed", cause.as_str()),
        GraphState::Limit(limit) => ("limit", limit.as_str()),
    };
    let rules: Vec<Value> = told.rules.iter().map(rule).collect();
    let mut value = json!({
        "depth": told.depth, "original": reference(&told.original), "effective": reference(&told.effective),
        "state": state, "rules": rules,
    });
    for (member, text) in [("name", told.name.as_str()), ("message", message)] {
        if !text.is_empty() {
            value[member] = text.into();
        }
    }
    value
}

fn rule(told: &ToldRule) -> Value {
    let outcome = if told.conflicts.is_empty() { "applied" } else { "ignored" };
    let conflicts: Vec<Value> = told
        .conflicts
        .iter()
        .map(|(attribute, rule)| json!({"attribute": attribute, "rule": rule}))
        .collect();
    json!({"rule": told.number, "outcome": outcome, "conflicts": conflicts})
}

pub(super) fn reference(reference: &Reference) -> Value {
    let context = reference.repository.as_ref().map(|context| context.as_value().clone());
    json!({
        "repositoryContext": context, "componentName": reference.name, "version": reference.version,
    })
}
