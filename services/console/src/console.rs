//! The console's shared data, its errors, and the frame around every answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{self, ConnectInfo, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use groundwork_controller::{ApiError, Objects};
use groundwork_grpc::Channel;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::status::{self, reasons};
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_telemetry::Health;
use groundwork_turns::Seats;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use jiff::Timestamp;
use kube::Config;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::landscape::Landscape;
use crate::pages::frame::{self, Frame};
use crate::pages::message::MessagePage;
use crate::request::{Request, encoded};
use crate::rights::Rights;
use crate::settings::Network;
use crate::sources::Sources;
use crate::visitor::{SignIn, Visitor};
use crate::{SERVICE, answer};

/// Time limit for one page, form included.
const PAGE_LIMIT: Duration = Duration::from_secs(20);
/// Seconds until a browser asks again for a page that could not be made.
const AGAIN: u32 = 5;

/// Data and clients that all pages share.
pub(crate) struct Site {
    pub(crate) landscape: Landscape,
    pub(crate) rights: Rights,
    pub(crate) sign_in: SignIn,
    pub(crate) objects: Objects,
    pub(crate) sources: Sources,
    /// Configuration of the API server without credentials. Operations add the visitor's token to
    /// it.
    pub(crate) anonymous: Config,
    pub(crate) resolver: Option<ResolverClient<Channel>>,
    pub(crate) renderer: Option<RendererClient<Channel>>,
    pub(crate) variant: Option<VariantsClient<Channel>>,
    pub(crate) health: Health,
    pub(crate) allows_operations: bool,
    pub(crate) is_https: bool,
    pub(crate) proxies: Vec<Network>,
    pub(crate) live: Seats,
    pub(crate) end: CancellationToken,
}

impl Site {
    /// Returns the current problems of the console, which may make its pages out of date.
    pub(crate) fn problems(&self) -> Vec<String> {
        // In a process that runs several services, each condition begins with the name of its
        // service.
        let is_ours = |problem: &String| {
            let name = problem.split(':').next().unwrap_or_default();
            name.split_once('/').is_none_or(|(service, _)| service == SERVICE)
        };
        self.health.problems().into_iter().filter(is_ours).collect()
    }
}

/// Reasons for which a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PageError {
    #[error("This page does not exist.")]
    NoPage,
    #[error("{kind} {place} does not exist, or the console has not received it yet.")]
    NoObject { kind: &'static str, place: String },
    #[error("{0}")]
    Denied(String),
    /// The visitor must sign in first.
    #[error("{0}")]
    SignIn(String),
    #[error("{0}")]
    Refused(String),
    /// The page may be available in a moment.
    #[error("{0}")]
    Unavailable(String),
}

/// Result of a handler.
pub(crate) type Made = Result<Response, PageError>;

// `respond` makes the page of the error, because it knows the request and its visitor.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        Extension(self).into_response()
    }
}

impl From<Status> for PageError {
    fn from(status: Status) -> Self {
        let text = sentence(status.message());
        match status.code() {
            Code::Unauthenticated => Self::SignIn(text),
            Code::PermissionDenied => Self::Denied(text),
            Code::NotFound | Code::InvalidArgument | Code::FailedPrecondition => Self::Refused(text),
            _ => Self::Unavailable(text),
        }
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        let text = sentence(&error.to_string());
        match error {
            ApiError::Transient { .. } | ApiError::Unasked { .. } => Self::Unavailable(text),
            _ => Self::Refused(text),
        }
    }
}

/// Converts the error of a service that the console has called. A refusal of the console's own
/// token is not the visitor's problem: the visitor cannot sign in or ask for rights to solve it.
/// Only `ASKER_DENIED` is about the visitor, for whom the console asked.
pub(crate) fn called(service: &'static str, status: &Status) -> PageError {
    let text = sentence(status.message());
    match status.code() {
        Code::NotFound | Code::InvalidArgument | Code::FailedPrecondition => PageError::Refused(text),
        Code::PermissionDenied if status::reason(status).as_deref() == Some(reasons::ASKER_DENIED) => {
            PageError::Denied(text)
        }
        Code::Unauthenticated | Code::PermissionDenied => {
            PageError::Unavailable(format!("The {service} does not answer the console. {text}"))
        }
        _ => PageError::Unavailable(format!("The {service} cannot answer now. {text}")),
    }
}

