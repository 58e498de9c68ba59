//! What waits to be published: many objects at once, each in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;

use crate::ledger::{Key, Ledger};
use crate::settle::{Outcome, Outlet, Settled, Wanted, settle};
use crate::source::Scope;

/// Objects that are published at the same time.
const AT_ONCE: usize = 64;
/// Objects that may wait before no more should be read.
const ROOM: usize = 256;

/// The stream is gone.
#[derive(Debug)]
pub(crate) struct StreamLost;

/// Publishes the objects of one watch.
///
/// Of an object that changes faster than it can be published, only the newest state is; the stream keeps no other.
pub(crate) struct Publisher {
    scope: Scope,
    outlet: Outlet,
    ledger: Ledger,
    wanted: HashMap<Key, (Wanted, (Instant, Timestamp))>,
    /// Keys of `wanted` that are not running, in order.
    queue: VecDeque<Key>,
    running: FuturesUnordered<BoxFuture<'static, Settled>>,
    busy: HashSet<Key>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Publisher {
    pub(crate) fn new(scope: Scope, outlet: Outlet, ledger: Ledger) -> Self {
        outlet.board.count(&scope, ledger.alive());
        Self {
            scope,
            outlet,
            ledger,
            wanted: HashMap::new(),
            queue: VecDeque::new(),
            running: FuturesUnordered::new(),
            busy: HashSet::new(),
        }
    }

    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Has the stream say this of an object.
    pub(crate) fn want(&mut self, key: Key, wanted: Wanted) {
        if matches!(wanted, Wanted::Replay(_)) && self.wanted.contains_key(&key) {
            // A change is about to be published, which is as good.
            return;
        }
        let is_waiting = self.busy.contains(&key) || self.wanted.contains_key(&key);
        if !is_waiting && !wanted.is_needed(&self.ledger.known(&key).state) {
            self.note(&key, &Outcome::Done);
            return;
        }
        let is_new = self.wanted.insert(key.clone(), (wanted, (Instant::now(), Timestamp::now()))).is_none();
        if is_new && !self.busy.contains(&key) {
            self.queue.push_back(key);
        }
        self.begin();
    }

    /// Whether more may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.wanted.len() < ROOM
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.wanted.is_empty()
    }

    /// Waits for one object to be settled; for ever while there is none. Safe to drop.
    pub(crate) async fn step(&mut self) -> Result<(), StreamLost> {
        let Some(settled) = self.running.next().await else { return std::future::pending().await };
        let Settled { key, known, outcome } = settled;
        self.busy.remove(&key);
        if outcome == Outcome::Lost {
            return Err(StreamLost);
        }
        self.note(&key, &outcome);
        self.ledger.set(key.clone(), known);
        self.outlet.board.count(&self.scope, self.ledger.alive());
        if self.wanted.contains_key(&key) {
            self.queue.push_back(key);
        }
        self.begin();
        Ok(())
    }

    /// Waits until all is settled.
    pub(crate) async fn settle(&mut self) -> Result<(), StreamLost> {
        while !self.is_idle() {
            self.step().await?;
        }
        Ok(())
    }

    /// Forgets what does not exist any more.
    pub(crate) fn forget_dead(&mut self) {
        let (wanted, busy) = (&self.wanted, &self.busy);
        self.ledger.forget_dead(|key| wanted.contains_key(key) || busy.contains(key));
    }

    fn begin(&mut self) {
        while self.running.len() < AT_ONCE
            && let Some(key) = self.queue.pop_front()
        {
            let Some((wanted, seen)) = self.wanted.remove(&key) else { continue };
            self.busy.insert(key.clone());
            let (outlet, kind, known) =
                (self.outlet.clone(), self.scope.kind.clone(), self.ledger.known(&key));
            self.running.push(Box::pin(settle(outlet, kind, key, known, wanted, seen)));
        }
    }

    /// An object whose event is too large keeps the watcher from being ready until it shrinks or goes.
    fn note(&self, key: &Key, outcome: &Outcome) {
        let was = self.outlet.board.read(|content| {
            let watch = content.watches.get(&self.scope);
            watch.is_some_and(|watch| watch.too_large.contains_key(key))
        });
        match outcome {
            Outcome::TooLarge(size) => {
                if !was {
                    let (kind, object) = (&self.scope.kind, key.to_string());
                    tracing::error!(%kind, object, size, "too large for an event: not published");
                }
                self.outlet.board.change_watch(&self.scope, |watch| {
                    watch.too_large.insert(key.clone(), *size);
                });
            }
            Outcome::Done if was => {
                tracing::info!(kind = %self.scope.kind, object = %key, "no longer too large for an event");
                self.outlet.board.change_watch(&self.scope, |watch| {
                    watch.too_large.remove(key);
                });
            }
            Outcome::Done | Outcome::Lost => {}
        }
    }
}
