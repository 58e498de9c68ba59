//! Backlog: the messages that were on the stream when a reader started, in order.
//!
//! A consumer with several filters goes through the stream slowly. Where later messages have
//! replaced most of a block, the server looks at every subject of the block for each message that
//! it delivers. With one filter it does not. So the backlog has one consumer for each subject and
//! merges their messages by sequence.

use std::sync::Arc;

use super::NatsBus;
use super::consumer::{Start, ephemeral};
use super::pull::{Pulled, Puller, Received, Wait};
use super::reader::Reader;
use crate::STREAM;
use crate::error::BusError;

/// Messages requested at a time for each subject, which is also the maximum in memory.
const BATCH: usize = 250;

/// Messages of some subjects, up to a known last sequence.
#[derive(Debug)]
pub(super) struct Backlog {
    parts: Vec<Part>,
    last: u64,
}

/// The remaining messages of one subject.
#[derive(Debug)]
struct Part {
    puller: Puller,
    /// Deletes the consumer when this part is dropped.
    _reader: Reader,
    consumer_sequence: u64,
    /// The next message, once it has arrived.
    head: Option<Received>,
}

impl Backlog {
    /// Opens the messages of some subjects from sequence `first` to sequence `last`.
    pub(super) async fn open(
        bus: &Arc<NatsBus>,
        subjects: &[String],
        first: u64,
        last: u64,
    ) -> Result<Self, BusError> {
        let mut backlog = Self { parts: Vec::new(), last };
        for subject in subjects {
            let settings = ephemeral(std::slice::from_ref(subject), Start::At(first), false);
            let reader = Reader::open(bus, STREAM, settings).await?;
            if reader.pending > 0 {
                let puller = Puller::new(bus, STREAM, reader.name()).await?;
                backlog.parts.push(Part { puller, _reader: reader, consumer_sequence: 0, head: None });
            }
        }
        Ok(backlog)
    }

    /// Returns the sequence of the message after which the backlog ends.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the next message; `None` after the last one. After an error the rest is incomplete
    /// and must not be used. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Option<Received>, BusError> {
        let mut index = 0;
        while let Some(part) = self.parts.get_mut(index) {
            if part.head.is_some() || part.pull(self.last).await? {
                index += 1;
            } else {
                self.parts.swap_remove(index);
            }
        }
        let sequence = |part: &&mut Part| part.head.as_ref().map(|head| head.sequence);
        Ok(self.parts.iter_mut().min_by_key(sequence).and_then(|part| part.head.take()))
    }
}

impl Part {
    /// Waits for the next message. Returns false if there is none up to `last`.
    async fn pull(&mut self, last: u64) -> Result<bool, BusError> {
        if !self.puller.is_open() {
            self.puller.request(BATCH, Wait::No).await?;
        }
        let lost = match self.puller.next().await {
            Pulled::Message(message) => {
                self.consumer_sequence += 1;
                if message.consumer_sequence == self.consumer_sequence {
                    self.head = Some(*message).filter(|message| message.sequence <= last);
                    return Ok(self.head.is_some());
                }
                "a message was lost in transit".to_owned()
            }
            Pulled::Empty => return Ok(false),
            Pulled::Lost(reason) => reason,
        };
        Err(BusError::Answer { request: "reading the stream".to_owned(), reason: lost })
    }
}
