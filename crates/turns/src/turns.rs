//! Places for async tasks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::places::Places;
use crate::rota::Rota;

/// Places that tasks wait for. Clones share them.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when another tenant may have begun to wait, so that [`Turn::wanted`] looks again.
    waits: Notify,
}

#[derive(Debug)]
struct State {
    places: Places,
    rota: Rota<oneshot::Sender<Turn>>,
}

/// Place, given back when this is dropped.
#[derive(Debug)]
pub struct Turn {
    shared: Arc<Shared>,
    tenant: String,
}

impl Turns {
    /// Creates `count` places, of which a tenant may have up to `share`.
    pub fn new(count: usize, share: usize) -> Self {
        let state = State { places: Places::new(count, share), rota: Rota::default() };
        Self(Arc::new(Shared { state: Mutex::new(state), waits: Notify::new() }))
    }

    /// Takes a place for a tenant, when its turn comes. Dropping the future takes no place.
    pub async fn take(&self, tenant: &str) -> Turn {
        loop {
            let (sender, receiver) = oneshot::channel();
            self.0.lock().rota.push(tenant, sender);
            self.0.hand_out();
            // The sender is dropped only after it has sent the turn, so this loop ends.
            if let Ok(turn) = receiver.await {
                return turn;
            }
        }
    }
}

impl Turn {
    /// Returns when another tenant waits that has not used its share, and that could use this
    /// place.
    pub async fn wanted(&self) {
        loop {
            // Register before the check: a notification between the check and the wait would be
            // lost.
            let rings = self.shared.waits.notified();
            if self.shared.lock().has_waiting_beside(&self.tenant) {
                return;
            }
            rings.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.lock().places.give_back(&self.tenant);
        self.shared.hand_out();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free places to the tenants whose turn it is.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let State { places, rota } = &mut *state;
            let next = rota.pop(places, |sender| !sender.is_closed());
            drop(state);
            let Some((tenant, sender)) = next else { break };
            // If the receiver is gone, dropping the turn gives its place back. The lock must be
            // free by then.
            drop(sender.send(Turn { shared: Arc::clone(self), tenant }));
        }
        self.waits.notify_waiters();
    }
}

impl State {
    fn has_waiting_beside(&self, tenant: &str) -> bool {
        self.rota.waiting().any(|(other, _)| other != tenant && self.places.would_be_free_for(other))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);
    const A_WHILE: Duration = Duration::from_millis(50);

    async fn waits(turns: &Turns, tenant: &str) -> bool {
        timeout(A_WHILE, turns.take(tenant)).await.is_err()
    }

    #[tokio::test]
    async fn a_tenant_waits_for_its_own_places_alone() {
        let turns = Turns::new(8, 2);
        let held = [turns.take("a").await, turns.take("a").await];
        assert!(waits(&turns, "a").await);
        let _other = turns.take("b").await;
        drop(held);
        assert!(!waits(&turns, "a").await);
    }

    /// A task that stops waiting does not block others, and the next task gets its turn.
    #[tokio::test]
    async fn turns_come_to_those_who_still_wait() {
        let turns = Turns::new(1, 1);
        let held = turns.take("a").await;
        assert!(waits(&turns, "b").await);
        let next = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.take("c").await) }
        });
        tokio::task::yield_now().await;
        drop(held);
        timeout(SOON, next).await.unwrap().unwrap();
        assert!(!waits(&turns, "a").await);
    }

    #[tokio::test]
    async fn a_place_is_wanted_by_other_tenants_that_it_would_help() {
        let turns = Turns::new(4, 2);
        let held = [turns.take("a").await, turns.take("a").await];
        let wait = |tenant: &'static str| {
            let turns = turns.clone();
            tokio::spawn(async move { turns.take(tenant).await })
        };
        let of_same = wait("a");
        assert!(timeout(A_WHILE, held[0].wanted()).await.is_err(), "the tenant itself waits");
        let _others = [turns.take("b").await, turns.take("c").await];
        let of_other = wait("d");
        timeout(SOON, held[0].wanted()).await.unwrap();
        let [first, second] = held;
        drop(first);
        let got = timeout(SOON, of_other).await.unwrap().unwrap();
        assert!(timeout(A_WHILE, second.wanted()).await.is_err());
        of_same.abort();
        drop(got);
    }
}
