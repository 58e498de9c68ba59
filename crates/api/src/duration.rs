//! Durations as objects have them (`installations.md` 1.0): Go's notation, or the word `none` for
//! zero.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use groundwork_go::duration;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Duration with the precision of a nanosecond, within ±292 years.
///
/// Keeps the text that it was parsed from, and writes the same text again. Two durations are equal
/// if their lengths are.
#[derive(Clone)]
pub struct Duration {
    nanoseconds: i64,
    written: Option<Box<str>>,
}

/// Reason that a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow Go's notation.
    #[error(
        "unable to parse string into a duration: {0:?} is neither \"none\" nor a number with a unit such as \"5m\", \"1h30m\" or \"300ms\""
    )]
    Syntax(String),
    /// The length is beyond ±292 years.
    #[error("unable to parse string into a duration: {0:?} is longer than 292 years")]
    TooLong(String),
}

impl Duration {
    /// Regular expression, for schemas, of the texts that are durations.
    pub const PATTERN: &str = r"^(none|[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$";
    /// Zero duration, written `none`.
    pub const NONE: Self = Self { nanoseconds: 0, written: None };

    /// Creates a duration from nanoseconds.
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self { nanoseconds, written: None }
    }

    /// Creates a duration from seconds, at most about 292 years.
    pub const fn from_secs(seconds: i64) -> Self {
        Self::from_nanos(seconds.saturating_mul(1_000_000_000))
    }

    /// Returns the length in nanoseconds.
    pub const fn as_nanos(&self) -> i64 {
        self.nanoseconds
    }

    /// Reports whether the duration is zero, which switches off the limit that it sets.
    pub const fn is_none(&self) -> bool {
        self.nanoseconds == 0
    }

    /// Returns the length in the standard library's type; `None` if it is negative.
    pub fn to_std(&self) -> Option<std::time::Duration> {
        u64::try_from(self.nanoseconds).ok().map(std::time::Duration::from_nanos)
    }
}

impl Default for Duration {
    fn default() -> Self {
        Self::NONE
    }
}

impl PartialEq for Duration {
    fn eq(&self, other: &Self) -> bool {
        self.nanoseconds == other.nanoseconds
    }
}

impl Eq for Duration {}

impl PartialOrd for Duration {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Duration {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanoseconds.cmp(&other.nanoseconds)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Duration({self})")
    }
}

/// Go's notation (`1h30m0s`, `1.5s`, `300ms`), and `none` for zero.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanoseconds == 0 {
            return f.write_str("none");
        }
        f.write_str(&duration::text(self.nanoseconds))
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let nanoseconds = if text == "none" { Ok(0) } else { duration::parse(text.as_bytes()) };
        let nanoseconds = nanoseconds.map_err(|invalid| {
            let error = if invalid.is_too_long() { DurationError::TooLong } else { DurationError::Syntax };
            error(text.to_owned())
        })?;
        Ok(Self { nanoseconds, written: Some(text.into()) })
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.written {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": "string", "pattern": Self::PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(input: &str, expected: &str) {
        let outcome = match input.parse::<Duration>() {
            Ok(duration) => format!("{} {duration}", duration.as_nanos()),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected, "{input}");
    }

    #[test]
    fn go_notation_and_none() {
        check("none", "0 none");
        check("0", "0 none");
        check("0s", "0 none");
        check("300ms", "300000000 300ms");
        check("1h30m", "5400000000000 1h30m0s");
        check("24h", "86400000000000 24h0m0s");
        check("1.5s", "1500000000 1.5s");
        check(".5h", "1800000000000 30m0s");
        check("5.s", "5000000000 5s");
        check("1h1ns", "3600000000001 1h0m0.000000001s");
        check("1us", "1000 1µs");
        check("1μs", "1000 1µs");
        // Go computes a fraction in floating point, so a long one is rounded up.
        check("0.3333333333333333333h", "1200000000000 20m0s");
        check("1.999999999999999999s", "2000000000 2s");
        check("-5m", "-300000000000 -5m0s");
        check("+5m", "300000000000 5m0s");
        check("9223372036854775807ns", "9223372036854775807 2562047h47m16.854775807s");
        check("-9223372036854775808ns", "-9223372036854775808 -2562047h47m16.854775808s");
    }

    #[test]
    fn texts_that_are_no_durations() {
        for input in ["", "5", "-", "m", ".s", "1 h", "1d", "h1", "None", "1h-5m", "1..5s"] {
            assert_eq!(input.parse::<Duration>(), Err(DurationError::Syntax(input.to_owned())), "{input}");
        }
        for input in ["2562048h", "99999999999999999999999999999999999999999999h"] {
            assert_eq!(input.parse::<Duration>(), Err(DurationError::TooLong(input.to_owned())), "{input}");
        }
    }

    #[test]
    fn the_written_text_survives() {
        let read: Duration = serde_json::from_str("\"60m\"").unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"60m\"");
        assert_eq!(read, Duration::from_secs(3600));
        assert_eq!(serde_json::to_string(&Duration::from_secs(3600)).unwrap(), "\"1h0m0s\"");
        assert_eq!(serde_json::to_string(&Duration::NONE).unwrap(), "\"none\"");
        assert!(serde_json::from_str::<Duration>("300").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(nanoseconds: i64) {
            let printed = Duration::from_nanos(nanoseconds).to_string();
            prop_assert_eq!(printed.parse::<Duration>().map(|duration| duration.as_nanos()), Ok(nanoseconds));
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.nuµmsh]{0,24}") {
            let _ = text.parse::<Duration>();
        }
    }
}
