//! Cache of the blueprints loaded for one plan.

use std::cell::RefCell;
use std::collections::HashMap;

use groundwork_blueprint::Blueprint;
use groundwork_lifecycle::{BlueprintCache, BlueprintDigest};

/// Largest number of cached blueprints. Most Installations of a landscape share a few.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Blueprints {
    kept: RefCell<HashMap<BlueprintDigest, Blueprint>>,
}

impl BlueprintCache for Blueprints {
    fn get(&self, digest: BlueprintDigest) -> Option<Blueprint> {
        self.kept.borrow().get(&digest).cloned()
    }

    fn keep(&self, digest: BlueprintDigest, blueprint: &Blueprint) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() < MOST {
            kept.insert(digest, blueprint.clone());
        }
    }
}
