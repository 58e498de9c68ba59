//! How many tokens that nobody knows yet the API server is asked about.

use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use groundwork_proto::status::{self, reasons};
use tonic::Status;

/// Reviews a second from one address, and as many more at once.
const OF_PEER: (u32, u32) = (10, 50);
/// From all of them.
const OF_ALL: (u32, u32) = (50, 100);
/// Addresses that are remembered before the idle ones are forgotten.
const PEERS: usize = 1_000;

type Instants = <DefaultClock as governor::clock::Clock>::Instant;

/// A budget of reviews. Tokens that are known cost none.
#[derive(Debug)]
pub(crate) struct Reviews {
    peers: RateLimiter<IpAddr, HashMapStateStore<IpAddr>, DefaultClock, NoOpMiddleware<Instants>>,
    all: RateLimiter<NotKeyed, InMemoryState, DefaultClock, NoOpMiddleware<Instants>>,
}

impl Default for Reviews {
    fn default() -> Self {
        Self {
            peers: RateLimiter::new(quota(OF_PEER), HashMapStateStore::default(), DefaultClock::default()),
            all: RateLimiter::direct(quota(OF_ALL)),
        }
    }
}

fn quota((rate, burst): (u32, u32)) -> Quota {
    let number = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(number(rate)).allow_burst(number(burst))
}

impl Reviews {
    /// Lets a review pass, or says why not. `peer` is where the call comes from, if that is known.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` if the peer has too many, `UNAVAILABLE` if all together have.
    pub(crate) fn pass(&self, peer: Option<IpAddr>) -> Result<(), Status> {
        if let Some(peer) = peer {
            if self.peers.len() > PEERS {
                self.peers.retain_recent();
            }
            self.peers.check_key(&peer.to_canonical()).map_err(|_| {
                let text = format!(
                    "more than {} tokens a second that the service does not know come from this address: use one token for \
                     many calls, and try again later",
                    OF_PEER.0
                );
                status::exhausted(reasons::TOO_MANY_TOKENS, text)
            })?;
        }
        self.all.check().map_err(|_| {
            let text = "too many calls carry tokens that the service does not know: try again later";
            status::unavailable(reasons::TOO_MANY_TOKENS, text)
        })
    }
}
