//! Describes the outcome of overwrite rules in words.

use anstyle::{AnsiColor, Style};
use groundwork_component::{Attribute, AttributeSet, Attributes, Reference, Rule, RuleOutcome};

use crate::terminal::shown;

const GOOD: Style = AnsiColor::Green.on_default();
const FAINT: Style = Style::new().dimmed();

/// Returns a line about the rule at this index. Lines count rules from 1.
pub(crate) fn describe(index: usize, rule: &Rule, outcome: &RuleOutcome) -> String {
    let (style, word, detail) = match outcome {
        RuleOutcome::Applied if rule.substitution.specified().is_empty() => {
            (FAINT, "matched", "no substitution".to_owned())
        }
        RuleOutcome::Applied => (GOOD, "applied", assignments(&rule.substitution)),
        RuleOutcome::Ignored(conflicts) => {
            let conflicts = conflicts.iter().map(|(attribute, by)| (attribute.field(), by + 1));
            (FAINT, "ignored", blocked(conflicts))
        }
        RuleOutcome::NotMatched(differing) => (FAINT, "no match", format!("{} differs", fields(*differing))),
        RuleOutcome::NotReached => (FAINT, "not reached", "all attributes have been set".to_owned()),
    };
    format!("rule {}: {style}{word}{style:#} ({})", index + 1, shown(&detail))
}

/// Returns the conflicts of a rule: fields with the numbers of the earlier rules that have set
/// them, counted from 1.
pub(crate) fn blocked<'a>(conflicts: impl Iterator<Item = (&'a str, usize)>) -> String {
    let causes: Vec<String> =
        conflicts.map(|(field, by)| format!("{field} has been set by rule {by}")).collect();
    format!("{}; a rule applies as a whole or not at all", causes.join(", "))
}

/// Returns a reference with the repository in which it is looked up.
pub(crate) fn located(reference: &Reference) -> String {
    match &reference.repository {
        Some(repository) => format!("{reference} from {repository}"),
        None => reference.to_string(),
    }
}

fn fields(attributes: AttributeSet) -> String {
    attributes.iter().map(Attribute::field).collect::<Vec<_>>().join(", ")
}

fn assignments(attributes: &Attributes) -> String {
    let parts = [
        attributes.repository.as_ref().map(|value| (Attribute::Repository, value.to_string())),
        attributes.name.as_ref().map(|value| (Attribute::Name, value.clone())),
        attributes.version.as_ref().map(|value| (Attribute::Version, value.clone())),
    ];
    let shown: Vec<String> = parts
        .into_iter()
        .flatten()
        .map(|(attribute, value)| format!("{} = {value}", attribute.field()))
        .collect();
    shown.join(", ")
}
