//! One watch: list, compare with the stream, say that it is complete, go on from there.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use groundwork_bus::{Record, SyncMarker};
use tokio::sync::mpsc;

use crate::ledger::{Key, Version};
use crate::publisher::{Publisher, StreamLost};
use crate::settle::{Outlet, Replay, Wanted};
use crate::source::{NO_ANSWER, Scope, Seen, Source, Step, Trouble};

/// How often a kind is looked for that does not exist.
const MISSING: Duration = Duration::from_secs(3);
/// After so many looks in vain the objects that the stream still has of it are taken for deleted.
const LOOKS: u32 = 20;
/// How often a permission is tried that is missing, and how often that is said.
const DENIED: Duration = Duration::from_secs(5);
const SAID: Duration = Duration::from_secs(60);
/// Pauses after other failures.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Why a watch ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// There is no stream any more.
    StreamLost,
    /// The stream has states that are newer than the cluster: the cluster was restored.
    Restored,
}

impl From<StreamLost> for End {
    fn from(StreamLost: StreamLost) -> Self {
        Self::StreamLost
    }
}

/// What a watch can be asked for.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Replay {
        namespace: Option<String>,
        name: Option<String>,
        replay: Replay,
    },
    /// Forget what does not exist any more.
    Forget,
}

/// A watch that runs.
#[derive(Debug)]
pub(crate) struct Watch {
    scope: Scope,
    source: Source,
    outlet: Outlet,
    publisher: Publisher,
    requests: mpsc::UnboundedReceiver<Request>,
    /// The stream has the marker.
    is_marked: bool,
    failures: u32,
    looks: u32,
    /// What was said last, and when.
    said: Option<(Trouble, tokio::time::Instant)>,
    /// The last list was answered.
    was_allowed: bool,
}

impl Watch {
    pub(crate) fn new(
        scope: Scope,
        source: Source,
        outlet: Outlet,
        publisher: Publisher,
        requests: mpsc::UnboundedReceiver<Request>,
        is_marked: bool,
    ) -> Self {
        Self {
            scope,
            source,
            outlet,
            publisher,
            requests,
            is_marked,
            failures: 0,
            looks: 0,
            said: None,
            was_allowed: false,
        }
    }

    /// Runs until there is no stream, or another cluster.
    pub(crate) async fn run(mut self) -> End {
        loop {
            if let Err(end) = self.round().await {
                return end;
            }
        }
    }

    async fn round(&mut self) -> Result<(), End> {
        match self.list().await? {
            Ok((version, count)) => {
                self.complete(&version, count).await?;
                self.follow(version).await
            }
            Err(trouble) => self.trouble(trouble).await,
        }
    }

