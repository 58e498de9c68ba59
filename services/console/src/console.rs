//! Routes each request to its page: signs the visitor in, checks rights, and turns errors into
//! pages.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Installation, PackageRevision, PackageVariant, PackageVariantSet, view};
use groundwork_controller::{ApiError, Objects};
use groundwork_grpc::Channel;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::status::{self, reasons};
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_telemetry::Health;
use groundwork_telemetry::ports::network_of;
use groundwork_turns::{Holder, Seats, Shares};
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use kube::Config;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::answer::{Answer, Body};
use crate::landscape::{Landscape, Place, Position};
use crate::live::{self, Topic};
use crate::pages::Page;
use crate::pages::frame::{self, Frame};
use crate::pages::message::MessagePage;
use crate::pages::sign_in::SignInPage;
use crate::request::{Form, LARGEST_FORM, Request, encoded, local_path};
use crate::rights::{KindOfRight, Purpose, Rights, Visible, of_kind};
use crate::server::Handler;
use crate::settings::Network;
use crate::sources::Sources;
use crate::visitor::{SignIn, Visitor};
use crate::{SERVICE, assets, journal, objects, operations, planning};

/// Time limit for one page, form included.
const PAGE_LIMIT: Duration = Duration::from_secs(20);
/// Limits on open pages that receive live updates.
const LIVE: Shares = Shares::of(1_000);
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
    /// Returns the seats for open pages.
    pub(crate) fn places() -> Seats {
        Seats::new(LIVE)
    }

    /// Returns the problems of the console right now, because of which its pages may be out of
    /// date.
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

impl Handler for Site {
    async fn handle(self: Arc<Self>, request: http::Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let (head, body) = request.into_parts();
        // Before signing in: the sign-in page needs its style sheet, too.
        if let Some(answer) = assets::answer(head.uri.path()) {
            return answer.into_response(false, self.is_https);
        }
        let Some(request) = Request::new(&head, peer.ip(), self.landscape.position()) else {
            let page = MessagePage { title: "Not found", message: PageError::NoPage.to_string(), link: None };
            let page = frame::html(&page, &Frame::default(), Timestamp::now());
            return Answer::html(StatusCode::NOT_FOUND, page).into_response(false, self.is_https);
        };
        let takes_gzip = request.takes_gzip();
        let is_head = request.method == Method::HEAD;
        let made = tokio::time::timeout(PAGE_LIMIT, self.answer(&request, body)).await;
        let answer = made.unwrap_or_else(|_| {
            let error = PageError::Unavailable("The page could not be created in time.".to_owned());
            self.failure(&request, None, &error)
        });
        let mut response = answer.into_response(takes_gzip, self.is_https);
        if is_head {
            *response.body_mut() = Body::default();
        }
        response
    }
}

