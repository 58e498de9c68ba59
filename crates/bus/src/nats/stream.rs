//! The stream: creating, correcting, publishing and reading.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::backlog::Backlog;
use super::consumer::{MOST_UNANSWERED, QUEUE_INACTIVE, Start, ephemeral};
use super::pull::{Pulled, Puller, Received, Wait};
use super::reader::Reader;
use super::settings::{nanoseconds, not_kept};
use super::{NatsBus, RequestError};
use crate::STREAM;
use crate::error::{BusError, PublishError};
use crate::object::ObjectId;
use crate::record::{ClusterIdentity, Filter, Published, Record, Stored, StreamState};
use crate::subject;
use crate::wire::{self, Wire};

/// Time for which the server remembers message ids to detect duplicates.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// Messages in one pull request when a part of the stream is read.
const BATCH: usize = 1000;
/// Metadata key of the stream for the name of the leader that fills it.
const LEADER: &str = "groundwork-leader";

/// Answer to `STREAM.INFO`, `CREATE` and `UPDATE`.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    config: Value,
    pub(crate) created: Timestamp,
    pub(crate) state: State,
}

/// Part of [`StreamInfo`].
#[derive(Debug, Deserialize)]
pub(crate) struct State {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    pub(crate) last_seq: u64,
}

impl StreamInfo {
    /// Returns the name of the leader that fills the stream; empty before the first leader.
    pub(crate) fn leader(&self) -> &str {
        self.config["metadata"][LEADER].as_str().unwrap_or_default()
    }

    fn state(&self, created: bool) -> StreamState {
        StreamState {
            created,
            messages: self.state.messages,
            bytes: self.state.bytes,
            first_sequence: self.state.first_seq,
            last_sequence: self.state.last_seq,
            created_at: self.created,
        }
    }
}

#[derive(Deserialize)]
struct Success {}

#[derive(Deserialize)]
pub(super) struct PublishAck {
    seq: u64,
    #[serde(default)]
    duplicate: bool,
}

/// Returns the settings that Groundwork manages. All others (placement, compression) belong to the
/// operator.
fn settings(replicas: usize, max_bytes: u64) -> Value {
    json!({
        "name": STREAM,
        "subjects": subject::stream_subjects(),
        "storage": "file",
        "retention": "limits",
        // The stream is the state of the cluster: refusing new messages is better than losing
        // stored ones.
        "discard": "new",
        "max_msgs_per_subject": 1,
        "max_msgs": -1,
        "max_bytes": max_bytes,
        "max_age": 0,
        "max_consumers": -1,
        // Idle consumers live only as long as services need to come back.
        "consumer_limits": {
            "inactive_threshold": nanoseconds(QUEUE_INACTIVE),
            "max_ack_pending": MOST_UNANSWERED,
        },
        "num_replicas": replicas.max(1),
        "allow_direct": true,
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
    })
}

impl NatsBus {
    pub(crate) async fn stream_info(&self) -> Result<StreamInfo, BusError> {
        self.info_of(STREAM).await
    }

    async fn info_of(&self, stream: &str) -> Result<StreamInfo, BusError> {
        self.api(&format!("STREAM.INFO.{stream}"), &json!({})).await
    }

    /// Returns the stream and the base of its positions. A lock keeps an older answer from
    /// replacing a newer one.
    pub(crate) async fn incarnation(&self) -> Result<(StreamInfo, u64), BusError> {
        let mut epochs = self.epochs.lock().await;
        let info = self.stream_info().await?;
        let base = epochs.base(info.created, info.state.last_seq);
        Ok((info, base))
    }

    /// Returns the last record of the cluster's identity, with its sequence.
    pub(crate) async fn identity(&self) -> Result<Option<Stored>, BusError> {
        self.last_of(&subject::of_record(&Record::Cluster(ClusterIdentity::default()))?).await
    }

    /// Returns the highest sequence up to which a consumer has acknowledged, or, for consumers
    /// without acknowledgements, received messages.
    pub(crate) async fn acknowledged(&self) -> Result<u64, BusError> {
        let consumers = self.consumers().await?;
        Ok(consumers.iter().map(|consumer| consumer.ack_floor.stream_seq).max().unwrap_or_default())
    }

    pub(crate) async fn status(&self) -> Result<StreamState, BusError> {
        Ok(self.stream_info().await?.state(false))
    }

