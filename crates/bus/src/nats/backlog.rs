//! What was on the stream when somebody began to read it, in order.
//!
//! A consumer with several filters goes through the stream slowly: where most messages of a block have been replaced by later ones, the
//! server looks at every subject of the block for each message that it delivers. With one filter it does not. So each subject has a
//! consumer of its own here, and their messages are merged by sequence.

use std::sync::Arc;

use super::NatsBus;
use super::consumer::{Start, ephemeral};
use super::pull::{Pulled, Puller, Received, Wait};
use super::reader::Reader;
use crate::STREAM;
use crate::error::BusError;

/// Messages that are asked for at once of each subject, and held at most.
const BATCH: usize = 250;

/// Messages of some subjects up to one that is known to be the last.
#[derive(Debug)]
pub(super) struct Backlog {
    parts: Vec<Part>,
    last: u64,
}

/// The messages of one subject that are left.
#[derive(Debug)]
struct Part {
    puller: Puller,
    /// Goes with the part.
    _reader: Reader,
    consumer_sequence: u64,
    /// The next message, once it is there.
    head: Option<Received>,
}

impl Backlog {
    /// Reads some subjects from the message `first` to the message `last`.
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

    /// The sequence of the message after which it ends.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The next message; `None` after the last one. After an error nothing more comes that could be relied on. May be dropped and called
    /// again.
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
    /// Waits for the next message; false if there is none up to `last`.
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
                "a message was lost on the way".to_owned()
            }
            Pulled::Empty => return Ok(false),
            Pulled::Lost(reason) => reason,
        };
        Err(BusError::Answer { request: "reading the stream".to_owned(), reason: lost })
    }
}
