use std::cmp::Ordering;
use std::fmt;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub prerelease: String,
    pub metadata: String,
    /// The text from which the version was read. A version made from another one has its own text,
    /// with the `v` of the other.
    pub original: String,
}

/// The reason why a text is not a version, or not a part of one, in the words of
/// Masterminds/semver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    #[error("invalid semantic version")]
    Version,
    #[error("invalid prerelease string")]
    Prerelease,
    #[error("invalid metadata string")]
    Metadata,
    #[error("version segment starts with 0")]
    LeadingZero,
    /// A number that does not fit 64 bits.
    #[error("error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    Segment(String),
}

impl Version {
    /// Parses a version: an optional `v`, one to three numbers, then pre-release and build
    /// metadata.
    ///
    /// # Errors
    ///
    /// The text is not a version, even in this lenient form.
    pub fn parse(text: &str) -> Result<Version, VersionError> {
        let body = text.strip_prefix('v').unwrap_or(text);
        let (body, metadata) = split_suffix(body, '+')?;
        let (numbers, prerelease) = split_suffix(body, '-')?;
        let numbers: Vec<&str> = numbers.split('.').collect();
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if numbers.len() > 3 || !numbers.iter().all(is_number) {
            return Err(VersionError::Version);
        }
        let mut segments = [0; 3];
        for (segment, part) in segments.iter_mut().zip(numbers) {
            *segment = part.parse().map_err(|_| VersionError::Segment(part.to_string()))?;
        }
        check_prerelease(prerelease)?;
        let [major, minor, patch] = segments;
        let (prerelease, metadata) = (prerelease.to_string(), metadata.to_string());
        Ok(Version { major, minor, patch, prerelease, metadata, original: text.to_string() })
    }

    /// Compares by precedence: numbers, then pre-release. Metadata does not count.
    pub fn compare(&self, other: &Version) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| compare_prerelease(&self.prerelease, &other.prerelease))
    }

    fn renamed(mut self) -> Version {
        let prefix = if self.original.starts_with('v') { "v" } else { "" };
        self.original = format!("{prefix}{self}");
        self
    }

    /// Returns the version without pre-release and metadata.
    pub fn release(&self) -> Version {
        self.at(self.major, self.minor, self.patch)
    }

    /// Returns the release with the given numbers.
    fn at(&self, major: u64, minor: u64, patch: u64) -> Version {
        let (prerelease, metadata) = (String::new(), String::new());
        Version { major, minor, patch, prerelease, metadata, original: self.original.clone() }.renamed()
    }

    /// Returns the next major release. The largest number wraps to zero, as in Go.
    pub fn next_major(&self) -> Version {
        self.at(self.major.wrapping_add(1), 0, 0)
    }

    /// Returns the next minor release.
    pub fn next_minor(&self) -> Version {
        self.at(self.major, self.minor.wrapping_add(1), 0)
    }

    /// Returns the release that follows a pre-release, else the next patch.
    pub fn next_patch(&self) -> Version {
        let step = u64::from(self.prerelease.is_empty());
        self.at(self.major, self.minor, self.patch.wrapping_add(step))
    }

    /// Returns the version with another pre-release.
    ///
    /// # Errors
    ///
    /// The text is not a pre-release.
    pub fn with_prerelease(&self, prerelease: &str) -> Result<Version, VersionError> {
        check_prerelease(prerelease)?;
        Ok(Version { prerelease: prerelease.to_string(), ..self.clone() }.renamed())
    }

    /// Returns the version with other build metadata.
    ///
    /// # Errors
    ///
    /// The text is not metadata.
    pub fn with_metadata(&self, metadata: &str) -> Result<Version, VersionError> {
        if !metadata.is_empty() && !metadata.split('.').all(is_identifier) {
            return Err(VersionError::Metadata);
        }
        Ok(Version { metadata: metadata.to_string(), ..self.clone() }.renamed())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// Splits a text at a mark. The suffix is empty if there is no mark.
fn split_suffix(text: &str, mark: char) -> Result<(&str, &str), VersionError> {
    match text.split_once(mark) {
        None => Ok((text, "")),
        Some((head, suffix)) if suffix.split('.').all(is_identifier) => Ok((head, suffix)),
        Some(_) => Err(VersionError::Version),
    }
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn check_prerelease(prerelease: &str) -> Result<(), VersionError> {
    if prerelease.is_empty() {
        return Ok(());
    }
    for part in prerelease.split('.') {
        if part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(VersionError::LeadingZero);
        }
        if !is_identifier(part) {
            return Err(VersionError::Prerelease);
        }
    }
    Ok(())
}

/// Compares pre-releases. A release comes after its pre-releases; these compare part by part,
/// numbers before words.
pub(super) fn compare_prerelease(a: &str, b: &str) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return b.is_empty().cmp(&a.is_empty()).reverse();
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => compare_part(a, b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_part(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_that_of_semantic_versions() {
        let ascending = [
            "0.9.9",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0",
            "1.0.1",
            "1.2",
        ];
        for (index, low) in ascending.iter().enumerate() {
            for high in &ascending[index + 1..] {
                let (low, high) = (Version::parse(low).unwrap(), Version::parse(high).unwrap());
                assert_eq!(low.compare(&high), Ordering::Less, "{low} {high}");
                assert_eq!(high.compare(&low), Ordering::Greater, "{low} {high}");
            }
        }
        assert_eq!(Version::parse("1+a").unwrap().compare(&Version::parse("1+b").unwrap()), Ordering::Equal);
    }

    #[test]
    fn parts_are_replaced_as_in_the_original() {
        let version = Version::parse("v1.2").unwrap();
        let original = |changed: Result<Version, VersionError>| match changed {
            Ok(version) => version.original,
            Err(invalid) => format!("!{invalid}"),
        };
        assert_eq!(version.original, "v1.2");
        assert_eq!(original(version.with_prerelease("a")), "v1.2.0-a");
        assert_eq!(original(version.with_metadata("b")), "v1.2.0+b");
        // The parts are checked in order, and the first invalid one is reported.
        assert_eq!(original(version.with_prerelease("01.a_b")), "!version segment starts with 0");
        assert_eq!(original(version.with_prerelease("a..01")), "!invalid prerelease string");
        assert_eq!(original(version.with_metadata("01")), "v1.2.0+01");
        assert_eq!(original(version.with_metadata("a_b")), "!invalid metadata string");
        assert_eq!(original(Version::parse("v1-a+b").map(|version| version.release())), "v1.0.0");
    }

    #[test]
    fn numbers_wrap() {
        let version = Version::parse("18446744073709551615.0.0").unwrap();
        assert_eq!(version.next_major().original, "0.0.0");
    }
}
