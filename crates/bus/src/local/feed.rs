//! Index feed of a replica, from the stream in this process.

use std::sync::Arc;

use super::{Attempt, LocalBus, Shared, decoded};
use crate::step::Step;

/// Reads all messages of some subjects in order.
#[derive(Debug)]
pub(crate) struct LocalFeed {
    bus: Arc<LocalBus>,
    subjects: Vec<String>,
    place: Option<FeedPosition>,
}

#[derive(Clone, Copy, Debug)]
struct FeedPosition {
    base: u64,
    sequence: u64,
    target: u64,
}

impl LocalFeed {
    pub(crate) fn new(bus: Arc<LocalBus>, subjects: Vec<String>) -> Self {
        Self { bus, subjects, place: None }
    }

    pub(crate) async fn next(&mut self) -> Step {
        let (subjects, place) = (&self.subjects, &mut self.place);
        self.bus.wait(|shared, _| advance(shared, subjects, place)).await
    }
}

fn advance(shared: &mut Shared, subjects: &[String], place: &mut Option<FeedPosition>) -> Attempt<Step> {
    let Some(store) = &shared.store else { return Attempt::Wait(None) };
    let base = shared.epochs.base(store.state().created_at, store.state().last_sequence);
    let Some(here) = place.as_mut().filter(|place| place.base == base) else {
        let target = store.after(0, subjects).map(|(sequence, _)| sequence).last().unwrap_or(0);
        *place = Some(FeedPosition { base, sequence: 0, target });
        return Attempt::Done(Step::Reset { caught_up: target == 0 });
    };
    let next = store.after(here.sequence, subjects).next();
    let Some((sequence, message)) = next else {
        let was_behind = here.sequence < here.target;
        here.sequence = store.state().last_sequence.max(here.sequence);
        return if was_behind { Attempt::Done(Step::CaughtUp) } else { Attempt::Wait(None) };
    };
    here.sequence = sequence;
    Attempt::Done(Step::Record {
        position: base + sequence,
        record: decoded(sequence, message).map(Box::new),
        caught_up: sequence >= here.target,
    })
}
