//! The journal: a log of what services decided about the objects of a job, with the reasons. It
//! never contains a value of an import, a Secret or a chart.
//!
//! An entry is one message on a bounded stream of its own. Its subject names the controller's key
//! and the job, so readers find the entries of a job without reading the rest. Services never base
//! decisions on the journal, because entries may be missing.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::{Kind, ObjectId};
use crate::subject::{self, SubjectError};

/// Version of the format of an entry. Readers skip entries of another version.
const VERSION: u8 = 1;
/// Maximum characters of a word or a sentence in an entry.
const LONGEST_TEXT: usize = 512;
/// Kind of the key of entries that report lost entries. The name of such a key is the service.
const LOSSES: &str = "losses";

/// Limits of the journal. Beyond them the server discards the oldest entries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// Maximum size in bytes.
    pub max_bytes: u64,
    /// Maximum age of an entry.
    pub max_age: Duration,
}

impl Default for JournalLimits {
    /// A week, in 128 MiB: room for some ten thousand jobs. The server reserves this space and lets
    /// JetStream use three quarters of its disk, so beside the stream the journal still fits into
    /// the volume of 1 GiB that `k8s/nats` requests.
    fn default() -> Self {
        Self { max_bytes: 128 * 1024 * 1024, max_age: Duration::from_secs(7 * 24 * 60 * 60) }
    }
}

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// An event about the object had arrived when the attempt began.
    Event,
    /// The service made a decision.
    Decision,
    /// The service has written the object, or has failed to.
    Write,
    /// The service waits for another object before it has more to do.
    Wait,
    /// The attempt failed; the next one follows after a pause.
    Error,
    /// The key was requeued behind others before all its work was done.
    Requeue,
    /// Entries were lost.
    Loss,
}

impl What {
    /// All entry types.
    pub const ALL: [Self; 7] =
        [Self::Event, Self::Decision, Self::Write, Self::Wait, Self::Error, Self::Requeue, Self::Loss];

    /// Returns the word that the user interface shows for this type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Decision => "decision",
            Self::Write => "write",
            Self::Wait => "wait",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::Loss => "loss",
        }
    }
}

/// Object that an entry describes, in the namespace of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Kind of the object, such as `DeployItem`.
    pub kind: String,
    pub name: String,
    /// UID of the object; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time of the entry, by the clock of the service.
    pub time: Timestamp,
    pub service: String,
    /// Process of the service that wrote the entry.
    pub instance: String,
    /// Key that the controller handled: an Installation, with its Execution and the objects that it
    /// writes below, or a DeployItem.
    pub key: ObjectId,
    /// Name of the Installation to which the key belongs; empty for a root.
    pub parent: String,
    /// Job of the key; empty where no job is known.
    pub job: String,
    pub what: What,
    pub about: About,
    /// One word, such as the reason or phase of a status.
    pub reason: String,
    /// One sentence for readers.
    pub text: String,
    /// resourceVersion of the object that the service saw or decided on; empty if unknown.
    pub seen: String,
    /// resourceVersion that the service wrote; empty if unknown.
    pub written: String,
}

/// Body of an entry: all fields that its subject does not name.
#[derive(Serialize, Deserialize)]
struct Body {
    v: u8,
    time: Timestamp,
    service: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    instance: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    parent: String,
    what: What,
    about: About,
    reason: String,
    text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    seen: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    written: String,
}

/// Part of the journal that a caller reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalPart {
    /// Entries of a key, in all jobs and outside of jobs.
    Key(ObjectId),
    /// The last entry of a key in each of its jobs.
    LastOfEachJob(ObjectId),
    /// Entries of every key in the namespace of `key` that belong to one of these jobs, entries of
    /// `key` outside of jobs, and reports of lost entries.
    Jobs { key: ObjectId, jobs: Vec<String> },
}

impl JournalPart {
    pub(crate) fn subjects(&self) -> Result<Vec<String>, SubjectError> {
        match self {
            Self::Key(key) | Self::LastOfEachJob(key) => Ok(vec![subject::of_key(key)?]),
            Self::Jobs { key, jobs } => {
                let namespace = key.namespace.as_deref().unwrap_or_default();
                let losses = subject::of_key_in(&losses(""), "")?;
                // The subject ends with the encoded empty name (`%`); the wildcard in its place
                // matches every service.
                let losses = losses.trim_end_matches('%').to_owned() + ">";
                let jobs = jobs.iter().map(|job| subject::of_job(namespace, job));
                Ok(jobs.chain([subject::of_key_in(key, "")?, losses]).collect())
            }
        }
    }

    pub(crate) fn is_last_of_each(&self) -> bool {
        matches!(self, Self::LastOfEachJob(_))
    }
}

