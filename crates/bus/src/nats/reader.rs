//! Consumers for a single reader. Each takes a free place of its user, which is one of the consumer
//! names that the user may create, and gives the place back.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::runtime::Handle;

use super::NatsBus;
use super::consumer::{Action, ConsumerInfo};
use crate::error::BusError;

/// A consumer that is deleted when this value is dropped.
#[derive(Debug)]
pub(super) struct Reader {
    bus: Arc<NatsBus>,
    stream: &'static str,
    name: String,
    /// Number of messages that waited for the consumer at its start.
    pub(super) pending: u64,
}

impl Reader {
    /// Creates a consumer with these settings. Its name is a free place of the user where the user
    /// has places, and a unique name otherwise.
    pub(super) async fn open(
        bus: &Arc<NatsBus>,
        stream: &'static str,
        mut settings: Value,
    ) -> Result<Self, BusError> {
        let unique = bus.unique();
        // The description makes the settings unique. Otherwise the server would treat two readers
        // with equal settings as the same consumer.
        settings["description"] = format!("{}, {unique}", bus.name).into();
        let Some(user) = bus.user else {
            settings["name"] = format!("reader-{unique}").into();
            let info = bus.make_consumer(stream, &settings, Action::Create).await?;
            return Ok(Self::new(bus, stream, info));
        };
        let places = user.places(stream);
        // Each reader starts its search at a random place, so that most readers find a free place
        // at once.
        let first = usize::try_from(RandomState::new().hash_one(&unique)).unwrap_or_default();
        for offset in 0..places {
            settings["name"] = user.reader(first.wrapping_add(offset) % places).into();
            match bus.make_consumer(stream, &settings, Action::Create).await {
                Ok(info) => return Ok(Self::new(bus, stream, info)),
                Err(error) if error.is_taken() => {}
                Err(error) => return Err(error),
            }
        }
        Err(BusError::NoPlace { user: user.name, stream, places })
    }

    fn new(bus: &Arc<NatsBus>, stream: &'static str, info: ConsumerInfo) -> Self {
        Self { bus: Arc::clone(bus), stream, name: info.name, pending: info.num_pending }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Without a runtime the process is ending; the server then deletes the consumer when it is
        // idle.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.bus.deletes_consumers.load(Ordering::Relaxed) {
            return;
        }
        let (bus, stream, name) = (Arc::clone(&self.bus), self.stream, std::mem::take(&mut self.name));
        runtime.spawn(async move {
            match bus.delete_consumer(stream, &name).await {
                // A foreign server may not allow the deletion, and each refusal adds a log line on
                // both sides; so stop trying.
                Err(BusError::Denied { .. }) => bus.deletes_consumers.store(false, Ordering::Relaxed),
                Err(error) => {
                    tracing::debug!(%error, name, "a consumer cannot be deleted; the server deletes it when it is idle");
                }
                Ok(()) => {}
            }
        });
    }
}
