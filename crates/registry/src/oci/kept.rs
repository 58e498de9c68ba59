//! Caches of clients: small contents by digest, which never change (`components.md` 4.3), and
//! authorization headers.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::Header;
use crate::digest::Digest;

/// Limit in bytes for the contents that all clients together cache.
const DOCUMENTS: usize = 32 << 20;
/// Size limit of a cached content in bytes. Larger contents are rare, and are fetched each time.
const LARGEST: usize = 1 << 20;
/// Limit in bytes for the headers that all clients together cache.
const HEADERS: usize = 4 << 20;

/// Cache of one client, and so of one set of credentials. Every key has the repository, since
/// access to one repository does not give access to another. All clients created from one another
/// share the space, because each registry has its own client.
#[derive(Clone, Default)]
pub(super) struct Kept {
    shared: Arc<Mutex<Shared>>,
    client: u64,
}

struct Shared {
    clients: u64,
    documents: Bounded<(u64, String, Digest), Arc<[u8]>>,
    headers: Bounded<(u64, String), Header>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { clients: 0, documents: Bounded::new(DOCUMENTS), headers: Bounded::new(HEADERS) }
    }
}

impl Kept {
    /// Creates a cache for another client, which shares the space.
    pub(super) fn beside(&self) -> Self {
        let mut shared = self.lock();
        shared.clients += 1;
        Self { shared: Arc::clone(&self.shared), client: shared.clients }
    }

    pub(super) fn document(&self, repository: &str, digest: &Digest) -> Option<Arc<[u8]>> {
        self.lock().documents.get(&(self.client, repository.to_owned(), digest.clone())).cloned()
    }

    pub(super) fn keep_document(&self, repository: &str, digest: &Digest, content: &[u8]) {
        let key = (self.client, repository.to_owned(), digest.clone());
        let mut shared = self.lock();
        if content.len() <= LARGEST && shared.documents.get(&key).is_none() {
            shared.documents.insert(key, content.into(), content.len());
        }
    }

    pub(super) fn header(&self, repository: &str) -> Option<Header> {
        self.lock().headers.get(&(self.client, repository.to_owned())).cloned()
    }

    pub(super) fn keep_header(&self, repository: &str, header: Header) {
        let size = header.size() + repository.len();
        self.lock().headers.insert((self.client, repository.to_owned()), header, size);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cache of values with a limit on their bytes. The oldest value is evicted first.
struct Bounded<K, V> {
    values: HashMap<K, (V, usize)>,
    /// Keys, the oldest first.
    order: VecDeque<K>,
    size: usize,
    capacity: usize,
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    fn new(capacity: usize) -> Self {
        Self { values: HashMap::new(), order: VecDeque::new(), size: 0, capacity }
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(value, _)| value)
    }

    fn insert(&mut self, key: K, value: V, size: usize) {
        self.size += size;
        match self.values.insert(key.clone(), (value, size)) {
            Some((_, former)) => self.size -= former,
            None => self.order.push_back(key),
        }
        while self.size > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.values.remove(&oldest).map_or(0, |(_, size)| size);
            self.size -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fifty clients together cache no more than one.
    #[test]
    fn bounds() {
        let first = Kept::default();
        let content = |number: u8| vec![number; LARGEST];
        for number in 0..20 {
            first.keep_document("a", &Digest::of(&[number]), &content(number));
        }
        let second = first.beside();
        for number in 0..20 {
            second.keep_document("a", &Digest::of(&[number]), &content(number));
        }
        let present = |kept: &Kept| {
            let found = (0..20).filter(|number| kept.document("a", &Digest::of(&[*number])).is_some());
            found.collect::<Vec<u8>>()
        };
        assert_eq!(present(&first), (8..20).collect::<Vec<u8>>());
        assert_eq!(present(&second), (0..20).collect::<Vec<u8>>());
        assert!(second.document("b", &Digest::of(&[19])).is_none());
        first.keep_document("a", &Digest::of(b"large"), &[0; LARGEST + 1]);
        assert!(first.document("a", &Digest::of(b"large")).is_none());
    }

    #[test]
    fn headers_are_replaced_and_bounded() {
        let kept = Kept::default();
        let header = |value: &str| Header { value: value.to_owned(), owner: String::new() };
        kept.keep_header("a", header("1"));
        kept.keep_header("a", header("2"));
        assert_eq!(kept.header("a").unwrap().value, "2");
        assert!(kept.beside().header("a").is_none() && kept.header("b").is_none());
        for number in 0..2000 {
            kept.keep_header(&number.to_string(), header(&"x".repeat(4096)));
        }
        let shared = kept.lock();
        assert!(shared.headers.size <= HEADERS && shared.headers.order.len() == shared.headers.values.len());
    }
}
