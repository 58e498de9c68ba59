//! A growing text with an upper bound.

use crate::budget::{Budget, LimitError};

/// Collects output. Once a limit is hit it swallows everything, so that writers need no error handling; the failure
/// shows when the text is taken.
#[derive(Debug)]
pub(crate) struct Sink {
    bytes: Vec<u8>,
    limit: usize,
    failure: Option<LimitError>,
}

/// Room for most texts.
const USUAL: usize = 64;

impl Sink {
    pub(crate) fn new(budget: &Budget) -> Sink {
        Sink { bytes: Vec::with_capacity(USUAL), limit: budget.limits().output_bytes, failure: None }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Appends one byte many times.
    pub(crate) fn pad(&mut self, byte: u8, count: usize) {
        if self.fits(count) {
            self.bytes.resize(self.bytes.len() + count, byte);
        }
    }

    /// Whether `count` more bytes are allowed. Ask before building something large.
    pub(crate) fn fits(&mut self, count: usize) -> bool {
        if self.failure.is_none() && count > self.limit - self.bytes.len() {
            self.failure = Some(LimitError::Output(self.limit));
        }
        self.failure.is_none()
    }

    /// Gives up, e.g. because the value nests too deep.
    pub(crate) fn fail(&mut self, failure: LimitError) {
        self.failure.get_or_insert(failure);
    }

    pub(crate) fn failure(&self) -> Option<LimitError> {
        self.failure
    }

    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, LimitError> {
        self.failure.map_or(Ok(self.bytes), Err)
    }

    /// What was written, whether or not a limit was hit.
    pub(crate) fn into_partial(self) -> Vec<u8> {
        self.bytes
    }
}
