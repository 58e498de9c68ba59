//! Responses to browsers, each with the headers that keep other sites and other users out.

use std::convert::Infallible;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE, STRICT_TRANSPORT_SECURITY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};

use crate::escape::{visible, visible_json};

/// Content security policy: pages load nothing from other hosts, contain no inline script or style,
/// and are never shown in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Size in bytes below which a response is sent without compression.
const WORTH_COMPRESSING: usize = 1024;
/// Value of `Retry-After`: seconds until the browser asks again for a page that cannot be made now.
const AGAIN: &str = "5";

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A response before it is sent.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    content: Content,
    /// False for a page that carries the key of a form: the compressed length of a page lets an
    /// attacker guess its secrets (BREACH).
    is_compressible: bool,
}

enum Content {
    Text(String),
    Stream(Body),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{} bytes", text.len()),
            Self::Stream(_) => f.write_str("stream"),
        }
    }
}

impl Answer {
    fn new(status: StatusCode, media_type: &'static str, cache: &'static str, text: String) -> Self {
        let headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static(media_type)),
            (CACHE_CONTROL, HeaderValue::from_static(cache)),
        ];
        Self { status, headers, content: Content::Text(text), is_compressible: true }
    }

    /// Returns an HTML page. Invisible characters in it are replaced by visible ones.
    pub(crate) fn html(status: StatusCode, page: String) -> Self {
        Self::new(status, "text/html; charset=utf-8", "no-store", visible(page))
    }

    /// Returns the JSON form of a page.
    pub(crate) fn json(status: StatusCode, text: String) -> Self {
        Self::new(status, "application/json", "no-store", visible_json(text))
    }

    /// Returns a static file of the console. Its address changes with its content, so that browsers
    /// may cache it for a year.
    pub(crate) fn asset(media_type: &'static str, text: &'static str) -> Self {
        Self::new(StatusCode::OK, media_type, "public, max-age=31536000, immutable", text.to_owned())
    }

    /// Redirects to another page of this server.
    pub(crate) fn redirect(path: &str) -> Self {
        let mut answer =
            Self::new(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "no-store", String::new());
        let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
        answer.headers.push((LOCATION, path));
        answer
    }

    /// Returns a stream of server-sent events.
    pub(crate) fn events(
        events: impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static,
    ) -> Self {
        let mut answer = Self::new(StatusCode::OK, "text/event-stream", "no-store", String::new());
        // nginx collects a response before it passes it on, and would keep back the events.
        answer.headers.push((HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")));
        answer.content = Content::Stream(UnsyncBoxBody::new(StreamBody::new(events)));
        answer
    }

    /// Sets a cookie. A cookie that is not a valid header value is left out.
    pub(crate) fn with_cookie(mut self, cookie: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(cookie).map(|cookie| (SET_COOKIE, cookie)));
        self
    }

    /// Adds `Retry-After`, so that the browser asks again by itself.
    pub(crate) fn asked_again(mut self) -> Self {
        self.headers.push((RETRY_AFTER, HeaderValue::from_static(AGAIN)));
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn with_secret(mut self) -> Self {
        self.is_compressible = false;
        self
    }

    /// Builds the HTTP response. With `is_https`, the response makes browsers use TLS only (HSTS).
    pub(crate) fn into_response(self, takes_gzip: bool, is_https: bool) -> Response<Body> {
        let Self { status, headers, content, is_compressible } = self;
        let (body, is_compressed) = match content {
            Content::Stream(body) => (body, false),
            Content::Text(text) => {
                let small = (takes_gzip && is_compressible && text.len() >= WORTH_COMPRESSING)
                    .then(|| gzip(text.as_bytes()))
                    .flatten();
                let is_compressed = small.is_some();
                let bytes = small.map_or_else(|| Bytes::from(text), Bytes::from);
                (Full::new(bytes).boxed_unsync(), is_compressed)
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let map = response.headers_mut();
        for (name, value) in headers {
            map.append(name, value);
        }
        // Inserted last, so that the headers of a single page cannot replace these.
        let always = [
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
            (VARY, "accept-encoding, cookie, authorization"),
        ];
        for (name, value) in always {
            map.insert(name, HeaderValue::from_static(value));
        }
        if is_https {
            map.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        }
        if is_compressed {
            map.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn gzip(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::new(5));
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}
