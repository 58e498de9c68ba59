//! The watch of a kind whose lists have no resourceVersion (`packagevariants.md` 6.13). The events
//! at the start of a watch are the list, and objects missing in it were deleted.

use std::time::Duration;

use futures::StreamExt as _;
use groundwork_bus::Backoff;

use super::{Watch, WatchEnd};
use crate::ledger::{Key, Version};
use crate::publication::DesiredState;
use crate::source::{UnversionedEvent, UnversionedItem};

/// Time without an event after which a list counts as complete, if no bookmark ends it.
const QUIET: Duration = Duration::from_secs(2);
/// Time without an event after which the connection counts as dead. Bookmarks come about once a
/// minute.
const SILENT: Duration = Duration::from_secs(300);

/// Next step of a watch.
enum Next {
    Event(UnversionedItem),
    Silence,
    End,
}

impl Watch {
    /// Watches until the connection ends. The next watch shows all objects again.
    pub(super) async fn follow_unversioned(&mut self) -> Result<(), WatchEnd> {
        let source = self.source.clone();
        let mut events = match self.while_publishing(async move { source.watch_unversioned().await }).await? {
            Ok(events) => events,
            Err(error) => return self.handle_error(error).await,
        };
        self.clear_problem();
        let opened_at = tokio::time::Instant::now();
        self.publisher.ledger().begin_list();
        let (mut is_complete, mut objects) = (false, 0);
        loop {
            let limit = if is_complete { SILENT } else { QUIET };
            let next = async {
                match tokio::time::timeout(limit, events.next()).await {
                    Ok(Some(item)) => Next::Event(item),
                    Ok(None) => Next::End,
                    Err(_) => Next::Silence,
                }
            };
            match self.while_publishing(next).await? {
                Next::Event(Ok(UnversionedEvent::Applied(key, snapshot))) => {
                    self.failures = 0;
                    objects += u64::from(!is_complete);
                    self.take(key, DesiredState::Applied(snapshot), is_complete).await?;
                }
                Next::Event(Ok(UnversionedEvent::Deleted(key, last))) => {
                    self.told.remove(&key);
                    let version = Version::UNKNOWN;
                    self.publish(key, DesiredState::Deleted { last: Some(last), version }).await?;
                }
                Next::Event(Ok(UnversionedEvent::Bookmark)) if is_complete => {}
                Next::Event(Ok(UnversionedEvent::Bookmark)) => {
                    is_complete = true;
                    self.end_list(objects).await?;
                }
                Next::Silence if !is_complete => {
                    is_complete = true;
                    self.end_list(objects).await?;
                }
                Next::Event(Err(error)) => return self.handle_error(error).await,
                // Pause before a server that ends watches at once is asked again.
                Next::End if opened_at.elapsed() < Backoff::SERVER.longest => {
                    self.failures = self.failures.saturating_add(1);
                    return self.pause(self.backoff_pause()).await;
                }
                Next::End | Next::Silence => return Ok(()),
            }
        }
    }

    /// Publishes a state that differs from the one seen before.
    async fn take(&mut self, key: Key, desired: DesiredState, is_complete: bool) -> Result<(), WatchEnd> {
        let DesiredState::Applied(snapshot) = &desired else { return Ok(()) };
        if !is_complete {
            self.publisher.ledger().mark_listed(&key);
        }
        let version = snapshot.resource_version.clone();
        if self.told.get(&key) == Some(&version) {
            return Ok(());
        }
        self.told.insert(key.clone(), version);
        self.publish(key, desired).await
    }

