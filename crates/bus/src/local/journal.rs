//! Journal of a bus in one process: the newest entries that fit into the limit.

use std::collections::{HashSet, VecDeque};
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;

use super::LocalBus;
use crate::journal::Entry;
use crate::subject;

/// Size limit of the entries in bytes. All services share this process's memory.
const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct LocalJournal {
    messages: VecDeque<(String, Bytes)>,
    bytes: usize,
}

impl LocalJournal {
    fn push(&mut self, message: (String, Bytes)) {
        let size = |(subject, body): &(String, Bytes)| subject.len() + body.len();
        self.bytes += size(&message);
        self.messages.push_back(message);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.messages.pop_front() else { return };
            self.bytes -= size(&oldest);
        }
    }
}

impl LocalBus {
    fn journal(&self) -> MutexGuard<'_, LocalJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_journal(&self, messages: Vec<(String, Bytes)>) {
        let mut journal = self.journal();
        messages.into_iter().for_each(|message| journal.push(message));
    }

    pub(crate) fn read_journal(&self, subjects: &[String], is_last_of_each: bool, most: usize) -> Vec<Entry> {
        let is_wanted =
            |subject: &str| subjects.iter().any(|filter| subject::matches_wildcards(filter, subject));
        let journal = self.journal();
        let mut found: Vec<_> = journal.messages.iter().filter(|(subject, _)| is_wanted(subject)).collect();
        if is_last_of_each {
            let mut seen = HashSet::new();
            found.reverse();
            found.retain(|(subject, _)| seen.insert(subject));
            found.reverse();
        }
        let entries = found.into_iter().filter_map(|(subject, body)| Entry::read(subject, body).ok());
        entries.take(most).collect()
    }
}
