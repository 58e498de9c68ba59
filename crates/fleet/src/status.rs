//! Conditions of sets and variants (`packagevariants.md` 2.10, 4.8).

use groundwork_api::{MetaCondition, Time};

/// Limit of the API for a message, in bytes.
const LONGEST_MESSAGE: usize = 32_768;

/// Result of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed<'a> {
    /// The object cannot continue before a user changes something. `ready` contains reason and
    /// message of `Ready`, if they differ.
    Stalled { reason: &'a str, message: &'a str, ready: Option<(&'a str, &'a str)> },
    /// The object is valid, but not done.
    NotReady { reason: &'a str, message: &'a str },
    /// The object is done.
    Ready { reason: &'a str, message: &'a str },
}

/// Returns the conditions for a result. Conditions of other types stay, and a transition time
/// changes only with its status.
pub fn conditions(
    before: &[MetaCondition],
    observed: &Observed<'_>,
    generation: Option<i64>,
    now: &Time,
) -> Vec<MetaCondition> {
    let valid = ("False", "Valid", "all validation checks passed");
    let (stalled, ready) = match observed {
        Observed::Stalled { reason, message, ready } => {
            let (ready_reason, ready_message) = ready.unwrap_or((reason, message));
            (("True", *reason, *message), ("False", ready_reason, ready_message))
        }
        Observed::NotReady { reason, message } => (valid, ("False", *reason, *message)),
        Observed::Ready { reason, message } => (valid, ("True", *reason, *message)),
    };
    let mut after = before.to_vec();
    for (type_, (status, reason, message)) in [("Stalled", stalled), ("Ready", ready)] {
        let old = after.iter_mut().find(|condition| condition.type_ == type_);
        let since =
            old.as_ref().filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
        let condition = MetaCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: cut(message),
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| now.clone()),
        };
        match old {
            Some(old) => *old = condition,
            None => after.push(condition),
        }
    }
    after
}

/// Cuts a long message at a character boundary and marks the cut.
fn cut(message: &str) -> String {
    const MARK: char = '…';
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE - MARK.len_utf8());
    format!("{}{MARK}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Time {
        serde_json::from_value(format!("2026-01-01T00:00:0{second}Z").into()).unwrap()
    }

    fn shown(conditions: &[MetaCondition]) -> Vec<String> {
        let line = |found: &MetaCondition| {
            format!("{}={} {}: {}", found.type_, found.status, found.reason, found.message)
        };
        conditions.iter().map(line).collect()
    }

    /// V-175, V-176: every result sets `Stalled` and `Ready` together, and a transition time
    /// changes only with its status.
    #[test]
    fn stalled_and_ready_belong_together() {
        let failed = Observed::Stalled { reason: "ValidationError", message: "a; b", ready: None };
        let first = conditions(&[], &failed, Some(1), &time(1));
        assert_eq!(
            shown(&first),
            ["Stalled=True ValidationError: a; b", "Ready=False ValidationError: a; b"]
        );
        let waits = Observed::NotReady { reason: "StoreUnavailable", message: "c" };
        let second = conditions(&first, &waits, Some(2), &time(2));
        assert_eq!(
            shown(&second),
            ["Stalled=False Valid: all validation checks passed", "Ready=False StoreUnavailable: c"]
        );
        assert_eq!((&second[0].last_transition_time, &second[1].last_transition_time), (&time(2), &time(1)));
        let done = Observed::Ready { reason: "Reconciled", message: "d" };
        let third = conditions(&second, &done, Some(2), &time(3));
        assert_eq!(shown(&third)[1], "Ready=True Reconciled: d");
        assert_eq!(conditions(&third, &done, Some(2), &time(4)), third);
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        for (message, expected) in [
            ("x".repeat(32_768), "x".repeat(32_768)),
            ("x".repeat(32_769), "x".repeat(32_765) + "…"),
            ("é".repeat(20_000), "é".repeat(16_382) + "…"),
        ] {
            let observed = Observed::NotReady { reason: "Error", message: &message };
            assert_eq!(conditions(&[], &observed, None, &time(1))[1].message, expected);
        }
    }
}
