//! Pace of the services: the jobs that ended lately, and the time until requests and jobs are taken
//! up.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde::{Serialize, Serializer};

use super::parts::{elapsed, installation_link};
use crate::landscape::{Content, NamespacedName, Taker};
use crate::rights::Visible;

/// Length in minutes of the time before now that the page shows.
const PACE_MINUTES: i64 = 10;

/// Reports whether a time lies within the last `PACE_MINUTES`.
pub(super) fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= SignedDuration::from_mins(PACE_MINUTES)
}

/// Statistics of the jobs that ended lately.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Pace {
    /// Number of jobs of root Installations. Jobs of nested Installations are part of them.
    jobs: usize,
    failed: usize,
    /// Median duration in seconds.
    median: i64,
    /// Longest duration in seconds.
    longest: i64,
    slowest: NamespacedName,
}

impl Pace {
    /// Computes the statistics of jobs, each given as its duration, its place, and whether it
    /// failed.
    pub(super) fn of(mut jobs: Vec<(SignedDuration, &NamespacedName, bool)>) -> Option<Self> {
        jobs.sort();
        let (median, ..) = *jobs.get(jobs.len().checked_sub(1)? / 2)?;
        let (longest, slowest, _) = *jobs.last()?;
        Some(Self {
            jobs: jobs.len(),
            failed: jobs.iter().filter(|(.., has_failed)| *has_failed).count(),
            median: median.as_secs(),
            longest: longest.as_secs(),
            slowest: slowest.clone(),
        })
    }

    pub(super) fn markup(&self) -> Markup {
        let Self { jobs, failed, median, longest, slowest } = self;
        let jobs = if *jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
        html! {
            p class="note" {
                "In the last " (PACE_MINUTES) " minutes " (jobs) " ended, " (failed) " of them failed; the median took "
                (median) " s, the longest " (longest) " s: " (installation_link(slowest)) "."
            }
        }
    }
}

/// Times until the services took up requests and jobs: one row for each service or deployer type
/// that took something up lately, or has something waiting.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct ReactionTimes(Vec<ReactionTime>);

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReactionTime {
    #[serde(flatten)]
    taker: TakerView,
    /// Number of requests or jobs taken up lately.
    taken: usize,
    /// Median time until they were taken up.
    #[serde(rename = "medianSeconds", serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    median: Option<SignedDuration>,
    #[serde(rename = "longestSeconds", serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    longest: Option<SignedDuration>,
    /// Number of requests or jobs not yet taken up.
    waiting: usize,
    /// Age of the oldest request or job that waits.
    #[serde(rename = "oldestSeconds", serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    oldest: Option<SignedDuration>,
}

/// The service that takes up, in the JSON form.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct TakerView {
    service: &'static str,
    /// Deployer type, for jobs of items.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_: Option<String>,
}

