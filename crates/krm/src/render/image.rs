//! Images of functions (`packagevariants.md` 8.3, 8.4): full names, tags, and the versions that the
//! built-in functions implement.

use groundwork_api::Function;

/// Image of a function after its `tag` was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Full name, as messages show it.
    pub(super) text: String,
    /// Name without tag and digest.
    name: String,
    version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Version {
    /// Latest version. The catalog calls the one that is not released yet `unstable`.
    Latest,
    /// Digest, or a tag that is not a version: only a registry knows its content.
    Opaque,
    /// Any version in one of these spans; a span excludes its end.
    Spans(Vec<[Triple; 2]>),
}

/// Major, minor and patch version.
pub(crate) type Triple = [u64; 3];

const END: Triple = [u64::MAX; 3];
/// Span of the versions that the built-in functions implement.
const SUPPORTED: [Triple; 2] = [[0, 1, 0], [1, 0, 0]];

impl Image {
    /// Applies the default prefix and the tag.
    ///
    /// # Errors
    /// The tag is neither a version, nor a constraint, nor a valid tag; the text is that of
    /// `packagevariants.md` 8.3.
    pub(super) fn of(function: &Function, default_prefix: &str) -> Result<Self, String> {
        let image = function.image.as_deref().unwrap_or_default();
        let image = if image.contains('/') { image.to_owned() } else { format!("{default_prefix}{image}") };
        let (name, tag, digest) = split(&image);
        let Some(wanted) = function.tag.as_deref().filter(|tag| !tag.is_empty()) else {
            let version = match (digest, tag) {
                (Some(_), _) => Version::Opaque,
                (None, None | Some("latest" | "unstable")) => Version::Latest,
                (None, Some(tag)) => exact(tag).map_or(Version::Opaque, |span| Version::Spans(vec![span])),
            };
            return Ok(Self { name: name.to_owned(), version, text: image });
        };
        let version = match exact(wanted) {
            Some(span) => Version::Spans(vec![span]),
            None if matches!(wanted, "latest" | "unstable") => Version::Latest,
            None => match constraint(wanted) {
                Some(spans) => Version::Spans(spans),
                None if is_tag(wanted) => Version::Opaque,
                None => {
                    return Err(format!(
                        "`function.tag` \"{wanted}\" must be a valid image tag: must start with an alphanumeric character or underscore, \
                         followed by at most 127 alphanumeric characters, underscores, periods, or dashes"
                    ));
                }
            },
        };
        Ok(Self { text: format!("{name}:{wanted}"), name: name.to_owned(), version })
    }

    /// Returns the first version after all that the tag allows; `None` if it allows the latest.
    pub(super) fn version_end(&self) -> Option<Triple> {
        let Version::Spans(spans) = &self.version else { return None };
        spans.iter().map(|[_, end]| *end).max().filter(|end| *end != END)
    }

    /// Returns the name of the built-in function that may replace the image.
    pub(super) fn native_name<'a>(&'a self, prefixes: &[String]) -> Option<&'a str> {
        let is_supported = match &self.version {
            Version::Latest => true,
            Version::Opaque => false,
            Version::Spans(spans) => {
                spans.iter().any(|[low, high]| *low < SUPPORTED[1] && SUPPORTED[0] < *high)
            }
        };
        let name = prefixes.iter().find_map(|prefix| self.name.strip_prefix(prefix.as_str()));
        name.filter(|_| is_supported)
    }
}

/// Splits an image into name, tag and digest.
fn split(image: &str) -> (&str, Option<&str>, Option<&str>) {
    let (image, digest) =
        image.split_once('@').map_or((image, None), |(image, digest)| (image, Some(digest)));
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag), digest),
        _ => (image, None, digest),
    }
}

