use std::fmt;
use std::io::{self, Read};

use data_encoding::HEXLOWER;
use groundwork_component::RepositoryError;
use sha2::{Digest as _, Sha256};

/// SHA-256 of some content, written `sha256:<64 hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(HEXLOWER.encode(&Sha256::digest(bytes)))
    }

    /// Returns the digest of the bytes that a hash has consumed.
    pub(crate) fn of_hash(hash: Sha256) -> Self {
        Self(HEXLOWER.encode(&hash.finalize()))
    }

    /// Parses `sha256:<hex>`. Returns `None` for any other text, which must not become a file name.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (hex.len() == 64 && hex.bytes().all(lower_hex)).then(|| Self(hex.to_owned()))
    }

    /// Returns the digits without the name of the algorithm.
    pub(crate) fn hex(&self) -> &str {
        &self.0
    }

    /// Returns the name of the file for the content in a transport archive.
    pub fn file_name(&self) -> String {
        format!("sha256.{}", self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// Returns the path segment for a component name under the mapping `sha256-digest`.
pub(crate) fn hashed_name(name: &str) -> String {
    Digest::of(name.as_bytes()).0
}

/// Reader that limits a body and compares it with its digest, if it has one. The end of the body is
/// only returned if the digest matches.
pub(crate) struct Verified<R> {
    inner: R,
    hash: Sha256,
    expected: Option<Digest>,
    address: String,
    left: u64,
    limit: u64,
}

impl<R: Read> Verified<R> {
    /// Wraps a body of at most `limit` bytes.
    pub(crate) fn new(inner: R, expected: impl Into<Option<Digest>>, address: String, limit: u64) -> Self {
        Self { inner, hash: Sha256::new(), expected: expected.into(), address, left: limit, limit }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            return Err(RepositoryError::TooLarge { address: self.address.clone(), limit: self.limit }.into());
        };
        self.left = left;
        let Some(expected) = &self.expected else { return Ok(count) };
        self.hash.update(&buffer[..count]);
        if count == 0 {
            let actual = Digest(HEXLOWER.encode(&self.hash.clone().finalize()));
            if actual != *expected {
                return Err(RepositoryError::Digest {
                    address: self.address.clone(),
                    expected: expected.to_string(),
                    actual: actual.to_string(),
                }
                .into());
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example value of `components.md` 6.1.
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
