//! Live updates: open pages are told that they have changed, and fetch themselves again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use groundwork_api::{Installation, Kind as _, PackageRevision, PackageVariant, PackageVariantSet};
use groundwork_bus::ObjectId;
use groundwork_grpc::User;
use groundwork_turns::Seat;
use hyper::body::{Bytes, Frame};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Code;

use crate::console::Site;
use crate::landscape::{Place, Position};
use crate::request::Request;
use crate::rights::Visible;

/// Between a change and the word of it, so that what changes together is told together.
const SETTLE: Duration = Duration::from_millis(40);
/// Between two words: pages are not made more often than people can read them.
const PAUSE: Duration = Duration::from_millis(700);
/// How often it is looked whether the visitor is still signed in, and what is wrong with the console.
const LOOK: Duration = Duration::from_secs(1);
/// Looks after which the API server is asked about the visitor again.
const LOOKS: u32 = 15;
/// After this a browser connects again; so nothing is held for ever for one that is gone.
const LONGEST: Duration = Duration::from_mins(10);

/// Which changes change a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Any Installation, set or variant.
    Overview,
    /// Any Installation.
    Installations,
    /// One Installation, and what is below it.
    Installation(Place),
    /// Any set or variant.
    Sets,
    /// The sets and variants of the namespace of one.
    Packages(Place),
    /// Anything.
    Events,
}

impl Topic {
    /// A topic as pages name it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let topic = match (parts.next()?, parts.next(), parts.next()) {
            ("overview", None, None) => Self::Overview,
            ("installations", None, None) => Self::Installations,
            ("sets", None, None) => Self::Sets,
            ("events", None, None) => Self::Events,
            ("installations", Some(namespace), Some(name)) => Self::Installation(Place::new(namespace, name)),
            ("sets" | "variants" | "revisions", Some(namespace), Some(name)) => {
                Self::Packages(Place::new(namespace, name))
            }
            _ => return None,
        };
        parts.next().is_none().then_some(topic)
    }

    fn concerns(&self, object: &ObjectId, site: &Site) -> bool {
        let plural = object.kind.plural();
        let is_package =
            [PackageVariantSet::PLURAL, PackageVariant::PLURAL, PackageRevision::PLURAL].contains(&plural);
        match self {
            Self::Events => true,
            Self::Overview => plural == Installation::PLURAL || is_package,
            Self::Installations => plural == Installation::PLURAL,
            Self::Sets => is_package,
            Self::Packages(place) => is_package && object.namespace.as_deref() == Some(&*place.namespace),
            Self::Installation(place) => {
                if object.namespace.as_deref() != Some(&*place.namespace) {
                    return false;
                }
                let content = site.landscape.read();
                let roots = content.roots(object);
                // Those beside it are on the page, too.
                roots.contains(place)
                    || roots.first().is_some_and(|changed| {
                        content.predecessors(place).contains(changed)
                            || content.successors(place).contains(changed)
                    })
            }
        }
    }
}

/// What an open page shows.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) topic: Topic,
    /// Where the visitor sees the objects of the topic. Without it each kind has rights of its own, which are asked for.
    pub(crate) visible: Option<Arc<Visible>>,
    pub(crate) user: Arc<User>,
    /// How far the console had read when the page was made, if the page tells.
    pub(crate) since: Option<Position>,
}

/// One open page.
struct Session {
    site: Arc<Site>,
    request: Request,
    watched: Watched,
    changes: Receiver<ObjectId>,
    problems: Vec<String>,
    begin: Instant,
    /// Before this nothing is told.
    quiet_until: Instant,
    next_look: Instant,
    looks: u32,
    is_over: bool,
    /// Something that the page shows has changed and was not told.
    is_stale: bool,
    _place: Seat,
}