impl Site {
    async fn answer(self: &Arc<Self>, request: &Request, body: Incoming) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        match (is_read, segments.as_slice()) {
            (true, ["sign-in"]) => return self.sign_in_page(request.parameter("to"), None),
            (false, ["sign-in"]) => return self.sign_in(request, body).await,
            (false, ["sign-out"]) => return self.sign_out(request),
            _ => {}
        }
        let visitor = match self.sign_in.visitor(request).await {
            Ok(visitor) => visitor,
            Err(status) => return self.failure(request, None, &status.into()),
        };
        let made = match (is_read, segments.as_slice()) {
            (true, ["live"]) => self.live(request, &visitor).await,
            (true, [section @ ("installations" | "revisions"), namespace, name, operation]) => {
                operations::confirm(self, request, &visitor, section, (namespace, name), operation).await
            }
            (false, [section @ ("installations" | "revisions"), namespace, name, operation]) => {
                match Form::read(body, LARGEST_FORM).await {
                    Some(form) => {
                        let operation = operations::Asked { section, operation, form: &form };
                        operations::run(self, request, &visitor, operation, (namespace, name)).await
                    }
                    None => Err(no_form()),
                }
            }
            (true, ["plan"]) => Ok(planning::form(self, request, &visitor)),
            (false, ["plan"]) => match Form::read(body, planning::LARGEST_FORM).await {
                Some(form) => planning::run(self, request, &visitor, &form).await,
                None => Err(no_form()),
            },
            (true, segments) => self.page(request, &visitor, segments).await,
            (false, _) => Err(PageError::NoPage),
        };
        let answer = made.unwrap_or_else(|error| self.failure(request, Some(&visitor), &error));
        match &visitor.new_cookie {
            Some(cookie) => answer.with_cookie(cookie),
            None => answer,
        }
    }

    async fn page(
        &self,
        request: &Request,
        visitor: &Visitor,
        segments: &[&str],
    ) -> Result<Answer, PageError> {
        use crate::pages::{components, events, installations, overview, sets};
        let now = Timestamp::now();
        match segments {
            [] => {
                let installations = self.visible::<Installation>(visitor).await?;
                let packages = self.visible::<PackageVariantSet>(visitor).await?;
                let page = overview::GlancePage::new(&self.landscape.read(), &installations, &packages, now);
                Ok(self.show(request, visitor, &page, now))
            }
            ["installations"] => {
                let visible = self.visible::<Installation>(visitor).await?;
                let page = {
                    let content = self.landscape.read();
                    installations::InstallationsPage::new(&content, &visible, request, now)
                };
                Ok(self.show(request, visitor, &page, now))
            }
            ["sets"] => {
                let sets = self.visible::<PackageVariantSet>(visitor).await?;
                let variants = self.visible::<PackageVariant>(visitor).await?;
                let page = sets::SetsPage::new(&self.landscape.read(), &sets, &variants, request);
                Ok(self.show(request, visitor, &page, now))
            }
            ["components"] => {
                let visible = self.visible::<Installation>(visitor).await?;
                let page = components::ComponentsPage::new(&self.landscape.read(), &visible, request);
                Ok(self.show(request, visitor, &page, now))
            }
            ["events"] => {
                let sees = self.sees_events(visitor).await?;
                let page = events::EventsPage::new(
                    &self.landscape.read(),
                    |event| {
                        let namespace = event.object.namespace.as_deref().unwrap_or_default();
                        let kind = (event.object.kind.group(), event.object.kind.plural());
                        sees.iter().any(|(known, visible)| *known == kind && visible.contains(namespace))
                    },
                    request,
                );
                Ok(self.show(request, visitor, &page, now))
            }
            ["sets", namespace, name, "compare"] => {
                let place = place(namespace, name)?;
                objects::comparison(self, request, visitor, &place, now).await
            }
            [section, namespace, name] => {
                let place = place(namespace, name)?;
                match *section {
                    "installations" => objects::installation(self, request, visitor, &place, now).await,
                    "journal" => journal::page(self, request, visitor, &place, now).await,
                    "components" => objects::closure(self, request, visitor, &place, now).await,
                    "sets" => objects::set(self, request, visitor, &place, now).await,
                    "variants" => objects::variant(self, request, visitor, &place, now).await,
                    "revisions" => objects::revision(self, request, visitor, &place, now).await,
                    _ => Err(PageError::NoPage),
                }
            }
            _ => Err(PageError::NoPage),
        }
    }

    /// Renders a page as the request wants it: HTML for browsers, JSON for programs.
    pub(crate) fn show(
        &self,
        request: &Request,
        visitor: &Visitor,
        page: &impl Page,
        now: Timestamp,
    ) -> Answer {
        let mut problems = self.problems();
        if problems.is_empty() && !self.landscape.is_complete() {
            problems.push("the stream has not been read completely yet".to_owned());
        }
        if request.wants_json {
            return Answer::json(StatusCode::OK, frame::json(page, &problems));
        }
        let frame = Frame {
            user: Some(&visitor.user.name),
            can_sign_out: visitor.has_cookie,
            problems: &problems,
            path: &path_of(&request.address),
            twin: Some(twin(&request.address)),
            again: None,
            position: Some(request.position),
        };
        Answer::html(StatusCode::OK, frame::html(page, &frame, now))
    }

    /// Returns the namespaces in which a visitor may `get` objects of a kind.
    pub(crate) async fn visible<K: groundwork_api::Kind>(
        &self,
        visitor: &Visitor,
    ) -> Result<Arc<Visible>, PageError> {
        let namespaces = || self.landscape.read().namespaces();
        Ok(self.rights.visible(&visitor.user, of_kind::<K>(), Purpose::Lists, namespaces).await?)
    }

    /// Returns, for each kind on the stream, the namespaces in which the visitor may `get` its
    /// objects.
    async fn sees_events(&self, visitor: &Visitor) -> Result<Vec<(KindOfRight, Arc<Visible>)>, PageError> {
        // Asks only about namespaces with an event on the page: a cluster can have thousands of
        // others.
        let namespaces = |kind: KindOfRight| -> BTreeSet<Arc<str>> {
            let content = self.landscape.read();
            let of_kind = content
                .events
                .iter()
                .map(|event| &event.object)
                .filter(|object| (object.kind.group(), object.kind.plural()) == kind);
            of_kind.filter_map(|object| object.namespace.as_deref()).map(Arc::from).collect()
        };
        let unasked = view::WATCHED.iter().map(|watched| (watched.group, watched.plural));
        let visible = unasked.chain([REVISIONS]).map(async |kind| {
            let namespaces = || namespaces(kind);
            Ok::<_, PageError>((
                kind,
                self.rights.visible(&visitor.user, kind, Purpose::Events, namespaces).await?,
            ))
        });
        futures::future::try_join_all(visible).await
    }

    /// Returns an error unless the visitor may use `verb` on an object.
    pub(crate) async fn demand<K: groundwork_api::Kind>(
        &self,
        visitor: &Visitor,
        verb: &'static str,
        place: &Place,
    ) -> Result<(), PageError> {
        let (namespace, name) = (Some(&*place.namespace), Some(&*place.name));
        match self.rights.may(&visitor.user, verb, of_kind::<K>(), namespace, name).await? {
            true => Ok(()),
            false => Err(PageError::Denied(format!(
                "User {:?} may not {verb} {}.{} {place}.",
                visitor.user.name,
                K::PLURAL,
                K::GROUP
            ))),
        }
    }

    /// Reports whether the visitor may `get` all objects of a kind in a namespace.
    pub(crate) async fn sees_all<K: groundwork_api::Kind>(
        &self,
        visitor: &Visitor,
        place: &Place,
    ) -> Result<bool, PageError> {
        Ok(self.rights.may(&visitor.user, "get", of_kind::<K>(), Some(&place.namespace), None).await?)
    }

    async fn live(self: &Arc<Self>, request: &Request, visitor: &Visitor) -> Result<Answer, PageError> {
        let topic = Topic::parse(request.parameter("topic"))
            .ok_or_else(|| PageError::Refused("The topic is not known.".to_owned()))?;
        let visible = match &topic {
            Topic::Installations => Some(self.visible::<Installation>(visitor).await?),
            Topic::Sets => Some(self.visible::<PackageVariantSet>(visitor).await?),
            Topic::Installation(place) => {
                self.demand::<Installation>(visitor, "get", place).await?;
                None
            }
            Topic::Packages(place) if !self.sees_all::<PackageVariant>(visitor, place).await? => {
                return Err(PageError::Denied(
                    "You may not get PackageVariants in this namespace.".to_owned(),
                ));
            }
            Topic::Overview | Topic::Packages(_) | Topic::Events => None,
        };
        let address = request.browser(&self.proxies).map(network_of).map(Holder::Address);
        let holders = Holder::of_user(&visitor.user.name).into_iter().chain(address).collect();
        let place = self.live.take(holders).map_err(|full| {
            let text = format!("Too many pages are open: {full}. Reload this one to see changes.");
            PageError::Unavailable(text)
        })?;
        let since = Position::parse(request.parameter("since"));
        let watched = live::Watched { topic, visible, user: Arc::clone(&visitor.user), since };
        Ok(Answer::events(live::events(Arc::clone(self), request.clone(), watched, place)))
    }

    fn sign_in_page(&self, to: &str, problem: Option<String>) -> Answer {
        let status = if problem.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
        let page = SignInPage { to: local_path(to).to_owned(), problem };
        Answer::html(status, frame::html(&page, &Frame::default(), Timestamp::now()))
    }

    async fn sign_in(&self, request: &Request, body: Incoming) -> Answer {
        if !request.is_from_here() {
            return self.failure(request, None, &from_elsewhere());
        }
        let Some(form) = Form::read(body, LARGEST_FORM).await else {
            return self.sign_in_page("/", Some(no_form().to_string()));
        };
        let (token, to) = (form.field("token"), form.field("to"));
        let cookie = match self.sign_in.cookie(token) {
            Ok(cookie) => cookie,
            Err(problem) => return self.sign_in_page(to, Some(problem.to_string())),
        };
        match self.sign_in.check(token, request).await {
            Ok(_) => Answer::redirect(local_path(to)).with_cookie(&cookie),
            Err(status) if status.code() == Code::Unauthenticated => {
                self.sign_in_page(to, Some("The API server does not accept this token.".to_owned()))
            }
            Err(status) => self.sign_in_page(to, Some(sentence(status.message()))),
        }
    }

    fn sign_out(&self, request: &Request) -> Answer {
        if !request.is_from_here() {
            return self.failure(request, None, &from_elsewhere());
        }
        Answer::redirect("/sign-in").with_cookie(&self.sign_in.no_cookie())
    }

    /// Returns the response for an error: a page, a redirect to the sign-in page, or JSON.
    fn failure(&self, request: &Request, visitor: Option<&Visitor>, error: &PageError) -> Answer {
        let (status, title) = match error {
            PageError::NoPage | PageError::NoObject { .. } => (StatusCode::NOT_FOUND, "Not found"),
            PageError::Denied(_) => (StatusCode::FORBIDDEN, "Not allowed"),
            PageError::SignIn(_) => (StatusCode::UNAUTHORIZED, "Sign in"),
            PageError::Refused(_) => (StatusCode::BAD_REQUEST, "Not possible"),
            PageError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Not now"),
        };
        let is_page = !request.wants_json
            && request.method == Method::GET
            && request.segments.first().is_none_or(|section| section != "live");
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
                return Answer::redirect(&format!("/sign-in?to={}", encoded(&request.address)));
            }
        }
        let page = MessagePage { title, message: error.to_string(), link };
        if !is_page && request.method == Method::GET {
            let problems = [error.to_string()];
            return Answer::json(status, frame::json(&page, &problems));
        }
        if matches!(error, PageError::Unavailable(_)) && request.method == Method::GET {
            again = Some(AGAIN);
        }
        let status = if again == Some(0) { StatusCode::OK } else { status };
        let path = path_of(&request.address);
        let frame = Frame {
            user: visitor.map(|visitor| visitor.user.name.as_str()),
            can_sign_out: visitor.is_some_and(|visitor| visitor.has_cookie),
            path: &path,
            again,
            ..Frame::default()
        };
        let answer = Answer::html(status, frame::html(&page, &frame, Timestamp::now()));
        if again == Some(AGAIN) { answer.asked_again() } else { answer }
    }
}

