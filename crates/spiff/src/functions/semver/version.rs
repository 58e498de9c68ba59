use std::cmp::Ordering;
use std::fmt;

/// A version; two that differ in metadata alone compare as equal.
#[derive(Debug, Clone)]
pub(in crate::functions) struct Version {
    /// Whether it was written with a `v` before it.
    pub(super) is_prefixed: bool,
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    pub(super) prerelease: String,
    pub(super) metadata: String,
}

/// Why a text is no version, or no part of one.
#[derive(Debug, Clone)]
pub(in crate::functions) enum Refusal {
    Version,
    Prerelease,
    Metadata,
    LeadingZero,
    /// A number that does not fit.
    Segment(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => formatter.write_str("invalid semantic version"),
            Self::Prerelease => formatter.write_str("invalid prerelease string"),
            Self::Metadata => formatter.write_str("invalid metadata string"),
            Self::LeadingZero => formatter.write_str("version segment starts with 0"),
            Self::Segment(number) => write!(
                formatter,
                "error parsing version segment: strconv.ParseUint: parsing \"{number}\": value out of range"
            ),
        }
    }
}

impl Version {
    /// An optional `v`, one to three numbers, a pre-release and metadata.
    pub(in crate::functions) fn parse(text: &str) -> Result<Self, Refusal> {
        let (version, prerelease, metadata) = split(text)?;
        if !are_identifiers(prerelease) || !are_identifiers(metadata) {
            return Err(Refusal::Version);
        }
        version.with_prerelease(prerelease)?.with_metadata(metadata)
    }

    pub(super) fn with_prerelease(&self, prerelease: &str) -> Result<Self, Refusal> {
        let has_zero = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !are_identifiers(prerelease) {
            return Err(Refusal::Prerelease);
        }
        if prerelease.split('.').any(has_zero) {
            return Err(Refusal::LeadingZero);
        }
        Ok(Self { prerelease: prerelease.to_owned(), ..self.clone() })
    }

    pub(super) fn with_metadata(&self, metadata: &str) -> Result<Self, Refusal> {
        if !are_identifiers(metadata) {
            return Err(Refusal::Metadata);
        }
        Ok(Self { metadata: metadata.to_owned(), ..self.clone() })
    }

    pub(super) fn numbers(&self) -> (u64, u64, u64) {
        (self.major, self.minor, self.patch)
    }

    /// As it was written, with all three numbers.
    pub(super) fn original(&self) -> String {
        let prefix = if self.is_prefixed { "v" } else { "" };
        format!("{prefix}{self}")
    }

    fn at(&self, (major, minor, patch): (u64, u64, u64)) -> Self {
        let is_prefixed = self.is_prefixed;
        Self { is_prefixed, major, minor, patch, prerelease: String::new(), metadata: String::new() }
    }

    /// Without pre-release and metadata.
    pub(super) fn release(&self) -> Self {
        self.at(self.numbers())
    }

    pub(super) fn next_major(&self) -> Self {
        self.at((self.major.saturating_add(1), 0, 0))
    }

    pub(super) fn next_minor(&self) -> Self {
        self.at((self.major, self.minor.saturating_add(1), 0))
    }

    /// The release that a pre-release leads to, else the next patch.
    pub(super) fn next_patch(&self) -> Self {
        let step = u64::from(self.prerelease.is_empty());
        self.at((self.major, self.minor, self.patch.saturating_add(step)))
    }

    /// Precedence: numbers, then the pre-release.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers()).then_with(|| by_prerelease(&self.prerelease, &other.prerelease))
    }
}

/// The release, the pre-release and the metadata; the latter two are empty if they are left out.
fn split(text: &str) -> Result<(Version, &str, &str), Refusal> {
    let unprefixed = text.strip_prefix('v');
    let text = unprefixed.unwrap_or(text);
    let (text, metadata) = text.split_once('+').map_or((text, None), |(text, rest)| (text, Some(rest)));
    let (numbers, prerelease) = text.split_once('-').map_or((text, None), |(text, rest)| (text, Some(rest)));
    if prerelease == Some("") || metadata == Some("") {
        return Err(Refusal::Version);
    }
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if numbers.split('.').count() > 3 || !numbers.split('.').all(is_number) {
        return Err(Refusal::Version);
    }
    let mut parts = [0; 3];
    for (part, number) in parts.iter_mut().zip(numbers.split('.')) {
        *part = number.parse().map_err(|_| Refusal::Segment(number.to_owned()))?;
    }
    let [major, minor, patch] = parts;
    let is_prefixed = unprefixed.is_some();
    let version =
        Version { is_prefixed, major, minor, patch, prerelease: String::new(), metadata: String::new() };
    Ok((version, prerelease.unwrap_or_default(), metadata.unwrap_or_default()))
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
        let Self { major, minor, patch, prerelease, metadata, .. } = self;
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
