//! Jobs that begin automatically, without a user's request (`installations.md` 3.5).
//!
//! Each decision depends on the Installation object alone, so it survives a restart of the service.

use groundwork_api::{AutomaticReconcileStatus, Installation, Time};
use jiff::{SignedDuration, Timestamp};

use crate::phase::Phase;
use crate::protocol::HasJob as _;
use groundwork_go::cron::Cron;

const SUCCEEDED_INTERVAL: SignedDuration = SignedDuration::from_hours(24);
const FAILED_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Lower bound for an interval: a shorter interval, or zero, would be a loop without a pause.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// Schedule of the automatic runs after one outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule<'a> {
    /// Absent if the spec does not set an interval.
    pub interval: Option<&'a groundwork_api::Duration>,
    /// Cron expression, empty if the spec does not set one. An expression takes precedence over the
    /// interval.
    pub cron: &'a str,
    /// Highest number of automatic runs; `None` for no limit.
    pub limit: Option<i64>,
}

/// Fields of an Installation that decide about automatic runs.
#[derive(Debug, Clone, Copy)]
pub struct AutomaticInput<'a> {
    pub generation: i64,
    pub observed_generation: i64,
    pub phase: Phase,
    pub after_success: Option<Rule<'a>>,
    pub after_failure: Option<Rule<'a>>,
    /// Generation, number of runs, time of the last run, and whether the runs follow a failure.
    pub status: Option<(i64, i64, Timestamp, bool)>,
}

/// Next step of the automatic runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Automatic {
    /// No automatic run is scheduled. An automatic status that exists belongs to an earlier
    /// schedule.
    Nothing,
    /// The clock starts: the caller writes this status.
    Begin(AutomaticReconcileStatus),
    /// A job is due. It begins with this status.
    Run(AutomaticReconcileStatus),
    /// Time of the next run.
    At(Timestamp),
}

impl<'a> AutomaticInput<'a> {
    pub fn of(installation: &'a Installation) -> Self {
        let status = installation.status.as_ref();
        let automatic = installation.spec.automatic_reconcile.as_ref();
        let after_success = automatic.and_then(|automatic| automatic.succeeded_reconcile.as_ref());
        let after_failure = automatic.and_then(|automatic| automatic.failed_reconcile.as_ref());
        let counted = status.and_then(|status| status.automatic_reconcile_status.as_ref());
        Self {
            generation: installation.metadata.generation.unwrap_or_default(),
            observed_generation: status.map_or(0, |status| status.observed_generation),
            phase: installation.phase(),
            after_success: after_success.map(|rule| Rule {
                interval: rule.interval.as_ref(),
                cron: rule.cron_spec.as_deref().unwrap_or_default(),
                limit: None,
            }),
            after_failure: after_failure.map(|rule| Rule {
                interval: rule.interval.as_ref(),
                cron: rule.cron_spec.as_deref().unwrap_or_default(),
                limit: rule.number_of_reconciles.map(i64::from),
            }),
            status: counted.map(|counted| {
                (
                    counted.generation.unwrap_or_default(),
                    counted.number_of_reconciles.unwrap_or_default().into(),
                    counted.last_reconcile_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
                    counted.on_failed == Some(true),
                )
            }),
        }
    }
}

/// Returns the next automatic step of an Installation whose job has finished. A job that a user
/// requests takes precedence.
pub fn automatic(input: &AutomaticInput<'_>, now: Timestamp) -> Automatic {
    let (rule, default, on_failed) = match input.phase {
        Phase::Succeeded => (input.after_success, SUCCEEDED_INTERVAL, false),
        Phase::Failed | Phase::DeleteFailed => (input.after_failure, FAILED_INTERVAL, true),
        Phase::None
        | Phase::Init
        | Phase::ObjectsCreated
        | Phase::Progressing
        | Phase::Completing
        | Phase::InitDelete
        | Phase::TriggerDelete
        | Phase::Deleting
        | Phase::Unknown => return Automatic::Nothing,
    };
    // A changed spec stops the automatic jobs until a user requests a job for it.
    let Some(rule) =
        rule.filter(|rule| rule.limit != Some(0) && input.observed_generation == input.generation)
    else {
        return Automatic::Nothing;
    };
    let status = |runs: i64| AutomaticReconcileStatus {
        generation: Some(input.generation),
        number_of_reconciles: Some(i32::try_from(runs).unwrap_or(i32::MAX)),
        last_reconcile_time: Some(Time(now)),
        on_failed: Some(on_failed),
        ..AutomaticReconcileStatus::default()
    };
    let counted = input
        .status
        .filter(|(generation, _, _, failed)| *generation == input.generation && *failed == on_failed);
    let Some((_, runs, last, _)) = counted else {
        // The first run after a failure starts at once, unless a cron expression sets the times.
        let at_once = on_failed && rule.cron.is_empty();
        return if at_once { Automatic::Run(status(1)) } else { Automatic::Begin(status(0)) };
    };
    if rule.limit.is_some_and(|limit| runs >= limit) {
        return Automatic::Nothing;
    }
    match due(rule, default, last) {
        None => Automatic::Nothing,
        Some(due) if now >= due => Automatic::Run(status(runs + 1)),
        Some(due) => Automatic::At(due),
    }
}

