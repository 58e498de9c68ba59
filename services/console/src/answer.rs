//! Responses to browsers, each with the headers that keep other sites and other users out.

use std::convert::Infallible;
use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE, STRICT_TRANSPORT_SECURITY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

use crate::escape::{visible, visible_json};

/// Content security policy: pages load nothing from other hosts, contain no inline script or style,
/// and are never shown in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Headers of every response.
const ALWAYS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (VARY, "accept-encoding, cookie, authorization"),
];
/// Size in bytes below which a response is sent without compression.
const WORTH_COMPRESSING: usize = 1024;

/// Text of a response, as an extension of a response that may be compressed.
#[derive(Debug, Clone)]
struct Compressible(Bytes);

fn content(
    status: StatusCode,
    media_type: &'static str,
    cache: &'static str,
    body: impl Into<Body>,
) -> Response {
    (status, [(CONTENT_TYPE, media_type), (CACHE_CONTROL, cache)], body.into()).into_response()
}

fn page(status: StatusCode, media_type: &'static str, text: String) -> Response {
    let text = Bytes::from(text);
    let mut response = content(status, media_type, "no-store", text.clone());
    response.extensions_mut().insert(Compressible(text));
    response
}

/// Returns an HTML page. Invisible characters in it are replaced by visible ones.
pub(crate) fn html(status: StatusCode, text: String) -> Response {
    page(status, "text/html; charset=utf-8", visible(text))
}

/// Returns the JSON form of a page.
pub(crate) fn json(status: StatusCode, text: String) -> Response {
    page(status, "application/json", visible_json(text))
}

/// Returns a static file of the console. Its address changes with its content, so that browsers
/// may cache it for a year.
pub(crate) fn asset(media_type: &'static str, text: &'static str) -> Response {
    content(StatusCode::OK, media_type, "public, max-age=31536000, immutable", text)
}

/// Redirects to another page of this server.
pub(crate) fn redirect(path: &str) -> Response {
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    let empty = content(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "no-store", "");
    ([(LOCATION, path)], empty).into_response()
}

/// Returns a stream of server-sent events.
pub(crate) fn events(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    // nginx collects a response before it passes it on, and would keep back the events.
    let headers = [(CACHE_CONTROL, "no-store"), (HeaderName::from_static("x-accel-buffering"), "no")];
    (headers, Sse::new(events)).into_response()
}

/// Adds a cookie. A cookie that is not a valid header value is left out.
pub(crate) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    response.headers_mut().extend(HeaderValue::from_str(cookie).map(|cookie| (SET_COOKIE, cookie)));
    response
}

/// Marks a page with the key of a form as not to be compressed: the compressed length of a page
/// lets an attacker guess its secrets (BREACH).
pub(crate) fn with_secret(mut response: Response) -> Response {
    response.extensions_mut().remove::<Compressible>();
    response
}

/// Compresses a response if its browser takes gzip, and adds the headers of every response. With
/// `is_https`, the response makes browsers use TLS only (HSTS).
pub(crate) fn finished(mut response: Response, takes_gzip: bool, is_https: bool) -> Response {
    if let Some(Compressible(text)) = response.extensions_mut().remove()
        && takes_gzip
        && text.len() >= WORTH_COMPRESSING
        && let Some(small) = gzip(&text)
    {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(small.len()));
        *response.body_mut() = Body::from(small);
    }
    let headers = response.headers_mut();
    // Inserted last, so that the headers of a single page cannot replace these.
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_https {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

fn gzip(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::new(5));
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}
