//! Formats as santhosh-tekuri/jsonschema 6.0.2, the library of Helm, checks them, with its messages
//! about texts that do not match (`helm.md` 5). It has no other formats: `idn-email` and
//! `idn-hostname` are not asserted.

mod address;
mod time;

use groundwork_go::regexp::Pattern;
use groundwork_go::text::{quote, quote_char_into};
use groundwork_go::url::Url;

use time::{date, date_time, duration, period, time};

/// Result of a check: the reason why a text does not match a format.
type Checked = Result<(), String>;

/// Checks a text.
pub(super) type Check = fn(&str) -> Checked;

/// All formats that are asserted.
pub(super) const CHECKS: [(&str, Check); 19] = [
    ("date", date),
    ("date-time", date_time),
    ("duration", duration),
    ("email", email),
    ("hostname", hostname),
    ("ipv4", address::ipv4),
    ("ipv6", address::ipv6),
    ("iri", uri),
    ("iri-reference", uri_reference),
    ("json-pointer", json_pointer),
    ("period", period),
    ("regex", regex),
    ("relative-json-pointer", relative_json_pointer),
    ("semver", semver),
    ("time", time),
    ("uri", uri),
    ("uri-reference", uri_reference),
    ("uri-template", uri_template),
    ("uuid", uuid),
];

fn no(reason: impl Into<String>) -> Checked {
    Err(reason.into())
}

/// Adds a context in front of an error.
fn within(place: &str, checked: Checked) -> Checked {
    checked.map_err(|reason| format!("{place}: {reason}"))
}

fn character(c: char) -> String {
    let mut out = Vec::new();
    quote_char_into(&mut out, c, false);
    String::from_utf8_lossy(&out).into_owned()
}

fn json_pointer(text: &str) -> Checked {
    if text.is_empty() {
        return Ok(());
    }
    let Some(tokens) = text.strip_prefix('/') else { return no("not starting with /") };
    let is_escaped_well = |token: &str| token.split('~').skip(1).all(|behind| behind.starts_with(['0', '1']));
    if tokens.split('/').all(is_escaped_well) { Ok(()) } else { no("~ must be followed by 0 or 1") }
}

fn relative_json_pointer(text: &str) -> Checked {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match text.len() - rest.len() {
        0 => no("must start with non-negative integer"),
        digits if digits > 1 && text.starts_with('0') => no("starts with zero"),
        _ if rest == "#" => Ok(()),
        _ => json_pointer(rest),
    }
}

fn uuid(text: &str) -> Checked {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != LENGTHS.len() {
        return no(format!("must have {} elements", LENGTHS.len()));
    }
    for (at, (group, length)) in groups.iter().zip(LENGTHS).enumerate() {
        if group.len() != length {
            return no(format!("element {} must be {length} characters long", at + 1));
        }
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return no(format!("non-hex character {}", character(c)));
        }
    }
    Ok(())
}

fn hostname(text: &str) -> Checked {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return no("more than 253 characters long");
    }
    text.split('.').try_for_each(|label| {
        if label.is_empty() || label.len() > 63 {
            return no("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return no("label starts with hyphen");
        }
        if label.ends_with('-') {
            return no("label ends with hyphen");
        }
        match label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            Some(c) => no(format!("invalid character {}", character(c))),
            None => Ok(()),
        }
    })
}

fn email(text: &str) -> Checked {
    if text.len() > 254 {
        // Limit and message are those of Helm's library; they contradict each other there, too.
        return no("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else { return no("missing @") };
    if local.len() > 64 {
        return no("local part more than 64 characters long");
    }
    local_part(local)?;
    if let Some(address) = domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']')) {
        return match address.strip_prefix("IPv6:") {
            Some(address) => within("invalid ipv6 address", address::ipv6(address)),
            None => within("invalid ipv4 address", address::ipv4(address)),
        };
    }
    within("invalid domain", hostname(domain))
}

fn local_part(local: &str) -> Checked {
    // Helm's library checks only the first quote; it takes any last character for the closing one.
    if local.len() > 1 && local.starts_with('"') {
        let quoted = &local.as_bytes()[1..local.len() - 1];
        return match quoted.iter().any(|byte| matches!(byte, b'\\' | b'"')) {
            true => no("backslash and quote are not allowed within quoted local part"),
            false => Ok(()),
        };
    }
    if local.starts_with('.') {
        return no("starts with dot");
    }
    if local.ends_with('.') {
        return no("ends with dot");
    }
    if local.contains("..") {
        return no("consecutive dots");
    }
    let is_fit = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c);
    match local.chars().find(|c| !is_fit(*c)) {
        Some(c) => no(format!("invalid character {}", character(c))),
        None => Ok(()),
    }
}

fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.as_bytes())?;
    let host = String::from_utf8_lossy(url.hostname()).into_owned();
    if host.contains(':') {
        if !url.host.contains(&b'[') || !url.host.contains(&b']') {
            return Err("ipv6 address not enclosed in brackets".to_owned());
        }
        within("invalid ipv6 address", address::ipv6(&host))?;
    }
    Ok(url)
}

