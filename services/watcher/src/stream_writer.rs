//! Writing to the stream for as long as this replica leads.

use groundwork_bus::{Backoff, Bus, PublishError, Record};

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
}

impl StreamWriter {
    /// Publishes a record that is not about an object, without a fence, since the newest is always right. Waits as long as the bus does
    /// not answer, and for ever once this replica does not lead any more.
    ///
    /// # Errors
    ///
    /// There is no stream.
    pub(crate) async fn publish(&self, record: &Record) -> Result<(), StreamNotFoundError> {
        let mut failures = 0;
        loop {
            self.leadership.block_if_ended().await;
            match self.bus.publish(record, None).await {
                Ok(_) => {
                    self.status.set_bus_problem(None);
                    return Ok(());
                }
                Err(PublishError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    /// Says what is wrong with the bus, counts the failure, and waits for longer the more there were in a row.
    pub(crate) async fn back_off(&self, problem: &str, failures: &mut u32) {
        self.status.set_bus_problem(Some(problem.to_owned()));
        *failures = failures.saturating_add(1);
        tokio::time::sleep(Backoff::PUBLICATION.pause(*failures)).await;
    }
}
