//! The leading replica: it prepares the stream, and runs the watches that publish to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use groundwork_bus::{BusError, ClusterIdentity, Filter, Interest, Record, StreamState};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tracing::Instrument;
use uuid::Uuid;

use crate::commands::Command;
use crate::continuity::Gone;
use crate::interests::{Admission, Interests};
use crate::ledger::Ledger;
use crate::publisher::Publisher;
use crate::scopes::{Scope, WatchScopes};
use crate::source::{Source, discover, log_version, namespace_uid, resource};
use crate::status::WatchState;
use crate::stream_writer::{StreamNotFoundError, StreamWriter};
use crate::warnings::Recorder;
use crate::watch::{Watch, WatchEnd, WatchRequest};

/// Interval at which the leader compares the stream with its knowledge, in addition to once for
/// each connection.
const STREAM_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause before a stream that seems to have gone back is checked again: a server of a NATS cluster
/// that has just become the leader may lag.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Interval at which the leader checks that the journal exists with the right settings.
const JOURNAL_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which watches without any interest are stopped.
const INTEREST_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which tombstones and expired interests are removed from the stream.
const PRUNE_INTERVAL: Duration = Duration::from_secs(300);
/// Interval at which stray consumers are removed from the stream.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum age of a tombstone before it is removed.
const TOMBSTONE_RETENTION: Duration = Duration::from_secs(3600);
/// Pause before another attempt to find a kind or the identity of the cluster, or to begin again
/// after a panic.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Contents of the stream when a replica begins to lead.
#[derive(Debug, Default)]
struct StreamContents {
    /// Identity of the cluster that the stream describes, with the stream's mark.
    identity: Option<ClusterIdentity>,
    has_objects: bool,
    ledgers: HashMap<Scope, Ledger>,
    /// Scopes whose sync marker is on the stream.
    synced: HashSet<Scope>,
    interests: Vec<Interest>,
}

/// The leading replica. It leads as long as the future of [`Self::run`] is polled.
pub(crate) struct Leader {
    client: Client,
    recorder: Recorder,
    writer: StreamWriter,
    scopes: WatchScopes,
    interests: Interests,
    commands: mpsc::Receiver<Command>,
}

/// Tasks of the running watches, with the channels that send them requests.
#[derive(Debug, Default)]
struct RunningWatches {
    tasks: JoinSet<WatchEnd>,
    built_in: Vec<(Scope, mpsc::UnboundedSender<WatchRequest>)>,
    of_interests: HashMap<Scope, (AbortHandle, mpsc::UnboundedSender<WatchRequest>)>,
}

impl RunningWatches {
    fn requests(&self) -> impl Iterator<Item = (&Scope, &mpsc::UnboundedSender<WatchRequest>)> {
        let built_in = self.built_in.iter().map(|(scope, requests)| (scope, requests));
        built_in.chain(self.of_interests.iter().map(|(scope, (_, requests))| (scope, requests)))
    }
}

impl Leader {
    pub(crate) fn new(
        client: Client,
        writer: StreamWriter,
        scopes: WatchScopes,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let recorder = Recorder::start(client.clone());
        Self { client, recorder, writer, scopes, interests: Interests::default(), commands }
    }

    /// Brings the stream up to date and keeps it so. Never returns.
    pub(crate) async fn run(mut self) {
        let mut rebuild = false;
        loop {
            let Ok(contents) = self.prepare(rebuild).await else {
                rebuild = false;
                continue;
            };
            let end = self.run_watches(contents).await;
            rebuild = matches!(end, WatchEnd::ClusterRestored | WatchEnd::StreamWentBack);
            let why = match end {
                WatchEnd::ClusterRestored => "the cluster was restored from a backup: the stream is rebuilt",
                WatchEnd::StreamWentBack => {
                    "the stream has lost messages that it had acknowledged: it is rebuilt"
                }
                WatchEnd::StreamNotFound => "the stream is gone: it is rebuilt",
            };
            tracing::warn!(why, "the leader starts again");
            self.set_problem(Some(why.to_owned()));
        }
    }

    fn set_problem(&self, problem: Option<String>) {
        self.writer.status.update(|status| status.problem = problem);
    }

