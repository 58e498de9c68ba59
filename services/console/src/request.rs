//! Requests of browsers: path, query, headers, cookies and forms.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use form_urlencoded::parse;
use http::header::{ACCEPT_ENCODING, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use url::Url;

use crate::landscape::Position;
use crate::settings::Network;

/// Bytes of a submitted form: a token and some fields.
pub(crate) const LARGEST_FORM: usize = 32 << 10;
/// Time limit for receiving a form.
const FORM_LIMIT: Duration = Duration::from_secs(10);
/// Longest path of a page, in segments.
const MOST_SEGMENTS: usize = 5;

/// Head of a request, without the body.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Decoded segments of the path, without the suffix `.json`.
    pub(crate) segments: Vec<String>,
    /// Path and query as the browser sent them. `/` if a link with them would lead to another host.
    pub(crate) address: String,
    /// True if the JSON form is requested.
    pub(crate) wants_json: bool,
    query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) peer: IpAddr,
    /// Position of the console when the request arrived. The page shows at least that much.
    pub(crate) position: Position,
}

/// Fields of a submitted form.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Request {
    /// Reads the head of a request; `None` if the path cannot be that of a page.
    ///
    /// The suffix `.json` is cut off before the path is decoded. The page of an object whose own
    /// name ends in `.json` is at `%2Ejson`.
    pub(crate) fn new(head: &http::request::Parts, peer: IpAddr, position: Position) -> Option<Self> {
        let path = head.uri.path();
        let (path, wants_json) = match path.strip_suffix(".json") {
            Some("/index") => ("/", true),
            Some(path) => (path, true),
            None => (path, false),
        };
        let parts = path.split('/').filter(|part| !part.is_empty());
        let segments: Option<Vec<String>> = parts.map(decoded).collect();
        let segments = segments.filter(|segments| segments.len() <= MOST_SEGMENTS)?;
        Some(Self {
            method: head.method.clone(),
            segments,
            address: local_path(head.uri.path_and_query().map_or("/", |address| address.as_str())).to_owned(),
            wants_json,
            query: pairs(head.uri.query().unwrap_or_default().as_bytes()),
            headers: head.headers.clone(),
            peer,
            position,
        })
    }

    /// Returns a parameter of the query, empty if absent.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value.trim())
    }

    /// Returns a header, if its value is plain text.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// Returns the address of the browser. Behind a trusted proxy the address comes from
    /// `X-Forwarded-For`; `None` if that header does not give one.
    pub(crate) fn browser(&self, proxies: &[Network]) -> Option<IpAddr> {
        let is_proxy = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
        if !is_proxy(self.peer) {
            return Some(self.peer);
        }
        let lines = self.headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
        let addresses: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        // Each proxy appends the address of its own client. Only entries of trusted proxies count,
        // so the list is read from its end.
        let mut read = addresses.iter().rev().map_while(|address| address.parse::<IpAddr>().ok());
        read.find(|address| !is_proxy(*address))
    }

    pub(crate) fn takes_gzip(&self) -> bool {
        let accepted = self.header(ACCEPT_ENCODING).unwrap_or_default();
        accepted.split(',').any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            is_gzip && !parts.any(|part| part == "q=0")
        })
    }

    /// Reports whether the request comes from a page of the console, as far as the browser's
    /// headers tell. A request without these headers passes: it does not come from a current
    /// browser.
    pub(crate) fn is_from_here(&self) -> bool {
        if let Some(site) = self.header("sec-fetch-site")
            && !matches!(site, "same-origin" | "none")
        {
            return false;
        }
        let Some(origin) = self.header(ORIGIN) else { return true };
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some() && host == self.header(HOST)
    }

    /// Reports whether the visitor followed a link on another site. Browsers leave out our
    /// `SameSite=Strict` cookie then.
    pub(crate) fn is_link_from_elsewhere(&self) -> bool {
        self.method == Method::GET
            && self.header("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
            && self.header("sec-fetch-mode") == Some("navigate")
    }
}

impl Form {
    /// Reads a form of at most `most` bytes; `None` if it is longer or does not arrive in time.
    #[expect(clippy::disallowed_methods, reason = "`Limited` is the bound")]
    pub(crate) async fn read(body: Incoming, most: usize) -> Option<Self> {
        let collected = tokio::time::timeout(FORM_LIMIT, Limited::new(body, most).collect()).await;
        Some(Self(pairs(&collected.ok()?.ok()?.to_bytes())))
    }

    /// Returns a field without surrounding spaces, empty if absent.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.text(name).trim()
    }

    /// Returns a field as typed, with surrounding spaces.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }
}

/// Returns a path if it leads to a page of the console, else `/`. The path after signing in comes
/// from the address, which an attacker can choose.
pub(crate) fn local_path(text: &str) -> &str {
    // Checked with a URL parser, because browsers read some paths as hosts, such as
    // `/\evil.example`.
    let leads_here = || {
        let here = Url::parse("http://console.invalid/").ok()?;
        let there = here.join(text).ok()?;
        Some(there.origin() == here.origin() && !there.path().starts_with("//"))
    };
    let is_path = text.starts_with('/') && text.chars().all(|character| character.is_ascii_graphic());
    if is_path && leads_here() == Some(true) { text } else { "/" }
}