/// Turns an error message into a sentence: an upper-case letter first, a full stop last.
pub(crate) fn sentence(message: &str) -> String {
    let mut characters = message.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", characters.as_str())
}

/// Answers a request through the router. Gives the address its one spelling first, then limits the
/// time, turns errors into pages, and adds cookie and headers.
pub(crate) async fn respond(
    State(site): State<Arc<Site>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut asked: extract::Request,
    next: Next,
) -> Response {
    let Some(request) = Request::new(&asked, peer.ip(), site.landscape.position()) else {
        let page = MessagePage { title: "Not found", message: PageError::NoPage.to_string(), link: None };
        let page = frame::html(&page, &Frame::default(), Timestamp::now());
        return answer::finished(answer::html(StatusCode::NOT_FOUND, page), false, site.is_https);
    };
    let request = Arc::new(request);
    *asked.uri_mut() = request.uri.clone();
    asked.extensions_mut().insert(Arc::clone(&request));
    let made = tokio::time::timeout(PAGE_LIMIT, next.run(asked)).await;
    let mut response = made.unwrap_or_else(|_| {
        PageError::Unavailable("The page could not be created in time.".to_owned()).into_response()
    });
    let visitor = request.visitor.get();
    if let Some(error) = response.extensions_mut().remove() {
        response = failure(&request, visitor, &error);
    }
    if let Some(cookie) = visitor.and_then(|visitor| visitor.new_cookie.as_deref()) {
        response = answer::with_cookie(response, cookie);
    }
    answer::finished(response, request.takes_gzip(), site.is_https)
}

/// Returns the response for an error: a page, a redirect to the sign-in page, or JSON.
fn failure(request: &Request, visitor: Option<&Visitor>, error: &PageError) -> Response {
    let (status, title) = match error {
        PageError::NoPage | PageError::NoObject { .. } => (StatusCode::NOT_FOUND, "Not found"),
        PageError::Denied(_) => (StatusCode::FORBIDDEN, "Not allowed"),
        PageError::SignIn(_) => (StatusCode::UNAUTHORIZED, "Sign in"),
        PageError::Refused(_) => (StatusCode::BAD_REQUEST, "Not possible"),
        PageError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Not now"),
    };
    let is_page = !request.wants_json
        && request.method == Method::GET
        && request.uri.path().split('/').nth(1) != Some("live");
    let mut link = None;
    let mut again = None;
    if let PageError::SignIn(_) = error
        && is_page
    {
        // Browsers leave out our `SameSite=Strict` cookie when a link on another site leads
        // here. The page that we send instead repeats the request at once, and that request
        // carries the cookie.
        if request.is_link_from_elsewhere() {
            link = Some((request.address.clone(), "Continue"));
            again = Some(0);
        } else {
            return answer::redirect(&format!("/sign-in?to={}", encoded(&request.address)));
        }
    }
    let page = MessagePage { title, message: error.to_string(), link };
    if !is_page && request.method == Method::GET {
        let problems = [error.to_string()];
        return answer::json(status, frame::json(&page, &problems));
    }
    if matches!(error, PageError::Unavailable(_)) && request.method == Method::GET {
        again = Some(AGAIN);
    }
    let status = if again == Some(0) { StatusCode::OK } else { status };
    let frame = Frame {
        user: visitor.map(|visitor| visitor.user.name.as_str()),
        can_sign_out: visitor.is_some_and(|visitor| visitor.has_cookie),
        path: request.uri.path(),
        again,
        ..Frame::default()
    };
    let mut response = answer::html(status, frame::html(&page, &frame, Timestamp::now()));
    if again == Some(AGAIN) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(AGAIN));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_services_refuse_is_not_asked_of_visitors() {
        let told = |code| called("renderer", &Status::new(code, "no token"));
        assert_eq!(told(Code::NotFound), PageError::Refused("No token.".to_owned()));
        for code in [Code::Unauthenticated, Code::PermissionDenied, Code::Unavailable, Code::Unknown] {
            let error = told(code);
            assert!(matches!(&error, PageError::Unavailable(text) if text.contains("renderer")), "{error:?}");
        }
    }

    #[test]
    fn messages_are_sentences() {
        assert_eq!(sentence("cannot do this"), "Cannot do this.");
        assert_eq!(sentence("Is it?"), "Is it?");
        assert_eq!(sentence(""), ".");
    }
}
