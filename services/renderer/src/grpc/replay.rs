//! gRPC call `Replay`: the journal of an Installation and of all objects below it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{self, Stream};
use groundwork_api::{DeployItem, Execution, Installation, Kind as _};
use groundwork_bus::{Bus, BusError, Entry, JournalPart, ObjectId, What};
use groundwork_controller::{ApiError, Objects, Stored};
use groundwork_lifecycle::machine::HasJob;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::{JournalEntry, ReplayRequest, ReplayResponse};
use groundwork_proto::status::{self, reasons};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tonic::Status;

use super::unavailable;
use crate::calls::invalid;
use crate::handler::installation_key;
use crate::narration::HasLastError;

/// Calls that are answered at the same time, because each has the entries of its jobs in memory.
/// Other calls wait.
const AT_ONCE: usize = 4;
/// Limit for the entries that are read for one answer, including entries of other parts of the job.
const MOST_READ: usize = 50_000;
/// Limit for the jobs in the search.
const MOST_JOBS: usize = 10_000;
/// Limit for the jobs in an answer about all jobs.
const MOST_SHOWN_JOBS: usize = 50;
const DEFAULT_LIMIT: usize = 1000;
const MOST_ENTRIES: usize = 10_000;
/// Number of entries in a message.
const PIECE: usize = 200;
/// Limit for the objects whose statuses are read for their messages.
const MOST_STATUSES: usize = 50;
/// Time before and after a job in which entries without a job are shown with it.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Stream of entries in pieces.
pub(super) type Entries = Pin<Box<dyn Stream<Item = Result<ReplayResponse, Status>> + Send>>;

/// State that all calls share.
#[derive(Debug, Clone)]
pub(crate) struct Replays {
    bus: Bus,
    turns: Arc<Semaphore>,
}

/// Request of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    jobs: Jobs,
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jobs {
    Last,
    At(Timestamp),
    All,
}

impl Wish {
    pub(super) fn of(request: &ReplayRequest) -> Result<Self, Status> {
        let jobs = match (&request.at, request.all) {
            (Some(_), true) => return Err(invalid("all", "it must not be given together with a time")),
            (Some(at), false) => {
                let at = Timestamp::new(at.seconds, at.nanos);
                Jobs::At(at.map_err(|_| invalid("at", "it must be a time"))?)
            }
            (None, true) => Jobs::All,
            (None, false) => Jobs::Last,
        };
        let limit = match usize::try_from(request.limit) {
            Ok(0) => DEFAULT_LIMIT,
            Ok(limit) if limit <= MOST_ENTRIES => limit,
            _ => {
                return Err(invalid(
                    "limit",
                    &format!("it must be at most {MOST_ENTRIES}, and not negative"),
                ));
            }
        };
        Ok(Self { jobs, limit })
    }
}