/// Encodes a text as a segment of a path.
pub(crate) fn encoded(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // The page of an object whose name ends in `.json` must not be read as the JSON form of another
    // page.
    let (text, suffix) = text.strip_suffix(".json").map_or((text, ""), |stem| (stem, "%2Ejson"));
    if suffix.is_empty() && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let one = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Cow::Owned(text.bytes().map(one).collect::<String>() + suffix)
}

fn pairs(text: &[u8]) -> Vec<(String, String)> {
    parse(text).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Decodes `%` escapes; `None` if the result is not UTF-8.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (*first, after) {
            (b'%', [high, low, others @ ..]) => {
                let digit = |digit: u8| char::from(digit).to_digit(16);
                bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                rest = others;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    pub(crate) fn request(
        method: Method,
        address: &str,
        headers: &[(&'static str, &str)],
    ) -> Option<Request> {
        let mut request = http::Request::builder().method(method).uri(address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Request::new(
            &request.body(()).unwrap().into_parts().0,
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            Position::START,
        )
    }

    fn get(address: &str) -> Option<Request> {
        request(Method::GET, address, &[])
    }

    #[test]
    fn paths_and_their_twins() {
        let read =
            |address: &str| get(address).map(|request| (request.segments.join(" "), request.wants_json));
        assert_eq!(read("/"), Some((String::new(), false)));
        assert_eq!(read("/index.json"), Some((String::new(), true)));
        assert_eq!(read("/installations/a/b.json?x=1"), Some(("installations a b".to_owned(), true)));
        assert_eq!(read("/installations/a/b%2Ejson"), Some(("installations a b.json".to_owned(), false)));
        assert_eq!(read("/installations/a/b%2Ejson.json"), Some(("installations a b.json".to_owned(), true)));
        assert_eq!(encoded("b.json"), "b%2Ejson");
        assert_eq!((encoded("a-b.c"), encoded("a/\u{e9}")), ("a-b.c".into(), "a%2F%C3%A9".into()));
        for broken in ["/a/%", "/a/%zz", "/a/%ff", "/a/b/c/d/e/f"] {
            assert_eq!(read(broken), None, "{broken}");
        }
        let request = get("/installations?q=a+b%26c&page=2").unwrap();
        assert_eq!(
            (request.parameter("q"), request.parameter("page"), request.parameter("z")),
            ("a b&c", "2", "")
        );
    }

    #[test]
    fn only_our_own_pages_post() {
        let is_from_here = |headers: &[(&'static str, &str)]| {
            request(Method::POST, "/sign-in", headers).unwrap().is_from_here()
        };
        let host = ("host", "console:8080");
        assert!(is_from_here(&[host]));
        assert!(is_from_here(&[host, ("origin", "http://console:8080"), ("sec-fetch-site", "same-origin")]));
        for other in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://console:8080.evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!is_from_here(&[host, other]), "{other:?}");
        }
    }

    #[test]
    fn addresses_after_signing_in_are_our_own() {
        assert_eq!(local_path("/sets?page=2"), "/sets?page=2");
        for other in [
            "",
            "//evil.example",
            "/\\evil.example",
            "/.//evil.example",
            "/a/..//evil.example",
            "https://evil.example",
            "/a\r\nb",
            "javascript:x",
        ] {
            assert_eq!(local_path(other), "/", "{other:?}");
        }
        assert_eq!(get("//evil.example/a").unwrap().address, "/");
        assert_eq!(get("/sets?to=//a").unwrap().address, "/sets?to=//a");
    }

    #[test]
    fn browsers_behind_proxies() {
        let proxies: Vec<Network> = ["127.0.0.1", "10.0.0.0/8"].map(|text| text.parse().unwrap()).to_vec();
        let said = |lines: &[&'static str]| {
            let headers: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
            request(Method::GET, "/", &headers).unwrap().browser(&proxies).map(|address| address.to_string())
        };
        assert_eq!(said(&["9.9.9.9, 8.8.8.8, 10.0.0.1"]).as_deref(), Some("8.8.8.8"));
        assert_eq!(said(&["9.9.9.9", "8.8.8.8"]).as_deref(), Some("8.8.8.8"));
        assert_eq!((said(&[]), said(&["8.8.8.8, unknown"]), said(&["10.0.0.2"])), (None, None, None));
        let unproxied = request(Method::GET, "/", &[("x-forwarded-for", "8.8.8.8")]).unwrap();
        assert_eq!(unproxied.browser(&[]), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn what_browsers_say() {
        let headers = [("cookie", "a=1; b=2=3"), ("accept-encoding", "br, gzip;q=0.8")];
        let found = request(Method::GET, "/", &headers).unwrap();
        assert_eq!((found.cookie("b"), found.cookie("c")), (Some("2=3"), None));
        assert!(found.takes_gzip());
        for coding in ["br", "gzip;q=0", "gzip; q=0", ""] {
            assert!(
                !request(Method::GET, "/", &[("accept-encoding", coding)]).unwrap().takes_gzip(),
                "{coding}"
            );
        }
    }
}
