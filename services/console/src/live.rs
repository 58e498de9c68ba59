//! Live updates: each open page receives an event when it has changed, and fetches itself again.

use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use futures::StreamExt as _;
use futures::stream::{once, unfold};
use groundwork_api::{Installation, Kind as _, PackageRevision, PackageVariant, PackageVariantSet};
use groundwork_bus::ObjectId;
use groundwork_telemetry::ports::network_of;
use groundwork_turns::{Holder, Seat, Shares};
use serde::Deserialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Code;

use crate::answer;
use crate::console::{Made, PageError, Site};
use crate::context::Context;
use crate::landscape::{NamespacedName, Position};
use crate::request::Parameters;
use crate::rights::Visible;

/// Limits on open pages that receive live updates.
pub(crate) const PAGES: Shares = Shares::of(1_000);
/// Delay between a change and its event, so that changes that come together cause one event.
const SETTLE: Duration = Duration::from_millis(40);
/// Shortest time between two events of a page: people cannot read a page that changes more often.
const PAUSE: Duration = Duration::from_millis(700);
/// Interval at which a session checks the console's problems and counts towards `LOOKS`.
const LOOK: Duration = Duration::from_secs(1);
/// Number of checks after which the API server is asked about the visitor again, every 15 seconds.
const LOOKS: u32 = 15;
/// Time after which a browser connects again.
const RETRY: Duration = Duration::from_secs(2);
/// Longest time that a session lasts. The browser then connects again, so that a browser that has
/// disappeared does not keep its seat for ever.
const LONGEST: Duration = Duration::from_mins(10);

/// Changes that concern a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Changes of any Installation, set or variant.
    Overview,
    /// Changes of any Installation.
    Installations,
    /// Changes of one Installation and of the objects below it.
    Installation(NamespacedName),
    /// Changes of any set or variant.
    Sets,
    /// Changes of sets and variants in the namespace of one.
    Packages(NamespacedName),
    /// Changes of any object.
    Events,
}

impl Topic {
    /// Parses a topic as pages name it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let topic = match (parts.next()?, parts.next(), parts.next()) {
            ("overview", None, None) => Self::Overview,
            ("installations", None, None) => Self::Installations,
            ("sets", None, None) => Self::Sets,
            ("events", None, None) => Self::Events,
            ("installations", Some(namespace), Some(name)) => {
                Self::Installation(NamespacedName::new(namespace, name))
            }
            ("sets" | "variants" | "revisions", Some(namespace), Some(name)) => {
                Self::Packages(NamespacedName::new(namespace, name))
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
                // The page also shows the siblings that exchange data with the Installation.
                roots.contains(place)
                    || roots.first().is_some_and(|changed| {
                        content.predecessors(place).contains(changed)
                            || content.successors(place).contains(changed)
                    })
            }
        }
    }
}

/// Page that a browser watches.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Watched {
    topic: String,
    /// Position of the console when the page was made, if the page carries one.
    since: String,
}

/// Session of one open page.
struct Session {
    context: Context,
    topic: Topic,
    /// Namespaces in which the visitor sees the objects of the topic. `None` if the page shows
    /// several kinds; then the rights to each object are checked.
    visible: Option<Arc<Visible>>,
    since: Option<Position>,
    changes: Receiver<ObjectId>,
    problems: Vec<String>,
    begin: Instant,
    /// No event is sent before this time.
    quiet_until: Instant,
    next_look: Instant,
    looks: u32,
    is_over: bool,
    /// The page is out of date and has no event yet.
    is_stale: bool,
    _place: Seat,
}

/// Returns the stream of events for an open page.
pub(crate) async fn events(context: Context, Parameters(watched): Parameters<Watched>) -> Made {
    let topic = Topic::parse(&watched.topic)
        .ok_or_else(|| PageError::Refused("The topic is not known.".to_owned()))?;
    let visible = visible(&context, &topic).await?;
    let Context { site, request, visitor, .. } = &context;
    let address = request.browser(&site.proxies).map(network_of).map(Holder::Address);
    let holders = Holder::of_user(&visitor.user.name).into_iter().chain(address).collect();
    let place = site.live.take(holders).map_err(|full| {
        PageError::Unavailable(format!("Too many pages are open: {full}. Reload this one to see changes."))
    })?;
    let now = Instant::now();
    let session = Session {
        topic,
        visible,
        since: Position::parse(&watched.since),
        changes: site.landscape.changes(),
        problems: site.problems(),
        begin: now,
        quiet_until: now,
        next_look: now + LOOK,
        looks: 0,
        is_over: false,
        is_stale: false,
        _place: place,
        context,
    };
    let first = once(async { Event::default().comment("welcome").retry(RETRY) });
    let rest = unfold(session, |mut session| async move {
        // Changes after the page was made and before this subscription would otherwise be lost.
        session.is_stale |= session.is_behind().await;
        let event = session.next().await?;
        Some((event, session))
    });
    Ok(answer::events(first.chain(rest).map(Ok)))
}

