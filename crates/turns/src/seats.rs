//! Places for long use. A request without a free place is refused, because waiting would take too
//! long.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Divisor for the part of all places that is kept for holders without a place.
const RESERVE: usize = 4;
/// Divisor for the part of all places that one holder may have.
const SHARES: usize = 10;
/// Kubernetes' prefix for the names of service accounts.
const ACCOUNT: &str = "system:serviceaccount:";

/// Holder of places, with a share of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    User(String),
    /// All service accounts of a namespace.
    Accounts(String),
    Address(IpAddr),
}

/// Reason that no place is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Full {
    /// A holder has used its share.
    Share { holder: Holder, share: usize },
    /// All places are taken, or the rest is kept for holders without a place.
    All(usize),
}

/// Number of places, and of those that one holder may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    all: usize,
}

/// Places for long use. Clones share them.
#[derive(Debug, Clone)]
pub struct Seats(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shares: Shares,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    count: usize,
    by_holder: HashMap<Holder, usize>,
}

/// Place, given back when this is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    holders: Vec<Holder>,
}

impl Holder {
    /// Returns the holders that a user's place counts for, by the user's name on the API server:
    /// the user, and for a service account its namespace.
    pub fn of_user(name: &str) -> Vec<Self> {
        let namespace = name.strip_prefix(ACCOUNT).and_then(|account| account.split(':').next());
        let accounts = namespace.map(|namespace| Self::Accounts(namespace.to_owned()));
        [Self::User(name.to_owned())].into_iter().chain(accounts).collect()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "the user {name:?} has"),
            Self::Accounts(namespace) => write!(f, "the accounts of the namespace {namespace:?} have"),
            Self::Address(address) => write!(f, "the address {address} has"),
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { holder, share } => {
                write!(f, "{holder} {share}, which is the maximum for one holder")
            }
            Self::All(all) => write!(
                f,
                "all holders together have {all}, which is the maximum with those that are reserved for others"
            ),
        }
    }
}

impl Shares {
    /// Creates shares of `all` places. A holder may have a tenth of them, and the last quarter is
    /// for holders without a place.
    pub const fn of(all: usize) -> Self {
        Self { all }
    }

    /// Returns the number of places that a holder may have.
    pub fn share(self) -> usize {
        (self.all / SHARES).max(1)
    }

    /// Checks that one more place may be taken when `count` are in use, by holders with the given
    /// numbers of places.
    ///
    /// # Errors
    ///
    /// See [`Full`].
    pub fn check<'h>(
        self,
        count: usize,
        holders: impl Iterator<Item = (&'h Holder, usize)>,
    ) -> Result<(), Full> {
        let mut has_any = false;
        for (holder, held) in holders {
            if held >= self.share() {
                return Err(Full::Share { holder: holder.clone(), share: self.share() });
            }
            has_any |= held > 0;
        }
        let reserve = if has_any { self.all / RESERVE } else { 0 };
        if count >= self.all.saturating_sub(reserve) { Err(Full::All(self.all)) } else { Ok(()) }
    }
}

impl Seats {
    pub fn new(shares: Shares) -> Self {
        Self(Arc::new(Inner { shares, held: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place that counts for all these holders.
    ///
    /// # Errors
    ///
    /// See [`Full`].
    pub fn take(&self, holders: Vec<Holder>) -> Result<Seat, Full> {
        let mut held = self.lock();
        let of = |holder| held.by_holder.get(holder).copied().unwrap_or_default();
        self.0.shares.check(held.count, holders.iter().map(|holder| (holder, of(holder))))?;
        held.count += 1;
        for holder in &holders {
            *held.by_holder.entry(holder.clone()).or_default() += 1;
        }
        Ok(Seat { seats: self.clone(), holders })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.seats.lock();
        held.count -= 1;
        for holder in &self.holders {
            let Some(count) = held.by_holder.get_mut(holder) else { continue };
            *count -= 1;
            if *count == 0 {
                held.by_holder.remove(holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_a_namespace_have_one_share_together() {
        let seats = Seats::new(Shares::of(40));
        let account = |namespace: &str, number: usize| {
            Holder::of_user(&format!("system:serviceaccount:{namespace}:a{number}"))
        };
        let held: Vec<Seat> = (0..4).map(|number| seats.take(account("team", number)).unwrap()).collect();
        let full = seats.take(account("team", 9)).unwrap_err();
        assert_eq!(full, Full::Share { holder: Holder::Accounts("team".to_owned()), share: 4 });
        assert_eq!(
            full.to_string(),
            "the accounts of the namespace \"team\" have 4, which is the maximum for one holder"
        );
        assert!(seats.take(account("other", 0)).is_ok() && seats.take(Holder::of_user("jane")).is_ok());
        drop(held);
        assert!(seats.take(account("team", 9)).is_ok());
        let held = seats.lock();
        assert_eq!((held.count, held.by_holder.len()), (0, 0));
    }

    #[test]
    fn the_last_quarter_is_for_those_who_have_none() {
        let seats = Seats::new(Shares::of(40));
        let user = |number: usize| vec![Holder::User(number.to_string())];
        let greedy: Vec<Seat> = (0..20)
            .flat_map(|number| [number; 4])
            .filter_map(|number| seats.take(user(number)).ok())
            .collect();
        // Later users got their first place only, from the reserve.
        assert_eq!(greedy.len(), 40);
        assert_eq!(seats.take(user(99)).unwrap_err(), Full::All(40));
        let held = |number: usize| seats.lock().by_holder.get(&user(number)[0]).copied().unwrap_or_default();
        assert_eq!([held(0), held(6), held(7), held(8), held(16)], [4, 4, 2, 1, 1]);
    }
}
