//! Requests of browsers: address, headers, cookies and forms.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{self, FromRequest, FromRequestParts, Path};
use form_urlencoded::parse;
use groundwork_api::kubernetes::is_dns_subdomain;
use http::header::{ACCEPT_ENCODING, COOKIE, HOST, ORIGIN};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::de::value::{Error, MapDeserializer};
use url::Url;

use crate::console::PageError;
use crate::landscape::{NamespacedName, Position};
use crate::settings::Network;
use crate::visitor::Visitor;

/// Bytes of a submitted form: a token and some fields.
pub(crate) const LARGEST_FORM: usize = 32 << 10;
/// Time limit for receiving a form.
const FORM_LIMIT: Duration = Duration::from_secs(10);
/// Longest path of a page, in segments.
const MOST_SEGMENTS: usize = 5;
/// Characters that are escaped in a segment of a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Head of a request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Address in the one spelling that the router knows: no empty segment, no needless escape, no
    /// suffix `.json`.
    pub(crate) uri: Uri,
    /// Path and query as the browser sent them. `/` if a link with them would lead to another host.
    pub(crate) address: String,
    /// True if the JSON form is requested.
    pub(crate) wants_json: bool,
    pub(crate) headers: HeaderMap,
    pub(crate) peer: IpAddr,
    /// Position of the console when the request arrived. The page shows at least that much.
    pub(crate) position: Position,
    /// Author of the request, once signed in.
    pub(crate) visitor: OnceLock<Visitor>,
}

impl Request {
    /// Reads the head of a request; `None` if the path cannot be that of a page.
    ///
    /// The suffix `.json` is cut off before the path is decoded. The page of an object whose own
    /// name ends in `.json` is at `%2Ejson`.
    pub(crate) fn new<B>(request: &http::Request<B>, peer: IpAddr, position: Position) -> Option<Self> {
        let uri = request.uri();
        let (path, wants_json) = match uri.path().strip_suffix(".json") {
            Some("/index") => ("/", true),
            Some(path) => (path, true),
            None => (uri.path(), false),
        };
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let segments = segments.map(|segment| Some(encoded(&decoded(segment)?).into_owned()));
        let segments: Vec<String> = segments.collect::<Option<_>>()?;
        if segments.len() > MOST_SEGMENTS {
            return None;
        }
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let in_one_spelling = PathAndQuery::try_from(format!("/{}{query}", segments.join("/"))).ok()?;
        Some(Self {
            method: request.method().clone(),
            uri: in_one_spelling.into(),
            address: local_path(uri.path_and_query().map_or("/", PathAndQuery::as_str)).to_owned(),
            wants_json,
            headers: request.headers().clone(),
            peer,
            position,
            visitor: OnceLock::new(),
        })
    }

    /// Returns the address of the JSON form of the page.
    pub(crate) fn twin(&self) -> String {
        let path = if self.uri.path() == "/" { "/index" } else { self.uri.path() };
        let query = self.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{path}.json{query}")
    }

    /// Returns a header, if its value is plain text.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
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
            let mut parameters = parts.filter_map(|part| part.split_once('='));
            let is_weight = |name: &str| name.trim().eq_ignore_ascii_case("q");
            is_gzip && !parameters.any(|(name, value)| is_weight(name) && value.trim().parse() == Ok(0.0))
        })
    }

    /// Reports whether the request comes from a page of the console, as far as the browser's
    /// headers tell. A request without these headers passes: it does not come from a current
    /// browser.
    fn is_from_here(&self) -> bool {
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

/// The object that the path names. A name that Kubernetes does not allow is `NoPage`.
#[derive(Debug)]
pub(crate) struct Object(pub(crate) NamespacedName);

impl<S: Send + Sync> FromRequestParts<S> for Object {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageError> {
        let names = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((namespace, name)) = names.map_err(|_| PageError::NoPage)?;
        named(&namespace, &name).map(Self)
    }
}

/// Parameters of the query, without surrounding spaces.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        parameters(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// Fields of a form that a page of the console has sent.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

// The form of axum demands a `Content-Type`, which programs leave out, and refuses repeated fields.
impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = PageError;

    async fn from_request(request: extract::Request, state: &S) -> Result<Self, PageError> {
        if !request.extensions().get::<Arc<Request>>().is_some_and(|request| request.is_from_here()) {
            return Err(PageError::Denied("The form comes from a page of another site.".to_owned()));
        }
        let body = tokio::time::timeout(FORM_LIMIT, Bytes::from_request(request, state)).await;
        let body = body.ok().and_then(Result::ok).ok_or_else(|| {
            PageError::Refused("The form is too long, or was not received completely.".to_owned())
        })?;
        fields(parse(&body)).map(Self)
    }
}

