//! Limits for the length of messages in a status.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Bytes. An error appears in `lastError` and in up to three conditions, beside the other content
/// of an object of at most 1.5 MiB.
const LONGEST: usize = 8 << 10;

/// Returns a short message unchanged. For a long message, returns its beginning, its length, and a
/// hash to distinguish it from others.
///
/// A caller that shortens a message logs it in full.
pub(crate) fn bounded(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST {
        return Cow::Borrowed(message);
    }
    let head = &message[..message.floor_char_boundary(LONGEST)];
    let hash = HEXLOWER.encode(&Sha256::digest(message.as_bytes())[..8]);
    Cow::Owned(format!("{head}… ({} bytes in all, sha256 {hash}…; the log has the rest)", message.len()))
}

/// Limit in bytes for a child's message that its parent repeats. Each level adds names to the
/// message, and the result must fit into a status.
const LONGEST_CAUSE: usize = 3 << 10;

/// Returns the beginning of a message whose full text is in another object.
pub(crate) fn excerpt(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST_CAUSE {
        return Cow::Borrowed(message);
    }
    Cow::Owned(format!("{}…", &message[..message.floor_char_boundary(LONGEST_CAUSE)]))
}

/// Reports whether a status contains only the beginning of a message.
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

    /// Causes from both kinds of children fit into one status.
    #[test]
    fn causes_are_cut_shorter_than_messages() {
        assert_eq!(excerpt("short"), "short");
        let cut = excerpt(&"ä".repeat(LONGEST)).into_owned();
        assert!(cut.ends_with("ä…") && 2 * cut.len() + 2_000 <= LONGEST + 4, "{}", cut.len());
    }
}
