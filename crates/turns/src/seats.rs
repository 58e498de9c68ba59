//! Places that last. Who finds none is refused: waiting for one would take too long.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One place of so many is kept for holders that have none.
const RESERVE: usize = 4;
/// A holder may have one place of so many.
const SHARES: usize = 10;
/// How Kubernetes calls the accounts of namespaces.
const ACCOUNT: &str = "system:serviceaccount:";

/// A holder of places, with a share of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    User(String),
    /// All accounts of a namespace.
    Accounts(String),
    Address(IpAddr),
}

/// Why there is no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Full {
    /// A holder has its whole share.
    Share { holder: Holder, share: usize },
    /// The rest is kept for those who hold none, or nothing is left.
    All(usize),
}

/// How many places there are, and how many of them one may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    all: usize,
}

/// Places that are taken for as long as something lasts. Clones share them.
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

/// A place, until this is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    holders: Vec<Holder>,
}

impl Holder {
    /// The holders of a user's place, by the name that the API server gives: the user, and the namespace if it is one of its accounts.
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
            Self::Share { holder, share } => write!(f, "{holder} {share}, which is a whole share"),
            Self::All(all) => write!(
                f,
                "all together have as many as there may be: {all}, with those that are kept for others"
            ),
        }
    }
}

impl Shares {
    /// So many places in all. A holder may have a tenth of them, and the last quarter is for those who have none.
    pub const fn of(all: usize) -> Self {
        Self { all }
    }

    /// The places that a holder may have.
    pub fn share(self) -> usize {
        (self.all / SHARES).max(1)
    }

    /// Lets one more place be taken, where `count` are, by holders who have so many already.
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

    /// A place that counts for all these holders.
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
        assert_eq!(full.to_string(), "the accounts of the namespace \"team\" have 4, which is a whole share");
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
        // Each of those who came later got the first place alone.
        assert_eq!(greedy.len(), 40);
        assert_eq!(seats.take(user(99)).unwrap_err(), Full::All(40));
        let held = |number: usize| seats.lock().by_holder.get(&user(number)[0]).copied().unwrap_or_default();
        assert_eq!([held(0), held(6), held(7), held(8), held(16)], [4, 4, 2, 1, 1]);
    }
}
