//! Removal of what nobody needs any more.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::NatsBus;
use super::consumer::{ConsumerInfo, Start, ephemeral};
use crate::STREAM;
use crate::error::BusError;
use crate::record::{Filter, Record};
use crate::subject;
use crate::wire::is_tombstone;

#[derive(Deserialize)]
struct Success {
    success: bool,
}

impl NatsBus {
    pub(crate) async fn prune(self: &Arc<Self>, older_than: Duration) -> Result<usize, BusError> {
        let now = Timestamp::now();
        let mut old = Vec::new();
        let settings = ephemeral(&self.unique(), &[subject::of_objects()], Start::All, true);
        self.scan(STREAM, &settings, |message| {
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

    /// Deletes a message; false if it is gone already.
    async fn delete_message(&self, sequence: u64) -> Result<bool, BusError> {
        let request = json!({ "seq": sequence, "no_erase": true });
        match self.api::<Success>(&format!("STREAM.MSG.DELETE.{STREAM}"), &request).await {
            Ok(answer) => Ok(answer.success),
            // Superseded meanwhile: "sequence not found", "no message found", "message delete failed".
            Err(BusError::Refused { code: 10043 | 10037 | 10057, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether a consumer does not need this message any more.
fn is_past(consumer: &ConsumerInfo, sequence: u64, subject: &str) -> bool {
    let filters = consumer.filters();
    let concerned = filters.is_empty() || filters.iter().any(|filter| subject::matches(filter, subject));
    // The floor stays at the last message of its own subjects: one that has nothing to do is past everything.
    let idle = consumer.num_pending == 0 && consumer.num_ack_pending == 0;
    !concerned || idle || consumer.ack_floor.stream_seq >= sequence
}

#[cfg(test)]
mod tests {
    use super::super::consumer::Floor;
    use super::*;

    #[test]
    fn a_tombstone_stays_while_somebody_needs_it() {
        let consumer = |filter: &str, pending, unacknowledged, floor| ConsumerInfo {
            name: "c".into(),
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
