//! Page of the journal entries about the jobs of an Installation.

use groundwork_api::{Installation, Kind as _};
use groundwork_bus::What;
use groundwork_proto::renderer::v1::JournalEntry;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::Page;
use super::list::{address, choice, input};
use super::parts::{installation_link, installation_path, moment, path};
use crate::console::PageError;
use crate::landscape::NamespacedName;

/// Default number of entries. `MOST_ENTRIES` is the maximum of the renderer's call.
const ENTRIES: i32 = 1_000;
const MOST_ENTRIES: i32 = 10_000;

/// Part of the journal that a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wish {
    /// Selects the job that ran at this time, or else the last one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Timestamp>,
    /// Shows all jobs, not only the last one.
    pub(crate) all: bool,
    pub(crate) limit: i32,
    /// Kind of entries to show, such as `decision`; empty for all.
    what: String,
}

/// Query of the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JournalQuery {
    at: String,
    jobs: String,
    limit: String,
    what: String,
}

impl Wish {
    /// Checks a query.
    ///
    /// # Errors
    ///
    /// A parameter is malformed, or `at` and `jobs=all` are both given.
    pub(crate) fn of(query: JournalQuery) -> Result<Self, PageError> {
        let refused = |text: &str| PageError::Refused(text.to_owned());
        let at = match query.at.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                refused("The parameter at must be a time with a zone, such as 2026-01-31T12:00:00Z.")
            })?),
        };
        let all = match query.jobs.as_str() {
            "" | "last" => false,
            "all" => true,
            _ => return Err(refused("The parameter jobs must be last or all.")),
        };
        if all && at.is_some() {
            return Err(refused("Ask for all jobs, or for the job at a time, but not for both."));
        }
        let limit = match query.limit.as_str() {
            "" => ENTRIES,
            text => {
                let limit = text.parse().ok().filter(|limit| (1..=MOST_ENTRIES).contains(limit));
                limit.ok_or_else(|| refused("The parameter limit must be a number from 1 to 10000."))?
            }
        };
        let what = query.what;
        if !what.is_empty() && What::ALL.iter().all(|known| known.as_str() != what) {
            return Err(refused("The parameter what must be a kind of entry, such as decision."));
        }
        Ok(Self { at, all, limit, what })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JournalPage {
    place: NamespacedName,
    #[serde(flatten)]
    wish: Wish,
    /// True if the limit cut entries off.
    is_truncated: bool,
    /// False for an Installation that is gone: the journal still has its entries.
    is_known: bool,
    /// Jobs, ordered by the time at which they began.
    jobs: Vec<JobView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobView {
    /// Empty for entries that belong to no job.
    #[serde(rename = "jobID")]
    job_id: String,
    began: Timestamp,
    /// Time of the first entry about the Installation itself. A link with this time leads to this
    /// job and to no other.
    at: Timestamp,
    entries: Vec<EntryView>,
}

/// An entry, with the member names that `groundwork replay` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryView {
    time: Timestamp,
    service: String,
    instance: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    installation: String,
    #[serde(rename = "jobID")]
    job_id: String,
    what: String,
    reason: String,
    text: String,
    seen_version: String,
    written_version: String,
    message: String,
}

impl EntryView {
    fn of(entry: JournalEntry) -> Self {
        let time = entry.time.unwrap_or_default();
        Self {
            time: Timestamp::new(time.seconds, time.nanos).unwrap_or_default(),
            service: entry.service,
            instance: entry.instance,
            kind: entry.kind,
            namespace: entry.namespace,
            name: entry.name,
            uid: entry.uid,
            installation: entry.installation,
            job_id: entry.job_id,
            what: entry.what,
            reason: entry.reason,
            text: entry.text,
            seen_version: entry.seen_version,
            written_version: entry.written_version,
            message: entry.message,
        }
    }

    /// Renders the object of the entry, with a link if the object has a page.
    fn object(&self) -> Markup {
        let place = NamespacedName::new(&self.namespace, &self.name);
        html! {
            span class="kind" { (self.kind) } " "
            @if self.kind == Installation::KIND { a href=(installation_path(&place)) { (self.name) } }
            @else { (self.name) }
        }
    }
}

impl JournalPage {
    /// Groups the entries of an answer by job.
    pub(crate) fn new(
        place: NamespacedName,
        wish: Wish,
        entries: Vec<JournalEntry>,
        is_truncated: bool,
        is_known: bool,
    ) -> Self {
        let mut jobs = by_job(entries.into_iter().map(EntryView::of), &place.name);
        for job in &mut jobs {
            job.entries.retain(|entry| wish.what.is_empty() || entry.what == wish.what);
        }
        jobs.retain(|job| !job.entries.is_empty());
        Self { place, wish, is_truncated, is_known, jobs }
    }