    /// Ends the list: all objects have been seen.
    async fn end_list(&mut self, objects: u64) -> Result<(), WatchEnd> {
        for key in self.publisher.ledger().unlisted() {
            self.told.remove(&key);
            self.publish(key, DesiredState::Deleted { last: None, version: Version::UNKNOWN }).await?;
        }
        self.mark_synced("", objects).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use futures::stream;
    use groundwork_bus::{Bus, Change, Kind, ObjectId, Record};
    use groundwork_telemetry::Telemetry;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;
    use crate::continuity::Continuity;
    use crate::leadership::Leadership;
    use crate::ledger::Ledger;
    use crate::metrics::Metrics;
    use crate::publisher::Publisher;
    use crate::scopes::Scope;
    use crate::source::{Source, resource};
    use crate::status::SharedStatus;
    use crate::stream_writer::StreamWriter;
    use crate::warnings::Recorder;

    fn event(type_: &str, name: &str, lifecycle: &str) -> Value {
        json!({"type": type_, "object": {
            "metadata": {"namespace": "fleet", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "6f1c"},
            "spec": {"lifecycle": lifecycle},
        }})
    }

    /// Returns a bookmark without a resourceVersion, as a Porch server sends it.
    fn bookmark() -> Value {
        json!({"type": "BOOKMARK", "object": {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}})
    }

    /// Returns a client whose lists have no version, and whose watches send one of these sequences
    /// of events each.
    fn client(stories: Vec<Vec<Value>>) -> Client {
        let stories = Arc::new(Mutex::new(VecDeque::from(stories)));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let answer = if is_watch {
                let story = stories.lock().unwrap().pop_front().unwrap_or_default();
                story.iter().map(|event| format!("{event}\n")).collect()
            } else {
                json!({"metadata": {}, "items": []}).to_string()
            };
            async move { Ok::<_, std::io::Error>(http::Response::new(Body::from(answer.into_bytes()))) }
        });
        Client::new(service, "default")
    }

    /// Returns a client whose watches stay open. Each sends one sequence, every event after its
    /// pause and without a bookmark, and then nothing more.
    fn client_without_bookmarks(stories: Vec<Vec<(Duration, Value)>>) -> Client {
        let stories = Arc::new(Mutex::new(VecDeque::from(stories)));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let story = if is_watch { stories.lock().unwrap().pop_front() } else { None };
            let list = (Duration::ZERO, json!({"metadata": {}, "items": []}));
            let parts = stream::iter(story.unwrap_or_else(|| vec![list])).then(async |(pause, part)| {
                tokio::time::sleep(pause).await;
                Ok::<_, std::io::Error>(Frame::data(format!("{part}\n").into()))
            });
            let parts = if is_watch { parts.chain(stream::pending()).boxed() } else { parts.boxed() };
            let answer = StreamBody::new(parts);
            async move { Ok::<_, std::io::Error>(http::Response::new(answer)) }
        });
        Client::new(service, "default")
    }

    fn watch(client: Client, bus: &Bus) -> Watch {
        let kind = Kind::new("porch.kpt.dev", "packagerevisions");
        let resource = resource(&kind, "v1alpha1", "PackageRevision");
        let scope = Scope { kind, namespace: None };
        let telemetry = Telemetry::silent("watcher");
        let metrics = Metrics::new(&telemetry.metrics);
        let status = SharedStatus::new(telemetry.health.condition("stream"), metrics.clone());
        let leadership = Leadership::unlimited();
        let writer =
            StreamWriter { bus: bus.clone(), status, metrics, leadership, continuity: Continuity::default() };
        let warnings = Recorder::start(client.clone()).warnings_of(resource.clone());
        let source = Source::new(client, scope.clone(), &resource, &[]);
        let publisher = Publisher::new(scope.clone(), writer.clone(), Ledger::default(), warnings);
        Watch::new(scope, source, writer, publisher, mpsc::unbounded_channel().1, false)
    }

    /// Returns the stream's record of a revision: its sequence, and the version if the revision
    /// exists.
    async fn seen(bus: &Bus, name: &str) -> (u64, Option<String>) {
        let object = ObjectId::new(Kind::new("porch.kpt.dev", "packagerevisions"), Some("fleet"), name);
        let stored = bus.last(&object).await.unwrap().unwrap();
        let Record::Object(event) = stored.record else { panic!("no event") };
        let version = match event.change {
            Change::Applied(snapshot) => Some(snapshot.resource_version),
            Change::Deleted(_) => None,
        };
        (stored.sequence, version)
    }

    /// Objects missing in a list were deleted, repeated ones are not published again, and a new
    /// lifecycle in the same version is (`packagevariants.md` 6.13).
    #[tokio::test(start_paused = true)]
    async fn watches_begin_with_lists() {
        let bus = Bus::in_process();
        bus.ensure_stream().await.unwrap();
        let added = |name: &str, lifecycle: &str| event("ADDED", name, lifecycle);
        let mut watch = watch(
            client(vec![
                vec![added("kept", "Draft"), added("moved", "Draft"), added("gone", "Draft"), bookmark()],
                vec![added("kept", "Draft"), added("moved", "Proposed"), bookmark()],
                // The object's UID is derived from its name.
                vec![
                    added("kept", "Draft"),
                    added("gone", "Draft"),
                    bookmark(),
                    event("DELETED", "kept", "Draft"),
                ],
            ]),
            &bus,
        );
        watch.list_and_watch().await.unwrap();
        let (kept, moved, gone) =
            (seen(&bus, "kept").await, seen(&bus, "moved").await, seen(&bus, "gone").await);
        assert!(kept.1.as_ref().is_some_and(|version| version.starts_with("6f1c.")), "{kept:?}");
        watch.list_and_watch().await.unwrap();
        assert_eq!(seen(&bus, "kept").await, kept, "no news");
        let proposed = seen(&bus, "moved").await;
        assert!(proposed.1.is_some() && proposed.1 != moved.1, "{proposed:?}");
        assert!(gone.1.is_some() && seen(&bus, "gone").await.1.is_none());
        watch.list_and_watch().await.unwrap();
        watch.publisher.flush().await.unwrap();
        assert!(seen(&bus, "gone").await.1.is_some(), "it is there again");
        assert!(seen(&bus, "kept").await.1.is_none() && seen(&bus, "moved").await.1.is_none());
    }

    /// The events before a broken connection are not a complete list.
    #[tokio::test(start_paused = true)]
    async fn a_beginning_that_breaks_is_no_list() {
        let bus = Bus::in_process();
        bus.ensure_stream().await.unwrap();
        let mut watch = watch(client(vec![vec![event("ADDED", "a", "Draft")]]), &bus);
        watch.list_and_watch().await.unwrap();
        watch.publisher.flush().await.unwrap();
        assert!(seen(&bus, "a").await.1.is_some());
        assert!(!watch.has_marker);
    }
    /// Without a bookmark, two seconds without an event end a list; each earlier event extends the
    /// wait (`packagevariants.md` 6.13).
    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_list_without_a_bookmark() {
        let bus = Bus::in_process();
        bus.ensure_stream().await.unwrap();
        let added = |pause: Duration, name: &str| (pause, event("ADDED", name, "Draft"));
        let (none, moment) = (Duration::ZERO, Duration::from_millis(1));
        assert_eq!(QUIET, Duration::from_secs(2), "what the chapter says");
        let almost = QUIET.saturating_sub(moment);
        let stories = vec![
            vec![added(none, "gone"), added(none, "late")],
            vec![added(none, "kept"), added(almost, "late")],
        ];
        let mut watch = watch(client_without_bookmarks(stories), &bus);
        watch.list_and_watch().await.unwrap();
        assert!(watch.has_marker && seen(&bus, "gone").await.1.is_some());

        let mut watching = Box::pin(watch.list_and_watch());
        // Less than two seconds have passed since the second event.
        let early = tokio::time::timeout(almost + almost, &mut watching).await;
        assert!(early.is_err() && seen(&bus, "gone").await.1.is_some(), "the list may go on");
        let late = tokio::time::timeout(moment + moment, &mut watching).await;
        assert!(late.is_err() && seen(&bus, "gone").await.1.is_none(), "what the list lacks was deleted");
        assert!(seen(&bus, "late").await.1.is_some() && seen(&bus, "kept").await.1.is_some());
    }
}
