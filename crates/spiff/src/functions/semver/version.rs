use std::cmp::Ordering;
use std::fmt;

/// A version; two that differ in metadata alone compare as equal.
#[derive(Debug, Clone)]
pub(in crate::functions) struct Version {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    pub(super) prerelease: String,
    pub(super) metadata: String,
}

impl Version {
    /// An optional `v`, one to three numbers, a pre-release and metadata.
    pub(in crate::functions) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, metadata) = text.split_once('+').map_or((text, None), |(text, rest)| (text, Some(rest)));
        let (numbers, prerelease) =
            text.split_once('-').map_or((text, None), |(text, rest)| (text, Some(rest)));
        let mut parts = [0; 3];
        let mut given = numbers.split('.');
        for (position, part) in parts.iter_mut().enumerate() {
            let Some(number) = given.next() else {
                if position == 0 {
                    return None;
                }
                break;
            };
            // A sign would be read, too.
            *part = number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))?;
        }
        let [major, minor, patch] = parts;
        let version = Self { major, minor, patch, prerelease: String::new(), metadata: String::new() };
        if given.next().is_some() || prerelease == Some("") || metadata == Some("") {
            return None;
        }
        version.with_prerelease(prerelease.unwrap_or_default())?.with_metadata(metadata.unwrap_or_default())
    }

    pub(super) fn with_prerelease(&self, prerelease: &str) -> Option<Self> {
        let has_zero = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let valid = are_identifiers(prerelease) && !prerelease.split('.').any(has_zero);
        valid.then(|| Self { prerelease: prerelease.to_owned(), ..self.clone() })
    }

    pub(super) fn with_metadata(&self, metadata: &str) -> Option<Self> {
        are_identifiers(metadata).then(|| Self { metadata: metadata.to_owned(), ..self.clone() })
    }

    pub(super) fn numbers(&self) -> (u64, u64, u64) {
        (self.major, self.minor, self.patch)
    }

    fn of((major, minor, patch): (u64, u64, u64)) -> Self {
        Self { major, minor, patch, prerelease: String::new(), metadata: String::new() }
    }

    /// Without pre-release and metadata.
    pub(super) fn release(&self) -> Self {
        Self::of(self.numbers())
    }

    pub(super) fn next_major(&self) -> Self {
        Self::of((self.major.saturating_add(1), 0, 0))
    }

    pub(super) fn next_minor(&self) -> Self {
        Self::of((self.major, self.minor.saturating_add(1), 0))
    }

    /// The release that a pre-release leads to, else the next patch.
    pub(super) fn next_patch(&self) -> Self {
        let step = u64::from(self.prerelease.is_empty());
        Self::of((self.major, self.minor, self.patch.saturating_add(step)))
    }

    /// Precedence: numbers, then the pre-release.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers()).then_with(|| by_prerelease(&self.prerelease, &other.prerelease))
    }
}

/// Empty, or words of letters, digits and hyphens with dots between.
fn are_identifiers(text: &str) -> bool {
    let is_identifier = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.is_empty() || text.split('.').all(is_identifier)
}

/// A release is above its pre-releases; of those, numbers are below words, and the longer one is above its beginning.
fn by_prerelease(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Within a pair `false < true`: numbers first.
    let key = |part: &str| match part.parse::<u64>() {
        Ok(number) => (false, number, String::new()),
        Err(_) => (true, 0, part.to_owned()),
    };
    left.split('.').map(key).cmp(right.split('.').map(key))
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch, prerelease, metadata } = self;
        write!(formatter, "{major}.{minor}.{patch}")?;
        if !prerelease.is_empty() {
            write!(formatter, "-{prerelease}")?;
        }
        if !metadata.is_empty() {
            write!(formatter, "+{metadata}")?;
        }
        Ok(())
    }
}
