//! One watch: lists the objects, compares them with the stream, publishes differences and the sync
//! marker, and watches from there.

mod unversioned;

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use groundwork_bus::{Backoff, Record, SyncMarker};
use tokio::sync::mpsc;

use crate::ledger::{Key, Version};
use crate::publication::{DesiredState, Replay};
use crate::publisher::Publisher;
use crate::scopes::Scope;
use crate::source::{NO_ANSWER, Source, SourceError, SourceEvent, WatchItem};
use crate::stream_writer::{StreamNotFoundError, StreamWriter};

/// Pause before a kind that the API server does not have is listed again.
const MISSING_KIND_PAUSE: Duration = Duration::from_secs(3);
/// Attempts (a minute in all) after which the objects of a missing kind count as deleted.
const MISSING_KIND_ATTEMPTS: u32 = 20;
/// Pause before another attempt when a permission is missing.
const DENIED_PAUSE: Duration = Duration::from_secs(5);
/// Shortest interval between log lines about the same problem.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Reason why a watch ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The stream does not exist any more, or another one has taken its place.
    StreamNotFound,
    /// The stream has lost messages that it had acknowledged.
    StreamWentBack,
    /// The stream has states that are newer than the cluster, so the cluster was restored from a
    /// backup.
    ClusterRestored,
}

impl From<StreamNotFoundError> for WatchEnd {
    fn from(StreamNotFoundError: StreamNotFoundError) -> Self {
        Self::StreamNotFound
    }
}

/// Request to a watch.
#[derive(Debug, Clone)]
pub(crate) enum WatchRequest {
    /// Publish the current records of all objects of a namespace or name again.
    Replay { namespace: Option<String>, name: Option<String>, replay: Replay },
    /// Free the memory of deleted objects, whose tombstones are being removed from the stream.
    ForgetDeleted,
}

/// Result of reading a list.
enum Listing {
    /// The whole list is queued for publication.
    Complete { resource_version: String, objects: u64 },
    /// The list has no resourceVersion, so a watch cannot continue after it.
    Unversioned,
    /// The API server did not return the list.
    Failed(SourceError),
}

/// End of a watch's connection.
struct WatchClosed {
    /// The error; `None` if the API server ended the watch normally.
    error: Option<SourceError>,
    /// True if an event or a bookmark has arrived, so the API server is known to be as new as the
    /// watch.
    had_events: bool,
}

/// The watch of one scope.
#[derive(Debug)]
pub(crate) struct Watch {
    scope: Scope,
    source: Source,
    writer: StreamWriter,
    publisher: Publisher,
    requests: mpsc::UnboundedReceiver<WatchRequest>,
    /// True if the stream has the sync marker of this scope.
    has_marker: bool,
    /// Failed requests in a row.
    failures: u32,
    /// Attempts in a row that found the kind missing.
    attempts_while_missing: u32,
    /// Last logged problem with its time; `None` once it is over.
    logged: Option<(SourceError, tokio::time::Instant)>,
    /// True if the last list succeeded.
    was_allowed: bool,
    /// Versions seen last, for kinds whose lists have no resourceVersion. Each watch of such a kind
    /// begins with all objects, and these versions show which of them have changed.
    told: HashMap<Key, String>,
}

impl Watch {
    pub(crate) fn new(
        scope: Scope,
        source: Source,
        writer: StreamWriter,
        publisher: Publisher,
        requests: mpsc::UnboundedReceiver<WatchRequest>,
        has_marker: bool,
    ) -> Self {
        Self {
            scope,
            source,
            writer,
            publisher,
            requests,
            has_marker,
            failures: 0,
            attempts_while_missing: 0,
            logged: None,
            was_allowed: false,
            told: HashMap::new(),
        }
    }

    /// Runs until the stream is missing, or until the cluster turns out to be restored.
    pub(crate) async fn run(mut self) -> WatchEnd {
        loop {
            if let Err(end) = self.list_and_watch().await {
                return end;
            }
        }
    }

