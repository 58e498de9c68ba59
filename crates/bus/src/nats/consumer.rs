//! Consumers: created, corrected, looked at.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::NatsBus;
use super::settings::{nanoseconds, not_kept};
use crate::STREAM;
use crate::error::BusError;

/// A consumer that a single reader makes is gone when nobody has asked it for this long.
const INACTIVE: Duration = Duration::from_secs(60);

/// A private queue is gone when nobody has asked it for this long. Its work is delivered again when it is made again.
const PRIVATE_INACTIVE: Duration = Duration::from_secs(24 * 60 * 60);

/// Answer to `CONSUMER.CREATE` and `INFO`.
#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerInfo {
    pub(crate) name: String,
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
    /// The filters, however many.
    pub(crate) fn filters(&self) -> Vec<&str> {
        let one = self.config.get("filter_subject").and_then(Value::as_str).into_iter();
        let many = self.config.get("filter_subjects").and_then(Value::as_array);
        one.chain(many.into_iter().flatten().filter_map(Value::as_str))
            .filter(|text| !text.is_empty())
            .collect()
    }
}

#[derive(Deserialize)]
struct ConsumerList {
    total: usize,
    consumers: Option<Vec<ConsumerInfo>>,
}

#[derive(Deserialize)]
struct Success {}

/// Where a consumer begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// With the first message. The stream of events keeps one message of each subject, so there this is the last of each.
    All,
    LastPerSubject,
    At(u64),
}

/// Settings of a consumer for one reader that keeps no state on disk; without subjects, of all of them.
pub(crate) fn ephemeral(name: &str, subjects: &[String], start: Start, headers_only: bool) -> Value {
    let mut settings = json!({
        "name": format!("reader-{name}"),
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": -1,
        "mem_storage": true,
        "num_replicas": 1,
        "inactive_threshold": nanoseconds(INACTIVE),
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

/// Settings of a consumer that the replicas of a service share. A private one goes when nobody has asked it for a day: its kind is
/// selected no more, or its name follows from another password now.
pub(crate) fn shared(name: &str, filter: &str, ack_wait: Duration, is_private: bool) -> Value {
    let mut settings = json!({
        "name": name,
        "durable_name": name,
        "deliver_policy": "last_per_subject",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(ack_wait),
        "max_deliver": -1,
        "max_ack_pending": -1,
        "filter_subject": filter,
        "replay_policy": "instant",
    });
    if is_private {
        settings["inactive_threshold"] = nanoseconds(PRIVATE_INACTIVE).into();
    }
    settings
}

impl NatsBus {
    /// Creates a consumer or corrects it, and reads back what became of it.
    pub(crate) async fn ensure_consumer(
        &self,
        stream: &str,
        settings: &Value,
    ) -> Result<ConsumerInfo, BusError> {
        let name = settings.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut request = format!("CONSUMER.CREATE.{stream}.{name}");
        // With one filter it is part of the subject, so that permissions can name it.
        if let Some(filter) = settings.get("filter_subject").and_then(Value::as_str) {
            request = format!("{request}.{filter}");
        }
        let body = json!({ "stream_name": stream, "config": settings });
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

    /// Deletes a consumer of one reader; it would go by itself.
    pub(crate) async fn delete_consumer(&self, stream: &str, name: &str) {
        let deleted = self.api::<Success>(&format!("CONSUMER.DELETE.{stream}.{name}"), &json!({})).await;
        if let Err(error) = deleted {
            tracing::debug!(%error, name, "the consumer is left to the server");
        }
    }

    /// All consumers of the stream.
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