fn seconds<S: Serializer>(time: &Option<SignedDuration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

impl TakerView {
    fn of(taker: &Taker) -> Self {
        match taker {
            Taker::Renderer => Self { service: "renderer", type_: None },
            Taker::Deployer(type_) => Self { service: "deployer", type_: Some(type_.to_string()) },
        }
    }

    fn markup(&self) -> Markup {
        html! {
            @match &self.type_ {
                None => "requests to Installations"
                Some(type_) => { "jobs of items of type " code { (type_) } }
            }
        }
    }
}

impl ReactionTimes {
    /// Counts only namespaces whose Installations the visitor may see.
    pub(super) fn of(content: &Content, installations: &Visible, now: Timestamp) -> Self {
        let mut taken: BTreeMap<Taker, Vec<SignedDuration>> = BTreeMap::new();
        let recent = content.reactions.iter().filter(|one| is_recent(one.at, now));
        for one in recent.filter(|one| installations.contains(&one.namespace)) {
            taken.entry(one.taker.clone()).or_default().push(one.elapsed);
        }
        let mut waiting: BTreeMap<Taker, Vec<Timestamp>> = BTreeMap::new();
        let requests = content.installations.iter().map(|(place, row)| (place, row.waits_since, None));
        let items = content.items.iter().map(|(place, row)| (place, row.waits_since, Some(&row.type_)));
        for (place, since, type_) in requests.chain(items) {
            if let Some(since) = since.filter(|_| installations.contains(&place.namespace)) {
                let taker = type_.map_or(Taker::Renderer, |type_| Taker::Deployer(type_.clone()));
                waiting.entry(taker).or_default().push(since);
            }
        }
        let takers: std::collections::BTreeSet<&Taker> = taken.keys().chain(waiting.keys()).collect();
        let rows = takers.into_iter().map(|taker| {
            let mut elapsed = taken.get(taker).cloned().unwrap_or_default();
            elapsed.sort();
            let since = waiting.get(taker).map(Vec::as_slice).unwrap_or_default();
            ReactionTime {
                taker: TakerView::of(taker),
                taken: elapsed.len(),
                median: elapsed.get(elapsed.len().saturating_sub(1) / 2).copied(),
                longest: elapsed.last().copied(),
                waiting: since.len(),
                oldest: since.iter().min().map(|since| now.duration_since(*since).max(SignedDuration::ZERO)),
            }
        });
        Self(rows.collect())
    }

    pub(super) fn markup(&self) -> Markup {
        let time = |time: Option<SignedDuration>| time.map(elapsed).unwrap_or_default();
        html! {
            @if !self.0.is_empty() {
                h2 { "Reaction times of the services" }
                div class="wide" tabindex="0" role="region" aria-label="Reaction of the services" {
                    table {
                        thead { tr {
                            th scope="col" { "What" }
                            th scope="col" { "Handled in " (PACE_MINUTES) " minutes" }
                            th scope="col" { "Median" }
                            th scope="col" { "Longest" }
                            th scope="col" { "Waits" }
                            th scope="col" { "For up to" }
                        } }
                        tbody {
                            @for row in &self.0 {
                                tr {
                                    th scope="row" { (row.taker.markup()) }
                                    td { (row.taken) }
                                    td { (time(row.median)) }
                                    td { (time(row.longest)) }
                                    td { (row.waiting) }
                                    td { (time(row.oldest)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::{DeployItem, Installation};
    use groundwork_bus::{Feed, Record};
    use serde_json::json;

    use super::*;
    use crate::landscape::tests::{landscape, shown};

    #[test]
    fn the_pace_of_the_services() {
        let [fast, slow] = ["fast", "slow"].map(|name| NamespacedName::new("team", name));
        let seconds = SignedDuration::from_secs;
        assert_eq!(Pace::of(Vec::new()), None);
        let one = Pace::of(vec![(seconds(3), &fast, false)]).unwrap();
        assert_eq!((one.jobs, one.failed, one.median, one.longest), (1, 0, 3, 3));
        let many = vec![(seconds(9), &slow, true), (seconds(1), &fast, false), (seconds(2), &fast, false)];
        let many = Pace::of(many).unwrap();
        assert_eq!((many.jobs, many.failed, many.median, many.longest), (3, 1, 2, 9));
        let shown = many.markup().into_string();
        assert!(shown.contains("3 jobs ended, 1 of them failed") && shown.contains("/slow"), "{shown}");
    }

    /// A request or job counts when an event shows that it was taken up. Until then it waits.
    #[test]
    fn the_reaction_of_the_services() {
        let request =
            json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}}});
        let item = |picked_up: Option<&str>| {
            let mut status = json!({"jobID": "j", "jobIDGenerationTime": "2026-01-01T00:00:00Z"});
            if let Some(time) = picked_up {
                status["lastReconcileTime"] = json!(time);
            }
            shown::<DeployItem>("item", &json!({"spec": {"type": "example.org/vm"}, "status": status}))
        };
        let second = |mut feed: Feed, second: i64| {
            if let Feed::Record { record: Record::Object(event), .. } = &mut feed {
                event.time = Timestamp::from_second(second).unwrap();
            }
            feed
        };
        let now = Timestamp::from_second(1_000).unwrap();
        let (landscape, filler) = landscape(&[
            second(shown::<Installation>("web", &request), 900),
            second(shown::<Installation>("web", &json!({})), 902),
            second(shown::<Installation>("db", &request), 990),
            second(item(None), 300),
        ]);
        let rows = |visible: &Visible| ReactionTimes::of(&landscape.read(), visible, now);
        let row = |taker, taken: usize, longest, waiting: usize, oldest| ReactionTime {
            taker: TakerView::of(&taker),
            taken,
            median: longest,
            longest,
            waiting,
            oldest,
        };
        let of_seconds = |seconds| Some(SignedDuration::from_secs(seconds));
        let vm = || Taker::Deployer("example.org/vm".into());
        let requests = || row(Taker::Renderer, 1, of_seconds(2), 1, of_seconds(10));
        assert_eq!(
            rows(&Visible::Everywhere).0,
            [requests(), row(vm(), 0, None, 1, of_seconds(700))],
            "nobody serves that type"
        );
        assert_eq!(rows(&Visible::In(["elsewhere".into()].into())), ReactionTimes::default());
        filler.take(&second(item(Some("2026-01-01T00:00:01Z")), 350));
        assert_eq!(rows(&Visible::Everywhere).0, [requests()], "that was long ago");
        let shown = rows(&Visible::Everywhere);
        let json = serde_json::to_value(&shown).unwrap();
        assert_eq!(
            json,
            json!([{"service": "renderer", "taken": 1, "medianSeconds": 2.0, "longestSeconds": 2.0, "waiting": 1, "oldestSeconds": 10.0}])
        );
        let text = shown.markup().into_string();
        assert!(text.contains("requests to Installations") && text.contains("<td>10s</td>"), "{text}");
    }
}
