//! Counts the places of each tenant.

use std::collections::HashMap;

/// Divisor for the part of all places that is kept for tenants without a place.
const RESERVE: usize = 4;

/// Places, and the number that each tenant has.
#[derive(Debug)]
pub struct Places {
    share: usize,
    count: usize,
    taken: usize,
    by_tenant: HashMap<String, usize>,
}

impl Places {
    /// Creates `count` places, of which a tenant may have up to `share`. Both are at least one.
    pub fn new(count: usize, share: usize) -> Self {
        let count = count.max(1);
        Self { share: share.clamp(1, count), count, taken: 0, by_tenant: HashMap::new() }
    }

    /// Returns the number of places that a tenant may have.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Reports whether all places are taken.
    pub fn are_taken(&self) -> bool {
        self.taken >= self.count
    }

    fn held_by(&self, tenant: &str) -> usize {
        self.by_tenant.get(tenant).copied().unwrap_or_default()
    }

    /// Reports whether a tenant may take one more place now.
    pub fn are_free_for(&self, tenant: &str) -> bool {
        match self.held_by(tenant) {
            0 => self.taken < self.count,
            held => held < self.share && self.taken < self.count - self.count / RESERVE,
        }
    }

    /// Reports whether a tenant could take one more place if another tenant gave one back.
    pub(crate) fn would_be_free_for(&self, tenant: &str) -> bool {
        match self.held_by(tenant) {
            0 => true,
            held => held < self.share && self.taken <= self.count - self.count / RESERVE,
        }
    }

    /// Reports whether a tenant has used its share.
    pub fn is_share_used(&self, tenant: &str) -> bool {
        self.held_by(tenant) >= self.share
    }

    /// Takes a place for a tenant. The caller has to check that the tenant
    /// [may](Places::are_free_for) have it.
    pub fn take(&mut self, tenant: &str) {
        self.taken += 1;
        match self.by_tenant.get_mut(tenant) {
            Some(held) => *held += 1,
            None => drop(self.by_tenant.insert(tenant.to_owned(), 1)),
        }
    }

    /// Gives back a place of a tenant.
    pub fn give_back(&mut self, tenant: &str) {
        let Some(held) = self.by_tenant.get_mut(tenant) else { return };
        *held -= 1;
        self.taken -= 1;
        if *held == 0 {
            self.by_tenant.remove(tenant);
        }
    }
}