/// The events of an open page.
pub(crate) fn events(
    site: Arc<Site>,
    request: Request,
    watched: Watched,
    place: Seat,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    let now = Instant::now();
    let session = Session {
        changes: site.landscape.changes(),
        problems: site.problems(),
        begin: now,
        quiet_until: now,
        next_look: now + LOOK,
        looks: 0,
        is_over: false,
        is_stale: false,
        _place: place,
        site,
        request,
        watched,
    };
    let frame = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
    let first = futures::stream::iter([frame(": welcome\nretry: 2000\n\n")]);
    let rest = unfold(session, move |mut session| async move {
        // A change between the making of the page and its asking for changes would be missed for good.
        session.is_stale |= session.is_behind().await;
        let text = session.next().await?;
        Some((frame(text), session))
    });
    futures::StreamExt::chain(first, rest)
}

impl Session {
    /// What the page is told next; `None` at the end.
    async fn next(&mut self) -> Option<&'static str> {
        let end = self.site.end.clone();
        while !self.is_over && self.begin.elapsed() < LONGEST {
            let look = self.next_look;
            tokio::select! {
                biased;
                () = end.cancelled() => return None,
                () = sleep_until(self.quiet_until), if self.is_stale => return self.tell(),
                change = self.changes.recv() => match change {
                    Ok(object) => self.note(&object).await,
                    Err(RecvError::Lagged(_)) => self.note_all().await,
                    Err(RecvError::Closed) => return None,
                },
                () = sleep_until(look) => if let Some(text) = self.look().await {
                    return Some(text);
                },
            }
        }
        None
    }

    fn tell(&mut self) -> Option<&'static str> {
        self.is_stale = false;
        self.quiet_until = Instant::now() + PAUSE;
        Some("event: changed\ndata: \n\n")
    }

    /// Keeps that a change concerns the page; what comes at once is taken along.
    async fn note(&mut self, object: &ObjectId) {
        if self.is_stale || !self.concerns(object).await {
            return;
        }
        self.note_all().await;
    }

    async fn note_all(&mut self) {
        self.is_stale = true;
        let settled = Instant::now() + SETTLE;
        while let Ok(Ok(_) | Err(RecvError::Lagged(_))) = timeout_at(settled, self.changes.recv()).await {}
    }

    /// Whether something that the page shows has changed since it was made, or that cannot be told.
    async fn is_behind(&mut self) -> bool {
        let Some(since) = self.watched.since.take() else { return false };
        let Some(changed) = self.site.landscape.changed_since(since) else { return true };
        for object in &changed {
            if self.concerns(object).await {
                return true;
            }
        }
        false
    }

    /// True if the page shows an object, and the visitor sees it.
    async fn concerns(&self, object: &ObjectId) -> bool {
        if !self.watched.topic.concerns(object, &self.site) {
            return false;
        }
        match (&self.watched.visible, &self.watched.topic) {
            (Some(visible), _) => visible.contains(object.namespace.as_deref().unwrap_or_default()),
            // Without an answer of the API server the page is told nothing.
            (None, Topic::Overview | Topic::Events) => {
                self.site.rights.may_see(&self.watched.user, object).await.unwrap_or(false)
            }
            (None, _) => true,
        }
    }

    /// Whether something beside the stream has changed: the visitor's token, or what is wrong.
    async fn look(&mut self) -> Option<&'static str> {
        self.next_look = Instant::now() + LOOK;
        let problems = self.site.problems();
        if problems != self.problems {
            self.problems = problems;
            return self.tell();
        }
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            let visitor = self.site.sign_in.visitor(&self.request).await;
            if visitor.is_err_and(|status| status.code() == Code::Unauthenticated) {
                self.is_over = true;
                return Some("event: signed-out\ndata: \n\n");
            }
            // Proxies and browsers end connections on which nothing comes.
            return Some(": still here\n\n");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics() {
        let place = Place::new("a", "b");
        assert_eq!(Topic::parse("overview"), Some(Topic::Overview));
        assert_eq!(Topic::parse("installations/a/b"), Some(Topic::Installation(place.clone())));
        assert_eq!(Topic::parse("revisions/a/b"), Some(Topic::Packages(place)));
        for wrong in ["", "x", "overview/a", "installations/a", "installations/a/b/c"] {
            assert_eq!(Topic::parse(wrong), None, "{wrong}");
        }
    }
}
