use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content, written `sha256:<64 hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(HEXLOWER.encode(&Sha256::digest(bytes)))
    }

    /// Reads `sha256:<hex>`. Anything else is `None`: what is not a digest must not become a file name.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (hex.len() == 64 && hex.bytes().all(lower_hex)).then(|| Self(hex.to_owned()))
    }

    /// The name of the file that holds the content in a transport archive.
    pub fn file_name(&self) -> String {
        format!("sha256.{}", self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// The path segment that stands for a component name under the mapping `sha256-digest`.
pub(crate) fn hashed_name(name: &str) -> String {
    Digest::of(name.as_bytes()).0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of `components.md` 6.1.
    #[test]
    fn mapping_vector() {
        assert_eq!(
            hashed_name("somecomp"),
            "e9332cb39f32d0cea12252c5512f17e54fd850cf71faa5f5f0ef09056af01add"
        );
    }

    #[test]
    fn only_digests_become_file_names() {
        let good = format!("sha256:{}", "0".repeat(64));
        assert_eq!(Digest::parse(&good).unwrap().file_name(), format!("sha256.{}", "0".repeat(64)));
        for bad in ["", "sha256:", "sha256:../../etc/passwd", &good.to_uppercase(), &good[..70], "md5:0"] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }
}
