//! Order of turns.

use std::collections::{HashMap, VecDeque};

use crate::places::Places;

/// Items that wait for a place, by tenant, each tenant's in the order of their arrival.
#[derive(Debug)]
pub struct Rota<T> {
    waiting: HashMap<String, VecDeque<T>>,
    /// Tenants with waiting items, in the order of their turns.
    turns: VecDeque<String>,
}

impl<T> Default for Rota<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> Rota<T> {
    /// Adds an item behind the other items of its tenant.
    pub fn push(&mut self, tenant: &str, item: T) {
        match self.waiting.get_mut(tenant) {
            Some(items) => items.push_back(item),
            None => {
                self.turns.push_back(tenant.to_owned());
                self.waiting.insert(tenant.to_owned(), VecDeque::from([item]));
            }
        }
    }

    /// Returns the next item of the tenant whose turn it is, among those that may have a place, and
    /// takes the place. Drops items that `is_due` rejects.
    pub fn pop(&mut self, places: &mut Places, is_due: impl Fn(&T) -> bool) -> Option<(String, T)> {
        if places.are_taken() {
            return None;
        }
        let mut index = 0;
        while let Some(tenant) = self.turns.get(index) {
            // A tenant that cannot have a place now keeps its position.
            if !places.are_free_for(tenant) {
                index += 1;
                continue;
            }
            let tenant = self.turns.remove(index)?;
            let items = self.waiting.get_mut(&tenant)?;
            let due = std::iter::from_fn(|| items.pop_front()).find(|item| is_due(item));
            if items.is_empty() {
                self.waiting.remove(&tenant);
            }
            let Some(item) = due else { continue };
            places.take(&tenant);
            if self.waiting.contains_key(&tenant) {
                self.turns.push_back(tenant.clone());
            }
            return Some((tenant, item));
        }
        None
    }

    /// Returns the number of tenants with waiting items.
    pub fn tenants(&self) -> usize {
        self.turns.len()
    }

    /// Returns the number of waiting items of a tenant.
    pub fn waiting_of(&self, tenant: &str) -> usize {
        self.waiting.get(tenant).map_or(0, VecDeque::len)
    }

    /// Iterates over the tenants with waiting items, with their number.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, usize)> {
        self.waiting.iter().map(|(tenant, items)| (tenant.as_str(), items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rota(tenants: &[(&str, usize)]) -> Rota<usize> {
        let mut rota = Rota::default();
        for (tenant, count) in tenants {
            (0..*count).for_each(|number| rota.push(tenant, number));
        }
        rota
    }

    /// Returns the tenants of all items that get a place now.
    fn started(rota: &mut Rota<usize>, places: &mut Places) -> Vec<String> {
        let next = || rota.pop(places, |_| true);
        std::iter::from_fn(next).map(|(tenant, _)| tenant).collect()
    }

    #[test]
    fn tenants_take_turns() {
        let mut places = Places::new(64, 8);
        let mut rota = rota(&[("a", 4), ("b", 1), ("c", 2)]);
        assert_eq!(started(&mut rota, &mut places), ["a", "b", "c", "a", "c", "a", "a"]);
        assert_eq!(rota.waiting().count(), 0);
    }

    #[test]
    fn no_tenant_holds_more_than_its_share() {
        let mut places = Places::new(32, 4);
        let mut waiting = rota(&[("greedy", 100)]);
        assert_eq!(started(&mut waiting, &mut places).len(), 4);
        assert!(places.is_share_used("greedy") && !places.is_share_used("other"));
        waiting.push("other", 0);
        assert_eq!(started(&mut waiting, &mut places), ["other"]);
        places.give_back("greedy");
        assert_eq!(started(&mut waiting, &mut places), ["greedy"]);
    }

    /// Many items of other tenants that never end do not keep a tenant without a place from getting
    /// one at once.
    #[test]
    fn places_are_kept_for_those_who_hold_none() {
        let mut places = Places::new(128, 16);
        let mut waiting = Rota::default();
        for tenant in 0..50 {
            (0..20).for_each(|number| waiting.push(&format!("hostile-{tenant}"), number));
        }
        let hostile = started(&mut waiting, &mut places);
        assert_eq!(hostile.len(), 96);
        for tenant in 0..32 {
            waiting.push(&format!("good-{tenant}"), 0);
        }
        assert_eq!(started(&mut waiting, &mut places).len(), 32);
        assert!(places.are_taken());
    }

    #[test]
    fn a_share_is_at_least_one_place() {
        let mut places = Places::new(8, 0);
        let mut waiting = rota(&[("a", 2), ("b", 1)]);
        assert_eq!(started(&mut waiting, &mut places), ["a", "b"]);
        places.give_back("a");
        assert_eq!(started(&mut waiting, &mut places), ["a"]);
    }

    #[test]
    fn what_is_not_due_takes_no_place() {
        let mut places = Places::new(8, 1);
        let mut waiting = rota(&[("a", 3), ("b", 1)]);
        assert_eq!(waiting.pop(&mut places, |number| *number == 2), Some(("a".to_owned(), 2)));
        assert!(waiting.pop(&mut places, |number| *number == 2).is_none() && waiting.waiting().count() == 0);
    }
}