/// Returns the object of a namespace and a name. A name that Kubernetes does not allow is `NoPage`.
pub(crate) fn named(namespace: &str, name: &str) -> Result<NamespacedName, PageError> {
    if !is_dns_subdomain(namespace) || !is_dns_subdomain(name) {
        return Err(PageError::NoPage);
    }
    Ok(NamespacedName::new(namespace, name))
}

/// Reads the parameters of a query, without surrounding spaces.
pub(crate) fn parameters<T: DeserializeOwned>(query: &str) -> Result<T, PageError> {
    fields(parse(query.as_bytes()).map(|(name, value)| (name, value.trim().to_owned().into())))
}

/// Reads fields. Of repeated ones the first counts.
fn fields<'a, T: DeserializeOwned>(
    pairs: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<T, PageError> {
    let mut fields = BTreeMap::new();
    for (name, value) in pairs {
        fields.entry(name).or_insert(value);
    }
    let read = T::deserialize(MapDeserializer::new(fields.into_iter()));
    read.map_err(|error: Error| PageError::Refused(error.to_string()))
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
    let escaped = |text| utf8_percent_encode(text, ESCAPED);
    // The page of an object whose name ends in `.json` must not be read as the JSON form of another
    // page.
    match text.strip_suffix(".json") {
        Some(stem) => format!("{}%2Ejson", escaped(stem)).into(),
        None => escaped(text).into(),
    }
}

/// Decodes `%` escapes; `None` if one is malformed, or the result is not UTF-8.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !segment.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(segment).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde::Deserialize;

    use super::*;

    fn request(method: Method, address: &str, headers: &[(&'static str, &str)]) -> Option<Request> {
        let mut request = http::Request::builder().method(method).uri(address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Request::new(&request.body(()).unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST), Position::START)
    }

    fn get(address: &str) -> Option<Request> {
        request(Method::GET, address, &[])
    }

    #[test]
    fn paths_have_one_spelling() {
        let read = |address: &str| get(address).map(|request| (request.uri.to_string(), request.wants_json));
        for (address, uri, wants_json) in [
            ("/", "/", false),
            ("/index.json", "/", true),
            ("//sets///", "/sets", false),
            ("/installations/a/b.json?x=1", "/installations/a/b?x=1", true),
            ("/installations/a/b%2Ejson", "/installations/a/b%2Ejson", false),
            ("/installations/a/b%2ejson.json", "/installations/a/b%2Ejson", true),
            ("/%69nstallations/a%2fb/%c3%a9", "/installations/a%2Fb/%C3%A9", false),
        ] {
            assert_eq!(read(address), Some((uri.to_owned(), wants_json)), "{address}");
        }
        for broken in ["/a/%", "/a/%zz", "/a/%ff", "/a/b/c/d/e/f"] {
            assert_eq!(read(broken), None, "{broken}");
        }
        assert_eq!(encoded("b.json"), "b%2Ejson");
        assert_eq!((encoded("a-b.c"), encoded("a/\u{e9}")), ("a-b.c".into(), "a%2F%C3%A9".into()));
    }

    #[test]
    fn twins_have_addresses() {
        let twin = |address: &str| get(address).unwrap().twin();
        assert_eq!(twin("/"), "/index.json");
        assert_eq!(twin("/sets/"), "/sets.json");
        assert_eq!(twin("/installations/a/b%2Ejson?x=1"), "/installations/a/b%2Ejson.json?x=1");
    }

    #[test]
    fn the_first_of_repeated_parameters_counts() {
        #[derive(Debug, Default, Deserialize, PartialEq)]
        #[serde(default)]
        struct Asked {
            q: String,
            page: String,
        }
        let asked = |query: &str| parameters::<Asked>(query).unwrap();
        let expected = |q: &str, page: &str| Asked { q: q.to_owned(), page: page.to_owned() };
        assert_eq!(asked("q=+a+b%26c&page=2&page=3&z&&=x"), expected("a b&c", "2"));
        assert_eq!(asked("q=%ff"), expected("\u{fffd}", ""));
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
        for coding in ["br", "gzip;q=0", "gzip; q=0", "gzip;q=0.0", "gzip; Q = 0.000", ""] {
            assert!(
                !request(Method::GET, "/", &[("accept-encoding", coding)]).unwrap().takes_gzip(),
                "{coding}"
            );
        }
    }
}
