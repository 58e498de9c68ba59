//! Consumers that one reader makes for itself: each takes a free place of its user, and gives it back.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::runtime::Handle;

use super::NatsBus;
use super::consumer::{Action, ConsumerInfo};
use crate::error::BusError;

/// A consumer that goes when this is dropped.
#[derive(Debug)]
pub(super) struct Reader {
    bus: Arc<NatsBus>,
    stream: &'static str,
    name: String,
    /// Messages that it had before it at the start.
    pub(super) pending: u64,
}

impl Reader {
    /// Makes a consumer with these settings and a name of its own: that of a free place where the user has some, and otherwise one that
    /// was never used.
    pub(super) async fn open(
        bus: &Arc<NatsBus>,
        stream: &'static str,
        mut settings: Value,
    ) -> Result<Self, BusError> {
        let unique = bus.unique();
        // No two readers have the same settings, so that the server does not take one for the other.
        settings["description"] = format!("{}, {unique}", bus.name).into();
        let Some(user) = bus.user else {
            settings["name"] = format!("reader-{unique}").into();
            let info = bus.make_consumer(stream, &settings, Action::Create).await?;
            return Ok(Self::new(bus, stream, info));
        };
        let places = user.places(stream);
        // Readers begin to look in different places, so that most find a free one at once.
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
        // At the end of the process the server removes it.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.bus.deletes_consumers.load(Ordering::Relaxed) {
            return;
        }
        let (bus, stream, name) = (Arc::clone(&self.bus), self.stream, std::mem::take(&mut self.name));
        runtime.spawn(async move {
            match bus.delete_consumer(stream, &name).await {
                // Servers of others may not allow it, and each refusal is a line in the log of both sides.
                Err(BusError::Denied { .. }) => bus.deletes_consumers.store(false, Ordering::Relaxed),
                Err(error) => tracing::debug!(%error, name, "the consumer is left to the server"),
                Ok(()) => {}
            }
        });
    }
}
