//! Consumers of the stream: creating, correcting and listing them.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::NatsBus;
use super::settings::{nanoseconds, not_kept};
use crate::STREAM;
use crate::error::BusError;
use crate::rights::User;

/// Idle time after which the server deletes a single reader's consumer, so that another reader may
/// take its name.
pub(super) const READER_INACTIVE: Duration = Duration::from_secs(120);

/// Idle time after which the server deletes a queue. When its service is back, the new queue
/// delivers every message on the stream again.
pub(super) const QUEUE_INACTIVE: Duration = Duration::from_secs(30 * 60);

/// Maximum unacknowledged deliveries of a queue: far more than services ever hold.
pub(super) const MOST_UNANSWERED: u64 = 100_000;

/// Answer to `CONSUMER.CREATE` and `INFO`.
#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerInfo {
    pub(crate) name: String,
    pub(crate) created: Timestamp,
    pub(crate) config: Value,
    pub(crate) num_pending: u64,
    pub(crate) num_ack_pending: u64,
    pub(crate) ack_floor: Floor,
}

/// Part of [`ConsumerInfo`].
#[derive(Debug, Deserialize)]
pub(crate) struct Floor {
    pub(crate) stream_seq: u64,
}

impl ConsumerInfo {
    /// Returns the filters of the consumer: none, one or several.
    pub(crate) fn filters(&self) -> Vec<&str> {
        let one = self.config.get("filter_subject").and_then(Value::as_str).into_iter();
        let many = self.config.get("filter_subjects").and_then(Value::as_array);
        one.chain(many.into_iter().flatten().filter_map(Value::as_str))
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// Returns the idle time after which the server deletes the consumer; zero if it stays for
    /// ever.
    pub(super) fn threshold(&self) -> Duration {
        let threshold = self.config.get("inactive_threshold").and_then(Value::as_u64);
        Duration::from_nanos(threshold.unwrap_or_default())
    }

    /// Reports whether the server pushes messages to a subject, instead of waiting for pull
    /// requests.
    pub(super) fn is_pushed(&self) -> bool {
        self.config.get("deliver_subject").and_then(Value::as_str).is_some_and(|subject| !subject.is_empty())
    }
}

#[derive(Deserialize)]
struct ConsumerList {
    total: usize,
    consumers: Option<Vec<ConsumerInfo>>,
}

#[derive(Deserialize)]
struct Success {}

/// Effect of a request for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Create the consumer, and fail if another one has its name with other settings.
    Create,
    /// Create the consumer, or correct its settings.
    Ensure,
}

/// Position at which a consumer starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// At the first message. The stream of events keeps one message for each subject, so a reader
    /// of that stream gets the last message of each.
    All,
    LastPerSubject,
    At(u64),
}

/// Returns the settings, without the name, of a consumer for one reader that keeps no state on
/// disk. Without subjects the consumer reads all of them.
pub(crate) fn ephemeral(subjects: &[String], start: Start, headers_only: bool) -> Value {
    let mut settings = json!({
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": -1,
        "mem_storage": true,
        "num_replicas": 1,
        "inactive_threshold": nanoseconds(READER_INACTIVE),
    });
    if !subjects.is_empty() {
        settings["filter_subjects"] = subjects.into();
    }
    if headers_only {
        settings["headers_only"] = true.into();
    }
    match start {
        Start::All => settings["deliver_policy"] = "all".into(),
        Start::LastPerSubject => settings["deliver_policy"] = "last_per_subject".into(),
        Start::At(sequence) => {
            settings["deliver_policy"] = "by_start_sequence".into();
            settings["opt_start_seq"] = sequence.into();
        }
    }
    settings
}

/// Returns the settings of a consumer that the replicas of a service share.
pub(crate) fn shared(name: &str, filter: &str, ack_wait: Duration) -> Value {
    json!({
        "name": name,
        "durable_name": name,
        "deliver_policy": "last_per_subject",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(ack_wait),
        "max_deliver": -1,
        "max_ack_pending": MOST_UNANSWERED,
        "filter_subject": filter,
        "replay_policy": "instant",
        "inactive_threshold": nanoseconds(QUEUE_INACTIVE),
    })
}

impl NatsBus {
    /// Creates a consumer, and checks the settings that the server stored.
    pub(super) async fn make_consumer(
        &self,
        stream: &str,
        settings: &Value,
        action: Action,
    ) -> Result<ConsumerInfo, BusError> {
        let name = settings.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut request = format!("CONSUMER.CREATE.{stream}.{name}");
        // A single filter becomes part of the request's subject, so that permissions can name it.
        if let Some(filter) = settings.get("filter_subject").and_then(Value::as_str) {
            request = format!("{request}.{filter}");
        }
        let mut body = json!({ "stream_name": stream, "config": settings });
        if action == Action::Create {
            body["action"] = "create".into();
        }
        let info: ConsumerInfo = self.api(&request, &body).await?;
        let fields = not_kept(settings, &info.config);
        if fields.is_empty() {
            Ok(info)
        } else {
            Err(BusError::NotKept { of: format!("the consumer {name}"), fields })
        }
    }

    pub(crate) async fn consumer_info(&self, name: &str) -> Result<ConsumerInfo, BusError> {
        self.api(&format!("CONSUMER.INFO.{STREAM}.{name}"), &json!({})).await
    }

    /// Returns the consumer for the queue of a selected kind: the one that already serves it, or a
    /// free place. All replicas find the same consumer.
    pub(super) async fn place_of_kind(
        &self,
        user: &User,
        queue: &str,
        filter: &str,
    ) -> Result<(String, Action), BusError> {
        let mut free = None;
        // Each kind starts the search at a name derived from its digest, which its consumer usually
        // has.
        let digest = Sha256::digest(queue);
        let first =
            digest.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(256).wrapping_add((*byte).into()));
        for offset in 0..user.kinds {
            let name = user.kind(first.wrapping_add(offset) % user.kinds);
            match self.consumer_info(&name).await {
                Ok(info) if info.filters() == [filter] => return Ok((name, Action::Ensure)),
                Err(error) if error.is_missing_consumer() => free = free.or(Some(name)),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        let free = free.map(|name| (name, Action::Create));
        free.ok_or(BusError::NoPlace { user: user.name, stream: STREAM, places: user.kinds })
    }

    pub(super) async fn delete_consumer(&self, stream: &str, name: &str) -> Result<(), BusError> {
        self.api::<Success>(&format!("CONSUMER.DELETE.{stream}.{name}"), &json!({})).await.map(drop)
    }

    /// Returns all consumers of the stream.
    pub(super) async fn consumers(&self) -> Result<Vec<ConsumerInfo>, BusError> {
        let mut all = Vec::new();
        loop {
            let request = json!({ "offset": all.len() });
            let page: ConsumerList = self.api(&format!("CONSUMER.LIST.{STREAM}"), &request).await?;
            let consumers = page.consumers.unwrap_or_default();
            let is_last = consumers.is_empty();
            all.extend(consumers);
            if is_last || all.len() >= page.total {
                return Ok(all);
            }
        }
    }
}
