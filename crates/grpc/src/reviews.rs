//! Rate limit for reviews of unknown tokens by the API server.

use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use groundwork_proto::status::{self, reasons};
use tonic::Status;

/// Reviews per second from one address, and the burst.
const OF_PEER: (u32, u32) = (10, 50);
/// Reviews per second from all addresses, and the burst.
const OF_ALL: (u32, u32) = (50, 100);
/// Addresses that are tracked before idle ones are dropped.
const PEERS: usize = 1_000;

type Instants = <DefaultClock as governor::clock::Clock>::Instant;

/// Rate limiter of reviews. Known tokens do not count.
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
    /// Admits a review or returns an error. `peer` is the address of the caller, if it is known.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` if the peer is over its limit, `UNAVAILABLE` if all peers together are.
    pub(crate) fn pass(&self, peer: Option<IpAddr>) -> Result<(), Status> {
        if let Some(peer) = peer {
            if self.peers.len() > PEERS {
                self.peers.retain_recent();
            }
            self.peers.check_key(&peer.to_canonical()).map_err(|_| {
                let text = format!(
                    "this address sends more than {} new tokens a second: use one token for many calls, and try again \
                     later",
                    OF_PEER.0
                );
                status::exhausted(reasons::TOO_MANY_TOKENS, text)
            })?;
        }
        self.all.check().map_err(|_| {
            let text = "too many calls have new tokens, which must be checked first: try again later";
            status::unavailable(reasons::TOO_MANY_TOKENS, text)
        })
    }
}