    /// Renders the reason why the page is empty.
    fn nothing(&self) -> Markup {
        let when = self.wish.at.map(|at| format!(" at or before {at}")).unwrap_or_default();
        html! {
            @if self.wish.what.is_empty() {
                p {
                    "The journal has no entry about a job of this Installation" (when) ": no job has run since the \
                                                                                        journal exists, or its "
                    "entries were removed by the limits of the journal (GROUNDWORK_JOURNAL_MAX_AGE and \
                     GROUNDWORK_JOURNAL_MAX_BYTES of the "
                    "watcher)."
                }
            } @else {
                p { "This part of the journal has no entry of the kind " (self.wish.what) "." }
            }
        }
    }
}

/// Groups entries by job, ordered by the time at which the jobs began. An entry without a job stays
/// with the entries before it.
fn by_job(entries: impl Iterator<Item = EntryView>, installation: &str) -> Vec<JobView> {
    let mut jobs: Vec<JobView> = Vec::new();
    let mut before = Vec::new();
    let new = |entries: Vec<EntryView>, job_id: &str| {
        let began = entries.first().map(|entry| entry.time).unwrap_or_default();
        JobView { job_id: job_id.to_owned(), began, at: began, entries }
    };
    for entry in entries {
        if entry.job_id.is_empty() {
            match jobs.last_mut() {
                Some(job) => job.entries.push(entry),
                None => before.push(entry),
            }
        } else if let Some(job) = jobs.iter_mut().find(|job| job.job_id == entry.job_id) {
            job.entries.push(entry);
        } else {
            let job_id = entry.job_id.clone();
            before.push(entry);
            jobs.push(new(std::mem::take(&mut before), &job_id));
        }
    }
    if !before.is_empty() {
        jobs.push(new(before, ""));
    }
    for job in &mut jobs {
        let mut own = job.entries.iter().filter(|entry| !entry.job_id.is_empty());
        let first = own.find(|entry| entry.installation == installation);
        job.at = first.map_or(job.began, |first| first.time);
    }
    jobs
}

impl Page for JournalPage {
    fn title(&self) -> String {
        format!("Journal of {}", self.place)
    }

    fn controls(&self) -> Markup {
        let jobs = if self.wish.all { "all" } else { "last" };
        let at = self.wish.at.map(|at| at.to_string()).unwrap_or_default();
        let mut words = vec![("", "anything")];
        words.extend(What::ALL.map(|what| (what.as_str(), what.as_str())));
        html! {
            form method="get" action=(path("journal", &self.place)) class="filter" {
                (choice("Jobs", "jobs", jobs, &[("last", "the last one"), ("all", "all")]))
                (input("Job at", "at", &at))
                (choice("Kind of entry", "what", &self.wish.what, &words))
                button type="submit" { "Show" }
                a href=(path("journal", &self.place)) { "Show the last job" }
            }
        }
    }

    fn content(&self, _: Timestamp) -> Markup {
        let own = path("journal", &self.place);
        html! {
            p {
                "Events, decisions and writes of the services for "
                @if self.is_known { (installation_link(&self.place)) } @else { (self.place) ", which does not exist or \
                                                                                             has not been received \
                                                                                             yet," }
                " and all objects below it, by the clock of each service. Reload the page to see new entries."
            }
            @if self.jobs.is_empty() { (self.nothing()) }
            @for job in &self.jobs { (self.job(job)) }
            @if self.is_truncated {
                p class="note" {
                    "The journal has more than these " (self.wish.limit) " entries. "
                    @if self.wish.limit < MOST_ENTRIES {
                        a href=(address(&own, &self.parameters(MOST_ENTRIES))) { "Show up to " (MOST_ENTRIES) }
                    }
                }
            }
        }
    }
}

impl JournalPage {
    /// Returns the query of this page with another limit.
    fn parameters(&self, limit: i32) -> Vec<(&'static str, String)> {
        vec![
            ("jobs", if self.wish.all { "all".to_owned() } else { String::new() }),
            ("at", self.wish.at.map(|at| at.to_string()).unwrap_or_default()),
            ("what", self.wish.what.clone()),
            ("limit", limit.to_string()),
        ]
    }

