//! Rate and concurrency limits for the store. One upstream may concern thousands of variants, and
//! all of them at once would overload remotes and the users who review drafts (`packagevariants.md`
//! 5.5).
//!
//! ```text
//! a new draft of a variant ──Drafts──> API ──> a write ──writes of its repository──> any operation ──Turns: of its repository, its namespace, of all──> a thread
//! ```
//!
//! Most operations wait for a remote, and the user who registers a repository chooses its remote.
//! So each namespace has a share of the slots, and some slots are reserved for namespaces that use
//! none.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use groundwork_controller::Key;
use groundwork_packages::git::StoreError;
use groundwork_telemetry::Metrics;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Operations of the store at the same time. The number is high because they mostly wait for
/// remotes.
const MAX_OPERATIONS: usize = 64;
/// Operations of one namespace at the same time.
const MAX_PER_NAMESPACE: usize = 16;
/// Operations on one repository at the same time, so that a remote that does not answer cannot use
/// up all slots.
const MAX_PER_REPOSITORY: usize = 8;
/// Longest wait for a slot of a repository. The caller gets an error after it, and other work
/// continues.
const BUSY: Duration = Duration::from_secs(5);
/// Default for writes to one repository at the same time.
pub(super) const WRITES: usize = 4;
/// Default writes to one repository of a Porch server at the same time. Two drafts that a server
/// makes at once may lose their owners.
pub(super) const WRITES_ON_PORCH: usize = 1;
/// Default for new drafts per second.
pub(super) const DRAFTS: u32 = 20;

/// Arguments for the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub struct TurnArguments {
    /// New drafts that variants may begin per second; each idle second before adds as many; 0 means
    /// no limit
    #[arg(long, env = "GROUNDWORK_PACKAGE_DRAFT_RATE", value_name = "NUMBER", default_value_t = DRAFTS)]
    pub package_draft_rate: u32,

    /// Writes to one repository at the same time; 0 counts as 1 [default: 4, on a Porch server 1]
    #[arg(long, env = "GROUNDWORK_PACKAGE_WRITES", value_name = "NUMBER")]
    pub package_writes: Option<usize>,
}

impl Default for TurnArguments {
    fn default() -> Self {
        Self { package_draft_rate: DRAFTS, package_writes: None }
    }
}

/// Limits of one process.
pub(super) struct Turns {
    all: groundwork_turns::Turns,
    repositories: Mutex<HashMap<Key, OfRepository>>,
    writes: usize,
}

/// Limit for the new drafts of variants in one process.
pub(super) struct Drafts {
    /// `None` if there is no limit.
    rate: Option<DefaultDirectRateLimiter>,
    /// Number of new drafts that wait.
    waiting: Gauge,
}

#[derive(Clone)]
struct OfRepository {
    operations: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// Slot that an operation holds for as long as it runs.
pub(super) struct Turn {
    _of_repository: Vec<OwnedSemaphorePermit>,
    _place: groundwork_turns::Turn,
}

/// Guard that counts a waiting draft.
struct Waiting<'a>(&'a Gauge);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Turns {
    /// Creates the limits; `writes` is the default for writes to one repository.
    pub(super) fn new(arguments: TurnArguments, writes: usize) -> Self {
        Self {
            all: groundwork_turns::Turns::new(MAX_OPERATIONS, MAX_PER_NAMESPACE),
            repositories: Mutex::default(),
            writes: arguments.package_writes.unwrap_or(writes).max(1),
        }
    }

    /// Waits for a slot to use a repository, or to write to it.
    ///
    /// # Errors
    /// The repository stayed busy for `BUSY`.
    pub(super) async fn take(&self, repository: &Key, writes: bool) -> Result<Turn, StoreError> {
        let own = self.of(repository);
        let mut held = Vec::new();
        // The write slot comes first: a write that waits for it must not occupy a slot that readers
        // need.
        for semaphore in writes.then_some(own.writes).into_iter().chain([own.operations]) {
            match tokio::time::timeout(BUSY, semaphore.acquire_owned()).await {
                // `Err` can only be the timeout, since the semaphores are never closed.
                Ok(permit) => held.extend(permit),
                Err(_) => {
                    let text = format!("repository {:?} is busy: its remote answers slowly", repository.name);
                    return Err(StoreError::Unavailable(text));
                }
            }
        }
        let place = self.all.take(repository.namespace.as_deref().unwrap_or_default()).await;
        Ok(Turn { _of_repository: held, _place: place })
    }

    pub(super) fn forget(&self, repository: &Key) {
        self.repositories.lock().unwrap_or_else(PoisonError::into_inner).remove(repository);
    }

    fn of(&self, repository: &Key) -> OfRepository {
        let new = || OfRepository {
            operations: Arc::new(Semaphore::new(MAX_PER_REPOSITORY)),
            writes: Arc::new(Semaphore::new(self.writes)),
        };
        let mut repositories = self.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        repositories.entry(repository.clone()).or_insert_with(new).clone()
    }
}

