//! A growing text with an upper bound.

/// Why a text was not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// It would have more bytes than this.
    Length(usize),
    /// It would be made of more pieces than were allowed.
    Pieces,
    /// The value nests too deep.
    Depth,
}

/// Collects output. Once a limit is hit it swallows everything, so that writers need no error handling; the error
/// shows when the text is taken.
#[derive(Debug)]
pub struct Sink {
    bytes: Vec<u8>,
    limit: usize,
    pieces: usize,
    most_pieces: usize,
    error: Option<FormatError>,
}

/// Room for most texts.
const USUAL: usize = 64;

impl Sink {
    /// An empty text that may grow to so many bytes.
    pub fn new(limit: usize) -> Sink {
        Sink { bytes: Vec::with_capacity(USUAL), limit, pieces: 0, most_pieces: usize::MAX, error: None }
    }

    /// How many pieces may be written from now on, as [`Sink::take_pieces`] counts them.
    pub fn allow_pieces(&mut self, count: usize) {
        self.most_pieces = self.pieces.saturating_add(count);
    }

    /// The pieces that were written since this was asked for last: what writing took, which bytes alone do not tell. An element of
    /// a list takes two, an entry of a map four.
    pub fn take_pieces(&mut self) -> usize {
        std::mem::take(&mut self.pieces)
    }

    /// Accounts for the work of so many pieces that is about to be done.
    #[inline]
    pub(super) fn work(&mut self, pieces: usize) {
        self.pieces = self.pieces.saturating_add(pieces);
        if self.pieces > self.most_pieces {
            self.error.get_or_insert(FormatError::Pieces);
        }
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

    /// Whether one more piece of `count` bytes is allowed. Ask before building something large.
    #[inline]
    pub fn fits(&mut self, count: usize) -> bool {
        self.work(1);
        if self.error.is_none() && count > self.limit - self.bytes.len() {
            self.error = Some(FormatError::Length(self.limit));
        }
        self.error.is_none()
    }

    /// Bytes that were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Gives up, e.g. because the value nests too deep.
    pub fn fail(&mut self, error: FormatError) {
        self.error.get_or_insert(error);
    }

    /// Why nothing more is taken.
    pub fn error(&self) -> Option<FormatError> {
        self.error
    }

    /// The whole text.
    ///
    /// # Errors
    ///
    /// The limit that was hit.
    pub fn into_bytes(self) -> Result<Vec<u8>, FormatError> {
        self.error.map_or(Ok(self.bytes), Err)
    }

    /// What was written, whether or not a limit was hit.
    pub fn into_partial(self) -> Vec<u8> {
        self.bytes
    }
}
