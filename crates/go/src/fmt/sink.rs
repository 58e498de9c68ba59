//! A growing text with an upper bound.

/// Why a text was not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It would have more bytes than this.
    Length(usize),
    /// The value nests too deep.
    Depth,
}

/// Collects output. Once a limit is hit it swallows everything, so that writers need no error handling; the failure
/// shows when the text is taken.
#[derive(Debug)]
pub struct Sink {
    bytes: Vec<u8>,
    limit: usize,
    failure: Option<Failure>,
}

/// Room for most texts.
const USUAL: usize = 64;

impl Sink {
    /// An empty text that may grow to so many bytes.
    pub fn new(limit: usize) -> Sink {
        Sink { bytes: Vec::with_capacity(USUAL), limit, failure: None }
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.fits(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Appends one byte many times.
    #[inline]
    pub fn pad(&mut self, byte: u8, count: usize) {
        if self.fits(count) {
            self.bytes.resize(self.bytes.len() + count, byte);
        }
    }

    /// Whether `count` more bytes are allowed. Ask before building something large.
    #[inline]
    pub fn fits(&mut self, count: usize) -> bool {
        if self.failure.is_none() && count > self.limit - self.bytes.len() {
            self.failure = Some(Failure::Length(self.limit));
        }
        self.failure.is_none()
    }

    /// Gives up, e.g. because the value nests too deep.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Why nothing more is taken.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The whole text.
    ///
    /// # Errors
    ///
    /// The limit that was hit.
    pub fn into_bytes(self) -> Result<Vec<u8>, Failure> {
        self.failure.map_or(Ok(self.bytes), Err)
    }

    /// What was written, whether or not a limit was hit.
    pub fn into_partial(self) -> Vec<u8> {
        self.bytes
    }
}
