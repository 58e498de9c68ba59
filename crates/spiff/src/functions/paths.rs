//! Paths and URLs (section 11.2).

use super::Outcome;
use super::arguments::{count, text};
use super::text::strings;
use crate::issue::Issue;
use crate::value::Value;

/// The parts of a URL, decoded.
#[derive(Default)]
struct Url {
    scheme: String,
    user: Option<(String, Option<String>)>,
    host: String,
    port: Option<String>,
    path: String,
    query: String,
    fragment: String,
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        if text.contains(|c: char| c.is_ascii_control()) {
            return None;
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(rest)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            query: query.to_owned(),
            fragment: decode(fragment, false)?,
            ..Self::default()
        };
        let path = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                let end = rest.find('/').unwrap_or(rest.len());
                url.set_authority(&rest[..end])?;
                &rest[end..]
            }
            // What follows the scheme is not a path then.
            _ if !scheme.is_empty() && !rest.starts_with('/') => "",
            // It would be taken for a scheme.
            _ if rest.split('/').next().is_some_and(|first| first.contains(':')) => return None,
            _ => rest,
        };
        url.path = decode(path, false)?;
        Some(url)
    }

    fn set_authority(&mut self, authority: &str) -> Option<()> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(user) = user {
            self.user = Some(match user.split_once(':') {
                Some((name, password)) => (decode(name, false)?, Some(decode(password, false)?)),
                None => (decode(user, false)?, None),
            });
        }
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (host, None),
        };
        if port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return None;
        }
        self.port = port.filter(|port| !port.is_empty()).map(str::to_owned);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        self.host = decode(host, false)?;
        Some(())
    }
}

/// `None`: a colon comes where no scheme can end.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(text.len());
    match text[end..].strip_prefix(':') {
        Some(_) if end == 0 || !text.starts_with(|c: char| c.is_ascii_alphabetic()) => None,
        Some(rest) => Some((&text[..end], rest)),
        None => Some(("", text)),
    }
}

/// `%XX`, and `+` for a blank in queries. `None`: a broken escape.
fn decode(text: &str, in_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if in_query => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The path of a URL, or the text itself; nothing is the root.
fn path_of(arguments: &[Value], function: &str) -> Result<String, Issue> {
    count(arguments, 1..=1, &format!("function {function} takes exactly one argument"))?;
    let text = text(&arguments[0], &format!("string argument expected for function {function}"))?;
    let path = Url::parse(text).map_or_else(|| text.to_owned(), |url| url.path);
    Ok(if path.is_empty() { "/".to_owned() } else { path })
}

/// `basename(p)`
pub(super) fn basename(arguments: &[Value]) -> Outcome {
    let path = path_of(arguments, "basename")?;
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(Value::string(if name.is_empty() { "/" } else { name }))
}

/// `dirname(p)`
pub(super) fn dirname(arguments: &[Value]) -> Outcome {
    let path = path_of(arguments, "dirname")?;
    Ok(Value::string(match path.rfind('/') {
        Some(at) => clean(&path[..=at]),
        None => ".".to_owned(),
    }))
}

/// The shortest path to the same place.
fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => {
                steps.pop();
            }
            ".." if is_absolute => {}
            step => steps.push(step),
        }
    }
    let joined = steps.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// `parseurl(s)`
pub(super) fn parseurl(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "invalid argument count for parseurl")?;
    let text = text(&arguments[0], "argument for parseurl must be a string")?;
    let url = Url::parse(text)
        .ok_or_else(|| Issue::new(format!("invalid argument for parseurl: '{text}' is no URL")))?;
    let mut fields = vec![
        ("values", values(&url.query)),
        ("scheme", Value::string(url.scheme)),
        ("host", Value::string(url.host)),
        ("path", Value::string(url.path)),
        ("fragment", Value::string(url.fragment)),
        ("query", Value::string(url.query)),
    ];
    // One that is out of range is left out.
    if let Some(port) = url.port.and_then(|port| port.parse().ok()) {
        fields.push(("port", Value::Int(port)));
    }
    if let Some((name, password)) = url.user {
        let password = password.map(|password| ("password", Value::string(password)));
        let user = [("username", Value::string(name))].into_iter().chain(password);
        fields.push(("userinfo", Value::map(user)));
    }
    Ok(Value::map(fields))
}

/// The values of each name of a query.
fn values(query: &str) -> Value {
    let mut values: Vec<(String, Vec<String>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decode(name, true), decode(value, true)) else { continue };
        match values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, list)) => list.push(value),
            None => values.push((name, vec![value])),
        }
    }
    Value::map(values.into_iter().map(|(name, list)| (name, strings(list.iter().map(String::as_str)))))
}
