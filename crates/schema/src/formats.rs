//! Formats that are asserted, whatever the dialect.

mod original;

use std::sync::LazyLock;

use jsonschema::{Draft, ValidationOptions, Validator};
use serde_json::{Value, json};

/// The formats of `blueprints.md` 3.7.1, as the standards have them.
///
/// `idn-email` belongs to them as well, see [`is_international_email`].
const ASSERTED_FORMATS: [&str; 16] = [
    "date",
    "date-time",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// A validator for each asserted format. Older drafts do not know all of them, so the newest one is asked.
static FORMATS: LazyLock<[Validator; ASSERTED_FORMATS.len()]> =
    LazyLock::new(|| ASSERTED_FORMATS.map(format_validator));
static EMAIL: LazyLock<Validator> = LazyLock::new(|| format_validator("email"));

fn format_validator(format: &str) -> Validator {
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
    options.build(&json!({"format": format})).expect("a schema of one constant keyword compiles")
}

/// An address in which letters and digits of any script may stand: the engine knows the format only together
/// with the tables of international domain names.
fn is_international_email(text: &str) -> bool {
    let plain = |letter: char| if !letter.is_ascii() && letter.is_alphanumeric() { 'x' } else { letter };
    EMAIL.is_valid(&Value::String(text.chars().map(plain).collect()))
}

/// Formats that are not asserted although the engine knows them.
const TOLERATED_FORMATS: [&str; 2] = ["duration", "idn-hostname"];

/// Which formats are asserted, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formats {
    /// As Landscaper does.
    Original,
    /// By the standards that they name.
    Standard,
    /// None: they are information.
    Ignored,
}

impl Formats {
    pub(crate) fn apply(self, options: ValidationOptions) -> ValidationOptions {
        match self {
            Self::Original => original(options),
            Self::Standard => standard(options),
            Self::Ignored => options.should_validate_formats(false).should_ignore_unknown_formats(true),
        }
    }
}

fn original(mut options: ValidationOptions) -> ValidationOptions {
    for (format, check) in original::CHECKS {
        options = options.with_format(format, check);
    }
    tolerant(options)
}

fn standard(mut options: ValidationOptions) -> ValidationOptions {
    for (index, format) in ASSERTED_FORMATS.into_iter().enumerate() {
        options = options.with_format(format, move |text: &str| FORMATS[index].is_valid(&json!(text)));
    }
    tolerant(options.with_format("idn-email", is_international_email))
}

fn tolerant(mut options: ValidationOptions) -> ValidationOptions {
    for format in TOLERATED_FORMATS {
        options = options.with_format(format, |_: &str| true);
    }
    options.should_validate_formats(true).should_ignore_unknown_formats(true)
}
