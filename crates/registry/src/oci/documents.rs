//! Small contents of one client by their digests: configs and descriptors, which do not change (`components.md` 4.3).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::digest::Digest;

/// Bytes that one client keeps.
const CAPACITY: usize = 16 << 20;
/// Larger ones are rare, and read again.
const LARGEST: usize = 1 << 20;

/// Belongs to one client, and so to one set of credentials. A repository is part of the key, since who may read one may not read another.
#[derive(Default)]
pub(super) struct Documents(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    contents: HashMap<(String, Digest), Arc<[u8]>>,
    /// The oldest first.
    order: VecDeque<(String, Digest)>,
    size: usize,
}

impl Documents {
    pub(super) fn get(&self, repository: &str, digest: &Digest) -> Option<Arc<[u8]>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.contents.get(&(repository.to_owned(), digest.clone())).cloned()
    }

    pub(super) fn insert(&self, repository: &str, digest: &Digest, content: &[u8]) {
        let key = (repository.to_owned(), digest.clone());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if content.len() > LARGEST || kept.contents.contains_key(&key) {
            return;
        }
        kept.size += content.len();
        kept.contents.insert(key.clone(), content.into());
        kept.order.push_back(key);
        while kept.size > CAPACITY
            && let Some(oldest) = kept.order.pop_front()
        {
            let gone = kept.contents.remove(&oldest).map_or(0, |content| content.len());
            kept.size -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        let documents = Documents::default();
        let content = |number: u8| vec![number; LARGEST];
        for number in 0..20 {
            documents.insert("a", &Digest::of(&[number]), &content(number));
        }
        let present = (0..20).filter(|number| documents.get("a", &Digest::of(&[*number])).is_some());
        assert_eq!(present.collect::<Vec<u8>>(), (4..20).collect::<Vec<u8>>());
        assert!(documents.get("b", &Digest::of(&[19])).is_none());
        documents.insert("a", &Digest::of(b"large"), &[0; LARGEST + 1]);
        assert!(documents.get("a", &Digest::of(b"large")).is_none());
    }
}
