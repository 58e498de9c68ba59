//! Compares the ages of two versions of an object.

use std::fmt;
use std::num::NonZeroU64;

/// resourceVersion as a number, which grows with each change to objects of the kind. Kubernetes
/// documents this since 1.35, and API servers have behaved so before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(NonZeroU64);

impl ResourceVersion {
    /// Parses a number greater than zero. Returns `None` for other texts: "" and "0" stand for any
    /// version in requests, and the order of others is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        text.parse().ok().filter(|_| is_number).map(Self)
    }
}

impl fmt::Display for ResourceVersion {
    /// Writes the text that was parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_numbers_have_an_order() {
        for text in ["", "0", "00", "01", "+5", "-5", "5a", "0x5", " 5", "18446744073709551616"] {
            assert_eq!(ResourceVersion::parse(text), None, "{text}");
        }
        assert!(ResourceVersion::parse("9") < ResourceVersion::parse("10"));
    }

    proptest! {
        #[test]
        fn numbers_keep_their_text(number in 1..u64::MAX) {
            let text = number.to_string();
            prop_assert_eq!(ResourceVersion::parse(&text).unwrap().to_string(), text);
        }
    }
}
