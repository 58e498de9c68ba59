//! Writing to the stream for as long as this replica leads.

use std::time::Duration;

use groundwork_bus::{Bus, PublishError, Record};

use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::status::SharedStatus;

/// Pauses between attempts while the bus does not answer: the first, and the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

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
        let mut pause = FIRST_PAUSE;
        loop {
            self.leadership.block_if_ended().await;
            match self.bus.publish(record, None).await {
                Ok(_) => {
                    self.status.set_bus_problem(None);
                    return Ok(());
                }
                Err(PublishError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.back_off(&error.to_string(), &mut pause).await,
            }
        }
    }

    /// Says what is wrong with the bus, waits for the pause, and doubles it for the next time.
    pub(crate) async fn back_off(&self, problem: &str, pause: &mut Duration) {
        self.status.set_bus_problem(Some(problem.to_owned()));
        tokio::time::sleep(*pause).await;
        *pause = LONGEST_PAUSE.min(*pause * 2);
    }
}