    /// Makes sure that the stream exists, that it describes this cluster, and that it has the
    /// interests. Returns its contents.
    async fn prepare(&mut self, rebuild: bool) -> Result<StreamContents, StreamNotFoundError> {
        let connection = *self.writer.bus.connections().borrow();
        let mut state = self.ensure_stream(rebuild).await;
        let mut contents = self.read_contents().await?;
        self.interests.add_stored(&contents.interests);
        let cluster_uid = self.cluster_uid().await;
        let reason = match &contents.identity {
            Some(stored) if stored.uid != cluster_uid => {
                Some("the stream belongs to another cluster".to_owned())
            }
            // The identity is published before the first object. So a stream with objects but
            // without an identity may be of any cluster.
            None if contents.has_objects => Some("the stream does not name its cluster".to_owned()),
            Some(stored) => self.gone_back(&state, &stored.mark).await?.map(|gone| gone.to_string()),
            None => None,
        };
        if let Some(reason) = reason {
            tracing::warn!(reason, cluster = cluster_uid, "the stream is rebuilt");
            state = self.ensure_stream(true).await;
            contents = StreamContents::default();
        }
        self.begin_leading().await?;
        let stored = contents.identity.as_ref().filter(|stored| stored.uid == cluster_uid);
        let mark = stored.map(|stored| stored.mark.clone()).filter(|mark| !mark.is_empty());
        let is_marked = mark.is_some();
        let mark = mark.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        self.writer.continuity.begin(&state, &mark);
        if !is_marked {
            let identity = ClusterIdentity { uid: cluster_uid.clone(), mark };
            self.writer.publish(&Record::Cluster(identity)).await?;
        }
        self.writer.continuity.set_compared(connection);
        self.interests.remove_expired(Timestamp::now());
        for interest in self.interests.as_slice() {
            if !contents.interests.contains(interest) {
                self.writer.publish(&Record::Interest(interest.clone())).await?;
            }
        }
        self.writer.status.update(|status| status.cluster_uid = cluster_uid);
        Ok(contents)
    }

