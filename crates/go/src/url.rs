//! URLs as Go's `net/url` parses them (`gotemplate.md` 12.11; `spiff.md` 11.2).

use std::net::IpAddr;

use crate::text;

/// The parts of a URL, decoded except for the query.
#[derive(Debug, Default)]
pub struct Url {
    pub scheme: String,
    pub opaque: Vec<u8>,
    pub user: Option<User>,
    pub host: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub fragment: Vec<u8>,
}

/// A user and, if there is a colon, the password.
#[derive(Debug)]
pub struct User {
    pub name: Vec<u8>,
    pub password: Option<Vec<u8>>,
}

/// The part of a URL that contains a text; it decides which characters are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlPart {
    Path,
    User,
    Host,
    Zone,
    Query,
    Fragment,
}

impl UrlPart {
    fn allows(self, byte: u8) -> bool {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => true,
            b'!' | b'(' | b')' | b'*' => matches!(self, UrlPart::Host | UrlPart::Zone | UrlPart::Fragment),
            b'\'' | b'[' | b']' | b'<' | b'>' | b'"' => matches!(self, UrlPart::Host | UrlPart::Zone),
            b'$' | b'&' | b'+' | b',' | b';' | b'=' => self != UrlPart::Query,
            b':' => !matches!(self, UrlPart::User | UrlPart::Query),
            b'/' | b'@' => matches!(self, UrlPart::Path | UrlPart::Fragment),
            b'?' => self == UrlPart::Fragment,
            _ => false,
        }
    }
}

impl Url {
    /// Parses a URL reference.
    ///
    /// # Errors
    ///
    /// Go's message with the text in question.
    pub fn parse(source: &[u8]) -> Result<Url, String> {
        let (body, fragment) = cut(source, b'#');
        let mut url = Url::without_fragment(body).map_err(|error| complaint(body, &error))?;
        url.fragment = unescape(fragment, UrlPart::Fragment).map_err(|error| complaint(source, &error))?;
        Ok(url)
    }

    fn without_fragment(source: &[u8]) -> Result<Url, String> {
        if source.iter().any(|&b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_string());
        }
        let (scheme, rest) = split_scheme(source)?;
        let (rest, query) = cut(rest, b'?');
        let mut url = Url { scheme, query: query.to_vec(), ..Url::default() };
        if source == b"*" {
            url.path = source.to_vec();
            return Ok(url);
        }
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_string());
            }
        }
        let may_have_host = !url.scheme.is_empty() || !rest.starts_with(b"///");
        let mut path = rest;
        if let Some(authority) = rest.strip_prefix(b"//").filter(|_| may_have_host) {
            let end = authority.iter().position(|&b| b == b'/').unwrap_or(authority.len());
            path = &authority[end..];
            url.set_authority(&authority[..end])?;
        }
        url.path = unescape(path, UrlPart::Path)?;
        Ok(url)
    }

    fn set_authority(&mut self, authority: &[u8]) -> Result<(), String> {
        let at = authority.iter().rposition(|&b| b == b'@');
        self.host = parse_host(&self.scheme, at.map_or(authority, |at| &authority[at + 1..]))?;
        if let Some(at) = at {
            self.user = Some(User::parse(&authority[..at])?);
        }
        Ok(())
    }

    /// Returns the host without its port and brackets.
    pub fn hostname(&self) -> &[u8] {
        let host = self.split_host().0;
        host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
    }

    /// Returns the digits of the port; empty if there are none.
    pub fn port(&self) -> &[u8] {
        self.split_host().1
    }

    fn split_host(&self) -> (&[u8], &[u8]) {
        match self.host.iter().rposition(|&b| b == b':') {
            Some(colon) if is_port(&self.host[colon..]) => (&self.host[..colon], &self.host[colon + 1..]),
            _ => (&self.host, b""),
        }
    }

    /// Returns the URL as text, each part escaped as needed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(self.scheme.as_bytes());
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.push_hierarchy(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            escape(&mut out, &self.fragment, UrlPart::Fragment);
        }
        out
    }

    fn push_hierarchy(&self, out: &mut Vec<u8>) {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if has_authority || (!self.scheme.is_empty() && !self.path.is_empty()) {
            out.extend_from_slice(b"//");
        }
        if let Some(user) = &self.user {
            user.push(out);
            out.push(b'@');
        }
        escape(out, &self.host, UrlPart::Host);
        let mut path = Vec::new();
        if self.path == b"*" {
            path.push(b'*');
        } else {
            escape(&mut path, &self.path, UrlPart::Path);
        }
        if !path.is_empty() && path[0] != b'/' && !self.host.is_empty() {
            out.push(b'/');
        }
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            // Without this prefix the first segment would be read as a scheme.
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}

