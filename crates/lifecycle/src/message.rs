//! How much of a message a status holds.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Bytes. An error stands in `lastError` and in up to three conditions, beside whatever else an object of 1.5 MiB holds.
const LONGEST: usize = 8 << 10;

/// The message itself, or of a long one the beginning, its length, and a hash that tells two of them apart. Whoever shortens a message
/// logs the whole.
pub(crate) fn bounded(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST {
        return Cow::Borrowed(message);
    }
    let head = &message[..message.floor_char_boundary(LONGEST)];
    let hash = HEXLOWER.encode(&Sha256::digest(message.as_bytes())[..8]);
    Cow::Owned(format!("{head}… ({} bytes in all, sha256 {hash}…; the log has the rest)", message.len()))
}

/// Bytes of a message of something below that is told above. Each level adds names to it, and the whole fits into a status.
const LONGEST_CAUSE: usize = 3 << 10;

/// The beginning of a message that has its whole in another object.
pub(crate) fn excerpt(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST_CAUSE {
        return Cow::Borrowed(message);
    }
    Cow::Owned(format!("{}…", &message[..message.floor_char_boundary(LONGEST_CAUSE)]))
}

/// Whether a status holds only the beginning of a message.
pub fn is_shortened(message: &str) -> bool {
    message.len() > LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters_and_can_be_told_apart() {
        assert_eq!(bounded("short"), "short");
        assert_eq!(bounded(&"x".repeat(LONGEST)).len(), LONGEST);
        let message = |end: &str| format!("{}{end}", "ä".repeat(200_000));
        let (one, other) = (message("1"), message("2"));
        let (one, other) = (bounded(&one).into_owned(), bounded(&other).into_owned());
        assert!(one.len() < LONGEST + 100 && one.starts_with("ää"), "{}", one.len());
        assert!(one.contains("… (400001 bytes in all, sha256 "), "{}", &one[LONGEST - 10..]);
        assert_ne!(one, other);
    }

    /// Causes of both kinds of things below fit into one status.
    #[test]
    fn causes_are_cut_shorter_than_messages() {
        assert_eq!(excerpt("short"), "short");
        let cut = excerpt(&"ä".repeat(LONGEST)).into_owned();
        assert!(cut.ends_with("ä…") && 2 * cut.len() + 2_000 <= LONGEST + 4, "{}", cut.len());
    }
}