    /// Creates the stream if it is missing; with `rebuild`, replaces it in any case. Waits while
    /// the bus does not answer.
    async fn ensure_stream(&self, rebuild: bool) -> StreamState {
        let mut failures = 0;
        loop {
            self.writer.leadership.block_if_ended().await;
            let bus = &self.writer.bus;
            let state = if rebuild { bus.rebuild().await } else { bus.ensure_stream().await };
            match state {
                Ok(state) => {
                    self.writer.status.set_bus_problem(None);
                    tracing::info!(messages = state.messages, created = state.created, "the stream exists");
                    return state;
                }
                Err(error) => self.writer.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    /// Stores on the stream that this replica fills it from now on.
    async fn begin_leading(&self) -> Result<(), StreamNotFoundError> {
        let name = Uuid::new_v4().simple().to_string();
        let mut failures = 0;
        loop {
            self.writer.leadership.block_if_ended().await;
            match self.writer.bus.begin_leading(&name).await {
                Ok(()) => return Ok(()),
                Err(BusError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.writer.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    /// Checks whether a stream has lost messages that were acknowledged to this replica or by a
    /// queue.
    async fn gone_back(&self, state: &StreamState, mark: &str) -> Result<Option<Gone>, StreamNotFoundError> {
        // No publication is under way before the stream is prepared, so the acknowledged sequence
        // is stable.
        let before = self.writer.continuity.acknowledged();
        match self.writer.continuity.compare(state, mark, before) {
            gone @ Some(Gone::Back { .. }) => return Ok(gone),
            // A recreated stream is fine here: its contents have just been read.
            Some(Gone::Another) | None => {}
        }
        let mut failures = 0;
        loop {
            let bus = &self.writer.bus;
            let asked = async { Ok((bus.acknowledged().await?, bus.status().await?.last_sequence)) };
            match asked.await {
                Ok((acknowledged, last)) if acknowledged > last => {
                    return Ok(Some(Gone::Back { acknowledged, last }));
                }
                Ok(_) => return Ok(None),
                Err(BusError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.writer.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    async fn read_contents(&self) -> Result<StreamContents, StreamNotFoundError> {
        let mut failures = 0;
        loop {
            let mut contents = StreamContents::default();
            let visited = self.writer.bus.visit(Filter::Everything, |stored| match &stored.record {
                Record::Object(event) => {
                    contents.has_objects = true;
                    if let Some(scope) = self.scopes.built_in_scope_of(&event.object) {
                        let ledger = contents.ledgers.entry(scope).or_default();
                        ledger.load(&event.object, &event.change, stored.sequence);
                    }
                }
                Record::Synced(marker) => {
                    let (kind, namespace) = (marker.kind.clone(), marker.namespace.clone());
                    contents.synced.insert(Scope { kind, namespace });
                }
                Record::Cluster(identity) => contents.identity = Some(identity.clone()),
                Record::Interest(interest) => contents.interests.push(interest.clone()),
            });
            match visited.await {
                Ok(()) => return Ok(contents),
                Err(BusError::StreamNotFound) => return Err(StreamNotFoundError),
                Err(error) => self.writer.back_off(&error.to_string(), &mut failures).await,
            }
        }
    }

    /// Returns the UID that identifies this cluster. Waits until the API server answers.
    async fn cluster_uid(&self) -> String {
        let namespace = self.scopes.cluster_namespace();
        let mut logged = None;
        loop {
            let problem = match namespace_uid(&self.client, namespace).await {
                Ok(Some(uid)) => {
                    log_version(&self.client).await;
                    return uid;
                }
                Ok(None) => format!("the namespace {namespace} does not exist"),
                Err(error) => error.to_string(),
            };
            if logged.as_ref() != Some(&problem) {
                tracing::warn!(problem, "cannot identify the cluster; trying again");
                self.set_problem(Some(problem.clone()));
                logged = Some(problem);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Starts the built-in watches, and keeps all watches running until one of them requires a new
    /// beginning.
    async fn run_watches(&mut self, mut contents: StreamContents) -> WatchEnd {
        let mut watches = RunningWatches::default();
        let built_in = self.scopes.built_in_scopes();
        self.writer.status.update(|status| {
            let unsynced = WatchState { is_built_in: true, ..WatchState::default() };
            status.watches = built_in.iter().map(|(scope, _)| (scope.clone(), unsynced.clone())).collect();
            status.problem = None;
        });
        for (scope, watched) in built_in {
            let ledger = contents.ledgers.remove(&scope).unwrap_or_default();
            let resource = resource(&scope.kind, watched.version, watched.kind);
            let mut source = Source::new(self.client.clone(), scope.clone(), &resource, watched.fields);
            if let (false, Some(names)) = (watched.is_namespaced, self.scopes.namespaces()) {
                source = source.with_names(names.to_vec());
            }
            // This loop sends requests for replays; `Watch::run` (`watch.rs`) receives them.
            let (requests, receiver) = mpsc::unbounded_channel();
            let has_marker = contents.synced.contains(&scope);
            let warnings = self.recorder.warnings_of(resource);
            let publisher = Publisher::new(scope.clone(), self.writer.clone(), ledger, warnings);
            let watch =
                Watch::new(scope.clone(), source, self.writer.clone(), publisher, receiver, has_marker);
            watches.tasks.spawn(watch.run().in_current_span());
            watches.built_in.push((scope, requests));
        }
        // Free the contents, which would stay in memory as long as this replica leads.
        drop(contents);
        watches.tasks.spawn(check_stream(self.writer.clone()).in_current_span());
        watches.tasks.spawn(keep_journal(self.writer.clone()).in_current_span());
        watches.tasks.spawn(sweep_stream(self.writer.clone()).in_current_span());
        self.supervise(&mut watches).await
    }

    async fn supervise(&mut self, watches: &mut RunningWatches) -> WatchEnd {
        let (mut check, mut prune) = (interval(INTEREST_CHECK_INTERVAL), interval(PRUNE_INTERVAL));
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        prune.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pruning = JoinSet::new();
        loop {
            tokio::select! {
                Some(ended) = watches.tasks.join_next() => match ended {
                    Ok(end) => return end,
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => {
                        tracing::error!(%error, "a watch failed: the leader starts again");
                        tokio::time::sleep(RETRY_PAUSE).await;
                        // The stream still exists, but this result also makes the leader begin
                        // again.
                        return WatchEnd::StreamNotFound;
                    }
                },
                Some(command) = self.commands.recv() => {
                    if self.handle_command(command, watches).await.is_err() {
                        return WatchEnd::StreamNotFound;
                    }
                }
                _ = check.tick() => self.reconcile_watches(watches),
                _ = prune.tick() => {
                    for (_, requests) in watches.requests() {
                        // Sending fails only for a watch that has ended, which `join_next` handles.
                        let _ = requests.send(WatchRequest::ForgetDeleted);
                    }
                    pruning.spawn(prune_stream(self.writer.clone()).in_current_span());
                }
                Some(_) = pruning.join_next() => {}
            }
        }
    }

    async fn handle_command(
        &mut self,
        command: Command,
        watches: &mut RunningWatches,
    ) -> Result<(), StreamNotFoundError> {
        match command {
            Command::StoreInterest { interest, api_version, answer } => {
                let admission = self.interests.admit(&interest, Timestamp::now());
                if admission == Admission::Accepted {
                    self.writer.publish(&Record::Interest(interest.clone())).await?;
                    self.interests.insert(interest, api_version);
                    self.reconcile_watches(watches);
                }
                // The caller may have gone, which is fine.
                let _ = answer.send(admission);
            }
            Command::Replay { kind, namespace, name, replay } => {
                for (scope, requests) in watches.requests() {
                    if kind.as_ref().is_none_or(|kind| *kind == scope.kind) {
                        let (namespace, name, replay) = (namespace.clone(), name.clone(), replay.clone());
                        let _ = requests.send(WatchRequest::Replay { namespace, name, replay });
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts and stops watches of further kinds, by the current interests.
    fn reconcile_watches(&mut self, watches: &mut RunningWatches) {
        let now = Timestamp::now();
        self.interests.remove_expired(now);
        let desired: BTreeSet<Scope> = self.scopes.scopes_of_interests(self.interests.as_slice(), now);
        watches.of_interests.retain(|scope, (task, _)| {
            let is_desired = desired.contains(scope);
            if !is_desired {
                tracing::info!(%scope, "watch stopped: its last interest ended");
                task.abort();
                self.writer.status.update(|status| status.watches.remove(scope));
            }
            is_desired
        });
        for scope in desired {
            if watches.of_interests.contains_key(&scope) {
                continue;
            }
            self.writer.status.update(|status| status.watches.insert(scope.clone(), WatchState::default()));
            let (requests, receiver) = mpsc::unbounded_channel();
            let api_version = self.interests.api_version(&scope.kind).map(str::to_owned);
            let watch = run_interest_watch(
                self.client.clone(),
                self.recorder.clone(),
                self.writer.clone(),
                scope.clone(),
                api_version,
                receiver,
            );
            let task = watches.tasks.spawn(watch.in_current_span());
            watches.of_interests.insert(scope, (task, requests));
        }
        let interests = self.interests.as_slice();
        if self.writer.status.read(|status| status.interests != interests) {
            self.writer.status.update(|status| status.interests = interests.to_vec());
        }
    }
}

/// Runs the watch of a kind with interests. It reads only metadata of the objects.
async fn run_interest_watch(
    client: Client,
    recorder: Recorder,
    writer: StreamWriter,
    scope: Scope,
    api_version: Option<String>,
    requests: mpsc::UnboundedReceiver<WatchRequest>,
) -> WatchEnd {
    let resource = loop {
        let error = match discover(&client, &scope, api_version.as_deref()).await {
            Ok(resource) => break resource,
            Err(error) => error,
        };
        writer.status.update_watch(&scope, |watch| watch.problem = Some(error.to_string()));
        tokio::time::sleep(RETRY_PAUSE).await;
    };
    let mut failures = 0;
    let (ledger, has_marker) = loop {
        let (mut ledger, mut has_marker) = (Ledger::default(), false);
        let kinds = [scope.kind.clone()];
        let visited = writer.bus.visit(Filter::Kinds(&kinds), |stored| match &stored.record {
            Record::Object(event) => {
                if scope.namespace.is_none() || scope.namespace == event.object.namespace {
                    ledger.load(&event.object, &event.change, stored.sequence);
                }
            }
            Record::Synced(marker) => has_marker |= marker.namespace == scope.namespace,
            Record::Cluster(_) | Record::Interest(_) => {}
        });
        match visited.await {
            Ok(()) => break (ledger, has_marker),
            Err(BusError::StreamNotFound) => return WatchEnd::StreamNotFound,
            Err(error) => writer.back_off(&error.to_string(), &mut failures).await,
        }
    };
    let source = Source::new(client, scope.clone(), &resource, &[]);
    let publisher = Publisher::new(scope.clone(), writer.clone(), ledger, recorder.warnings_of(resource));
    Watch::new(scope, source, writer, publisher, requests, has_marker).run().await
}

/// Compares the stream with the leader's knowledge, after every connection and at regular
/// intervals. Without this, the loss of the stream would go unnoticed while there are no
/// publications.
async fn check_stream(writer: StreamWriter) -> WatchEnd {
    let mut connections = writer.bus.connections();
    let mut is_doubtful = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(if is_doubtful { SECOND_LOOK } else { STREAM_CHECK_INTERVAL }) => {}
            Ok(()) = connections.changed(), if !is_doubtful => {}
        }
        let connection = *connections.borrow_and_update();
        match compare(&writer).await {
            Ok(None) => {
                is_doubtful = false;
                writer.continuity.set_compared(connection);
                writer.status.set_bus_problem(None);
            }
            Ok(Some(Gone::Another)) | Err(BusError::StreamNotFound) => return WatchEnd::StreamNotFound,
            Ok(Some(Gone::Back { .. })) if is_doubtful => return WatchEnd::StreamWentBack,
            Ok(Some(gone)) => {
                is_doubtful = true;
                writer.status.set_bus_problem(Some(gone.to_string()));
            }
            Err(error) => writer.status.set_bus_problem(Some(error.to_string())),
        }
    }
}

async fn compare(writer: &StreamWriter) -> Result<Option<Gone>, BusError> {
    let before = writer.continuity.acknowledged();
    let state = writer.bus.status().await?;
    let stored = writer.bus.identity().await?;
    let mark = match stored.map(|stored| stored.record) {
        Some(Record::Cluster(identity)) => identity.mark,
        Some(_) | None => String::new(),
    };
    Ok(writer.continuity.compare(&state, &mark, before))
}

/// Makes sure that the journal exists with the right limits. Other tasks never wait for it, since
/// they do not depend on the journal.
async fn keep_journal(writer: StreamWriter) -> WatchEnd {
    let mut logged = None;
    loop {
        writer.leadership.block_if_ended().await;
        match writer.bus.ensure_journal().await {
            Ok(is_new) => {
                if is_new {
                    tracing::info!("the journal stream was created");
                }
                logged = None;
            }
            Err(error) => {
                let problem = error.to_string();
                if logged.as_ref() != Some(&problem) {
                    tracing::warn!(problem, "journal stream is missing or has other settings; trying again");
                    logged = Some(problem);
                }
            }
        }
        tokio::time::sleep(JOURNAL_CHECK_INTERVAL).await;
    }
}

/// Removes stray consumers from the stream, as long as this replica leads.
async fn sweep_stream(writer: StreamWriter) -> WatchEnd {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        writer.leadership.block_if_ended().await;
        match writer.bus.sweep().await {
            Ok(swept) => writer.metrics.swept(swept),
            // The publishers report bus problems, so this is only a debug message.
            Err(error) => tracing::debug!(%error, "the consumers of the stream could not be checked"),
        }
    }
}

async fn prune_stream(writer: StreamWriter) {
    // The replica that leads now prunes the stream.
    if writer.leadership.has_ended() {
        return;
    }
    match writer.bus.prune(TOMBSTONE_RETENTION).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "old tombstones and interests were removed"),
        Err(error) => tracing::warn!(%error, "old tombstones could not be removed"),
    }
}
