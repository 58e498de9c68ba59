//! Limits of a server for each peer, and for all peers together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Limits of a server for its callers. A peer is an IP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections.
    pub connections: groundwork_telemetry::ports::Limits,
    /// Running calls, including those whose answer is still being sent: per peer, and in all.
    pub calls: Amount,
    /// Bytes of the messages of running calls, counted as soon as their length is known: per peer,
    /// and in all.
    pub bytes: Amount,
    /// Streams of one connection.
    pub streams: u32,
    /// Time in which the request of a call has to arrive.
    pub request_time: Duration,
    /// Time in which the answer to a call has to begin.
    pub call_time: Duration,
}

/// Limit for one peer, and for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub peer: usize,
    pub all: usize,
}

impl Default for Limits {
    /// Returns limits for a service with 512 MiB of memory.
    fn default() -> Self {
        Self {
            connections: groundwork_telemetry::ports::Limits { all: 512, address: 128 },
            calls: Amount { peer: 256, all: 1024 },
            bytes: Amount { peer: 2 * crate::MAX_MESSAGE, all: 4 * crate::MAX_MESSAGE },
            streams: 256,
            request_time: Duration::from_secs(20),
            call_time: Duration::from_secs(300),
        }
    }
}

/// Limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Good {
    Calls,
    Bytes,
}

/// Limit that a request ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// The peer is at its own limit.
    Peer(usize),
    /// All peers together are at the limit.
    All(usize),
}

/// Record of the resources that each peer uses. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: Usage,
    peers: HashMap<IpAddr, Usage>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Usage {
    calls: usize,
    bytes: usize,
}

/// Amount that a call uses, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    ledger: Ledger,
    peer: IpAddr,
    good: Good,
    amount: usize,
}

impl Usage {
    fn of(&mut self, good: Good) -> &mut usize {
        match good {
            Good::Calls => &mut self.calls,
            Good::Bytes => &mut self.bytes,
        }
    }
}

impl Ledger {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner { limits, taken: Mutex::default() }))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Takes an amount for a peer.
    ///
    /// # Errors
    ///
    /// The limit does not leave this much.
    pub(crate) fn take(&self, peer: IpAddr, good: Good, amount: usize) -> Result<Share, Exceeded> {
        let limit = match good {
            Good::Calls => self.0.limits.calls,
            Good::Bytes => self.0.limits.bytes,
        };
        // An IPv4 address that arrives over IPv6 is the same peer.
        let peer = peer.to_canonical();
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = taken.peers.get(&peer).copied().unwrap_or_default().of(good).saturating_add(amount);
        let of_all = taken.all.of(good).saturating_add(amount);
        if of_peer > limit.peer {
            return Err(Exceeded::Peer(limit.peer));
        }
        if of_all > limit.all {
            return Err(Exceeded::All(limit.all));
        }
        *taken.all.of(good) = of_all;
        *taken.peers.entry(peer).or_default().of(good) = of_peer;
        Ok(Share { ledger: self.clone(), peer, good, amount })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.ledger.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_all = taken.all.of(self.good);
        *of_all = of_all.saturating_sub(self.amount);
        if let Some(usage) = taken.peers.get_mut(&self.peer) {
            let of_peer = usage.of(self.good);
            *of_peer = of_peer.saturating_sub(self.amount);
            // Remove peers that use nothing, or the map would grow with every new address.
            if *usage == Usage::default() {
                taken.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_share_what_there_is_and_give_it_back() {
        let bytes = Amount { peer: 10, all: 15 };
        let ledger = Ledger::new(Limits { bytes, ..Limits::default() });
        let [a, b]: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let take = |peer, amount| ledger.take(peer, Good::Bytes, amount);
        let first = take(a, 8).unwrap();
        assert_eq!(take(mapped, 3).unwrap_err(), Exceeded::Peer(10));
        let second = take(b, 7).unwrap();
        assert_eq!(take(b, 1).unwrap_err(), Exceeded::All(15));
        assert_eq!(take(b, usize::MAX).unwrap_err(), Exceeded::Peer(10));
        ledger.take(b, Good::Calls, 1).unwrap();
        drop(first);
        drop(take(b, 1).unwrap());
        drop(second);
        assert!(ledger.0.taken.lock().unwrap().peers.is_empty());
        assert_eq!(ledger.0.taken.lock().unwrap().all, Usage::default());
    }
}
