//! Limits on the connections of a port.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Divisor for the part of all places that is kept for addresses without connections.
const RESERVE: usize = 4;

/// Number of connections of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub all: usize,
    /// Number of connections from one client address.
    pub address: usize,
}

/// Recognizes the addresses of proxies, which stand for many users: they have no limit of their
/// own.
pub type IsProxy = dyn Fn(IpAddr) -> bool + Send + Sync;

/// Reason that no place is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Address,
    All,
}

/// Places for the connections of a port. Clones share them.
#[derive(Clone)]
pub(crate) struct Places {
    limits: Limits,
    is_proxy: Arc<IsProxy>,
    taken: Arc<Mutex<Taken>>,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
    /// Connections that have not sent a request yet, the oldest first.
    silent: BTreeMap<u64, Silent>,
}

#[derive(Debug)]
struct Silent {
    address: IpAddr,
    end: CancellationToken,
}

/// Place of a connection, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    address: IpAddr,
    number: u64,
    /// Cancelled when another connection gets the place.
    pub(crate) end: CancellationToken,
}

impl Places {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, is_proxy: Arc::new(|_| false), taken: Arc::default() }
    }

    pub(crate) fn behind(self, is_proxy: Arc<IsProxy>) -> Self {
        Self { is_proxy, ..self }
    }

    pub(crate) fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection from an address, and ends a silent connection for it if
    /// necessary.
    ///
    /// # Errors
    ///
    /// All places that this connection could get belong to connections that have sent a request.
    pub(crate) fn take(&self, address: IpAddr) -> Result<Place, Full> {
        let is_proxy = (self.is_proxy)(address.to_canonical());
        let address = network_of(address);
        let mut taken = self.lock();
        let limits = self.limits;
        let held = taken.by_address.get(&address).copied().unwrap_or_default();
        if held >= limits.address && !is_proxy && !taken.end_silent(Some(address)) {
            return Err(Full::Address);
        }
        let reserve = if held == 0 { 0 } else { limits.all / RESERVE };
        if taken.count >= limits.all.saturating_sub(reserve) && !taken.end_silent(None) {
            return Err(Full::All);
        }
        taken.count += 1;
        *taken.by_address.entry(address).or_default() += 1;
        let (number, end) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.silent.insert(number, Silent { address, end: end.clone() });
        Ok(Place { places: self.clone(), address, number, end })
    }
}

/// Returns the network whose connections share a limit: an IPv4 address, even if it arrives over
/// IPv6; of an IPv6 address the first 64 bits, since one host may have all addresses of such a
/// network.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Taken {
    /// Ends the oldest silent connection, of an address or of all. Its place is free at once, even
    /// though closing takes a moment.
    fn end_silent(&mut self, of: Option<IpAddr>) -> bool {
        // Numbers only grow, so the first match is the oldest connection.
        let mut candidates = self.silent.iter();
        let oldest = candidates.find(|(_, silent)| of.is_none_or(|address| silent.address == address));
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        if let Some(silent) = self.silent.remove(&number) {
            silent.end.cancel();
            self.give_back(silent.address);
        }
        true
    }

    fn give_back(&mut self, address: IpAddr) {
        self.count = self.count.saturating_sub(1);
        if let Some(held) = self.by_address.get_mut(&address) {
            *held -= 1;
            if *held == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Place {
    /// Marks the connection as active, so that it keeps its place.
    pub(crate) fn keep(&self) {
        self.places.lock().silent.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.silent.remove(&self.number);
        // If another connection has taken over the place, the place was given back at that moment.
        if !self.end.is_cancelled() {
            taken.give_back(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn places(all: usize, address: usize) -> Places {
        Places::new(Limits { all, address }).behind(Arc::new(|peer| peer == self::address(200)))
    }

    #[test]
    fn an_address_has_its_share_and_its_oldest_silent_connection_goes() {
        let places = places(16, 2);
        let [first, second] = [places.take(address(1)).unwrap(), places.take(address(1)).unwrap()];
        let third = places.take("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(first.end.is_cancelled() && !second.end.is_cancelled());
        second.keep();
        third.keep();
        assert_eq!(places.take(address(1)).unwrap_err(), Full::Address);
        assert!(places.take(address(2)).is_ok());
        drop(first);
        drop(second);
        assert!(places.take(address(1)).is_ok());
        drop(third);
        let taken = places.lock();
        assert_eq!((taken.count, taken.by_address.len(), taken.silent.len()), (0, 0, 0));
    }

    /// Four addresses with active connections leave some places to others; silent connections leave
    /// all.
    #[test]
    fn some_places_are_kept_for_addresses_that_hold_none() {
        let places = places(16, 4);
        let mut held = Vec::new();
        for number in 1..=4 {
            held.extend((0..4).filter_map(|_| places.take(address(number)).ok()).inspect(Place::keep));
        }
        // Twelve places are open to all addresses. The thirteenth went to the fourth address, which
        // had no connection at that moment.
        assert_eq!(held.len(), 13);
        let newcomers: Vec<Place> = (10..13).map(|number| places.take(address(number)).unwrap()).collect();
        newcomers.iter().for_each(Place::keep);
        assert_eq!(places.take(address(20)).unwrap_err(), Full::All);
        drop(newcomers);
        let silent: Vec<Place> = (30..33).map(|number| places.take(address(number)).unwrap()).collect();
        assert!(places.take(address(40)).is_ok());
        let ended: Vec<bool> = silent.iter().map(|place| place.end.is_cancelled()).collect();
        assert_eq!(ended, [true, false, false]);
    }

    #[test]
    fn a_host_has_one_share_whatever_its_addresses() {
        let places = places(16, 2);
        let take = |text: &str| places.take(text.parse().unwrap());
        let held = [take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap()];
        held.iter().for_each(Place::keep);
        assert_eq!(take("2001:db8::a:b:c:d").unwrap_err(), Full::Address);
        assert!(take("2001:db8:0:1::1").is_ok());
        let held = [take("10.0.0.1").unwrap(), take("::ffff:10.0.0.1").unwrap()];
        held.iter().for_each(Place::keep);
        assert_eq!(take("10.0.0.1").unwrap_err(), Full::Address);
        assert!(take("10.0.0.2").is_ok());
    }

    #[test]
    fn a_proxy_stands_for_many() {
        let places = places(16, 2);
        let held: Vec<Place> = (0..12).map(|_| places.take(address(200)).unwrap()).collect();
        held.iter().for_each(Place::keep);
        assert_eq!(places.take(address(200)).unwrap_err(), Full::All);
    }
}