    async fn list_and_watch(&mut self) -> Result<(), WatchEnd> {
        match self.list().await? {
            Listing::Complete { resource_version, objects } => {
                self.mark_synced(&resource_version, objects).await?;
                self.watch(resource_version).await
            }
            Listing::Unversioned => self.follow_unversioned().await,
            Listing::Failed(error) => self.handle_error(error).await,
        }
    }

    /// Reads the complete list, and queues its differences from the stream for publication.
    async fn list(&mut self) -> Result<Listing, WatchEnd> {
        let highest = self.publisher.ledger().highest_version();
        self.publisher.ledger().begin_list();
        let (mut pages, mut objects, mut resource_version) = (self.source.clone().pages(), 0, None);
        while let Some(page) = self.while_publishing(pages.next()).await? {
            let page = match page {
                Ok(page) => page,
                Err(error) => return Ok(Listing::Failed(error)),
            };
            if page.version.is_empty() && self.source.is_watched() {
                return Ok(Listing::Unversioned);
            }
            if highest.is_after(Version::new(&page.version)) {
                return Err(WatchEnd::ClusterRestored);
            }
            let list_version = Version::new(resource_version.get_or_insert(page.version));
            for (key, snapshot) in page.objects {
                objects += 1;
                let (uid, version) = (&snapshot.uid, &snapshot.resource_version);
                if self.publisher.ledger().proves_restore(&key, uid, version, list_version) {
                    return Err(WatchEnd::ClusterRestored);
                }
                self.publisher.ledger().mark_listed(&key);
                self.publish(key, DesiredState::Applied(Box::new(snapshot))).await?;
            }
        }
        let resource_version = resource_version.unwrap_or_default();
        for key in self.publisher.ledger().unlisted() {
            let version = Version::new(&resource_version);
            self.publish(key, DesiredState::Deleted { last: None, version }).await?;
        }
        Ok(Listing::Complete { resource_version, objects })
    }

    /// Waits until the list is on the stream, and then publishes the sync marker, unless the stream
    /// already has it.
    async fn mark_synced(&mut self, version: &str, count: u64) -> Result<(), WatchEnd> {
        self.publisher.flush().await?;
        if !self.has_marker {
            let marker = SyncMarker {
                kind: self.scope.kind.clone(),
                namespace: self.scope.namespace.clone(),
                resource_version: version.to_owned(),
                count,
            };
            self.writer.publish_first(&Record::Synced(marker)).await?;
            self.has_marker = true;
        }
        self.writer.metrics.listed(&self.scope.kind);
        tracing::info!(scope = %self.scope, objects = count, resource_version = version, "the stream is complete");
        (self.attempts_while_missing, self.logged, self.was_allowed) = (0, None, true);
        self.writer.status.update_watch(&self.scope, |watch| {
            watch.is_synced = true;
            watch.is_missing = false;
            watch.resource_version = version.to_owned();
            watch.problem = None;
        });
        Ok(())
    }

    /// Watches until the list has to be read again.
    async fn watch(&mut self, mut version: String) -> Result<(), WatchEnd> {
        let mut is_doubtful = false;
        loop {
            if is_doubtful && !self.has_reached(&version).await? {
                return Ok(());
            }
            let source = self.source.clone();
            let from = version.clone();
            let opened = self.while_publishing(async move { source.watch(&from).await }).await?;
            let opened_at = tokio::time::Instant::now();
            let closed = match opened {
                Ok(items) => self.read_events(items, &mut version).await?,
                Err(error) => WatchClosed { error: Some(error), had_events: false },
            };
            is_doubtful = !closed.had_events || closed.error.is_some();
            match closed.error {
                // Without a resourceVersion a watch cannot continue, so list the objects again.
                None if version.is_empty() => return Ok(()),
                // Pause before a server that ends watches at once is asked again.
                None if opened_at.elapsed() < Backoff::SERVER.longest => {
                    self.failures = self.failures.saturating_add(1);
                    self.pause(self.backoff_pause()).await?;
                }
                None => {}
                Some(error @ SourceError::Failed { .. }) => self.handle_error(error).await?,
                // Permissions may allow the list but not the watch; the next list shows which.
                Some(error @ SourceError::Denied { .. }) => return self.handle_error(error).await,
                // The next list shows whether the kind still exists.
                Some(SourceError::Expired | SourceError::Missing(_)) => {
                    self.failures = self.failures.saturating_add(1);
                    return self.pause(self.backoff_pause()).await;
                }
            }
        }
    }

