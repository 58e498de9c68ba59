//! The journal on JetStream: a bounded stream of its own that discards old entries.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::consumer::{MOST_UNANSWERED, READER_INACTIVE, Start, ephemeral};
use super::settings::nanoseconds;
use super::stream::{DUPLICATE_WINDOW, PublishAck};
use super::{NatsBus, RequestError};
use crate::JOURNAL;
use crate::error::BusError;
use crate::journal::{Entry, JournalLimits};
use crate::subject;

/// Maximum entries of one key in one job. A key that loops must not push all other entries out.
const MOST_OF_A_KEY: u64 = 10_000;
/// Shortest maximum age that JetStream accepts.
const SHORTEST_AGE: Duration = Duration::from_millis(100);

fn settings(replicas: usize, limits: JournalLimits) -> Value {
    let age = limits.max_age.max(SHORTEST_AGE);
    json!({
        "name": JOURNAL,
        "subjects": [subject::of_journal()],
        "storage": "file",
        "retention": "limits",
        // Losing old entries is better than refusing new ones.
        "discard": "old",
        "max_msgs_per_subject": MOST_OF_A_KEY,
        "max_msgs": -1,
        "max_bytes": limits.max_bytes,
        "max_age": nanoseconds(age),
        "max_consumers": -1,
        // The journal has readers only, no work queues, so idle consumers may go soon.
        "consumer_limits": {
            "inactive_threshold": nanoseconds(READER_INACTIVE),
            "max_ack_pending": MOST_UNANSWERED,
        },
        "num_replicas": replicas.max(1),
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW.min(age)),
    })
}

impl NatsBus {
    pub(crate) async fn ensure_journal(&self) -> Result<bool, BusError> {
        let state = self.ensure(JOURNAL, &settings(self.replicas, self.journal)).await;
        state.map(|state| state.created).map_err(of_journal)
    }

    /// Sends all messages and waits for the answer to the last one, which the server stores after
    /// the others.
    pub(crate) async fn write_journal(&self, mut messages: Vec<(String, Bytes)>) -> Result<(), BusError> {
        let Some((subject, body)) = messages.pop() else { return Ok(()) };
        self.ready().await?;
        for (subject, body) in messages {
            // `publish` waits only for room in the buffer of the connection.
            let sent = self.client.publish(subject.clone(), body).await;
            sent.map_err(|error| BusError::Answer { request: subject, reason: error.to_string() })?;
        }
        let answer = self.request(subject, async_nats::Request::new().payload(body)).await;
        let answer = answer.map_err(|error| match error {
            RequestError::NoResponders => BusError::JournalNotFound,
            RequestError::Failed(error) => error,
        })?;
        self.read::<PublishAck>("an entry of the journal", &answer.payload).map(drop).map_err(of_journal)
    }

    pub(crate) async fn read_journal(
        self: &Arc<Self>,
        subjects: &[String],
        is_last_of_each: bool,
        most: usize,
    ) -> Result<Vec<Entry>, BusError> {
        let start = if is_last_of_each { Start::LastPerSubject } else { Start::All };
        let settings = ephemeral(subjects, start, false);
        let mut entries = Vec::new();
        let read = self.scan(JOURNAL, settings, |received| {
            if entries.len() >= most {
                return Ok(ControlFlow::Break(()));
            }
            let subject = received.message.subject.to_string();
            let entry = Entry::read(&subject, &received.message.payload);
            let sequence = received.sequence;
            entries.push(entry.map_err(|reason| BusError::Message { sequence, subject, reason })?);
            Ok(ControlFlow::Continue(()))
        });
        read.await.map_err(of_journal)?;
        Ok(entries)
    }
}

fn of_journal(error: BusError) -> BusError {
    match error {
        BusError::StreamNotFound => BusError::JournalNotFound,
        error => error,
    }
}
