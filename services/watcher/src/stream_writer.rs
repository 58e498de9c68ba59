//! Writes to the stream, as long as this replica leads.

use groundwork_bus::{Backoff, Bus, PublishError, Published, Record};

use crate::continuity::Continuity;
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::status::SharedStatus;

/// The stream does not exist any more, or another one has taken its place: everything has to be
/// published again.
#[derive(Debug, thiserror::Error)]
#[error("the stream does not exist")]
pub(crate) struct StreamNotFoundError;

/// The bus, with the leadership, status and metrics that every writer needs.
#[derive(Debug, Clone)]
pub(crate) struct StreamWriter {
    pub(crate) bus: Bus,
    pub(crate) status: SharedStatus,
    pub(crate) metrics: Metrics,
    pub(crate) leadership: Leadership,
    pub(crate) continuity: Continuity,
}

impl StreamWriter {
    /// Publishes a record that is not about an object, without a fence, since the newest record is
    /// always right. Waits while the bus does not answer, and for ever once this replica no longer
    /// leads.
    ///
    /// # Errors
    ///
    /// The stream is missing.
    pub(crate) async fn publish(&self, record: &Record) -> Result<(), StreamNotFoundError> {
        self.publish_fenced(record, None).await
    }

    /// Publishes a record that the stream does not have yet. The fence keeps a message that was
    /// delayed while this process was frozen from replacing a record of the next leader.
    ///
    /// # Errors
    ///
    /// The stream is missing.
    pub(crate) async fn publish_first(&self, record: &Record) -> Result<(), StreamNotFoundError> {
        self.publish_fenced(record, Some(0)).await
    }

    async fn publish_fenced(
        &self,
        record: &Record,
        mut fence: Option<u64>,
    ) -> Result<(), StreamNotFoundError> {
        let mut failures = 0;
        loop {
            self.leadership.block_if_ended().await;
            let before = self.continuity.acknowledged();
            match self.bus.publish(record, fence).await {
                Ok(Published { sequence, duplicate }) => {
                    if !duplicate && self.continuity.note(sequence, before).is_err() {
                        return Err(StreamNotFoundError);
                    }
                    self.status.set_bus_problem(None);
                    return Ok(());
                }
                // The subject has a message. If this replica still leads in the next attempt, that
                // message is unreadable or from the previous leader, so replace it.
                Err(PublishError::Superseded { .. }) => fence = None,
                Err(PublishError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    /// Waits until the stream was compared on the current connection.
    pub(crate) async fn until_compared(&self) {
        let connection = *self.bus.connections().borrow();
        self.continuity.until_compared(connection).await;
    }

    /// Reports a problem of the bus, counts the failure, and waits, longer after each failure in a
    /// row.
    pub(crate) async fn back_off(&self, problem: &str, failures: &mut u32) {
        self.status.set_bus_problem(Some(problem.to_owned()));
        *failures = failures.saturating_add(1);
        tokio::time::sleep(Backoff::PUBLICATION.pause(*failures)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use groundwork_bus::{Filter, Kind, SyncMarker};
    use groundwork_telemetry::Telemetry;
    use tokio::time::{Instant, timeout};

    use super::*;

    /// An unreadable marker must not keep the stream incomplete for ever.
    #[tokio::test(start_paused = true)]
    async fn only_who_leads_replaces_what_is_there() {
        let marker = |version: &str| {
            let (kind, resource_version) = (Kind::new("", "configmaps"), version.to_owned());
            Record::Synced(SyncMarker { kind, namespace: None, resource_version, count: 0 })
        };
        let ended = Leadership::until(Instant::now());
        for (leadership, expected) in [(Leadership::unlimited(), "2"), (ended, "1")] {
            let telemetry = Telemetry::silent("watcher");
            let metrics = Metrics::new(&telemetry.metrics);
            let status = SharedStatus::new(telemetry.health.condition("stream"), metrics.clone());
            let bus = Bus::in_process();
            bus.ensure_stream().await.unwrap();
            bus.publish(&marker("1"), None).await.unwrap();
            let writer = StreamWriter {
                bus: bus.clone(),
                status,
                metrics,
                leadership,
                continuity: Continuity::default(),
            };
            let published = timeout(Duration::from_secs(1), writer.publish_first(&marker("2"))).await;
            assert_eq!(published.is_ok(), expected == "2");
            let all = bus.load(Filter::Everything).await.unwrap();
            let records: Vec<&Record> = all.iter().map(|stored| &stored.record).collect();
            assert_eq!(records, [&marker(expected)]);
        }
    }
}