impl User {
    fn parse(source: &[u8]) -> Result<User, String> {
        let is_valid = |&b: &u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
        if !source.iter().all(is_valid) {
            return Err("net/url: invalid userinfo".to_string());
        }
        let (name, password) = cut(source, b':');
        let has_password = source.contains(&b':');
        let password = if has_password { Some(unescape(password, UrlPart::User)) } else { None };
        Ok(User { name: unescape(name, UrlPart::User)?, password: password.transpose()? })
    }

    fn push(&self, out: &mut Vec<u8>) {
        escape(out, &self.name, UrlPart::User);
        if let Some(password) = &self.password {
            out.push(b':');
            escape(out, password, UrlPart::User);
        }
    }

    /// Returns the user, and the password behind a colon.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(&mut out);
        out
    }
}

fn complaint(source: &[u8], error: &str) -> String {
    format!("parse {}: {error}", text::quote(source))
}

/// Splits a text at the first separator.
fn cut(source: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match source.iter().position(|&b| b == separator) {
        Some(at) => (&source[..at], &source[at + 1..]),
        None => (source, b""),
    }
}

fn split_scheme(source: &[u8]) -> Result<(String, &[u8]), String> {
    let is_scheme = |&b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let end = source.iter().position(|b| !is_scheme(b)).unwrap_or(source.len());
    match (source.get(end), source.first()) {
        (Some(b':'), Some(b':')) => Err("missing protocol scheme".to_string()),
        (Some(b':'), Some(first)) if first.is_ascii_alphabetic() => {
            let scheme = text::lossy(&source[..end]).to_ascii_lowercase();
            Ok((scheme, &source[end + 1..]))
        }
        _ => Ok((String::new(), source)),
    }
}

fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn parse_host(scheme: &str, host: &[u8]) -> Result<Vec<u8>, String> {
    let bad_port = |port: &[u8]| format!("invalid port {} after host", text::quote(port));
    match host.iter().rposition(|&b| b == b'[') {
        Some(0) => return parse_literal(host),
        Some(_) => return Err("invalid IP-literal".to_string()),
        None => {}
    }
    let colon = match scheme {
        "http" | "https" => host.iter().position(|&b| b == b':'),
        _ => host.iter().rposition(|&b| b == b':'),
    };
    match colon {
        Some(colon) if !is_port(&host[colon..]) => Err(bad_port(&host[colon..])),
        _ => unescape(host, UrlPart::Host),
    }
}

/// Parses an IPv6 address in brackets, with an optional zone and port.
fn parse_literal(host: &[u8]) -> Result<Vec<u8>, String> {
    let Some(close) = host.iter().rposition(|&b| b == b']') else {
        return Err("missing ']' in host".to_string());
    };
    let port = &host[close + 1..];
    if !is_port(port) {
        return Err(format!("invalid port {} after host", text::quote(port)));
    }
    let inside = &host[1..close];
    let zone = text::find(inside, b"%25").unwrap_or(inside.len());
    let mut address = unescape(&inside[..zone], UrlPart::Host)?;
    address.extend(unescape(&inside[zone..], UrlPart::Zone)?);
    let shown = text::lossy(&address).into_owned();
    let plain = shown.split('%').next().unwrap_or_default();
    match plain.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => {}
        Ok(IpAddr::V4(_)) => return Err("invalid IP-literal".to_string()),
        Err(_) => {
            return Err(format!("invalid host: ParseAddr({}): unable to parse IP", text::quote(&address)));
        }
    }
    Ok([b"[", &address[..], b"]", port].concat())
}

