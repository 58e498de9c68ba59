//! Messages that pass the cause of a failure up from object to object (`installations.md` 2.2,
//! 2.3), so that the status of the root is enough to diagnose a job.

use std::fmt::{self, Display, Formatter};

use groundwork_api::{DeployItem, Execution, Installation, ResourceExt as _};

use crate::message::excerpt;
use crate::reason::Reason;

/// Start of an Execution's message after items have failed.
pub(super) const FAILED_ITEMS: &str = "has failed or missing deploy items";
/// Start of an Execution's message after the deletion of items has failed.
pub(super) const UNDELETED_ITEMS: &str = "has failed items";

/// Largest number of names in one list, to keep messages short. The objects themselves show the
/// rest.
const MOST_NAMES: usize = 10;

/// Failed or missing item that makes its Execution fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedItem<'a> {
    /// Name of the template.
    pub(super) template: &'a str,
    /// Item of the template; absent if it does not exist.
    pub(super) item: Option<&'a DeployItem>,
}

impl<'a> FailedItem<'a> {
    fn cause(&self) -> Option<&'a str> {
        let error = self.item?.status.as_ref()?.last_error.as_ref()?;
        Some(error.message.as_str()).filter(|message| !message.is_empty())
    }
}

impl Display for FailedItem<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "{} ({})", self.template, item.name_any()),
            None => f.write_str(self.template),
        }
    }
}

/// Returns `head`, then one item with its cause, then the names of the other items.
pub(super) fn of_items(head: &str, failed: &[FailedItem<'_>]) -> String {
    let with_cause = failed.iter().position(|failed| failed.cause().is_some());
    let first = with_cause.unwrap_or_default();
    let Some(told) = failed.get(first) else { return head.to_owned() };
    let mut text = match (told.item, told.cause()) {
        (None, _) => format!("{head}: item {told} is missing"),
        (Some(_), None) => format!("{head}: item {told} failed"),
        (Some(_), Some(cause)) => format!("{head}: item {told} failed: {}", excerpt(cause)),
    };
    let others = failed.iter().enumerate().filter(|(at, _)| *at != first);
    let others: Vec<String> = others.map(|(_, failed)| failed.to_string()).collect();
    if !others.is_empty() {
        text.push_str(&format!("; failed or missing, too: {}", names(&others)));
    }
    text
}

/// Returns the message of an Execution without its fixed start.
pub(super) fn of_execution(execution: &Execution) -> Option<String> {
    let message = execution.status.as_ref()?.last_error.as_ref()?.message.as_str();
    let heads = [FAILED_ITEMS, UNDELETED_ITEMS];
    let detail = heads.iter().find_map(|head| message.strip_prefix(head)?.strip_prefix(": "));
    let detail = detail.unwrap_or(message);
    (!detail.is_empty()).then(|| excerpt(detail).into_owned())
}

/// Returns the message of a nested Installation.
pub(super) fn of_child(child: &Installation) -> Option<String> {
    let message = child.status.as_ref()?.last_error.as_ref()?.message.as_str();
    (!message.is_empty()).then(|| excerpt(message).into_owned())
}

/// Returns the names of failed nested Installations and the cause of one of them.
///
/// An Installation that failed on its own comes before those that failed because a predecessor did.
pub(super) fn of_children(children: &[(String, Option<&Installation>)]) -> String {
    let cause = |child: Option<&Installation>| {
        let error = child?.status.as_ref()?.last_error.as_ref()?;
        Some((error.reason == Reason::AllPredecessorsSucceeded.as_str(), of_child(child?)?))
    };
    let mut sorted: Vec<_> = children.iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    let causes = sorted.iter().filter_map(|(name, child)| Some((name, cause(*child)?)));
    // `min_by_key` returns the first of several equal entries.
    let told = causes.min_by_key(|(_, (is_consequence, _))| *is_consequence);
    let all: Vec<String> = sorted.iter().map(|(name, _)| name.clone()).collect();
    match told {
        Some((name, (_, cause))) => format!("{}; {name}: {cause}", names(&all)),
        None => names(&all),
    }
}

fn names(all: &[String]) -> String {
    let shown = all[..all.len().min(MOST_NAMES)].join(", ");
    match all.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(name: &str, message: &str) -> DeployItem {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"type": "t"},
            "status": {"observedGeneration": 1, "lastError": {"operation": "o", "reason": "r", "message": message}},
        }))
        .unwrap()
    }

    fn child(reason: &str, message: &str) -> Installation {
        serde_json::from_value(json!({
            "metadata": {"name": "c"}, "spec": {},
            "status": {"observedGeneration": 1, "lastError": {"operation": "o", "reason": reason, "message": message}},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_item_with_a_cause_is_told_and_all_are_named() {
        let (silent, loud) = (item("i-a", ""), item("i-b", "it fell"));
        let failed = |template, item| FailedItem { template, item };
        let all = [failed("gone", None), failed("a", Some(&silent)), failed("b", Some(&loud))];
        assert_eq!(
            of_items("head", &all),
            "head: item b (i-b) failed: it fell; failed or missing, too: gone, a (i-a)"
        );
        assert_eq!(of_items("head", &all[..1]), "head: item gone is missing");
        assert_eq!(of_items("head", &all[1..2]), "head: item a (i-a) failed");
        assert_eq!(of_items("head", &[]), "head");
        let many: Vec<_> = (0..13).map(|_| failed("b", Some(&loud))).collect();
        let text = of_items("head", &many);
        assert!(text.ends_with("b (i-b) and 2 more"), "{text}");
        let long = item("i-l", &"x".repeat(100_000));
        let text = of_items("head", &[failed("l", Some(&long)), all[0]]);
        assert!(text.len() < 4_000 && text.ends_with("failed or missing, too: gone"), "{}", text.len());
    }

    #[test]
    fn a_child_that_has_failed_by_itself_is_told_before_those_that_waited_for_it() {
        let waited = child("AllPredecessorsSucceeded", "b did not succeed");
        let failed = child("children failed", "Execution is failed: item x (y) failed: z");
        let (a, b) = (("a".to_owned(), Some(&waited)), ("b".to_owned(), Some(&failed)));
        let gone = ("0".to_owned(), None);
        assert_eq!(
            of_children(&[b, a.clone(), gone.clone()]),
            "0, a, b; b: Execution is failed: item x (y) failed: z"
        );
        assert_eq!(of_children(&[a]), "a; a: b did not succeed");
        assert_eq!(of_children(&[gone]), "0");
    }
}