impl Replays {
    pub(crate) fn new(bus: Bus) -> Self {
        Self { bus, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Reads the journal and the messages in statuses. The caller has been authorised.
    pub(super) async fn answer(
        &self,
        installation: &ObjectName,
        wish: Wish,
        objects: &Objects,
    ) -> Result<Entries, Status> {
        // The semaphore is never closed, so this error cannot occur.
        let _turn = self.turns.acquire().await.map_err(|_| no_bus("the service is shutting down"))?;
        let key = installation_key(&installation.namespace, &installation.name);
        let mut entries = self.read(&key, wish.jobs).await.map_err(|error| no_bus(&error.to_string()))?;
        let is_truncated = entries.len() > wish.limit;
        entries.truncate(wish.limit);
        let messages = messages(&entries, objects).await.map_err(unavailable)?;
        let entries: Vec<_> = entries.into_iter().map(|entry| wire(entry, &messages)).collect();
        let pieces: Vec<_> = entries.chunks(PIECE).map(<[JournalEntry]>::to_vec).collect();
        let last = pieces.len().saturating_sub(1);
        let answers = pieces.into_iter().enumerate().map(move |(number, entries)| {
            Ok(ReplayResponse { entries, truncated: is_truncated && number == last })
        });
        Ok(Box::pin(stream::iter(answers)))
    }

    /// Returns the entries of the requested jobs, in order of time.
    async fn read(&self, key: &ObjectId, jobs: Jobs) -> Result<Vec<Entry>, BusError> {
        let mut known = self.bus.read_journal(&JournalPart::LastOfEachJob(key.clone()), MOST_JOBS).await?;
        known.retain(|entry| !entry.job.is_empty());
        known.sort_by_key(|entry| entry.time);
        let ids = |entries: &[Entry]| entries.iter().map(|entry| entry.job.clone()).collect::<Vec<_>>();
        match jobs {
            Jobs::All => {
                let first = known.len().saturating_sub(MOST_SHOWN_JOBS);
                self.read_jobs(key, ids(known.get(first..).unwrap_or_default())).await
            }
            Jobs::Last => {
                self.read_jobs(key, ids(known.get(known.len().saturating_sub(1)..).unwrap_or_default())).await
            }
            Jobs::At(at) => {
                // Jobs of an Installation do not overlap: take the first job that ended after this
                // time, unless it began after it.
                let position = known.partition_point(|entry| entry.time < at);
                let candidates = [Some(position), position.checked_sub(1)].into_iter().flatten();
                for candidate in candidates {
                    let Some(entry) = known.get(candidate) else { continue };
                    let entries = self.read_jobs(key, vec![entry.job.clone()]).await?;
                    let began = entries.iter().find(|entry| entry.key == *key && !entry.job.is_empty());
                    if began.is_some_and(|began| began.time <= at) {
                        return Ok(entries);
                    }
                }
                Ok(Vec::new())
            }
        }
    }

    async fn read_jobs(&self, key: &ObjectId, jobs: Vec<String>) -> Result<Vec<Entry>, BusError> {
        let part = JournalPart::Jobs { key: key.clone(), jobs };
        let mut entries = self.bus.read_journal(&part, MOST_READ).await?;
        retain_below(&mut entries, key);
        // The sort is stable: entries with the same time keep the order of the journal.
        entries.sort_by_key(|entry| entry.time);
        retain_around_jobs(&mut entries);
        Ok(entries)
    }
}

fn no_bus(why: &str) -> Status {
    status::unavailable(reasons::BUS_UNAVAILABLE, format!("the journal cannot be read: {why}"))
}

fn is_installation(key: &ObjectId) -> bool {
    key.kind.plural() == Installation::PLURAL
}

/// Returns the Installation whose reconcile wrote an entry.
fn installation_of(entry: &Entry) -> &str {
    if is_installation(&entry.key) { &entry.key.name } else { &entry.parent }
}

/// Keeps the entries about an Installation or an object below it, and the entries about lost
/// entries.
fn retain_below(entries: &mut Vec<Entry>, key: &ObjectId) {
    let parents: BTreeMap<&str, &str> = entries
        .iter()
        .filter(|entry| is_installation(&entry.key))
        .map(|entry| (entry.key.name.as_str(), entry.parent.as_str()))
        .collect();
    let is_below = |name: &str| {
        let mut name = name;
        // The bound ends the walk if entries name parents in a circle.
        for _ in 0..=parents.len() {
            if name == key.name {
                return true;
            }
            let Some(parent) = parents.get(name) else { return false };
            name = parent;
        }
        false
    };
    let names: BTreeSet<String> =
        entries.iter().map(installation_of).filter(|name| is_below(name)).map(str::to_owned).collect();
    entries.retain(|entry| entry.what == What::Loss || names.contains(installation_of(entry)));
}

/// Drops the entries without a job that are not close in time to one of the jobs.
fn retain_around_jobs(entries: &mut Vec<Entry>) {
    let mut of_jobs = entries.iter().filter(|entry| !entry.job.is_empty());
    let Some(first) = of_jobs.next().map(|entry| entry.time) else {
        // Without any job, only errors are useful, such as a missing right. Entries about losses
        // are dropped.
        entries.retain(|entry| entry.what != What::Loss);
        return;
    };
    let last = of_jobs.next_back().map_or(first, |entry| entry.time);
    let (from, to) = (first.saturating_sub(MARGIN), last.saturating_add(MARGIN));
    let (from, to) = (from.unwrap_or(first), to.unwrap_or(last));
    entries.retain(|entry| !entry.job.is_empty() || (from..=to).contains(&entry.time));
}

/// Messages of statuses, by kind and name, each with its job and reason.
type Messages = BTreeMap<(String, String), (String, String, String)>;

/// Reads the messages of statuses that still have the job and the reason of an entry. The journal
/// has no messages, since they may quote values.
async fn messages(entries: &[Entry], objects: &Objects) -> Result<Messages, ApiError> {
    let mut wanted = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.what == What::Write) {
        let namespace = entry.key.namespace.clone().unwrap_or_default();
        wanted.insert((entry.about.kind.clone(), namespace, entry.about.name.clone()));
    }
    let mut messages = Messages::new();
    for (kind, namespace, name) in wanted.into_iter().rev() {
        if messages.len() >= MOST_STATUSES {
            break;
        }
        let said = match kind.as_str() {
            Installation::KIND => said::<Installation>(&namespace, &name, objects).await?,
            Execution::KIND => said::<Execution>(&namespace, &name, objects).await?,
            DeployItem::KIND => said::<DeployItem>(&namespace, &name, objects).await?,
            _ => None,
        };
        messages.extend(said.map(|said| ((kind, name), said)));
    }
    Ok(messages)
}

/// Returns the job, the reason and the message of an object's last error.
async fn said<K: Stored + HasJob + HasLastError>(
    namespace: &str,
    name: &str,
    objects: &Objects,
) -> Result<Option<(String, String, String)>, ApiError> {
    let Some(object) = objects.get::<K>(namespace, name).await? else { return Ok(None) };
    let job = object.job().id.to_owned();
    Ok(object.last_error().map(|error| (job, error.reason.clone(), error.message.clone())))
}

fn wire(entry: Entry, messages: &Messages) -> JournalEntry {
    let installation = installation_of(&entry).to_owned();
    let said = messages.get(&(entry.about.kind.clone(), entry.about.name.clone()));
    let said = said
        .filter(|(job, reason, _)| entry.what == What::Write && *job == entry.job && *reason == entry.reason);
    JournalEntry {
        time: Some(prost_types::Timestamp {
            seconds: entry.time.as_second(),
            nanos: entry.time.subsec_nanosecond(),
        }),
        service: entry.service,
        instance: entry.instance,
        kind: entry.about.kind,
        namespace: entry.key.namespace.unwrap_or_default(),
        name: entry.about.name,
        uid: entry.about.uid,
        installation,
        job_id: entry.job,
        what: entry.what.as_str().to_owned(),
        reason: entry.reason,
        text: entry.text,
        seen_version: entry.seen,
        written_version: entry.written,
        message: said.map(|(_, _, message)| message.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::About;

    use super::*;

    fn entry(name: &str, parent: &str, job: &str, second: i64) -> Entry {
        Entry {
            time: Timestamp::from_second(second).unwrap(),
            service: "renderer".to_owned(),
            instance: "i".to_owned(),
            key: installation_key("n", name),
            parent: parent.to_owned(),
            job: job.to_owned(),
            what: What::Write,
            about: About::default(),
            reason: String::new(),
            text: format!("{name} {second}"),
            seen: String::new(),
            written: String::new(),
        }
    }

    async fn texts(bus: &Bus, name: &str, jobs: Jobs) -> Vec<String> {
        let entries = Replays::new(bus.clone()).read(&installation_key("n", name), jobs).await.unwrap();
        entries.into_iter().map(|entry| entry.text).collect()
    }

    fn at(second: i64) -> Jobs {
        Jobs::At(Timestamp::from_second(second).unwrap())
    }

    #[tokio::test]
    async fn a_job_is_found_by_its_time_and_a_part_by_its_parents() {
        let bus = Bus::in_process();
        let mut other = entry("other", "", "1", 11);
        other.key.namespace = Some("m".to_owned());
        let mut item = entry("item", "leaf", "1", 13);
        item.key.kind = groundwork_bus::Kind::new(DeployItem::GROUP, DeployItem::PLURAL);
        bus.write_journal(&[
            entry("root", "", "1", 10),
            entry("leaf", "middle", "1", 14),
            other,
            entry("middle", "root", "1", 12),
            item,
            entry("root", "", "1", 20),
            entry("root", "", "", 100),
            entry("root", "", "2", 110),
            entry("root", "", "", 300),
        ])
        .await
        .unwrap();
        let first = ["root 10", "middle 12", "item 13", "leaf 14", "root 20"];
        assert_eq!(texts(&bus, "root", Jobs::Last).await, ["root 100", "root 110"]);
        for second in [10, 15, 20, 50, 109] {
            assert_eq!(texts(&bus, "root", at(second)).await, first, "{second}");
        }
        assert_eq!(texts(&bus, "root", at(9)).await, [""; 0], "nothing is known of that time");
        assert_eq!(texts(&bus, "root", at(500)).await, ["root 100", "root 110"]);
        assert_eq!(texts(&bus, "root", Jobs::All).await.len(), 7);
        assert_eq!(texts(&bus, "middle", Jobs::Last).await, ["middle 12", "item 13", "leaf 14"]);
        assert_eq!(texts(&bus, "stranger", Jobs::All).await, [""; 0]);
    }

    #[test]
    fn circles_of_parents_end() {
        let mut entries = vec![entry("a", "b", "1", 1), entry("b", "a", "1", 2), entry("c", "c", "1", 3)];
        retain_below(&mut entries, &installation_key("n", "a"));
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn wishes_are_checked() {
        let wish = |request: ReplayRequest| Wish::of(&request).map_err(|status| status.message().to_owned());
        assert_eq!(wish(ReplayRequest::default()), Ok(Wish { jobs: Jobs::Last, limit: 1000 }));
        let timed = prost_types::Timestamp { seconds: 1, nanos: 0 };
        let both = ReplayRequest { at: Some(timed), all: true, ..ReplayRequest::default() };
        let strange = prost_types::Timestamp { seconds: i64::MAX, nanos: -1 };
        let strange = ReplayRequest { at: Some(strange), ..ReplayRequest::default() };
        for request in [both, strange, ReplayRequest { limit: -1, ..ReplayRequest::default() }] {
            assert!(wish(request).is_err());
        }
    }
}