/// Returns the namespaces of the objects of a topic that the visitor sees, if the topic has one
/// kind of objects. An error if the visitor may not see the page of the topic.
async fn visible(context: &Context, topic: &Topic) -> Result<Option<Arc<Visible>>, PageError> {
    match topic {
        Topic::Installations => context.visible::<Installation>().await.map(Some),
        Topic::Sets => context.visible::<PackageVariantSet>().await.map(Some),
        Topic::Installation(place) => context.demand::<Installation>(place).await.map(|()| None),
        Topic::Packages(place) if !context.sees_all::<PackageVariant>(place).await? => {
            Err(PageError::Denied("You may not get PackageVariants in this namespace.".to_owned()))
        }
        Topic::Overview | Topic::Packages(_) | Topic::Events => Ok(None),
    }
}

impl Session {
    /// Returns the next event of the page, or `None` when the session ends.
    async fn next(&mut self) -> Option<Event> {
        let end = self.context.site.end.clone();
        while !self.is_over && self.begin.elapsed() < LONGEST {
            let look = self.next_look;
            tokio::select! {
                // Otherwise a steady flow of changes could delay an event that is due.
                biased;
                () = end.cancelled() => return None,
                () = sleep_until(self.quiet_until), if self.is_stale => return self.tell(),
                change = self.changes.recv() => match change {
                    Ok(object) => self.note(&object).await,
                    Err(RecvError::Lagged(_)) => self.note_all().await,
                    Err(RecvError::Closed) => return None,
                },
                () = sleep_until(look) => if let Some(event) = self.look().await {
                    return Some(event);
                },
            }
        }
        None
    }

    fn tell(&mut self) -> Option<Event> {
        self.is_stale = false;
        self.quiet_until = Instant::now() + PAUSE;
        Some(named("changed"))
    }

    /// Marks the page as out of date if a change concerns it, and takes along the changes that
    /// follow at once.
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

    /// Reports whether an object on the page has changed since the page was made. Also true if the
    /// changes are no longer known.
    async fn is_behind(&mut self) -> bool {
        let Some(since) = self.since.take() else { return false };
        let Some(changed) = self.context.site.landscape.changed_since(since) else { return true };
        for object in &changed {
            if self.concerns(object).await {
                return true;
            }
        }
        false
    }

    /// Reports whether the page shows an object and the visitor sees that object.
    async fn concerns(&self, object: &ObjectId) -> bool {
        let Context { site, visitor, .. } = &self.context;
        if !self.topic.concerns(object, site) {
            return false;
        }
        match (&self.visible, &self.topic) {
            (Some(visible), _) => visible.contains(object.namespace.as_deref().unwrap_or_default()),
            // If the API server does not answer, the page gets no event: an event could reveal that
            // a hidden object exists.
            (None, Topic::Overview | Topic::Events) => {
                site.rights.may_see(&visitor.user, object).await.unwrap_or(false)
            }
            (None, _) => true,
        }
    }

    /// Checks what the stream does not show: the problems of the console, and every `LOOKS` checks
    /// the visitor's token. Returns the event that results.
    async fn look(&mut self) -> Option<Event> {
        self.next_look = Instant::now() + LOOK;
        let problems = self.context.site.problems();
        if problems != self.problems {
            self.problems = problems;
            return self.tell();
        }
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            let visitor = self.context.site.sign_in.visitor(&self.context.request).await;
            if visitor.is_err_and(|status| status.code() == Code::Unauthenticated) {
                self.is_over = true;
                return Some(named("signed-out"));
            }
            // Proxies and browsers close connections without traffic, so a comment is sent.
            return Some(Event::default().comment("still here"));
        }
        None
    }
}

/// Returns an event without content. Browsers ignore an event that has no data, and axum writes
/// none for an empty text.
fn named(name: &str) -> Event {
    Event::default().event(name).data(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics() {
        let place = NamespacedName::new("a", "b");
        assert_eq!(Topic::parse("overview"), Some(Topic::Overview));
        assert_eq!(Topic::parse("installations/a/b"), Some(Topic::Installation(place.clone())));
        assert_eq!(Topic::parse("revisions/a/b"), Some(Topic::Packages(place)));
        for wrong in ["", "x", "overview/a", "installations/a", "installations/a/b/c"] {
            assert_eq!(Topic::parse(wrong), None, "{wrong}");
        }
    }
}
