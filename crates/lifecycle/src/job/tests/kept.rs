//! Tests of the blueprint cache that jobs share (`blueprints.md` 2.5).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use groundwork_blueprint::{Blueprint, ExportValues, Filesystem};

use super::*;
use crate::job::{BlueprintCache, BlueprintDigest, Inputs, export, render};

/// Cache that keeps every blueprint and counts its hits and misses.
#[derive(Default)]
struct Kept {
    blueprints: RefCell<HashMap<BlueprintDigest, Blueprint>>,
    hits: Cell<usize>,
    misses: Cell<usize>,
}

impl BlueprintCache for Kept {
    fn get(&self, digest: BlueprintDigest) -> Option<Blueprint> {
        let found = self.blueprints.borrow().get(&digest).cloned();
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.set(count.get() + 1);
        found
    }

    fn keep(&self, digest: BlueprintDigest, blueprint: &Blueprint) {
        self.blueprints.borrow_mut().insert(digest, blueprint.clone());
    }
}

impl Kept {
    /// Returns the numbers of hits, misses and kept blueprints.
    fn counts(&self) -> (usize, usize, usize) {
        (self.hits.get(), self.misses.get(), self.blueprints.borrow().len())
    }

    /// Returns the error message of a failed job.
    fn error(&self, world: &World) -> Option<String> {
        render(&Inputs { cache: Some(self), ..world.inputs() }).error.map(|error| error.cause.message)
    }
}

fn of_component(files: &str, form: &str) -> World {
    let installation =
        installation(&format!("{SHOP_REFERENCE}\n  blueprint: {{ref: {{resourceName: blueprint}}}}"));
    let component = format!(
        "{{kind: Component, in: R1, id: 'example.org/shop:1.0.0', resources: [{{name: blueprint, \
         type: blueprint, {form}, tree: {{blueprint.yaml: '{files}'}}}}]}}"
    );
    world(&[&installation, CONTEXT, &component])
}

const EMPTY: &str = "{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Blueprint}";

#[test]
fn what_is_the_same_is_loaded_once_and_gives_the_same() {
    let kept = Kept::default();
    let inline = world(&[&with_inline_blueprint(""), EMPTY_CONTEXT]);
    let plain = inline.render();
    for _ in 0..3 {
        let outcome = render(&Inputs { cache: Some(&kept), ..inline.inputs() });
        assert_eq!((outcome.error, outcome.deploy_items), (None, plain.deploy_items.clone()));
    }
    let outcome = export(&Inputs { cache: Some(&kept), ..inline.inputs() }, |_| ExportValues::default());
    assert_eq!(outcome.error, None);
    assert_eq!(kept.counts(), (3, 1, 1));

    // The cache key is the digest of the packed bytes, so equal files in two archives are two
    // entries.
    for (hits, world) in [(3, of_component(EMPTY, "gzip: false")), (5, of_component(EMPTY, "gzip: true"))] {
        assert_eq!((kept.error(&world), kept.error(&world), kept.error(&world)), (None, None, None));
        assert_eq!(kept.hits.get(), hits + 2);
    }
    assert_eq!(kept.counts(), (7, 3, 3));
}

#[test]
fn errors_and_files_that_are_tried_are_not_kept() {
    let kept = Kept::default();
    let broken = of_component("{apiVersion: landscaper.gardener.cloud/v2}", "gzip: false");
    let message = kept.error(&broken).expect("the blueprint is refused");
    assert!(message.contains("resource \"blueprint\" of component example.org/shop:1.0.0"), "{message}");
    assert_eq!(kept.error(&broken), Some(message));
    assert_eq!(kept.counts(), (0, 2, 0));

    let mut files = Filesystem::default();
    files.insert("blueprint.yaml", EMPTY).unwrap();
    let inline = world(&[&with_inline_blueprint(""), EMPTY_CONTEXT]);
    let inputs = Inputs { blueprint: Some(&files), cache: Some(&kept), ..inline.inputs() };
    assert_eq!(render(&inputs).error, None);
    assert_eq!(kept.counts(), (0, 2, 0));
}

/// A schema behind `cd://` comes from the component of the current job, even if another job has
/// filled the cache.
#[test]
fn schemas_of_components_are_not_shared() {
    let kept = Kept::default();
    let job = |maximum: u32| {
        let installation = installation(&format!(
            "{SHOP_REFERENCE}
  imports: {{data: [{{name: size, dataRef: size}}]}}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          {{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Blueprint, imports: [{{name: size, schema: {{$ref: 'cd://resources/schema'}}}}]}}
"
        ));
        let component = format!(
            "{{kind: Component, in: R1, id: 'example.org/shop:1.0.0', resources: [{{name: schema, \
             type: landscaper.gardener.cloud/jsonschema, text: '{{\"maximum\": {maximum}}}'}}]}}"
        );
        let size = "{kind: DataObject, metadata: {name: size}, data: 7}";
        kept.error(&world(&[&installation, CONTEXT, &component, size]))
    };
    assert_eq!(job(9), None);
    let message = job(6).expect("the value is refused");
    assert!(message.contains("Must be less than or equal to 6"), "{message}");
    assert_eq!(job(9), None);
    assert_eq!(kept.counts(), (2, 1, 1));
}
