//! The places, and how many of them each tenant holds.

use std::collections::HashMap;

/// One place of so many is kept for tenants that hold none.
const RESERVE: usize = 4;

/// Places, and who holds them.
#[derive(Debug)]
pub struct Places {
    share: usize,
    count: usize,
    taken: usize,
    by_tenant: HashMap<String, usize>,
}

impl Places {
    /// So many places in all, of which a tenant may hold up to `share`. Both are at least one.
    pub fn new(count: usize, share: usize) -> Self {
        let count = count.max(1);
        Self { share: share.clamp(1, count), count, taken: 0, by_tenant: HashMap::new() }
    }

    /// The places that a tenant may hold.
    pub fn share(&self) -> usize {
        self.share
    }

    /// True if nobody can have a place now.
    pub fn are_taken(&self) -> bool {
        self.taken >= self.count
    }

    fn held_by(&self, tenant: &str) -> usize {
        self.by_tenant.get(tenant).copied().unwrap_or_default()
    }

    /// True if a tenant may have one more place now.
    pub fn are_free_for(&self, tenant: &str) -> bool {
        match self.held_by(tenant) {
            0 => self.taken < self.count,
            held => held < self.share && self.taken < self.count - self.count / RESERVE,
        }
    }

    /// True if a tenant could have one more place, if another tenant gave one back.
    pub(crate) fn would_be_free_for(&self, tenant: &str) -> bool {
        match self.held_by(tenant) {
            0 => true,
            held => held < self.share && self.taken <= self.count - self.count / RESERVE,
        }
    }

    /// True if a tenant holds all the places that it may.
    pub fn is_share_used(&self, tenant: &str) -> bool {
        self.held_by(tenant) >= self.share
    }

    /// A tenant has one more place. Whether it [may](Places::are_free_for) is up to the caller.
    pub fn take(&mut self, tenant: &str) {
        self.taken += 1;
        match self.by_tenant.get_mut(tenant) {
            Some(held) => *held += 1,
            None => drop(self.by_tenant.insert(tenant.to_owned(), 1)),
        }
    }

    /// A tenant has one place less.
    pub fn give_back(&mut self, tenant: &str) {
        let Some(held) = self.by_tenant.get_mut(tenant) else { return };
        *held -= 1;
        self.taken -= 1;
        if *held == 0 {
            self.by_tenant.remove(tenant);
        }
    }
}
