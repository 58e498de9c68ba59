//! The time in which this replica publishes: what it does at first, and what it keeps running.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use groundwork_bus::{BusError, ClusterIdentity, Filter, Interest, Kind, Record, StreamState};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tracing::Instrument;

use crate::board::WatchState;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::publisher::{Publisher, StreamLost};
use crate::settle::{Outlet, Replay};
use crate::source::{Scope, Source, discover, namespace_uid, resource, tell_version};
use crate::watch::{End, Request, Watch};

/// How often the stream is looked at.
const PULSE: Duration = Duration::from_secs(2);
/// How often interests are looked through.
const TICK: Duration = Duration::from_secs(1);
/// How often tombstones are removed, and how old they are then.
const PRUNE: Duration = Duration::from_secs(300);
const OLD: Duration = Duration::from_secs(3600);
/// How often a kind is looked for, or the identity of the cluster, after a failure.
const AGAIN: Duration = Duration::from_secs(2);

/// What a term can be asked for.
#[derive(Debug)]
pub(crate) enum Command {
    /// Keep an interest; it is on the stream when this is done.
    Ensure { interest: Interest, version: String, done: oneshot::Sender<Kept> },
    /// Publish again.
    Replay { kind: Option<Kind>, namespace: Option<String>, name: Option<String>, replay: Replay },
}

/// What became of an interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is on the stream, or there is none to end.
    Stored,
    /// Somebody has as many as there may be.
    TooMany { limit: usize, whose: &'static str },
}

/// Interests of one user, and of all: each costs a message on the stream, and perhaps a watch.
const MOST_OF_USER: usize = 100;
const MOST: usize = 1_000;

/// What outlives the stream.
#[derive(Debug, Default)]
struct Memory {
    interests: Vec<Interest>,
    /// Versions that kinds were asked for in; after a restart the API server is asked for one.
    versions: HashMap<Kind, String>,
}

impl Memory {
    /// Whether there is room for an interest; `None` if there is nothing to do.
    fn room_for(&self, interest: &Interest, now: Timestamp) -> Option<Kept> {
        if self.interests.iter().any(|known| is_same(known, interest)) {
            return Some(Kept::Stored);
        }
        // Ending what does not exist is no news.
        if interest.expires <= now {
            return None;
        }
        let others = self.interests.iter().filter(|known| known.expires > now);
        let user = |interest: &Interest| interest.holder.split_once('@').map(|(_, user)| user.to_owned());
        let own = others.clone().filter(|known| user(known) == user(interest)).count();
        if own >= MOST_OF_USER {
            return Some(Kept::TooMany { limit: MOST_OF_USER, whose: "this user has" });
        }
        if others.count() >= MOST {
            return Some(Kept::TooMany { limit: MOST, whose: "all users together have" });
        }
        Some(Kept::Stored)
    }

    /// Keeps an interest. The version in which a kind is read stays while somebody else relies on it.
    fn take(&mut self, interest: Interest, version: String) {
        self.interests.retain(|known| !is_same(known, &interest));
        let is_shared = self.interests.iter().any(|known| known.kind == interest.kind);
        if !is_shared || !self.versions.contains_key(&interest.kind) {
            self.versions.insert(interest.kind.clone(), version);
        }
        self.interests.push(interest);
        let interests = &self.interests;
        self.versions.retain(|kind, _| interests.iter().any(|known| known.kind == *kind));
    }
}

/// What the stream holds.
#[derive(Debug, Default)]
struct Loaded {
    cluster: Option<String>,
    has_objects: bool,
    ledgers: HashMap<Scope, Ledger>,
    markers: HashSet<Scope>,
    interests: Vec<Interest>,
}

/// A term, which lasts as long as its future is polled.
pub(crate) struct Term {
    client: Client,
    outlet: Outlet,
    plan: Plan,
    memory: Memory,
    commands: mpsc::Receiver<Command>,
}

/// The watches that run.
#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<End>,
    built_in: Vec<(Scope, mpsc::UnboundedSender<Request>)>,
    extra: HashMap<Scope, (AbortHandle, mpsc::UnboundedSender<Request>)>,
}

