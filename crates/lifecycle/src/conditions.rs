//! Conditions of Installations and items (`components.md` 3, `installations.md` 1.0, 7.9 and 9).

use std::borrow::Cow;

use groundwork_api::{Condition, List, Time};
use serde::{Deserialize, Serialize};

use crate::message::bounded;

/// Condition without its times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionUpdate {
    pub type_name: Cow<'static, str>,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    /// Generation of the object that the condition describes, for conditions that tools wait for.
    pub observed_generation: Option<i64>,
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl ConditionUpdate {
    /// Creates a condition about the last or current job.
    pub fn new(
        type_name: &'static str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_name: type_name.into(),
            status: status.into(),
            reason: reason.to_owned(),
            message: message.into(),
            observed_generation: None,
        }
    }
}

/// Puts a condition into a list. An existing condition of its type is replaced in place, a new one
/// is appended.
///
/// `lastTransitionTime` changes when the status changes, `lastUpdateTime` when any field changes.
pub fn merge_condition(conditions: &mut List<Condition>, update: &ConditionUpdate, now: &Time) {
    let fresh = Condition {
        type_: update.type_name.clone().into_owned(),
        status: update.status.as_str().to_owned(),
        last_transition_time: Some(now.clone()),
        last_update_time: Some(now.clone()),
        reason: update.reason.clone(),
        message: bounded(&update.message).into_owned(),
        observed_generation: update.observed_generation,
        ..Condition::default()
    };
    match conditions.iter_mut().find(|condition| condition.type_ == update.type_name) {
        None => conditions.push(fresh),
        Some(old) => {
            let same_status = old.status == fresh.status;
            let unchanged = same_status
                && old.reason == fresh.reason
                && old.message == fresh.message
                && old.observed_generation == fresh.observed_generation
                && old.codes.is_empty();
            let transition = if same_status { old.last_transition_time.clone() } else { Some(now.clone()) };
            let update = if unchanged { old.last_update_time.clone() } else { Some(now.clone()) };
            *old = Condition { last_transition_time: transition, last_update_time: update, ..fresh };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Time {
        serde_json::from_value(format!("2026-01-01T00:00:0{second}Z").into()).unwrap()
    }

    fn update(status: bool, message: &str) -> ConditionUpdate {
        ConditionUpdate::new("Ready", status, "r", message)
    }

    /// Case O-41: a second job with the same outcome keeps both times.
    #[test]
    fn times_move_as_the_chapter_says() {
        let mut conditions = List::absent();
        let mut step = |status: bool, message: &str, second: i64| {
            merge_condition(&mut conditions, &update(status, message), &time(second));
            let condition = &conditions[0];
            (condition.last_transition_time.clone(), condition.last_update_time.clone())
        };
        let at = |transition, update| (Some(time(transition)), Some(time(update)));
        assert_eq!(step(true, "a", 1), at(1, 1));
        assert_eq!(step(true, "a", 2), at(1, 1));
        assert_eq!(step(true, "b", 3), at(1, 3));
        assert_eq!(step(false, "b", 4), at(4, 4));
        assert_eq!(conditions.len(), 1);
    }
}
