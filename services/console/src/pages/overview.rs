//! Overview of the cluster: the number of objects in each state, the failures, and the waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_lifecycle::machine::Phase;
use groundwork_lifecycle::waits::{Look, SIBLING_LOOK};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::installations::filtered;
use super::latency::{Pace, ReactionTimes, is_recent};
use super::parts::{JobView, installation_link, package_badge};
use crate::landscape::{Content, NamespacedName, PackageState, State};
use crate::rights::Visible;

/// Rows of each table, worst first. The lists behind the links show all rows.
const ROWS: usize = 20;

#[derive(Debug, Serialize)]
pub(crate) struct GlancePage {
    installations: Counts,
    /// Namespaces, most failures first.
    namespaces: Vec<NamespaceRow>,
    #[serde(rename = "moreNamespaces")]
    more_namespaces: usize,
    failing: Vec<FailingRow>,
    #[serde(rename = "moreFailing")]
    more_failing: usize,
    waiting: Vec<WaitingRow>,
    #[serde(rename = "moreWaiting")]
    more_waiting: usize,
    variants: BTreeMap<PackageState, usize>,
    sets: BTreeMap<PackageState, usize>,
    /// Statistics of the jobs that ended lately; absent if none has.
    pace: Option<Pace>,
    reactions: ReactionTimes,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Counts {
    failed: usize,
    running: usize,
    new: usize,
    succeeded: usize,
}

impl Counts {
    fn add(&mut self, state: State) {
        *self.of_mut(state) += 1;
    }

    fn of_mut(&mut self, state: State) -> &mut usize {
        match state {
            State::Failed => &mut self.failed,
            State::Running => &mut self.running,
            State::New => &mut self.new,
            State::Succeeded => &mut self.succeeded,
        }
    }

    fn of(mut self, state: State) -> usize {
        *self.of_mut(state)
    }
}

#[derive(Debug, Serialize)]
struct NamespaceRow {
    namespace: String,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Debug, Serialize)]
struct FailingRow {
    place: NamespacedName,
    #[serde(flatten)]
    job: JobView,
}

#[derive(Debug, Serialize)]
struct WaitingRow {
    place: NamespacedName,
    #[serde(flatten)]
    job: JobView,
    #[serde(rename = "waitsFor")]
    waits_for: Vec<NamespacedName>,
    /// Next check of the awaited Installations; absent once the job has passed the phase in which
    /// it waits for them.
    #[serde(flatten)]
    next_look: Option<Look>,
}

impl GlancePage {
    pub(crate) fn new(
        content: &Content,
        installations: &Visible,
        packages: &Visible,
        now: Timestamp,
    ) -> Self {
        let mut all = Counts::default();
        let mut namespaces: BTreeMap<Arc<str>, Counts> = BTreeMap::new();
        let (mut failing, mut waiting) = (Vec::new(), Vec::new());
        let (mut more_failing, mut more_waiting) = (0, 0);
        let mut ended = Vec::new();
        let seen = content.installations.iter().filter(|(place, _)| installations.contains(&place.namespace));
        for (place, row) in seen {
            all.add(row.job.state);
            if row.parent.is_none()
                && row.job.ended.is_some_and(|ended| is_recent(ended, now))
                && let Some(elapsed) = row.job.elapsed(now)
            {
                ended.push((elapsed, place, row.job.state == State::Failed));
            }
            namespaces.entry(Arc::clone(&place.namespace)).or_default().add(row.job.state);
            match row.job.state {
                // A parent fails because of its children, and only the error of a child helps.
                State::Failed
                    if !content.children(place).iter().any(|(_, child)| child.job.state == State::Failed) =>
                {
                    failing.push((place, row));
                }
                State::Running => {
                    let is_behind = |place: &NamespacedName| {
                        let found = content.installations.get(place);
                        found.is_some_and(|row| row.job.state != State::Succeeded)
                    };
                    let mut waits_for = content.predecessors(place);
                    waits_for.retain(is_behind);
                    if waits_for.is_empty() {
                    } else if waiting.len() < ROWS {
                        let job = JobView::of(&row.job, now);
                        let waits = row.job.phase == Phase::Init;
                        let next_look = waits.then_some(Look::Within(SIBLING_LOOK));
                        waiting.push(WaitingRow { place: place.clone(), job, waits_for, next_look });
                    } else {
                        more_waiting += 1;
                    }
                }
                _ => {}
            }
        }
        // Users look for the latest failure first.
        failing.sort_by_key(|(_, row)| std::cmp::Reverse(row.job.ended));
        if failing.len() > ROWS {
            more_failing = failing.len() - ROWS;
            failing.truncate(ROWS);
        }
        let failing = failing
            .into_iter()
            .map(|(place, row)| FailingRow { place: place.clone(), job: JobView::of(&row.job, now) })
            .collect();
        let mut namespaces: Vec<NamespaceRow> = namespaces
            .into_iter()
            .map(|(namespace, counts)| NamespaceRow { namespace: namespace.to_string(), counts })
            .collect();
        namespaces.sort_by_key(|row| std::cmp::Reverse((row.counts.failed, row.counts.running)));
        let more_namespaces = namespaces.len().saturating_sub(ROWS);
        namespaces.truncate(ROWS);
        let mut page = Self {
            installations: all,
            namespaces,
            more_namespaces,
            failing,
            more_failing,
            waiting,
            more_waiting,
            variants: BTreeMap::new(),
            sets: BTreeMap::new(),
            pace: Pace::of(ended),
            reactions: ReactionTimes::of(content, installations, now),
        };
        for (_, row) in content.variants.iter().filter(|(place, _)| packages.contains(&place.namespace)) {
            *page.variants.entry(row.state).or_default() += 1;
        }
        for (_, row) in content.sets.iter().filter(|(place, _)| packages.contains(&place.namespace)) {
            *page.sets.entry(row.state).or_default() += 1;
        }
        page
    }
}