impl Running {
    fn requests(&self) -> impl Iterator<Item = (&Scope, &mpsc::UnboundedSender<Request>)> {
        let built_in = self.built_in.iter().map(|(scope, requests)| (scope, requests));
        built_in.chain(self.extra.iter().map(|(scope, (_, requests))| (scope, requests)))
    }
}

impl Term {
    pub(crate) fn new(client: Client, outlet: Outlet, plan: Plan, commands: mpsc::Receiver<Command>) -> Self {
        Self { client, outlet, plan, memory: Memory::default(), commands }
    }

    /// Brings the stream up to date and keeps it there. Never ends.
    pub(crate) async fn run(mut self) {
        let mut rebuild = false;
        loop {
            let Ok((state, loaded)) = self.prepare(rebuild).await else {
                rebuild = false;
                continue;
            };
            let end = self.watch(&state, loaded).await;
            rebuild = end == End::Restored;
            let why = match end {
                End::Restored => "the cluster was restored from a backup: the stream is built anew",
                End::StreamLost => "the stream is gone: it is built anew",
            };
            tracing::warn!(why, "beginning again");
            self.problem(Some(why.to_owned()));
        }
    }

    fn problem(&self, problem: Option<String>) {
        self.outlet.board.change(|content| content.problem = problem);
    }

    /// Sees to it that there is a stream, that it is of this cluster, and reads what it holds.
    async fn prepare(&mut self, rebuild: bool) -> Result<(StreamState, Loaded), StreamLost> {
        let mut state = self.stream(rebuild).await;
        let mut loaded = self.load().await?;
        self.remember(&loaded.interests);
        let cluster = self.identify().await;
        let is_foreign = match &loaded.cluster {
            Some(stored) => *stored != cluster,
            // Whoever began did not come far.
            None => loaded.has_objects,
        };
        if is_foreign {
            tracing::warn!(
                cluster,
                stored = loaded.cluster,
                "the stream is of another cluster: it is built anew"
            );
            state = self.stream(true).await;
            loaded = Loaded::default();
        }
        if loaded.cluster.as_ref() != Some(&cluster) {
            self.outlet.store(&Record::Cluster(ClusterIdentity { uid: cluster.clone() })).await?;
        }
        let now = Timestamp::now();
        self.memory.interests.retain(|interest| interest.expires > now);
        for interest in &self.memory.interests {
            if !loaded.interests.contains(interest) {
                self.outlet.store(&Record::Interest(interest.clone())).await?;
            }
        }
        self.outlet.board.change(|content| content.cluster = cluster);
        Ok((state, loaded))
    }

    async fn stream(&self, rebuild: bool) -> StreamState {
        let mut pause = Duration::from_millis(50);
        loop {
            self.outlet.reign.needed().await;
            let bus = &self.outlet.bus;
            let state = if rebuild { bus.rebuild().await } else { bus.ensure_stream().await };
            match state {
                Ok(state) => {
                    self.outlet.board.bus(None);
                    tracing::info!(messages = state.messages, created = state.created, "the stream is there");
                    return state;
                }
                Err(error) => self.outlet.wait(&error.to_string(), &mut pause).await,
            }
        }
    }

    async fn load(&self) -> Result<Loaded, StreamLost> {
        let mut pause = Duration::from_millis(50);
        loop {
            let mut loaded = Loaded::default();
            let visited = self.outlet.bus.visit(Filter::Everything, |stored| match &stored.record {
                Record::Object(event) => {
                    loaded.has_objects = true;
                    if let Some(scope) = self.plan.home(&event.object) {
                        let ledger = loaded.ledgers.entry(scope).or_default();
                        ledger.load(&event.object, &event.change, stored.sequence);
                    }
                }
                Record::Synced(marker) => {
                    let (kind, namespace) = (marker.kind.clone(), marker.namespace.clone());
                    loaded.markers.insert(Scope { kind, namespace });
                }
                Record::Cluster(identity) => loaded.cluster = Some(identity.uid.clone()),
                Record::Interest(interest) => loaded.interests.push(interest.clone()),
            });
            match visited.await {
                Ok(()) => return Ok(loaded),
                Err(BusError::NoStream) => return Err(StreamLost),
                Err(error) => self.outlet.wait(&error.to_string(), &mut pause).await,
            }
        }
    }

