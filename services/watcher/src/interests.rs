//! Interests: requests of users that kinds beyond the built-in ones be watched.

use std::collections::HashMap;

use groundwork_bus::{Interest, Kind};
use groundwork_turns::{Full, Holder, Shares};
use jiff::Timestamp;

/// Maximum interests of all users together. Each costs a message on the stream, and perhaps a
/// watch.
const MOST: Shares = Shares::of(1_000);

/// Decision whether an interest can be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    Accepted,
    /// The request ends an interest that does not exist.
    Unnecessary,
    /// The limit of interests is reached.
    TooMany(Full),
}

/// The interests that the leader knows. They outlive the stream, and are stored again when the
/// stream is rebuilt.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    list: Vec<Interest>,
    /// API versions in which kinds were requested. The stream does not contain them, so after a
    /// restart the API server's preferred one is used.
    api_versions: HashMap<Kind, String>,
}

impl Interests {
    pub(crate) fn as_slice(&self) -> &[Interest] {
        &self.list
    }

    /// Returns the API version in which a kind was requested.
    pub(crate) fn api_version(&self, kind: &Kind) -> Option<&str> {
        self.api_versions.get(kind).map(String::as_str)
    }

    /// Decides whether there is room for an interest. Renewals always have room.
    pub(crate) fn admit(&self, interest: &Interest, now: Timestamp) -> Admission {
        if self.list.iter().any(|known| is_same(known, interest)) {
            return Admission::Accepted;
        }
        if interest.expires <= now {
            return Admission::Unnecessary;
        }
        let others: Vec<Vec<Holder>> =
            self.list.iter().filter(|known| known.expires > now).map(holders).collect();
        let held = |holder: &Holder| others.iter().filter(|others| others.contains(holder)).count();
        let holders = holders(interest);
        match MOST.check(others.len(), holders.iter().map(|holder| (holder, held(holder)))) {
            Ok(()) => Admission::Accepted,
            Err(full) => Admission::TooMany(full),
        }
    }

    /// Adds or renews an interest. The API version of a kind stays unchanged while another holder
    /// relies on it.
    pub(crate) fn insert(&mut self, interest: Interest, api_version: String) {
        self.list.retain(|known| !is_same(known, &interest));
        let is_shared = self.list.iter().any(|known| known.kind == interest.kind);
        if !is_shared || !self.api_versions.contains_key(&interest.kind) {
            self.api_versions.insert(interest.kind.clone(), api_version);
        }
        self.list.push(interest);
        let list = &self.list;
        self.api_versions.retain(|kind, _| list.iter().any(|known| known.kind == *kind));
    }

    /// Adds interests from the stream that are not known yet. A known interest is at least as new
    /// as the stored one.
    pub(crate) fn add_stored(&mut self, stored: &[Interest]) {
        for interest in stored {
            if !self.list.iter().any(|known| is_same(known, interest)) {
                self.list.push(interest.clone());
            }
        }
    }

    pub(crate) fn remove_expired(&mut self, now: Timestamp) {
        self.list.retain(|interest| interest.expires > now);
    }
}

/// Returns the holders whose limits an interest counts against.
fn holders(interest: &Interest) -> Vec<Holder> {
    Holder::of_user(interest.holder.split_once('@').map_or("", |(_, user)| user))
}

/// Reports whether two interests replace each other.
fn is_same(one: &Interest, other: &Interest) -> bool {
    one.kind == other.kind && one.namespace == other.namespace && one.holder == other.holder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(plural: &str, holder: &str, expires: i64) -> Interest {
        let expires = Timestamp::from_second(expires).unwrap();
        Interest { kind: Kind::new("", plural), namespace: None, holder: holder.to_owned(), expires }
    }

    #[test]
    fn a_user_has_a_limit_that_renewals_do_not_touch() {
        let now = Timestamp::from_second(100).unwrap();
        let mut interests = Interests::default();
        for number in 0..MOST.share() {
            let new = interest("pods", &format!("h{number}@u"), 200);
            assert_eq!(interests.admit(&new, now), Admission::Accepted);
            interests.insert(new, "v1".to_owned());
        }
        let refused = Admission::TooMany(Full::Share { holder: Holder::User("u".to_owned()), share: 100 });
        assert_eq!(interests.admit(&interest("pods", "more@u", 200), now), refused);
        assert_eq!(interests.admit(&interest("pods", "more@v", 200), now), Admission::Accepted);
        assert_eq!(interests.admit(&interest("pods", "h0@u", 300), now), Admission::Accepted);
        assert_eq!(interests.admit(&interest("pods", "more@u", 100), now), Admission::Unnecessary);
    }

    /// Ten accounts of one namespace share one limit, so other namespaces still have room.
    #[test]
    fn the_accounts_of_a_namespace_have_a_limit_together() {
        let now = Timestamp::from_second(100).unwrap();
        let mut interests = Interests::default();
        for number in 0..1_000 {
            let new =
                interest("pods", &format!("h{number}@system:serviceaccount:team:a{}", number % 10), 200);
            if interests.admit(&new, now) == Admission::Accepted {
                interests.insert(new, "v1".to_owned());
            }
        }
        assert_eq!(interests.as_slice().len(), MOST.share());
        for user in ["system:serviceaccount:other:a", "kubernetes-admin"] {
            let new = interest("pods", &format!("h@{user}"), 200);
            assert_eq!(interests.admit(&new, now), Admission::Accepted);
        }
    }

    #[test]
    fn the_version_of_a_kind_stays_while_somebody_else_relies_on_it() {
        let mut interests = Interests::default();
        let kind = Kind::new("", "pods");
        interests.insert(interest("pods", "a@u", 200), "v1".to_owned());
        interests.insert(interest("pods", "b@u", 200), "v2".to_owned());
        assert_eq!(interests.api_version(&kind), Some("v1"));
        interests.remove_expired(Timestamp::from_second(300).unwrap());
        interests.insert(interest("pods", "b@u", 400), "v2".to_owned());
        assert_eq!(interests.api_version(&kind), Some("v2"));
    }
}
