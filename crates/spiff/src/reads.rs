//! What a node of a document has read while it was evaluated: the places whose change lets it be looked at again.

use std::collections::HashSet;

use crate::dependencies::Place;
use crate::syntax::ast::Name;

/// A place that was read, or the field below it that it does not have. Most nodes wait for nothing, so that most such fields need no
/// place of their own.
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

/// So many are kept before anybody looks whether some are equal.
const FEW: usize = 64;

/// In the order in which they were read. What templates inside of each other read again and again takes memory once: equal ones
/// are dropped each time that there are twice as many as were different before.
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