/// Returns the time of the next run. Validation of the Installation has already rejected invalid
/// cron expressions.
fn due(rule: Rule<'_>, default: SignedDuration, last: Timestamp) -> Option<Timestamp> {
    if !rule.cron.is_empty() {
        return rule.cron.parse::<Cron>().ok()?.next_after(last);
    }
    let interval = match rule.interval {
        None => default,
        Some(interval) => {
            interval.to_std().and_then(|interval| SignedDuration::try_from(interval).ok()).unwrap_or_default()
        }
    };
    last.checked_add(interval.max(SHORTEST_INTERVAL)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-01T{text}Z").parse().unwrap()
    }

    fn rule<'a>(
        interval: Option<&'a groundwork_api::Duration>,
        cron: &'a str,
        limit: Option<i64>,
    ) -> Rule<'a> {
        Rule { interval, cron, limit }
    }

    fn failed(rule: Rule<'_>) -> AutomaticInput<'_> {
        AutomaticInput {
            generation: 2,
            observed_generation: 2,
            phase: Phase::Failed,
            after_success: None,
            after_failure: Some(rule),
            status: None,
        }
    }

    fn runs(answer: &Automatic) -> Option<i32> {
        match answer {
            Automatic::Run(status) => status.number_of_reconciles,
            Automatic::Nothing | Automatic::Begin(_) | Automatic::At(_) => None,
        }
    }

    /// Cases I-118, I-124, I-126, I-129: the first run after a failure starts at once. Later runs
    /// follow at intervals, up to the limit.
    #[test]
    fn after_failures() {
        let interval: groundwork_api::Duration = "10m".parse().unwrap();
        let input = failed(rule(Some(&interval), "", Some(2)));
        assert_eq!(runs(&automatic(&input, at("10:00:00"))), Some(1));
        let counted =
            |runs, on_failed| AutomaticInput { status: Some((2, runs, at("10:00:00"), on_failed)), ..input };
        assert_eq!(automatic(&counted(1, true), at("10:09:59")), Automatic::At(at("10:10:00")));
        assert_eq!(runs(&automatic(&counted(1, true), at("10:10:00"))), Some(2));
        assert_eq!(automatic(&counted(2, true), at("12:00:00")), Automatic::Nothing);
        assert_eq!(runs(&automatic(&counted(2, false), at("12:00:00"))), Some(1), "a success was in between");
        let other = AutomaticInput { status: Some((1, 2, at("10:00:00"), true)), ..input };
        assert_eq!(runs(&automatic(&other, at("12:00:00"))), Some(1), "of another generation");
        assert_eq!(automatic(&failed(rule(None, "", Some(0))), at("10:00:00")), Automatic::Nothing);
    }

    /// Cases I-119, I-125, I-127: a cron expression sets all times, including the first.
    #[test]
    fn expressions_name_the_times() {
        let input = failed(rule(None, "0 12 * * *", None));
        let Automatic::Begin(status) = automatic(&input, at("10:00:00")) else { panic!() };
        assert_eq!((status.number_of_reconciles, status.on_failed), (Some(0), Some(true)));
        let counted = AutomaticInput { status: Some((2, 0, at("10:00:00"), true)), ..input };
        assert_eq!(automatic(&counted, at("11:59:59")), Automatic::At(at("12:00:00")));
        assert_eq!(runs(&automatic(&counted, at("12:00:00"))), Some(1));
    }

    /// Cases I-120, I-130: after a success the clock starts first. The default interval is a day,
    /// the shortest a second.
    #[test]
    fn after_success() {
        let none = groundwork_api::Duration::NONE;
        for (interval, next) in [(None, "2026-01-02T10:00:00Z"), (Some(&none), "2026-01-01T10:00:01Z")] {
            let input = AutomaticInput {
                phase: Phase::Succeeded,
                after_success: Some(rule(interval, "", None)),
                ..failed(rule(None, "", None))
            };
            assert!(matches!(automatic(&input, at("10:00:00")), Automatic::Begin(_)));
            let counted = AutomaticInput { status: Some((2, 0, at("10:00:00"), false)), ..input };
            assert_eq!(automatic(&counted, at("10:00:00")), Automatic::At(next.parse().unwrap()));
        }
    }

    /// An Installation that never ran, that is running, or whose changed spec has no job yet gets
    /// no automatic run.
    #[test]
    fn what_is_left_alone() {
        let input = failed(rule(None, "", None));
        for phase in [Phase::None, Phase::Init, Phase::Progressing, Phase::Deleting, Phase::Succeeded] {
            assert_eq!(automatic(&AutomaticInput { phase, ..input }, at("10:00:00")), Automatic::Nothing);
        }
        let changed = AutomaticInput { generation: 3, ..input };
        assert_eq!(automatic(&changed, at("10:00:00")), Automatic::Nothing);
        let deleted = AutomaticInput { phase: Phase::DeleteFailed, ..input };
        assert_eq!(runs(&automatic(&deleted, at("10:00:00"))), Some(1));
    }
}
