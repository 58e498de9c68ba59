//! Repair of quoted texts with lines that are indented no more than their surroundings.
//!
//! Go's reader accepts such lines, since only the quote ends the text; the parser here refuses
//! them. Blanks at the start of such a line have no meaning, so blanks are inserted there, and the
//! text is read again.

use crate::error::Error;
use crate::events::UNINDENTED;

/// Limit for the lines that are repaired in one text. The text is read again for each of them.
const MOST_LINES: usize = 500;
/// Limit in bytes for the text that all readings together cover.
const MOST_BYTES: usize = 64 << 20;

pub(super) fn read<T>(text: &str, read: impl Fn(&str) -> Result<T, Error>) -> Result<T, Error> {
    let mut error = match read(text) {
        Err(error) if error.message() == UNINDENTED => error,
        result => return result,
    };
    let deepest = text.lines().map(|line| line.len() - line.trim_start_matches(' ').len()).max().unwrap_or(0);
    let indent = " ".repeat(deepest + 1);
    let mut mended = text.to_owned();
    let mut bytes = 0;
    for _ in 0..MOST_LINES {
        let line = error.position().line;
        let start: usize = mended.split_inclusive('\n').take(line - 1).map(str::len).sum();
        mended.insert_str(start, &indent);
        bytes += mended.len();
        match read(&mended) {
            Err(next)
                if next.message() == UNINDENTED && next.position().line > line && bytes < MOST_BYTES =>
            {
                error = next;
            }
            result => return result,
        }
    }
    Err(error)
}
