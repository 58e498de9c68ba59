//! Writing to the stream for as long as this replica leads.

use groundwork_bus::{Backoff, Bus, PublishError, Published, Record};

use crate::continuity::Continuity;
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::status::SharedStatus;

/// The stream does not exist any more, or another one has taken its place: everything has to be published anew.
#[derive(Debug, thiserror::Error)]
#[error("the stream does not exist")]
pub(crate) struct StreamNotFoundError;

/// The bus, with what every writer to the stream has to heed and to tell.
#[derive(Debug, Clone)]
pub(crate) struct StreamWriter {
    pub(crate) bus: Bus,
    pub(crate) status: SharedStatus,
    pub(crate) metrics: Metrics,
    pub(crate) leadership: Leadership,
    pub(crate) continuity: Continuity,
}

impl StreamWriter {
    /// Publishes a record that is not about an object, without a fence, since the newest is always right. Waits as long as the bus does
    /// not answer, and for ever once this replica does not lead any more.
    ///
    /// # Errors
    ///
    /// There is no stream.
    pub(crate) async fn publish(&self, record: &Record) -> Result<(), StreamNotFoundError> {
        self.publish_fenced(record, None).await
    }

    /// Publishes a record that the stream does not have yet. A message that was on its way while this process was frozen does not
    /// replace what the next leader has published meanwhile.
    ///
    /// # Errors
    ///
    /// There is no stream.
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
                // If this replica leads even now, what is there cannot be read, or is the last word of the leader before.
                Err(PublishError::Superseded { .. }) => fence = None,
                Err(PublishError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    /// Waits until the stream was compared on the connection of now.
    pub(crate) async fn until_compared(&self) {
        let connection = *self.bus.connections().borrow();
        self.continuity.until_compared(connection).await;
    }

    /// Says what is wrong with the bus, counts the failure, and waits for longer the more there were in a row.
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

    /// A marker that cannot be read must not keep the stream from being complete for ever.
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