    /// UID of the cluster; waits until the API server tells it.
    async fn identify(&self) -> String {
        let name = self.plan.identity();
        let mut said = None;
        loop {
            let problem = match namespace_uid(&self.client, name).await {
                Ok(Some(uid)) => {
                    tell_version(&self.client).await;
                    return uid;
                }
                Ok(None) => format!("the namespace {name} does not exist"),
                Err(trouble) => trouble.to_string(),
            };
            if said.as_ref() != Some(&problem) {
                tracing::warn!(problem, "cannot tell which cluster this is; trying again");
                self.problem(Some(problem.clone()));
                said = Some(problem);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Takes interests from the stream. What is in memory is as new.
    fn remember(&mut self, interests: &[Interest]) {
        for interest in interests {
            if !self.memory.interests.iter().any(|known| is_same(known, interest)) {
                self.memory.interests.push(interest.clone());
            }
        }
    }

    /// Keeps all watches running until they have to begin anew.
    async fn watch(&mut self, state: &StreamState, mut loaded: Loaded) -> End {
        let mut running = Running::default();
        let built_in = self.plan.built_in();
        self.outlet.board.change(|content| {
            let unsynced = WatchState { is_built_in: true, ..WatchState::default() };
            content.watches = built_in.iter().map(|(scope, _)| (scope.clone(), unsynced.clone())).collect();
            content.problem = None;
        });
        for (scope, watched) in built_in {
            let ledger = loaded.ledgers.remove(&scope).unwrap_or_default();
            let resource = resource(&scope.kind, watched.version, watched.kind);
            let mut source = Source::new(self.client.clone(), scope.clone(), &resource, watched.fields);
            if let (false, Some(names)) = (watched.is_namespaced, self.plan.names()) {
                source = source.of_names(names.to_vec());
            }
            let (requests, inbox) = mpsc::unbounded_channel();
            let is_marked = loaded.markers.contains(&scope);
            let publisher = Publisher::new(scope.clone(), self.outlet.clone(), ledger);
            let watch = Watch::new(scope.clone(), source, self.outlet.clone(), publisher, inbox, is_marked);
            running.tasks.spawn(watch.run().in_current_span());
            running.built_in.push((scope, requests));
        }
        drop(loaded);
        running.tasks.spawn(pulse(self.outlet.clone(), state.created_at).in_current_span());
        self.attend(&mut running).await
    }

    async fn attend(&mut self, running: &mut Running) -> End {
        let (mut tick, mut prune) = (interval(TICK), interval(PRUNE));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        prune.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pruning = JoinSet::new();
        loop {
            tokio::select! {
                Some(ended) = running.tasks.join_next() => match ended {
                    Ok(end) => return end,
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => {
                        tracing::error!(%error, "a watch broke down: beginning again");
                        tokio::time::sleep(AGAIN).await;
                        return End::StreamLost;
                    }
                },
                Some(command) = self.commands.recv() => {
                    if self.obey(command, running).await.is_err() {
                        return End::StreamLost;
                    }
                }
                _ = tick.tick() => self.adjust(running),
                _ = prune.tick() => {
                    for (_, requests) in running.requests() {
                        // A watch that has ended is seen elsewhere.
                        let _ = requests.send(Request::Forget);
                    }
                    pruning.spawn(remove_old(self.outlet.clone()).in_current_span());
                }
                Some(_) = pruning.join_next() => {}
            }
        }
    }

    async fn obey(&mut self, command: Command, running: &mut Running) -> Result<(), StreamLost> {
        match command {
            Command::Ensure { interest, version, done } => {
                let kept = self.memory.room_for(&interest, Timestamp::now());
                if kept == Some(Kept::Stored) {
                    self.outlet.store(&Record::Interest(interest.clone())).await?;
                    self.memory.take(interest, version);
                    self.adjust(running);
                }
                // Whoever asked may have gone.
                let _ = done.send(kept.unwrap_or(Kept::Stored));
            }
            Command::Replay { kind, namespace, name, replay } => {
                for (scope, requests) in running.requests() {
                    if kind.as_ref().is_none_or(|kind| *kind == scope.kind) {
                        let (namespace, name, replay) = (namespace.clone(), name.clone(), replay.clone());
                        let _ = requests.send(Request::Replay { namespace, name, replay });
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts and ends watches of further kinds as interests come and go.
    fn adjust(&mut self, running: &mut Running) {
        let now = Timestamp::now();
        self.memory.interests.retain(|interest| interest.expires > now);
        let wanted: BTreeSet<Scope> = self.plan.extra(&self.memory.interests, now);
        running.extra.retain(|scope, (task, _)| {
            let is_wanted = wanted.contains(scope);
            if !is_wanted {
                tracing::info!(%scope, "nobody is interested any more");
                task.abort();
                self.outlet.board.change(|content| content.watches.remove(scope));
            }
            is_wanted
        });
        for scope in wanted {
            if running.extra.contains_key(&scope) {
                continue;
            }
            self.outlet.board.change(|content| content.watches.insert(scope.clone(), WatchState::default()));
            let (requests, inbox) = mpsc::unbounded_channel();
            let version = self.memory.versions.get(&scope.kind).cloned();
            let extra = extra(self.client.clone(), self.outlet.clone(), scope.clone(), version, inbox);
            let task = running.tasks.spawn(extra.in_current_span());
            running.extra.insert(scope, (task, requests));
        }
        let holders = self.memory.interests.clone();
        if self.outlet.board.read(|content| content.interests != holders) {
            self.outlet.board.change(|content| content.interests = holders);
        }
    }
}

/// Whether two interests replace each other.
fn is_same(one: &Interest, other: &Interest) -> bool {
    one.kind == other.kind && one.namespace == other.namespace && one.holder == other.holder
}

/// The watch of a kind that somebody is interested in. Nothing but metadata is asked for.
async fn extra(
    client: Client,
    outlet: Outlet,
    scope: Scope,
    version: Option<String>,
    inbox: mpsc::UnboundedReceiver<Request>,
) -> End {
    let resource = loop {
        let trouble = match discover(&client, &scope, version.as_deref()).await {
            Ok(resource) => break resource,
            Err(trouble) => trouble,
        };
        outlet.board.change_watch(&scope, |watch| watch.problem = Some(trouble.to_string()));
        tokio::time::sleep(AGAIN).await;
    };
    let mut pause = Duration::from_millis(50);
    let (ledger, is_marked) = loop {
        let (mut ledger, mut is_marked) = (Ledger::default(), false);
        let kinds = [scope.kind.clone()];
        let visited = outlet.bus.visit(Filter::Kinds(&kinds), |stored| match &stored.record {
            Record::Object(event) => {
                if scope.namespace.is_none() || scope.namespace == event.object.namespace {
                    ledger.load(&event.object, &event.change, stored.sequence);
                }
            }
            Record::Synced(marker) => is_marked |= marker.namespace == scope.namespace,
            Record::Cluster(_) | Record::Interest(_) => {}
        });
        match visited.await {
            Ok(()) => break (ledger, is_marked),
            Err(BusError::NoStream) => return End::StreamLost,
            Err(error) => outlet.wait(&error.to_string(), &mut pause).await,
        }
    };
    let source = Source::new(client, scope.clone(), &resource, &[]);
    let publisher = Publisher::new(scope.clone(), outlet.clone(), ledger);
    Watch::new(scope, source, outlet, publisher, inbox, is_marked).run().await
}

/// Looks after the stream, so that its loss is seen also when nothing changes.
async fn pulse(outlet: Outlet, created: Timestamp) -> End {
    loop {
        tokio::time::sleep(PULSE).await;
        match outlet.bus.status().await {
            Ok(state) if state.created_at != created => return End::StreamLost,
            Ok(_) => outlet.board.bus(None),
            Err(BusError::NoStream) => return End::StreamLost,
            Err(error) => outlet.board.bus(Some(error.to_string())),
        }
    }
}

async fn remove_old(outlet: Outlet) {
    if outlet.reign.is_over() {
        return;
    }
    match outlet.bus.prune(OLD).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "removed old tombstones and interests"),
        Err(error) => tracing::warn!(%error, "old tombstones stay for now"),
    }
}
