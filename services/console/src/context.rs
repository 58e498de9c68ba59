//! The context of each page: the request, its signed-in visitor, and the data of the console.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::response::Response;
use groundwork_api::{Kind, PackageRevision, view};
use http::StatusCode;
use http::request::Parts;
use jiff::Timestamp;

use crate::answer;
use crate::console::{PageError, Site};
use crate::landscape::NamespacedName;
use crate::pages::Page;
use crate::pages::frame::{self, Frame};
use crate::request::Request;
use crate::rights::{KindOfRight, Purpose, Visible, of_kind};
use crate::visitor::Visitor;

/// A request whose visitor has signed in.
pub(crate) struct Context {
    pub(crate) site: Arc<Site>,
    pub(crate) request: Arc<Request>,
    pub(crate) visitor: Visitor,
    pub(crate) now: Timestamp,
}

impl FromRequestParts<Arc<Site>> for Context {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, PageError> {
        let request = Extension::<Arc<Request>>::from_request_parts(parts, site).await;
        let Extension(request) = request.map_err(|_| PageError::NoPage)?;
        let visitor = site.sign_in.visitor(&request).await?;
        let visitor = request.visitor.get_or_init(|| visitor).clone();
        Ok(Self { site: Arc::clone(site), request, visitor, now: Timestamp::now() })
    }
}

impl Context {
    /// Renders a page as the request wants it: HTML for browsers, JSON for programs.
    pub(crate) fn show(&self, page: &impl Page) -> Response {
        let Self { site, request, visitor, now } = self;
        let mut problems = site.problems();
        if problems.is_empty() && !site.landscape.is_complete() {
            problems.push("the stream has not been read completely yet".to_owned());
        }
        if request.wants_json {
            return answer::json(StatusCode::OK, frame::json(page, &problems));
        }
        let frame = Frame {
            user: Some(&visitor.user.name),
            can_sign_out: visitor.has_cookie,
            problems: &problems,
            path: request.uri.path(),
            twin: Some(request.twin()),
            again: None,
            position: Some(request.position),
        };
        answer::html(StatusCode::OK, frame::html(page, &frame, *now))
    }

    /// Returns the namespaces in which the visitor may `get` objects of a kind.
    pub(crate) async fn visible<K: Kind>(&self) -> Result<Arc<Visible>, PageError> {
        let namespaces = || self.site.landscape.read().namespaces();
        let rights = &self.site.rights;
        Ok(rights.visible(&self.visitor.user, of_kind::<K>(), Purpose::Lists, namespaces).await?)
    }

    /// Returns, for each kind on the stream, the namespaces in which the visitor may `get` its
    /// objects.
    pub(crate) async fn sees_events(&self) -> Result<Vec<(KindOfRight, Arc<Visible>)>, PageError> {
        // Asks only about namespaces with an event on the page: a cluster can have thousands of
        // others.
        let namespaces = |kind: KindOfRight| -> BTreeSet<Arc<str>> {
            let content = self.site.landscape.read();
            let of_kind = content
                .events
                .iter()
                .map(|event| &event.object)
                .filter(|object| (object.kind.group(), object.kind.plural()) == kind);
            of_kind.filter_map(|object| object.namespace.as_deref()).map(Arc::from).collect()
        };
        let unasked = view::WATCHED.iter().map(|watched| (watched.group, watched.plural));
        let visible = unasked.chain([of_kind::<PackageRevision>()]).map(async |kind| {
            let namespaces = || namespaces(kind);
            let rights = &self.site.rights;
            let visible = rights.visible(&self.visitor.user, kind, Purpose::Events, namespaces).await?;
            Ok::<_, PageError>((kind, visible))
        });
        futures::future::try_join_all(visible).await
    }

    /// Reports whether the visitor may use `verb` on an object, or on all of a namespace.
    pub(crate) async fn may(
        &self,
        verb: &'static str,
        kind: KindOfRight,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<bool, PageError> {
        Ok(self.site.rights.may(&self.visitor.user, verb, kind, Some(namespace), name).await?)
    }

    /// Returns an error unless the visitor may `get` an object.
    pub(crate) async fn demand<K: Kind>(&self, place: &NamespacedName) -> Result<(), PageError> {
        if self.may("get", of_kind::<K>(), &place.namespace, Some(&place.name)).await? {
            return Ok(());
        }
        let user = &self.visitor.user.name;
        Err(PageError::Denied(format!("User {user:?} may not get {}.{} {place}.", K::PLURAL, K::GROUP)))
    }

    /// Reports whether the visitor may `get` all objects of a kind in a namespace.
    pub(crate) async fn sees_all<K: Kind>(&self, place: &NamespacedName) -> Result<bool, PageError> {
        self.may("get", of_kind::<K>(), &place.namespace, None).await
    }
}