    /// Reads the events of a watch until it is closed. Afterwards `version` is the resourceVersion
    /// from which to continue.
    async fn read_events(
        &mut self,
        mut items: BoxStream<'static, WatchItem>,
        version: &mut String,
    ) -> Result<WatchClosed, WatchEnd> {
        self.clear_problem();
        let mut had_events = false;
        loop {
            match self.while_publishing(items.next()).await? {
                Some(Ok((event, at))) => {
                    (self.failures, had_events) = (0, true);
                    *version = at;
                    self.handle_event(event).await?;
                }
                Some(Err(error)) => return Ok(WatchClosed { error: Some(error), had_events }),
                None => return Ok(WatchClosed { error: None, had_events }),
            }
        }
    }

    /// Reports whether the API server has reached this resourceVersion. A watch on a server that
    /// was set back stays silent until the server gets there again, so the version is checked after
    /// a failure.
    async fn has_reached(&mut self, version: &str) -> Result<bool, WatchEnd> {
        loop {
            let source = self.source.clone();
            match self.while_publishing(async move { source.newest().await }).await? {
                Ok(newest) => return Ok(!Version::new(version).is_after(newest)),
                Err(error @ SourceError::Failed { .. }) => self.handle_error(error).await?,
                Err(_) => return Ok(false),
            }
        }
    }

    async fn handle_event(&mut self, event: SourceEvent) -> Result<(), WatchEnd> {
        match event {
            SourceEvent::Applied(key, snapshot) => self.publish(key, DesiredState::Applied(snapshot)).await,
            SourceEvent::Deleted(key, last) => {
                let version = Version::new(&last.resource_version);
                self.publish(key, DesiredState::Deleted { last: Some(last), version }).await
            }
            SourceEvent::Bookmark => Ok(()),
        }
    }

    /// Passes a state to the publisher as soon as it has room.
    async fn publish(&mut self, key: Key, desired: DesiredState) -> Result<(), WatchEnd> {
        while !self.publisher.has_room() {
            self.publisher.next_finished().await?;
        }
        self.publisher.publish(key, desired);
        Ok(())
    }