/// Returns the object that an address names. A name that Kubernetes does not allow is `NoPage`.
fn place(namespace: &str, name: &str) -> Result<Place, PageError> {
    if !is_dns_subdomain(namespace) || !is_dns_subdomain(name) {
        return Err(PageError::NoPage);
    }
    Ok(Place::new(namespace, name))
}

pub(crate) fn named(namespace: &str, name: &str) -> Result<Place, PageError> {
    place(namespace, name)
}

fn no_form() -> PageError {
    PageError::Refused("The form is too long, or was not received completely.".to_owned())
}

pub(crate) fn from_elsewhere() -> PageError {
    PageError::Denied("The form comes from a page of another site.".to_owned())
}

fn path_of(address: &str) -> String {
    address.split('?').next().unwrap_or("/").to_owned()
}

/// Returns the address of the JSON form of a page.
fn twin(address: &str) -> String {
    let (path, query) = address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
    let path = if path == "/" { "/index" } else { path.trim_end_matches('/') };
    query.map_or_else(|| format!("{path}.json"), |query| format!("{path}.json?{query}"))
}

/// Group and plural of PackageRevisions, for questions about rights.
pub(crate) const REVISIONS: KindOfRight = of_kind::<PackageRevision>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_have_addresses() {
        assert_eq!(twin("/"), "/index.json");
        assert_eq!(twin("/sets/"), "/sets.json");
        assert_eq!(twin("/installations/a/b%2Ejson?x=1"), "/installations/a/b%2Ejson.json?x=1");
    }

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