    pub(crate) async fn ensure_stream(&self) -> Result<StreamState, BusError> {
        // Sweep first: the server rejects new limits while a consumer exceeds them.
        match self.sweep().await {
            Ok(_) | Err(BusError::StreamNotFound) => {}
            // A foreign server may not allow the sweep. If a consumer then blocks the limits, the
            // server reports that.
            Err(error @ BusError::Denied { .. }) => {
                tracing::warn!(%error, "stray consumers of the stream cannot be deleted");
            }
            Err(error) => return Err(error),
        }
        self.ensure(STREAM, &settings(self.replicas, self.max_bytes)).await
    }

    /// Creates a stream or corrects its settings, and checks the settings that the server stored.
    pub(super) async fn ensure(&self, stream: &str, wanted: &Value) -> Result<StreamState, BusError> {
        let created = match self.info_of(stream).await {
            Ok(info) if not_kept(wanted, &info.config).is_empty() => false,
            Ok(info) => {
                tracing::info!(
                    stream,
                    changes = not_kept(wanted, &info.config),
                    "correcting the settings of the stream"
                );
                let mut config = info.config;
                if let (Some(config), Some(wanted)) = (config.as_object_mut(), wanted.as_object()) {
                    config.extend(wanted.clone());
                }
                self.api::<StreamInfo>(&format!("STREAM.UPDATE.{stream}"), &config).await?;
                false
            }
            Err(BusError::StreamNotFound) => {
                self.api::<StreamInfo>(&format!("STREAM.CREATE.{stream}"), wanted).await?;
                true
            }
            Err(error) => return Err(error),
        };
        let info = self.info_of(stream).await?;
        let fields = not_kept(wanted, &info.config);
        if !fields.is_empty() {
            return Err(BusError::NotKept { of: format!("the stream {stream}"), fields });
        }
        Ok(info.state(created))
    }

    pub(crate) async fn begin_leading(&self, leader: &str) -> Result<(), BusError> {
        let mut config = self.stream_info().await?.config;
        let mut metadata = config["metadata"].as_object().cloned().unwrap_or_default();
        metadata.insert(LEADER.to_owned(), leader.into());
        config["metadata"] = metadata.into();
        let updated: StreamInfo = self.api(&format!("STREAM.UPDATE.{STREAM}"), &config).await?;
        if updated.leader() == leader {
            return Ok(());
        }
        let fields = format!("metadata.{LEADER} is {:?} instead of {leader:?}", updated.leader());
        Err(BusError::NotKept { of: format!("the stream {STREAM}"), fields })
    }