    /// Waits for a future, and keeps publishing and handling requests meanwhile.
    async fn while_publishing<T>(&mut self, future: impl Future<Output = T>) -> Result<T, WatchEnd> {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                result = &mut future => return Ok(result),
                finished = self.publisher.next_finished() => finished?,
                Some(request) = self.requests.recv() => self.handle_request(request),
            }
        }
    }

    fn handle_request(&mut self, request: WatchRequest) {
        match request {
            WatchRequest::ForgetDeleted => self.publisher.forget_deleted(),
            WatchRequest::Replay { namespace, name, replay } => {
                let is_requested = |key: &&Key| {
                    namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
                        && name.as_deref().is_none_or(|name| key.name() == name)
                };
                let keys: Vec<Key> = self.publisher.ledger().alive().filter(is_requested).cloned().collect();
                for key in keys {
                    self.publisher.publish(key, DesiredState::Replay(replay.clone()));
                }
            }
        }
    }

    /// Clears the problem of this watch, since the API server answers.
    fn clear_problem(&mut self) {
        let has_problem = self
            .writer
            .status
            .read(|status| status.watches.get(&self.scope).is_some_and(|watch| watch.problem.is_some()));
        if has_problem {
            self.logged = None;
            self.writer.status.update_watch(&self.scope, |watch| watch.problem = None);
            // All watches lose the same server at once. The last one to reach it again logs that
            // for all of them.
            match self.writer.status.other_watches_with_problem(&self.scope, "").is_empty() {
                true => tracing::info!(scope = %self.scope, "watch restarted"),
                false => tracing::debug!(scope = %self.scope, "watch restarted"),
            }
        }
    }

    /// Reports an error in log and status, and waits before the next attempt.
    async fn handle_error(&mut self, error: SourceError) -> Result<(), WatchEnd> {
        self.failures = self.failures.saturating_add(1);
        let is_missing = matches!(error, SourceError::Missing(_));
        let pause = match &error {
            // An expired list is not a problem to report: it was read too slowly and starts over.
            SourceError::Expired => return self.pause(self.backoff_pause()).await,
            SourceError::Missing(_) => MISSING_KIND_PAUSE,
            SourceError::Denied { .. } => DENIED_PAUSE,
            SourceError::Failed { .. } => self.backoff_pause(),
        };
        self.log_problem(&error);
        self.writer.status.update_watch(&self.scope, |watch| {
            watch.is_missing = is_missing;
            watch.is_synced &= !is_missing;
            watch.problem = Some(error.to_string());
        });
        self.attempts_while_missing =
            if is_missing { self.attempts_while_missing.saturating_add(1) } else { 0 };
        if self.attempts_while_missing >= MISSING_KIND_ATTEMPTS {
            let alive: Vec<Key> = self.publisher.ledger().alive().cloned().collect();
            for key in alive {
                self.publish(key, DesiredState::Deleted { last: None, version: Version::UNKNOWN }).await?;
            }
        }
        self.pause(pause).await
    }

    /// Logs a problem when it is new, and again after [`LOG_INTERVAL`].
    fn log_problem(&mut self, error: &SourceError) {
        let now = tokio::time::Instant::now();
        let is_same = |logged: &SourceError| logged == error || (is_no_answer(logged) && is_no_answer(error));
        let is_recent = |at: &tokio::time::Instant| now.duration_since(*at) < LOG_INTERVAL;
        if self.logged.as_ref().is_some_and(|(logged, at)| is_same(logged) && is_recent(at)) {
            return;
        }
        // An API server that has just started denies everything for a moment, so the first denial
        // after a success is only a debug message.
        if matches!(error, SourceError::Denied { .. }) && std::mem::take(&mut self.was_allowed) {
            tracing::debug!(scope = %self.scope, problem = %error, "watch denied; trying again");
            return;
        }
        match error {
            SourceError::Missing(kind) => {
                // Log this once only, because the CRD may be missing on purpose.
                if self.logged.is_none() {
                    tracing::info!(%kind, "the kind does not exist yet; its watch starts as soon as it exists");
                }
            }
            _ if self.is_logged_by_another(error) => {
                tracing::debug!(scope = %self.scope, problem = %error, "watch failed; trying again");
            }
            _ => tracing::warn!(scope = %self.scope, problem = %error, "watch failed; trying again"),
        }
        self.logged = Some((error.clone(), now));
    }

    /// Reports whether another watch logs the same problem, so that an API server that does not
    /// answer causes one line and not one for each kind. The first watch that notices the problem
    /// logs it; later on, the first one in the order of scopes does.
    fn is_logged_by_another(&self, error: &SourceError) -> bool {
        let SourceError::Failed { reason, .. } = error else { return false };
        let text = if is_no_answer(error) { NO_ANSWER } else { reason };
        let others = self.writer.status.other_watches_with_problem(&self.scope, text);
        others.first().is_some_and(|first| self.logged.is_none() || *first < self.scope)
    }

    async fn pause(&mut self, pause: Duration) -> Result<(), WatchEnd> {
        self.while_publishing(tokio::time::sleep(pause)).await
    }

    /// Returns the pause after failures that have no fixed pause.
    fn backoff_pause(&self) -> Duration {
        Backoff::SERVER.pause(self.failures)
    }
}

/// Reports whether the connection failed, for any text of the client.
fn is_no_answer(error: &SourceError) -> bool {
    matches!(error, SourceError::Failed { reason, .. } if reason.starts_with(NO_ANSWER))
}
