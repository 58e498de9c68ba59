//! Record of the places that a node read during its evaluation. A change of one of them makes the
//! node be evaluated again.

use std::collections::HashSet;

use crate::dependencies::Place;
use crate::syntax::ast::Name;

/// A place that was read, or a field that is missing below it. A missing field gets a place of its
/// own only when a node waits for it, because most nodes wait for none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub(crate) place: Place,
    pub(crate) absent: Option<Name>,
}

impl From<Place> for Read {
    fn from(place: Place) -> Self {
        Self { place, absent: None }
    }
}

/// Reads that are collected before equal ones are first removed.
const FEW: usize = 64;

/// The reads in their order. Nested templates read the same places again and again. To bound the
/// memory, equal reads are removed whenever their number is twice the number of different reads
/// found before.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    noted: Vec<Read>,
    different: usize,
}

impl Reads {
    pub(crate) fn note(&mut self, read: Read) {
        self.noted.push(read);
        if self.noted.len() < FEW.max(2 * self.different) {
            return;
        }
        let mut known = HashSet::with_capacity(self.noted.len());
        self.noted.retain(|read| known.insert(read.clone()));
        self.different = self.noted.len();
    }
}

impl IntoIterator for Reads {
    type Item = Read;
    type IntoIter = std::vec::IntoIter<Read>;

    fn into_iter(self) -> Self::IntoIter {
        self.noted.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dependencies::ROOT;

    #[test]
    fn what_is_read_again_is_kept_once_and_in_order() {
        let mut reads = Reads::default();
        let names: Vec<Name> = (0..100).map(|index| Arc::from(format!("n{index}"))).collect();
        for _ in 0..1_000 {
            for name in &names {
                reads.note(Read { place: ROOT, absent: Some(Arc::clone(name)) });
            }
            reads.note(ROOT.into());
        }
        assert!(reads.noted.len() < 2 * names.len() + 2, "{}", reads.noted.len());
        assert!(reads.noted.capacity() <= 512, "{}", reads.noted.capacity());
        let firsts: Vec<_> = reads.into_iter().take(names.len()).map(|read| read.absent).collect();
        assert!(firsts.iter().zip(&names).all(|(read, name)| read.as_ref() == Some(name)));
    }
}