fn uri(text: &str) -> Checked {
    if url(text)?.scheme.is_empty() { no("relative url") } else { Ok(()) }
}

fn uri_reference(text: &str) -> Checked {
    if text.contains('\\') {
        return no("contains \\");
    }
    url(text).map(drop)
}

/// Checks a URI template. As in Helm's library, braces count only in a path that is not written as
/// Go would write it.
fn uri_template(text: &str) -> Checked {
    let url = url(text)?;
    if !url.opaque.is_empty() {
        return Ok(());
    }
    let path = raw_path(text, &url.scheme);
    if is_canonical(path.as_bytes()) {
        return Ok(());
    }
    path.split('/').try_for_each(|segment| {
        let mut is_open = false;
        for byte in decoded(segment.as_bytes()) {
            match byte {
                b'{' if !is_open => is_open = true,
                b'}' if is_open => is_open = false,
                b'{' | b'}' => return no("nested curly braces"),
                _ => {}
            }
        }
        if is_open { no("no matching closing brace") } else { Ok(()) }
    })
}

/// Returns the path of a URL reference, as it is written.
fn raw_path<'t>(text: &'t str, scheme: &str) -> &'t str {
    let text = text.split(['#']).next().unwrap_or_default();
    let text = text.split('?').next().unwrap_or_default();
    let rest = if scheme.is_empty() { text } else { text.split_once(':').map_or(text, |(_, rest)| rest) };
    match rest.strip_prefix("//") {
        Some(authority) if !scheme.is_empty() || !rest.starts_with("///") => {
            authority.find('/').map_or("", |slash| &authority[slash..])
        }
        _ => rest,
    }
}

/// Returns true if Go writes a path in this way: bytes that need no escape, and others escaped with
/// capital letters.
fn is_canonical(path: &[u8]) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%');
        match digits {
            Some(digits) => {
                let byte = hex(digits);
                if digits.iter().any(u8::is_ascii_lowercase) || byte.is_none_or(is_plain) {
                    return false;
                }
                rest = &tail[2..];
            }
            None if is_plain(*first) => rest = tail,
            None => return false,
        }
    }
    true
}

fn hex(digits: &[u8]) -> Option<u8> {
    std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok())
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let byte = if *first == b'%' { tail.get(..2).and_then(hex) } else { None };
        rest = if byte.is_some() { &tail[2..] } else { tail };
        out.push(byte.unwrap_or(*first));
    }
    out
}

fn semver(text: &str) -> Checked {
    let is_identifier = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let identifiers = |list: &str, of: &str| {
        list.split('.').try_for_each(|identifier| {
            if identifier.is_empty() {
                return no(format!("{of} identifier is empty"));
            }
            match identifier.chars().find(|c| !is_identifier(*c)) {
                Some(c) => no(format!("invalid character {} in {of} identifier", character(c))),
                None => Ok(()),
            }
        })
    };
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    match build {
        Some("") => return no("build is empty"),
        Some(build) => identifiers(build, "build")?,
        None => {}
    }
    let (core, release) = text.split_once('-').map_or((text, None), |(core, release)| (core, Some(release)));
    for identifier in release.iter().flat_map(|release| release.split('.')) {
        identifiers(identifier, "pre-release")?;
        let is_number = identifier.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && identifier.len() > 1 && identifier.starts_with('0') {
            return no("pre-release numeric identifier starts with zero");
        }
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return no("versionCore must have 3 numbers separated by dot");
    }
    for (name, number) in ["major", "minor", "patch"].into_iter().zip(numbers) {
        if number.is_empty() {
            return no(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return no(format!("{name} starts with zero"));
        }
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return no(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}

fn regex(text: &str) -> Checked {
    Pattern::compile(text).map(drop).map_err(|error| format!("error parsing regexp: {error}"))
}

/// Parses an integer as Go's `Atoi` does, with Go's errors.
fn integer(text: &[u8]) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let read = std::str::from_utf8(text).map(str::parse::<i64>);
    let problem = match read {
        Ok(Ok(number)) => return Ok(number),
        Ok(Err(error)) if matches!(error.kind(), PosOverflow | NegOverflow) => "value out of range",
        _ => "invalid syntax",
    };
    Err(format!("strconv.Atoi: parsing {}: {problem}", quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected results were recorded from Helm's library for draft 7: the reason, or an empty
    /// text.
    #[test]
    fn recorded_answers() {
        let recorded: Vec<(String, String, Option<String>)> =
            serde_json::from_str(include_str!("helm/recorded.json")).expect("the file is JSON");
        let wrong: Vec<_> = recorded
            .iter()
            .filter_map(|(format, text, expected)| {
                let check = CHECKS.iter().find(|(name, _)| name == format).map(|(_, check)| check);
                let got = check.and_then(|check| check(text).err());
                (got != *expected).then_some((format, text, expected, got))
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(recorded.len() > 250);
    }
}
