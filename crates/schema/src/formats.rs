//! The formats that are asserted, and the rules for checking them.

mod helm;
mod original;

use jsonschema::ValidationOptions;

/// Formats that the engine knows, but that are not asserted.
const TOLERATED_FORMATS: [&str; 3] = ["duration", "idn-email", "idn-hostname"];

/// The choice of formats that are asserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formats {
    /// The formats of Landscaper.
    Original,
    /// The formats of Helm's library, in the drafts that assert formats.
    Helm,
    /// No formats.
    Ignored,
}

impl Formats {
    /// Returns the reason why a text does not match a format, in the words of Helm's library.
    /// Returns `None` if it matches, or if the format is not asserted.
    pub(crate) fn problem(self, format: &str, text: &str) -> Option<String> {
        if self == Self::Ignored {
            return None;
        }
        let (_, check) = helm::CHECKS.iter().find(|(name, _)| *name == format)?;
        check(text).err()
    }

    pub(crate) fn apply(self, options: ValidationOptions) -> ValidationOptions {
        match self {
            Self::Original => original(options),
            Self::Helm => helm(options),
            Self::Ignored => options.should_validate_formats(false).should_ignore_unknown_formats(true),
        }
    }
}

fn original(mut options: ValidationOptions) -> ValidationOptions {
    options = tolerant(options);
    for (format, check) in original::CHECKS {
        options = options.with_format(format, check);
    }
    options
}

fn helm(mut options: ValidationOptions) -> ValidationOptions {
    options = tolerant(options);
    for (format, check) in helm::CHECKS {
        options = options.with_format(format, move |text: &str| check(text).is_ok());
    }
    options
}

fn tolerant(mut options: ValidationOptions) -> ValidationOptions {
    for format in TOLERATED_FORMATS {
        options = options.with_format(format, |_: &str| true);
    }
    options.should_validate_formats(true).should_ignore_unknown_formats(true)
}