    fn job(&self, job: &JobView) -> Markup {
        let this = address(&path("journal", &self.place), &[("at", job.at.to_string())]);
        let name = if job.job_id.is_empty() { "No job".to_owned() } else { format!("Job {}", job.job_id) };
        html! {
            h2 { (name) }
            p {
                "From " (moment(job.began)) " UTC, " (job.entries.len()) " entries. "
                @if !job.job_id.is_empty() { a href=(this) { "Only this job" } }
            }
            div class="wide" tabindex="0" role="region" aria-label=(name) {
                table {
                    thead { tr {
                        th scope="col" { "Time" } th scope="col" { "Service" } th scope="col" { "Object" }
                        th scope="col" { "What" } th scope="col" { "Reason" } th scope="col" { "Text" }
                    } }
                    tbody {
                        @for entry in &job.entries {
                            tr {
                                td { time datetime=(entry.time) { (offset(entry.time, job.began)) } }
                                td { (entry.service) }
                                td { (entry.object()) }
                                td { (entry.what) }
                                td { (entry.reason) }
                                td { (entry.text) @if !entry.message.is_empty() { pre { (entry.message) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the time since the beginning of the job, in seconds.
fn offset(time: Timestamp, began: Timestamp) -> String {
    format!("{:+.3}s", time.duration_since(began).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pages::frame;
    use crate::request::parameters;

    fn entry(installation: &str, job: &str, second: i64, what: &str) -> JournalEntry {
        JournalEntry {
            time: Some(prost_types::Timestamp { seconds: second, nanos: 0 }),
            service: "renderer".to_owned(),
            kind: "Installation".to_owned(),
            namespace: "team".to_owned(),
            name: installation.to_owned(),
            installation: installation.to_owned(),
            job_id: job.to_owned(),
            what: what.to_owned(),
            text: format!("<b>{second}</b>"),
            ..JournalEntry::default()
        }
    }

    fn page(query: &str, entries: &[JournalEntry], is_truncated: bool) -> JournalPage {
        let wish = Wish::of(parameters(query).unwrap()).unwrap();
        JournalPage::new(NamespacedName::new("team", "shop"), wish, entries.to_vec(), is_truncated, true)
    }

    #[test]
    fn jobs_have_addresses_of_their_own() {
        let entries = [
            entry("shop", "", 9, "error"),
            entry("leaf", "1", 10, "event"),
            entry("shop", "1", 11, "write"),
            entry("shop", "2", 20, "write"),
            entry("shop", "1", 21, "write"),
            entry("shop", "", 22, "requeue"),
        ];
        let page = page("jobs=all", &entries, true);
        let of = |job: &JobView| (job.job_id.clone(), job.entries.len(), job.at.as_second());
        let jobs: Vec<_> = page.jobs.iter().map(of).collect();
        assert_eq!(jobs, [("1".to_owned(), 4, 11), ("2".to_owned(), 2, 20)]);
        let shown = page.content(Timestamp::UNIX_EPOCH).into_string();
        assert!(shown.contains("/journal/team/shop?at=1970-01-01T00%3A00%3A11Z"), "{shown}");
        assert!(shown.contains("+2.000s") && shown.contains("&lt;b&gt;11&lt;/b&gt;"), "{shown}");
        assert!(shown.contains("/journal/team/shop?jobs=all&amp;limit=10000"), "{shown}");
        assert!(shown.contains("href=\"/installations/team/leaf\""), "{shown}");
    }

    #[test]
    fn the_twin_names_members_as_the_command_does() {
        let page = page("", &[entry("shop", "1", 11, "write")], false);
        let twin: serde_json::Value = serde_json::from_str(&frame::json(&page, &[])).unwrap();
        let content = &twin["content"];
        assert_eq!((&content["place"], &content["isTruncated"]), (&json!("team/shop"), &json!(false)));
        let entry = content["jobs"][0]["entries"][0].as_object().unwrap();
        assert_eq!(entry.len(), 15);
        assert_eq!((&entry["jobID"], &entry["time"]), (&json!("1"), &json!("1970-01-01T00:00:11Z")));
    }

    #[test]
    fn nothing_is_told_in_words() {
        let shown = |query: &str, entries: &[JournalEntry]| {
            page(query, entries, false).content(Timestamp::UNIX_EPOCH).into_string()
        };
        let empty = shown("at=2026-01-31T12:00:00Z", &[]);
        assert!(
            empty.contains("has no entry about a job of this Installation at or before 2026-01-31T12:00:00Z"),
            "{empty}"
        );
        let filtered = shown("what=loss", &[entry("shop", "1", 11, "write")]);
        assert!(filtered.contains("has no entry of the kind loss"), "{filtered}");
        let gone = JournalPage { is_known: false, ..page("", &[], false) };
        let gone = gone.content(Timestamp::UNIX_EPOCH).into_string();
        assert!(gone.contains("which does not exist") && !gone.contains("href=\"/installations/team/shop\""));
    }

    #[test]
    fn what_is_asked_for_is_checked() {
        let wish = |query: &str| Wish::of(parameters(query).unwrap());
        let plain = Wish { at: None, all: false, limit: 1_000, what: String::new() };
        assert_eq!(wish(""), Ok(plain.clone()));
        assert_eq!(wish("jobs=last&at=&what="), Ok(plain.clone()), "as the form sends it");
        assert_eq!(
            wish("jobs=all&limit=5&what=loss"),
            Ok(Wish { all: true, limit: 5, what: "loss".into(), ..plain })
        );
        for wrong in [
            "at=yesterday",
            "at=2026-01-31T12:00:00Z&jobs=all",
            "jobs=some",
            "limit=0",
            "limit=10001",
            "what=x",
        ] {
            assert!(matches!(wish(wrong), Err(PageError::Refused(_))), "{wrong}");
        }
    }
}
