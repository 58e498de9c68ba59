//! Index feed of a replica from JetStream: one ordered consumer of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::NatsBus;
use super::backlog::Backlog;
use super::consumer::{Start, ephemeral};
use super::pull::{Pulled, Puller, Wait};
use super::reader::Reader;
use crate::STREAM;
use crate::error::BusError;
use crate::retry::Retry;
use crate::step::Step;
use crate::wire::{self, Wire};

/// Messages in one pull request.
const BATCH: usize = 1000;
/// Time without a connection after which a feed starts over, since the tombstones that it missed
/// may have been pruned.
const RESUME_LIMIT: Duration = Duration::from_secs(600);

/// Reads all messages of some subjects in order. Survives lost connections, consumers and streams.
#[derive(Debug)]
pub(crate) struct NatsFeed {
    bus: Arc<NatsBus>,
    subjects: Vec<String>,
    open: Option<Open>,
    place: Option<FeedPosition>,
    /// Name of the leader that filled the stream when the feed was last opened.
    leader: String,
    retry: Retry,
    /// The step that [`NatsFeed::open_now`] found, for the first call of `next`.
    first: Option<Step>,
}

#[derive(Debug)]
struct Open {
    /// The messages that were there at the start, while the feed still reads them.
    backlog: Option<Backlog>,
    puller: Puller,
    /// Deletes the consumer when the feed closes it.
    _reader: Reader,
    consumer_sequence: u64,
    /// Sequence at which the feed has seen all messages that were there when it was opened.
    target: u64,
}

/// Place that a feed has reached on the stream.
#[derive(Clone, Copy, Debug)]
struct FeedPosition {
    base: u64,
    sequence: u64,
    heard: Instant,
}

impl FeedPosition {
    /// Returns the place of the feed after a message that arrived now.
    fn after(self, sequence: u64) -> Self {
        Self { sequence, heard: Instant::now(), ..self }
    }
}

impl NatsFeed {
    pub(crate) fn new(bus: Arc<NatsBus>, subjects: Vec<String>) -> Self {
        let retry = Retry::new("index", &bus.problems);
        Self { bus, subjects, open: None, place: None, leader: String::new(), retry, first: None }
    }

    /// Opens the feed at once, to find permanent errors.
    pub(crate) async fn open_now(&mut self) -> Result<(), BusError> {
        self.first = self.open().await?;
        Ok(())
    }

    /// Returns the next step. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Step {
        if let Some(step) = self.first.take() {
            return step;
        }
        loop {
            let Some(open) = &mut self.open else {
                match self.open().await {
                    Ok(Some(step)) => return step,
                    Ok(None) => {}
                    Err(error) => self.retry.back_off(&error).await,
                }
                continue;
            };
            if let Some(backlog) = &mut open.backlog {
                match backlog.next().await {
                    Ok(Some(message)) => return self.take(message),
                    Ok(None) => {
                        self.place = self.place.map(|place| place.after(backlog.last()));
                        open.backlog = None;
                        return Step::CaughtUp;
                    }
                    Err(error) => {
                        self.open = None;
                        self.retry.back_off(&error).await;
                        continue;
                    }
                }
            }
            if !open.puller.is_open()
                && let Err(error) = open.puller.request(BATCH, Wait::Yes).await
            {
                self.open = None;
                self.retry.back_off(&error).await;
                continue;
            }
            let lost = match open.puller.next().await {
                Pulled::Message(message) => {
                    open.consumer_sequence += 1;
                    if message.consumer_sequence == open.consumer_sequence {
                        return self.take(*message);
                    }
                    "a message was lost in transit".to_owned()
                }
                // The server ends a request without a message when the stream has no more for this
                // feed.
                Pulled::Empty => return Step::CaughtUp,
                Pulled::Lost(reason) => reason,
            };
            tracing::debug!(lost, "reopening the feed of the index");
            self.open = None;
        }
    }

    fn take(&mut self, message: super::pull::Received) -> Step {
        let is_last =
            |open: &Open| open.backlog.is_none() && (message.pending == 0 || message.sequence >= open.target);
        let caught_up = self.open.as_ref().is_some_and(is_last);
        let base = self.place.map_or(0, |place| place.base);
        self.place = self.place.map(|place| place.after(message.sequence));
        let subject = message.message.subject.clone();
        let record = Wire::received(&subject, message.message.headers.as_ref(), message.message.payload)
            .and_then(|wire| wire::decode(&wire))
            .map_err(|reason| BusError::Message {
                sequence: message.sequence,
                subject: subject.to_string(),
                reason,
            });
        Step::Record { position: base + message.sequence, record: record.map(Box::new), caught_up }
    }

    /// Opens a consumer for new messages, and a backlog for the messages already there that the
    /// feed has not seen.
    async fn open(&mut self) -> Result<Option<Step>, BusError> {
        if let Some(FeedPosition { base, sequence, .. }) = self.place {
            self.bus.epochs.lock().await.heard(base, sequence);
        }
        let (info, base) = self.bus.incarnation().await?;
        let last = info.state.last_seq;
        // A stream that went back may have been filled past the feed's place. That can happen only
        // after another leader has begun.
        let is_led_on = self.leader == info.leader();
        let resumed = self
            .place
            .filter(|place| is_led_on && place.base == base && place.heard.elapsed() < RESUME_LIMIT);
        let reader =
            Reader::open(&self.bus, STREAM, ephemeral(&self.subjects, Start::At(last + 1), false)).await?;
        let first = resumed.map_or(0, |place| place.sequence) + 1;
        let backlog = match first <= last {
            true => Some(Backlog::open(&self.bus, &self.subjects, first, last).await?),
            false => None,
        };
        // If the stream was recreated or another leader took over meanwhile, the sequences above
        // are meaningless; start again.
        let leader = info.leader().to_owned();
        let (info, base_now) = self.bus.incarnation().await?;
        if base_now != base || info.leader() != leader {
            return Ok(None);
        }
        let puller = Puller::new(&self.bus, STREAM, reader.name()).await?;
        self.retry.succeeded();
        let target = if reader.pending == 0 { 0 } else { info.state.last_seq };
        self.open = Some(Open { backlog, puller, _reader: reader, consumer_sequence: 0, target });
        self.leader = leader;
        if resumed.is_some() {
            return Ok(None);
        }
        self.place = Some(FeedPosition { base, sequence: 0, heard: Instant::now() });
        Ok(Some(Step::Reset { caught_up: last == 0 && target == 0 }))
    }
}