/// Reports whether a text is a valid image reference.
pub(super) fn is_reference(image: &str) -> bool {
    let (name, tag, digest) = split(image);
    let is_part = |part: &str| {
        let is_alnum = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(is_alnum)
            && part.ends_with(is_alnum)
            && part.chars().all(|c| is_alnum(c) || matches!(c, '.' | '_' | '-'))
    };
    let is_host = |part: &str| {
        let (host, port) = part.split_once(':').unwrap_or((part, "0"));
        !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
            && !port.is_empty()
            && port.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_digest = |digest: &str| {
        digest.split_once(':').is_some_and(|(algorithm, hex)| {
            !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let is_name = (is_part(first) || name.contains('/') && is_host(first)) && parts.all(is_part);
    is_name && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_tag(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// Parses up to three numbers of a version; `None` for any other text. A suffix after a dash or a
/// plus is ignored.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next().unwrap_or(text);
    let numbers: Option<Vec<u64>> = core
        .split('.')
        .map(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_number)
        })
        .collect();
    numbers.filter(|numbers| numbers.len() <= 3)
}

/// Returns the versions that a tag such as `v0.4` covers: all that begin with its numbers.
fn exact(text: &str) -> Option<[Triple; 2]> {
    Some(prefix_span(&numbers(text)?))
}

fn filled(numbers: &[u64]) -> Triple {
    let mut triple = [0; 3];
    for (place, number) in triple.iter_mut().zip(numbers) {
        *place = *number;
    }
    triple
}

/// Returns the span from these numbers to the next ones of the same length.
fn prefix_span(numbers: &[u64]) -> [Triple; 2] {
    let Some(last) = numbers.len().checked_sub(1) else { return [[0; 3], END] };
    [filled(numbers), after(numbers, last)]
}

/// Returns the first version with a higher number at a position.
fn after(numbers: &[u64], place: usize) -> Triple {
    let mut high = filled(numbers.get(..=place).unwrap_or(numbers));
    if let Some(number) = high.get_mut(place) {
        *number = number.saturating_add(1);
    }
    high
}

/// Parses a semantic version constraint into spans: `||` separates alternatives; white space or
/// commas separate conditions that must all be true.
fn constraint(text: &str) -> Option<Vec<[Triple; 2]>> {
    text.split("||").map(alternative).collect()
}

fn alternative(text: &str) -> Option<[Triple; 2]> {
    if let Some((low, high)) = text.split_once(" - ") {
        let high = prefix_span(&numbers(high.trim())?);
        return Some([filled(&numbers(low.trim())?), high[1]]);
    }
    let mut span = [[0; 3], END];
    let mut operator = "";
    let mut is_empty = true;
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let at = word.find(|c| !"=!<>~^".contains(c)).unwrap_or(word.len());
        let (found, version) = word.split_at(at);
        if !found.is_empty() {
            operator = found;
        }
        if version.is_empty() {
            continue;
        }
        let [low, high] = term(operator, version)?;
        span = [span[0].max(low), span[1].min(high)];
        (operator, is_empty) = ("", false);
    }
    (!is_empty && operator.is_empty()).then_some(span)
}

fn term(operator: &str, version: &str) -> Option<[Triple; 2]> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let fixed: Vec<&str> = version.split('.').take_while(|part| !matches!(*part, "x" | "X" | "*")).collect();
    let numbers = if fixed.is_empty() { Vec::new() } else { numbers(&fixed.join("."))? };
    let [low, high] = prefix_span(&numbers);
    Some(match operator {
        "" | "=" => [low, high],
        "!=" => [[0; 3], END],
        ">" => [high, END],
        ">=" | "=>" => [low, END],
        "<" => [[0; 3], low],
        "<=" | "=<" => [[0; 3], high],
        "~" | "~>" => match numbers.len() {
            0 => [low, high],
            length => [low, after(&numbers, length.min(2) - 1)],
        },
        "^" => {
            let first = numbers.iter().position(|number| *number > 0);
            match first.or(numbers.len().checked_sub(1)) {
                Some(place) => [low, after(&numbers, place)],
                None => [low, high],
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "ghcr.io/kptdev/krm-functions-catalog/";

    fn check(image: &str, tag: Option<&str>, expected: Result<Option<&str>, &str>) {
        let function =
            Function { image: Some(image.to_owned()), tag: tag.map(str::to_owned), ..Function::default() };
        let prefixes = [PREFIX.to_owned(), "gcr.io/kpt-fn/".to_owned()];
        let image = Image::of(&function, PREFIX);
        let found = image.as_ref().map(|image| image.native_name(&prefixes)).map_err(String::as_str);
        assert_eq!(found.map_err(|text| &text[..30]), expected, "{function:?}");
    }

    /// Prefixes, tags and ranges (`packagevariants.md` 8.3, 8.4).
    #[test]
    fn which_images_are_built_in() {
        for (image, tag, expected) in [
            ("set-namespace", None, true),
            ("set-namespace:v0.1", None, true),
            ("gcr.io/kpt-fn/set-namespace:v0.1", None, true),
            ("ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4.5", None, true),
            ("set-namespace:latest", None, true),
            ("set-namespace:unstable", None, true),
            ("set-namespace:main", None, false),
            ("set-namespace:v1.2", None, false),
            ("set-namespace:v0.0.3", None, false),
            ("example.com/kpt-fn/set-namespace:v0.1", None, false),
            ("set-namespace@sha256:00000000000000000000000000000000", None, false),
            ("set-namespace@sha256:00000000000000000000000000000000", Some("v0.4"), true),
            ("set-namespace:v7", Some("~0.4"), true),
            ("set-namespace", Some(">=0.1 <1"), true),
            ("set-namespace", Some(">= 0.1, < 1"), true),
            ("set-namespace", Some("^2 || ^0.3.1"), true),
            ("set-namespace", Some(">1"), false),
            ("set-namespace", Some("0.x"), true),
            ("set-namespace", Some("1.x"), false),
            ("set-namespace", Some("*"), true),
            ("set-namespace", Some("0.2 - 0.3"), true),
            ("set-namespace", Some("0.4"), true),
            ("set-namespace", Some("main"), false),
            ("set-namespace", Some("latest"), true),
        ] {
            check(image, tag, Ok(expected.then_some("set-namespace")));
        }
        check("set-namespace", Some("-x"), Err("`function.tag` \"-x\" must be a "));
    }

    /// The form of an image in messages (`packagevariants.md` 8.3).
    #[test]
    fn full_names() {
        for (image, tag, expected) in [
            ("starlark", None, "ghcr.io/kptdev/krm-functions-catalog/starlark"),
            ("a/b:v1@sha256:00", Some("v2"), "a/b:v2"),
            ("host:5000/b", None, "host:5000/b"),
        ] {
            let function = Function {
                image: Some(image.to_owned()),
                tag: tag.map(str::to_owned),
                ..Function::default()
            };
            assert_eq!(Image::of(&function, PREFIX).unwrap().text, expected);
        }
    }

    #[test]
    fn references() {
        for image in [
            "a",
            "a:v1",
            "gcr.io/kpt-fn/a:v0.1",
            "host:5000/a/b-c_d",
            "a@sha256:00000000000000000000000000000000",
        ] {
            assert!(is_reference(image), "{image}");
        }
        for image in ["", "A", "a b", "a:", "a//b", "a@sha256:zz", "-a", "host:x/a"] {
            assert!(!is_reference(image), "{image}");
        }
    }
}