fn more(count: usize, path: &str) -> Markup {
    html! { @if count > 0 { p { a href=(path) { "and " (count) " more" } } } }
}

impl Page for GlancePage {
    fn title(&self) -> String {
        "Overview".to_owned()
    }

    fn topic(&self) -> Option<String> {
        Some("overview".to_owned())
    }

    fn content(&self, now: Timestamp) -> Markup {
        html! {
            h2 { "Installations" }
            ul class="counts" {
                @for state in State::ALL {
                    li {
                        a href=(filtered("", state.as_str())) {
                            span class={ "count " (state.as_str()) } { (self.installations.of(state)) }
                            " " (state.as_str())
                        }
                    }
                }
            }
            @if let Some(pace) = &self.pace { (pace.markup()) }
            (self.reactions.markup())
            @if !self.failing.is_empty() {
                h2 { "Failed jobs" }
                ul class="rows" {
                    @for row in &self.failing {
                        li { (installation_link(&row.place)) " " (row.job.badge()) " " span class="note" { (row.job.elapsed()) } }
                    }
                }
                (more(self.more_failing, "/installations?state=failed&nested=yes"))
            }
            @if !self.waiting.is_empty() {
                h2 { "Waiting Installations" }
                ul class="rows" {
                    @for row in &self.waiting {
                        li {
                            (installation_link(&row.place)) " waits for "
                            @for (index, place) in row.waits_for.iter().enumerate() {
                                @if index > 0 { ", " }
                                (installation_link(place))
                            }
                            @if let Some(look) = row.next_look { " " span class="note" { "(" (look.words(now)) ")" } }
                        }
                    }
                }
                (more(self.more_waiting, "/installations?state=running&nested=yes"))
            }
            @if !self.namespaces.is_empty() {
                h2 { "Namespaces" }
                div class="wide" tabindex="0" role="region" aria-label="Namespaces" {
                    table {
                        thead { tr {
                            th scope="col" { "Namespace" }
                            @for state in State::ALL { th scope="col" { (state.as_str()) } }
                        } }
                        tbody {
                            @for row in &self.namespaces {
                                tr {
                                    th scope="row" { a href=(filtered(&row.namespace, "")) { (row.namespace) } }
                                    @for state in State::ALL {
                                        td {
                                            @let count = row.counts.of(state);
                                            @if count > 0 {
                                                a href=(filtered(&row.namespace, state.as_str())) { (count) }
                                            } @else { "0" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                (more(self.more_namespaces, "/installations"))
            }
            @if !self.sets.is_empty() || !self.variants.is_empty() {
                h2 { "Packages" }
                ul class="rows" {
                    @for (name, counts) in [("Sets", &self.sets), ("Variants", &self.variants)] {
                        li {
                            a href="/sets" { (name) } ": "
                            @for state in PackageState::ALL {
                                @if let Some(count) = counts.get(&state) { (count) " " (package_badge(state)) " " }
                            }
                        }
                    }
                }
            }
        }
    }
}
