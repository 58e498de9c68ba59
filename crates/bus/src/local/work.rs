//! Work queue of the bus in this process.

use std::collections::VecDeque;
use std::sync::Arc;

use super::handle::LocalHandle;
use super::{Attempt, LocalBus, decoded};
use crate::delivery::{Delivery, Handle};
use crate::error::BusError;
use crate::record::{Record, WorkState};

/// Work of a service for one kind.
#[derive(Debug)]
pub(crate) struct LocalWork {
    bus: Arc<LocalBus>,
    name: String,
    filter: String,
}

impl LocalWork {
    pub(crate) fn new(bus: Arc<LocalBus>, name: String, filter: String) -> Self {
        let work = Self { bus, name, filter };
        // As on a server, the queue exists from now on and collects later messages.
        let _ = work.bus.with(|store| store.ensure_consumer(&work.name, &work.filter));
        work
    }

    pub(crate) async fn pull(&mut self, limit: usize) -> Vec<Delivery> {
        let (bus, name, filter) = (&self.bus, &self.name, &self.filter);
        bus.wait(|shared, now| {
            let Some(store) = &mut shared.store else { return Attempt::Wait(None) };
            let created = store.state().created_at;
            let base = shared.epochs.base(created, store.state().last_sequence);
            store.ensure_consumer(name, filter);
            let mut taken = VecDeque::new();
            while taken.len() < limit.max(1) {
                let Some((sequence, attempts, message)) = store.take(name, now, bus.ack_wait) else { break };
                match decoded(sequence, &message) {
                    Ok(Record::Object(event)) => {
                        let handle = LocalHandle::new(Arc::clone(bus), name.clone(), created, sequence);
                        taken.push_back(Delivery::new(
                            event,
                            base + sequence,
                            attempts,
                            Handle::Local(handle),
                        ));
                    }
                    Ok(_) => store.ack(name, sequence),
                    Err(error) => {
                        tracing::error!(%error, "an event cannot be read and is dropped from the work queue");
                        store.ack(name, sequence);
                    }
                }
            }
            match taken.is_empty() {
                true => Attempt::Wait(store.due(name)),
                false => Attempt::Done(taken.into()),
            }
        })
        .await
    }

    pub(crate) fn state(&self) -> Result<WorkState, BusError> {
        self.bus.with(|store| {
            store.ensure_consumer(&self.name, &self.filter);
            store.work_state(&self.name)
        })
    }
}