    /// Reads the complete list and has published what differs; says where to watch from and how many there are.
    async fn list(&mut self) -> Result<Result<(String, u64), Trouble>, End> {
        let highest = self.publisher.ledger().highest();
        self.publisher.ledger().begin_list();
        let (mut next, mut count, mut version) = (None, 0, None);
        loop {
            let source = self.source.clone();
            let page = match self.meanwhile(async move { source.page(next).await }).await? {
                Ok(page) => page,
                Err(trouble) => return Ok(Err(trouble)),
            };
            if highest.is_after(Version::new(&page.version)) {
                return Err(End::Restored);
            }
            let at = Version::new(version.get_or_insert(page.version));
            for (key, snapshot) in page.objects {
                count += 1;
                let (uid, version) = (&snapshot.uid, &snapshot.resource_version);
                if self.publisher.ledger().contradicts(&key, uid, version, at) {
                    return Err(End::Restored);
                }
                self.publisher.ledger().listed(&key);
                self.want(key, Wanted::Applied(Box::new(snapshot))).await?;
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let version = version.unwrap_or_default();
        for key in self.publisher.ledger().missing() {
            self.want(key, Wanted::Gone { uid: None, version: Version::new(&version) }).await?;
        }
        Ok(Ok((version, count)))
    }

    /// Everything of the list is on the stream: this is said there, unless it has been said before.
    async fn complete(&mut self, version: &str, count: u64) -> Result<(), End> {
        self.publisher.settle().await?;
        if !self.is_marked {
            let marker = SyncMarker {
                kind: self.scope.kind.clone(),
                namespace: self.scope.namespace.clone(),
                resource_version: version.to_owned(),
                count,
            };
            self.outlet.store(&Record::Synced(marker)).await?;
            self.is_marked = true;
        }
        self.outlet.metrics.listed(&self.scope.kind);
        tracing::info!(scope = %self.scope, objects = count, resource_version = version, "the stream is complete");
        (self.looks, self.said, self.was_allowed) = (0, None, true);
        self.outlet.board.change_watch(&self.scope, |watch| {
            watch.is_synced = true;
            watch.is_missing = false;
            watch.resource_version = version.to_owned();
            watch.problem = None;
        });
        Ok(())
    }

    /// Watches until the list has to be read again.
    async fn follow(&mut self, mut version: String) -> Result<(), End> {
        let mut is_doubtful = false;
        loop {
            if is_doubtful && !self.is_known(&version).await? {
                return Ok(());
            }
            let source = self.source.clone();
            let from = version.clone();
            let stream = self.meanwhile(async move { source.watch(&from).await }).await?;
            let opened = tokio::time::Instant::now();
            let (ended, has_said_something) = match stream {
                Ok(steps) => self.read(steps, &mut version).await?,
                Err(trouble) => (Some(trouble), false),
            };
            is_doubtful = !has_said_something || ended.is_some();
            match ended {
                // Without a version there is only the list.
                None if version.is_empty() => return Ok(()),
                None if opened.elapsed() < LONGEST => {
                    self.failures = self.failures.saturating_add(1);
                    self.pause(self.growing()).await?;
                }
                None => {}
                Some(trouble @ Trouble::Failed { .. }) => self.trouble(trouble).await?,
                // The list tells more; and if it is all right, then what follows from it is not.
                Some(trouble @ Trouble::Denied { .. }) => return self.trouble(trouble).await,
                Some(Trouble::Expired | Trouble::Missing(_)) => {
                    self.failures = self.failures.saturating_add(1);
                    return self.pause(self.growing()).await;
                }
            }
        }
    }

    /// Reads a watch to its end; says why it ended, and whether anything came.
    async fn read(
        &mut self,
        mut steps: BoxStream<'static, Step>,
        version: &mut String,
    ) -> Result<(Option<Trouble>, bool), End> {
        self.well();
        let mut has_said_something = false;
        loop {
            match self.meanwhile(steps.next()).await? {
                Some(Ok((seen, at))) => {
                    (self.failures, has_said_something) = (0, true);
                    *version = at;
                    self.take(seen).await?;
                }
                Some(Err(trouble)) => return Ok((Some(trouble), has_said_something)),
                None => return Ok((None, has_said_something)),
            }
        }
    }

    /// Whether the API server has come as far as this resourceVersion. One that was set back says nothing at all to a watch from there
    /// until it has, so after a failure it is asked.
    async fn is_known(&mut self, version: &str) -> Result<bool, End> {
        loop {
            let source = self.source.clone();
            match self.meanwhile(async move { source.newest().await }).await? {
                Ok(newest) => return Ok(!Version::new(version).is_after(newest)),
                Err(trouble @ Trouble::Failed { .. }) => self.trouble(trouble).await?,
                Err(_) => return Ok(false),
            }
        }
    }

    async fn take(&mut self, seen: Seen) -> Result<(), End> {
        match seen {
            Seen::Applied(key, snapshot) => self.want(key, Wanted::Applied(snapshot)).await,
            Seen::Deleted(key, uid, version) => {
                self.want(key, Wanted::Gone { uid: Some(uid), version }).await
            }
            Seen::Bookmark => Ok(()),
        }
    }

    /// Hands something to the publisher when it has room.
    async fn want(&mut self, key: Key, wanted: Wanted) -> Result<(), End> {
        while !self.publisher.has_room() {
            self.publisher.step().await?;
        }
        self.publisher.want(key, wanted);
        Ok(())
    }

    /// Waits for something while publishing goes on.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Result<T, End> {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                result = &mut future => return Ok(result),
                step = self.publisher.step() => step?,
                Some(request) = self.requests.recv() => self.answer(request),
            }
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Forget => self.publisher.forget_dead(),
            Request::Replay { namespace, name, replay } => {
                let is_meant = |key: &&Key| {
                    namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
                        && name.as_deref().is_none_or(|name| key.name() == name)
                };
                let keys: Vec<Key> = self.publisher.ledger().living().filter(is_meant).cloned().collect();
                for key in keys {
                    self.publisher.want(key, Wanted::Replay(replay.clone()));
                }
            }
        }
    }

    /// The API server answers.
    fn well(&mut self) {
        let has_problem = self
            .outlet
            .board
            .read(|content| content.watches.get(&self.scope).is_some_and(|watch| watch.problem.is_some()));
        if has_problem {
            self.said = None;
            self.outlet.board.change_watch(&self.scope, |watch| watch.problem = None);
            // All watches lose the same server: the last to find it again speaks for all.
            match self.outlet.board.others_with(&self.scope, "").is_empty() {
                true => tracing::info!(scope = %self.scope, "is watched again"),
                false => tracing::debug!(scope = %self.scope, "is watched again"),
            }
        }
    }

    /// Says what is wrong, and waits before the next attempt.
    async fn trouble(&mut self, trouble: Trouble) -> Result<(), End> {
        self.failures = self.failures.saturating_add(1);
        let is_missing = matches!(trouble, Trouble::Missing(_));
        let pause = match &trouble {
            // Nothing is wrong: the list begins again.
            Trouble::Expired => return self.pause(self.growing()).await,
            Trouble::Missing(_) => MISSING,
            Trouble::Denied { .. } => DENIED,
            Trouble::Failed { .. } => self.growing(),
        };
        self.say(&trouble);
        self.outlet.board.change_watch(&self.scope, |watch| {
            watch.is_missing = is_missing;
            watch.is_synced &= !is_missing;
            watch.problem = Some(trouble.to_string());
        });
        self.looks = if is_missing { self.looks.saturating_add(1) } else { 0 };
        if self.looks >= LOOKS {
            let living: Vec<Key> = self.publisher.ledger().living().cloned().collect();
            for key in living {
                self.want(key, Wanted::Gone { uid: None, version: Version::UNKNOWN }).await?;
            }
        }
        self.pause(pause).await
    }

    fn say(&mut self, trouble: &Trouble) {
        let now = tokio::time::Instant::now();
        let is_said = |said: &Trouble| said == trouble || (is_silence(said) && is_silence(trouble));
        if self.said.as_ref().is_some_and(|(said, at)| is_said(said) && now.duration_since(*at) < SAID) {
            return;
        }
        // An API server that has just started denies everything for a moment.
        if matches!(trouble, Trouble::Denied { .. }) && std::mem::take(&mut self.was_allowed) {
            tracing::debug!(scope = %self.scope, problem = %trouble, "denied after all; trying again");
            return;
        }
        match trouble {
            Trouble::Missing(kind) => {
                // Once is enough: it may be on purpose.
                if self.said.is_none() {
                    tracing::info!(%kind, "does not exist yet; it is watched as soon as it does");
                }
            }
            _ if self.is_told(trouble) => {
                tracing::debug!(scope = %self.scope, problem = %trouble, "not watched; trying again");
            }
            _ => tracing::warn!(scope = %self.scope, problem = %trouble, "not watched; trying again"),
        }
        self.said = Some((trouble.clone(), now));
    }

    /// Whether another watch speaks for this one, whose trouble is the same: an API server that is away is one line and not one for
    /// each kind. The first that notices speaks; later on it is the first in order.
    fn is_told(&self, trouble: &Trouble) -> bool {
        let Trouble::Failed { reason, .. } = trouble else { return false };
        let words = if is_silence(trouble) { NO_ANSWER } else { reason };
        let others = self.outlet.board.others_with(&self.scope, words);
        others.first().is_some_and(|first| self.said.is_none() || *first < self.scope)
    }

    async fn pause(&mut self, pause: Duration) -> Result<(), End> {
        self.meanwhile(tokio::time::sleep(pause)).await
    }

    fn growing(&self) -> Duration {
        LONGEST.min(SHORTEST * 2_u32.saturating_pow(self.failures.min(10).saturating_sub(1)))
    }
}

/// Whether nobody answers, in whatever words the connection says so.
fn is_silence(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Failed { reason, .. } if reason.starts_with(NO_ANSWER))
}