/// Decodes a name or a value of a query.
///
/// # Errors
///
/// A broken escape.
pub fn unescape_query(source: &[u8]) -> Result<Vec<u8>, String> {
    unescape(source, UrlPart::Query)
}

fn unescape(source: &[u8], place: UrlPart) -> Result<Vec<u8>, String> {
    let bad_escape = |at: usize| {
        let shown = &source[at..source.len().min(at + 3)];
        format!("invalid URL escape {}", text::quote(shown))
    };
    let mut out = Vec::with_capacity(source.len());
    let mut at = 0;
    while let Some(&byte) = source.get(at) {
        if byte != b'%' {
            if matches!(place, UrlPart::Host | UrlPart::Zone) && byte < 0x80 && !place.allows(byte) {
                return Err(format!("invalid character {} in host name", text::quote(&[byte])));
            }
            out.push(if byte == b'+' && place == UrlPart::Query { b' ' } else { byte });
            at += 1;
            continue;
        }
        let hex = |offset: usize| source.get(at + offset).and_then(|&b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (hex(1), hex(2)) else { return Err(bad_escape(at)) };
        let value = (high << 4 | low) as u8;
        let is_percent = value == b'%' && source[at..].starts_with(b"%25");
        let forbidden = match place {
            UrlPart::Host => high < 8 && !is_percent,
            UrlPart::Zone => !is_percent && value != b' ' && !UrlPart::Host.allows(value),
            UrlPart::Path | UrlPart::User | UrlPart::Query | UrlPart::Fragment => false,
        };
        if forbidden {
            return Err(bad_escape(at));
        }
        out.push(value);
        at += 3;
    }
    Ok(out)
}

fn escape(out: &mut Vec<u8>, source: &[u8], place: UrlPart) {
    for &byte in source {
        if place.allows(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> String {
        let url = match Url::parse(source.as_bytes()) {
            Ok(url) => url,
            Err(error) => return format!("!{error}"),
        };
        let (host, port, path) =
            (text::lossy(url.hostname()), text::lossy(url.port()), text::lossy(&url.path));
        format!("{}|{host}|{port}|{path}|{}", url.scheme, text::lossy(&url.opaque))
    }

    #[test]
    fn parts_are_those_of_go() {
        for (source, expected) in [
            ("https://u:p%40@h.x:8080/a%20b?q=1#f", "https|h.x|8080|/a b|"),
            ("http://[fe80::1%25en0]:8080/", "http|fe80::1%en0|8080|/|"),
            ("http://h:/x", "http|h||/x|"),
            ("mailto:a@b", "mailto||||a@b"),
            ("//h:99999999999999999999/a:b", "|h|99999999999999999999|/a:b|"),
            ("///a", "|||///a|"),
            ("a/b", "|||a/b|"),
            ("a_b:c", "!parse \"a_b:c\": first path segment in URL cannot contain colon"),
            (":a", "!parse \":a\": missing protocol scheme"),
            ("a%zz", "!parse \"a%zz\": invalid URL escape \"%zz\""),
            ("http://a b/", "!parse \"http://a b/\": invalid character \" \" in host name"),
            ("http://[::1", "!parse \"http://[::1\": missing ']' in host"),
            ("http://h:x/", "!parse \"http://h:x/\": invalid port \":x\" after host"),
            ("a\tb", "!parse \"a\\tb\": net/url: invalid control character in URL"),
        ] {
            assert_eq!(shown(source), expected, "{source}");
        }
    }

    #[test]
    fn a_plus_is_a_blank_in_queries_alone() {
        assert_eq!(unescape_query(b"x+y%2B").as_deref(), Ok(&b"x y+"[..]));
        assert!(unescape_query(b"%2").is_err());
        assert_eq!(shown("/x+y"), "|||/x+y|");
    }
}