impl Drafts {
    pub(super) fn new(arguments: TurnArguments, metrics: &Metrics) -> Self {
        Self {
            rate: NonZeroU32::new(arguments.package_draft_rate)
                .map(|rate| RateLimiter::direct(Quota::per_second(rate))),
            waiting: metrics.register(
                "package_drafts_waiting",
                "New drafts of variants that wait for their turn, because many were to be made at once",
                &[],
                Gauge::default(),
            ),
        }
    }

    /// Waits until the rate allows another draft.
    pub(super) async fn next(&self) {
        let Some(rate) = &self.rate else { return };
        let clock = DefaultClock::default();
        let mut waiting = None;
        while let Err(early) = rate.check() {
            waiting.get_or_insert_with(|| {
                self.waiting.inc();
                Waiting(&self.waiting)
            });
            tokio::time::sleep(early.wait_time_from(clock.now())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::FutureExt as _;
    use groundwork_api::Repository;
    use groundwork_bus::{Kind, ObjectId};

    use super::*;

    fn turns(writes: usize) -> Turns {
        Turns::new(TurnArguments { package_writes: Some(writes), ..TurnArguments::default() }, WRITES)
    }

    fn drafts(rate: u32) -> Drafts {
        let arguments = TurnArguments { package_draft_rate: rate, ..TurnArguments::default() };
        Drafts::new(arguments, &Metrics::default())
    }

    /// Drafts within the rate begin at once; the others wait and are counted (`packagevariants.md`
    /// 5.5).
    #[tokio::test]
    async fn drafts_have_a_rate() {
        let drafts = drafts(20);
        let begun = Instant::now();
        for _ in 0..20 {
            assert!(drafts.next().now_or_never().is_some(), "a second's drafts begin at once");
        }
        {
            let next = drafts.next();
            futures::pin_mut!(next);
            assert!(futures::poll!(&mut next).is_pending());
            assert_eq!(drafts.waiting.get(), 1);
        }
        assert_eq!(drafts.waiting.get(), 0, "who gives up does not wait any more");
        drafts.next().await;
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(49), "{took:?}");
        assert_eq!(drafts.waiting.get(), 0);
    }

    #[tokio::test]
    async fn a_rate_of_nothing_is_none() {
        let drafts = drafts(0);
        for _ in 0..1000 {
            assert!(drafts.next().now_or_never().is_some());
        }
    }

    /// Few writes run at once on one repository. Reads, and writes to other repositories, are not
    /// delayed by them (`packagevariants.md` 5.5).
    #[tokio::test]
    async fn writes_of_a_repository_are_few() {
        let turns = turns(2);
        let key = |name: &str| ObjectId::new(Kind::of::<Repository>(), Some("fleet"), name);
        let take =
            |name: &str, writes: bool| turns.take(&key(name), writes).now_or_never().transpose().unwrap();
        let first = take("edge", true).unwrap();
        let _second = take("edge", true).unwrap();
        assert!(take("edge", true).is_none(), "a third one waits");
        assert!(take("edge", false).is_some() && take("other", true).is_some());
        drop(first);
        assert!(take("edge", true).is_some());
    }

    /// Two namespaces whose remotes hang use up their shares. A namespace without operations still
    /// gets a slot. A fourth waits only for the third.
    #[tokio::test]
    async fn namespaces_have_shares() {
        let turns = turns(WRITES);
        let take = |namespace: &str, name: usize| {
            let key = ObjectId::new(Kind::of::<Repository>(), Some(namespace), name.to_string());
            // Unconstrained, because tokio's cooperative budget would make so many polls in a row
            // return pending.
            tokio::task::unconstrained(turns.take(&key, false)).now_or_never().transpose().unwrap()
        };
        let slow = ["a", "b", "c", "d", "e"];
        let all: Vec<Turn> =
            slow.iter().flat_map(|slow| (0..100).filter_map(|name| take(slow, name))).collect();
        assert_eq!(
            all.len(),
            3 * MAX_PER_NAMESPACE + 2,
            "three shares, and a kept place for each of the others"
        );
        assert!(slow.iter().all(|slow| take(slow, 0).is_none()));
        let mut others: Vec<Turn> = (0..100).filter_map(|name| take(&format!("other-{name}"), 0)).collect();
        assert_eq!(others.len(), MAX_OPERATIONS / 4 - 2);
        assert!(take("late", 0).is_none());
        others.pop();
        assert!(take("late", 0).is_some());
        drop(all);
        assert!(take("a", 0).is_some());
    }

    /// A hanging remote holds a few slots only, and a caller that waits for one gets an error.
    #[tokio::test(start_paused = true)]
    async fn who_waits_for_long_is_told() {
        let turns = turns(WRITES);
        let key = ObjectId::new(Kind::of::<Repository>(), Some("fleet"), "edge");
        let mut held = Vec::new();
        for _ in 0..MAX_PER_REPOSITORY {
            held.push(turns.take(&key, false).await.unwrap());
        }
        let Err(error) = turns.take(&key, false).await else { panic!("a turn too many") };
        assert_eq!(error.to_string(), "repository \"edge\" is busy: its remote answers slowly");
    }
}