    pub(crate) async fn delete_stream(&self) -> Result<(), BusError> {
        match self.api::<Success>(&format!("STREAM.DELETE.{STREAM}"), &json!({})).await {
            Ok(Success {}) | Err(BusError::StreamNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn publish(&self, wire: Wire, fence: Option<u64>) -> Result<Published, PublishError> {
        let mut headers = wire.headers();
        headers.insert(async_nats::header::NATS_EXPECTED_STREAM, STREAM);
        if let Some(fence) = fence {
            headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, fence.to_string());
        }
        let request = async_nats::Request::new().headers(headers).payload(wire.body);
        let answer = self.request(wire.subject.clone(), request).await.map_err(|error| match error {
            RequestError::NoResponders => PublishError::StreamNotFound,
            RequestError::Failed(error) => error.into(),
        })?;
        match self.read::<PublishAck>("a publication", &answer.payload) {
            Ok(ack) => Ok(Published { sequence: ack.seq, duplicate: ack.duplicate }),
            // Both codes mean "wrong last sequence"; newer servers have a separate code for
            // clusters.
            Err(BusError::Refused { code: 10071 | 10164, .. }) => {
                Err(PublishError::Superseded { subject: wire.subject })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn last(&self, object: &ObjectId) -> Result<Option<Stored>, BusError> {
        self.last_of(&subject::of_object(object)?).await
    }

    async fn last_of(&self, subject: &str) -> Result<Option<Stored>, BusError> {
        let body = json!({ "last_by_subj": subject }).to_string();
        let request = async_nats::Request::new().payload(body.into());
        let answer = self.request(format!("{}.DIRECT.GET.{STREAM}", super::API), request).await;
        let answer = answer.map_err(|error| match error {
            RequestError::NoResponders => BusError::StreamNotFound,
            RequestError::Failed(error) => error,
        })?;
        if let Some(status) = answer.status {
            return match status.as_u16() {
                404 => Ok(None),
                code => Err(BusError::Refused {
                    request: "reading a message".to_owned(),
                    reason: answer.description.unwrap_or_default(),
                    code: code.into(),
                }),
            };
        }
        let header = |name: &str| {
            let headers = answer.headers.as_ref();
            headers.and_then(|headers| headers.get(name)).map_or("", |value| value.as_str())
        };
        let sequence = header("Nats-Sequence").parse().unwrap_or_default();
        let time = header("Nats-Time-Stamp").parse().unwrap_or_default();
        stored(sequence, time, subject, answer.headers.as_ref(), answer.payload).map(Some)
    }

    pub(crate) async fn visit(
        self: &Arc<Self>,
        filter: Filter<'_>,
        mut visitor: impl FnMut(Stored),
    ) -> Result<(), BusError> {
        let mut visit = |message: Received| {
            visitor(stored(
                message.sequence,
                message.time,
                &message.message.subject,
                message.message.headers.as_ref(),
                message.message.payload,
            )?);
            Ok(ControlFlow::Continue(()))
        };
        let mut subjects = subject::of_filter(filter)?;
        if let Filter::Everything = filter {
            // The stream has no other subjects, and without a filter the server reads it ten times
            // as fast.
            subjects.clear();
        }
        let mut start = Start::All;
        if subjects.len() > 1 {
            let last = self.stream_info().await?.state.last_seq;
            self.visit_backlog(&subjects, last, &mut visit).await?;
            start = Start::At(last + 1);
        }
        self.scan(STREAM, ephemeral(&subjects, start, false), visit).await
    }

    async fn visit_backlog(
        self: &Arc<Self>,
        subjects: &[String],
        last: u64,
        mut visitor: impl FnMut(Received) -> Result<ControlFlow<()>, BusError>,
    ) -> Result<(), BusError> {
        let mut backlog = Backlog::open(self, subjects, 1, last).await?;
        while let Some(message) = backlog.next().await? {
            if let Err(error) = visitor(message) {
                tracing::warn!(%error, "a message cannot be read and is skipped");
            }
        }
        Ok(())
    }

    /// Reads a part of a stream once, with a consumer of its own, until the part ends or the
    /// visitor stops it.
    pub(super) async fn scan(
        self: &Arc<Self>,
        stream: &'static str,
        settings: Value,
        mut visitor: impl FnMut(Received) -> Result<ControlFlow<()>, BusError>,
    ) -> Result<(), BusError> {
        let reader = Reader::open(self, stream, settings).await?;
        let mut puller = Puller::new(self, stream, reader.name()).await?;
        // A request that the server does not fill shows that the part has ended.
        loop {
            puller.request(BATCH, Wait::No).await?;
            for _ in 0..BATCH {
                match puller.next().await {
                    Pulled::Message(message) => match visitor(*message) {
                        Ok(ControlFlow::Continue(())) => {}
                        Ok(ControlFlow::Break(())) => return Ok(()),
                        Err(error) => tracing::warn!(%error, "a message cannot be read and is skipped"),
                    },
                    Pulled::Empty => return Ok(()),
                    Pulled::Lost(reason) => {
                        return Err(BusError::Answer { request: "reading the stream".to_owned(), reason });
                    }
                }
            }
        }
    }
}

fn stored(
    sequence: u64,
    time: Timestamp,
    subject: &str,
    headers: Option<&async_nats::HeaderMap>,
    body: bytes::Bytes,
) -> Result<Stored, BusError> {
    let record = Wire::received(subject, headers, body).and_then(|wire| wire::decode(&wire));
    match record {
        Ok(record) => Ok(Stored { sequence, record, time }),
        Err(reason) => Err(BusError::Message { sequence, subject: subject.to_owned(), reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_kept_is_named() {
        let wanted = settings(3, 1_000);
        let mut kept = wanted.clone();
        assert_eq!(not_kept(&wanted, &kept), "");
        kept["subjects"].as_array_mut().unwrap().reverse();
        kept["placement"] = json!({});
        assert_eq!(not_kept(&wanted, &kept), "");
        kept["num_replicas"] = json!(1);
        kept.as_object_mut().unwrap().remove("allow_direct");
        assert_eq!(
            not_kept(&wanted, &kept),
            "allow_direct is null instead of true, num_replicas is 1 instead of 3"
        );
    }
}
