//! Removal of messages and consumers that are no longer needed.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::NatsBus;
use super::consumer::{ConsumerInfo, QUEUE_INACTIVE, READER_INACTIVE, Start, ephemeral};
use crate::STREAM;
use crate::error::BusError;
use crate::record::{Filter, Record};
use crate::rights::Purpose;
use crate::subject;
use crate::wire::is_tombstone;

/// Maximum number of permanent foreign consumers.
const MOST_UNKNOWN: usize = 100;

#[derive(Deserialize)]
struct Success {
    success: bool,
}

impl NatsBus {
    pub(crate) async fn prune(self: &Arc<Self>, older_than: Duration) -> Result<usize, BusError> {
        let now = Timestamp::now();
        let mut old = Vec::new();
        let settings = ephemeral(&[subject::of_objects()], Start::All, true);
        self.scan(STREAM, settings, |message| {
            let headers = message.message.headers.as_ref();
            let event_type = headers.and_then(|headers| headers.get("ce-type"));
            let age = Duration::try_from(now.duration_since(message.time));
            let is_old = age.is_ok_and(|age| age >= older_than);
            if is_old && event_type.is_some_and(|value| is_tombstone(value.as_str())) {
                old.push((message.sequence, message.message.subject.to_string()));
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        let mut pruned = 0;
        if !old.is_empty() {
            let consumers = self.consumers().await?;
            for (sequence, subject) in old {
                if consumers.iter().all(|consumer| is_past(consumer, sequence, &subject)) {
                    pruned += usize::from(self.delete_message(sequence).await?);
                }
            }
        }
        let mut expired = Vec::new();
        self.visit(Filter::Interests, |stored| {
            if matches!(&stored.record, Record::Interest(interest) if interest.expires < now) {
                expired.push(stored.sequence);
            }
        })
        .await?;
        for sequence in expired {
            pruned += usize::from(self.delete_message(sequence).await?);
        }
        Ok(pruned)
    }

    /// Deletes stray consumers of the stream, and returns their number.
    pub(crate) async fn sweep(&self) -> Result<usize, BusError> {
        let consumers = self.consumers().await?;
        let strays = strays(&consumers);
        for (name, why) in &strays {
            tracing::warn!(consumer = name, why, "deleting a stray consumer of the stream");
            match self.delete_consumer(STREAM, name).await {
                Ok(()) => {}
                Err(error) if error.is_missing_consumer() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(strays.len())
    }

    /// Deletes a message. Returns false if it is already gone.
    async fn delete_message(&self, sequence: u64) -> Result<bool, BusError> {
        let request = json!({ "seq": sequence, "no_erase": true });
        match self.api::<Success>(&format!("STREAM.MSG.DELETE.{STREAM}"), &request).await {
            Ok(answer) => Ok(answer.success),
            // A newer message superseded this one meanwhile: "sequence not found", "no message
            // found", "message delete failed".
            Err(BusError::Refused { code: 10043 | 10037 | 10057, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the names of stray consumers, with the reason for each.
fn strays(consumers: &[ConsumerInfo]) -> Vec<(&str, &'static str)> {
    let mut sorted: Vec<_> = consumers.iter().collect();
    sorted.sort_by_key(|consumer| consumer.created);
    let mut kinds = HashSet::new();
    let mut kept = 0;
    let mut why = |consumer: &ConsumerInfo| {
        let purpose = Purpose::of(&consumer.name);
        if consumer.threshold() > QUEUE_INACTIVE {
            return Some("its inactivity threshold is longer than the stream allows");
        }
        if purpose != Purpose::Unknown && consumer.is_pushed() {
            return Some("the server would deliver to a subject that its user may not write");
        }
        match purpose {
            Purpose::Queue => None,
            Purpose::Reader if consumer.threshold() > READER_INACTIVE || consumer.threshold().is_zero() => {
                Some("its inactivity threshold is longer than that of a reader")
            }
            Purpose::Reader => None,
            Purpose::Kind if !kinds.insert(consumer.filters().join(" ")) => {
                Some("an older consumer for the same kind exists")
            }
            Purpose::Kind => None,
            // The server itself deletes foreign consumers that have a threshold, so only permanent
            // ones count.
            Purpose::Unknown if consumer.threshold().is_zero() => {
                kept += 1;
                (kept > MOST_UNKNOWN).then_some(
                    "the limit for consumers that Groundwork did not create is reached, and older ones have priority",
                )
            }
            Purpose::Unknown => None,
        }
    };
    sorted.into_iter().filter_map(|consumer| Some((consumer.name.as_str(), why(consumer)?))).collect()
}

/// Reports whether a consumer no longer needs this message.
fn is_past(consumer: &ConsumerInfo, sequence: u64, subject: &str) -> bool {
    let filters = consumer.filters();
    let concerned = filters.is_empty() || filters.iter().any(|filter| subject::matches(filter, subject));
    // The acknowledgement floor stops at the last message of the consumer's own subjects, so an
    // idle consumer is past every message.
    let idle = consumer.num_pending == 0 && consumer.num_ack_pending == 0;
    !concerned || idle || consumer.ack_floor.stream_seq >= sequence
}

#[cfg(test)]
mod tests {
    use super::super::consumer::Floor;
    use super::*;

    #[test]
    fn consumers_without_business_are_swept() {
        let minute = 60_000_000_000_u64;
        let consumer = |name: &str, created: i64, config: serde_json::Value| ConsumerInfo {
            name: name.into(),
            created: Timestamp::from_second(created).unwrap(),
            config,
            num_pending: 0,
            num_ack_pending: 0,
            ack_floor: Floor { stream_seq: 0 },
        };
        let kind = |filter: &str| json!({ "filter_subject": filter, "inactive_threshold": 30 * minute });
        let mut all = vec![
            consumer("renderer-installations-landscaper_gardener_cloud", 1, json!({})),
            consumer("renderer-r001", 1, json!({ "inactive_threshold": 2 * minute })),
            consumer("variant-k001", 1, kind("groundwork.v1.pods.core.>")),
            consumer("variant-k002", 1, kind("groundwork.v1.secrets.core.>")),
            consumer(
                "of-others",
                1,
                json!({ "inactive_threshold": 30 * minute, "deliver_subject": "there" }),
            ),
        ];
        all.extend((0..100).map(|number| consumer(&format!("for-ever-{number}"), number, json!({}))));
        assert_eq!(strays(&all), []);
        let bad = [
            consumer("renderer-r002", 1, json!({ "inactive_threshold": 3 * minute })),
            consumer("renderer-r003", 1, json!({ "durable_name": "renderer-r003" })),
            consumer("reader-r004", 1, json!({ "inactive_threshold": minute, "deliver_subject": "there" })),
            consumer("variant-k009", 2, kind("groundwork.v1.pods.core.>")),
            consumer("of-a-year", 2, json!({ "inactive_threshold": 31 * minute })),
            consumer("for-ever-too", 100, json!({})),
        ];
        let names: Vec<_> = bad.iter().map(|consumer| consumer.name.clone()).collect();
        // The order in which the server lists consumers must not matter.
        all.splice(0..0, bad);
        assert_eq!(strays(&all).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_tombstone_stays_while_somebody_needs_it() {
        let consumer = |filter: &str, pending, unacknowledged, floor| ConsumerInfo {
            name: "c".into(),
            created: Timestamp::UNIX_EPOCH,
            config: json!({ "filter_subject": filter }),
            num_pending: pending,
            num_ack_pending: unacknowledged,
            ack_floor: Floor { stream_seq: floor },
        };
        let subject = "groundwork.v1.secrets.core.n.a";
        assert!(is_past(&consumer("groundwork.v1.pods.core.>", 5, 5, 0), 10, subject));
        assert!(is_past(&consumer("groundwork.v1.secrets.core.>", 0, 0, 3), 10, subject));
        assert!(is_past(&consumer("groundwork.v1.secrets.core.>", 4, 0, 10), 10, subject));
        assert!(!is_past(&consumer("groundwork.v1.secrets.core.>", 4, 0, 9), 10, subject));
        assert!(!is_past(&consumer("groundwork.v1.secrets.core.>", 0, 1, 9), 10, subject));
        assert!(!is_past(&consumer("", 1, 0, 9), 10, subject));
    }
}