fn losses(service: &str) -> ObjectId {
    ObjectId::new(Kind::new("", LOSSES), None, service)
}

impl Entry {
    /// Creates an entry that reports lost entries of a service.
    pub fn loss(service: &str, instance: &str, count: u64, since: Timestamp) -> Self {
        let time = Timestamp::now();
        Self {
            time,
            service: service.to_owned(),
            instance: instance.to_owned(),
            key: losses(service),
            parent: String::new(),
            job: String::new(),
            what: What::Loss,
            about: About::default(),
            reason: "EntriesLost".to_owned(),
            text: format!(
                "{count} entries of the {service} were lost since {since:.0}, and some of them may belong to this job"
            ),
            seen: String::new(),
            written: String::new(),
        }
    }

    /// Returns the subject and body of the message; `None` if the key cannot be named in a subject.
    pub(crate) fn message(&self) -> Option<(String, Bytes)> {
        let subject = subject::of_key_in(&self.key, &self.job).ok()?;
        let body = Body {
            v: VERSION,
            time: self.time,
            service: self.service.clone(),
            instance: self.instance.clone(),
            parent: self.parent.clone(),
            what: self.what,
            about: self.about.clone(),
            reason: bounded(&self.reason),
            text: bounded(&self.text),
            seen: self.seen.clone(),
            written: self.written.clone(),
        };
        Some((subject, serde_json::to_vec(&body).ok()?.into()))
    }

    /// Reads an entry from a message, as the inverse of [`Entry::message`].
    pub(crate) fn read(subject: &str, body: &[u8]) -> Result<Self, String> {
        let (key, job) = subject::parse_journal(subject).ok_or("its subject is not one of the journal")?;
        let body: Body = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if body.v != VERSION {
            return Err(format!("its format is {}, but only format {VERSION} is known", body.v));
        }
        let Body { v: _, time, service, instance, parent, what, about, reason, text, seen, written } = body;
        Ok(Self { time, service, instance, key, parent, job, what, about, reason, text, seen, written })
    }
}

/// Cuts a text to the maximum length of an entry.
fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(text: &str) -> Entry {
        Entry {
            time: Timestamp::UNIX_EPOCH,
            service: "renderer".to_owned(),
            instance: "pod-1".to_owned(),
            key: ObjectId::new(Kind::new("landscaper.gardener.cloud", "installations"), Some("n"), "a.b"),
            parent: "root".to_owned(),
            job: "j".to_owned(),
            what: What::Write,
            about: About { kind: "Execution".to_owned(), name: "a.b".to_owned(), uid: "u".to_owned() },
            reason: "Progressing".to_owned(),
            text: text.to_owned(),
            seen: "1".to_owned(),
            written: String::new(),
        }
    }

    proptest! {
        #[test]
        fn an_entry_comes_back(text in ".{0,200}", name in ".{1,20}", job in ".{0,10}", what in 0..What::ALL.len()) {
            let mut entry = Entry { job, what: What::ALL[what], ..entry(&text) };
            entry.key.name = name;
            let (subject, body) = entry.message().unwrap();
            prop_assert_eq!(Entry::read(&subject, &body), Ok(entry));
        }

        #[test]
        fn anything_is_read_without_panic(subject in ".{0,40}", body in ".{0,60}") {
            let known = entry("").message().unwrap().0;
            prop_assert!(Entry::read(&subject, body.as_bytes()).is_err());
            prop_assert!(Entry::read(&known, body.as_bytes()).is_err());
        }
    }

    #[test]
    fn long_texts_are_cut_and_other_forms_are_refused() {
        let (subject, body) = entry(&"ä".repeat(10_000)).message().unwrap();
        assert!(body.len() < 2_000, "{}", body.len());
        let other = String::from_utf8(body.to_vec()).unwrap().replacen("\"v\":1", "\"v\":2", 1);
        let refused = Entry::read(&subject, other.as_bytes()).unwrap_err();
        assert_eq!(refused, "its format is 2, but only format 1 is known");
    }

    #[test]
    fn losses_are_read_with_every_job() {
        let (subject, _) = Entry::loss("renderer", "pod-1", 7, Timestamp::UNIX_EPOCH).message().unwrap();
        let part = JournalPart::Jobs { key: entry("").key, jobs: vec!["j".to_owned()] };
        let subjects = part.subjects().unwrap();
        assert!(subjects.iter().any(|filter| subject::matches_wildcards(filter, &subject)), "{subjects:?}");
        let key = entry("").message().unwrap().0;
        assert!(subjects.iter().any(|filter| subject::matches_wildcards(filter, &key)), "{subjects:?}");
    }
}
