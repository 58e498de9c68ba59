//! A growing text with an upper limit.

/// The reason why a text was not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The text would have more bytes than this.
    Length(usize),
    /// The text would take more pieces than were allowed, see [`Sink::allow_pieces`].
    Pieces,
    /// The value nests too deep.
    Depth,
}

/// A collector of output. Once a limit is reached it ignores all further output, so that writers
/// need no error handling. The error is returned when the text is taken.
#[derive(Debug)]
pub struct Sink {
    bytes: Vec<u8>,
    limit: usize,
    pieces: usize,
    most_pieces: usize,
    error: Option<FormatError>,
}

/// Initial capacity in bytes, enough for most texts.
const USUAL: usize = 64;

impl Sink {
    /// Creates an empty text that may grow to `limit` bytes.
    pub fn new(limit: usize) -> Sink {
        Sink { bytes: Vec::with_capacity(USUAL), limit, pieces: 0, most_pieces: usize::MAX, error: None }
    }

    /// Sets how many pieces may be written from now on, as [`Sink::take_pieces`] counts them.
    pub fn allow_pieces(&mut self, count: usize) {
        self.most_pieces = self.pieces.saturating_add(count);
    }

    /// Returns the pieces that were written since the last call. They measure the work of writing
    /// better than bytes do. An element of a list counts two, an entry of a map four.
    pub fn take_pieces(&mut self) -> usize {
        std::mem::take(&mut self.pieces)
    }

    /// Accounts for the work of this many pieces that is about to be done.
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

    /// Reports whether one more piece of `count` bytes is allowed. Call it before building a large
    /// text.
    #[inline]
    pub fn fits(&mut self, count: usize) -> bool {
        self.work(1);
        if self.error.is_none() && count > self.limit - self.bytes.len() {
            self.error = Some(FormatError::Length(self.limit));
        }
        self.error.is_none()
    }

    /// Returns the number of bytes that were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Reports whether no bytes were written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Stops the output with an error, for example because the value nests too deep.
    pub fn fail(&mut self, error: FormatError) {
        self.error.get_or_insert(error);
    }

    /// Returns the error that stopped the output.
    pub fn error(&self) -> Option<FormatError> {
        self.error
    }

    /// Returns the whole text.
    ///
    /// # Errors
    ///
    /// The limit that was reached.
    pub fn into_bytes(self) -> Result<Vec<u8>, FormatError> {
        self.error.map_or(Ok(self.bytes), Err)
    }

    /// Returns the output so far, even if a limit was reached.
    pub fn into_partial(self) -> Vec<u8> {
        self.bytes
    }
}
