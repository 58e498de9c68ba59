//! Benchmark of a large component: 100 rules against 1,000 references, the closure of 1,000
//! versions under these rules, and a descriptor of a megabyte.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use groundwork_component::{
    Access, Attributes, Blob, Descriptor, InlineSet, LoadedDescriptor, Normalisation, Overwrites, Reference,
    Repositories, Repository, RepositoryContext, RepositoryError, Resolver, Rule,
};
use serde_json::{Value, json};

fn context(base_url: &str) -> Option<RepositoryContext> {
    RepositoryContext::new(
        json!({"type": "ociRegistry", "baseUrl": base_url, "componentNameMapping": "urlPath"}),
    )
}

/// Returns rules of which all compare a name, half also a repository context. Nine of ten match no
/// reference.
fn rules() -> Overwrites {
    (0..100)
        .map(|n| Rule {
            source: Attributes {
                repository: if n % 2 == 0 { context("registry.example.org/components") } else { None },
                name: Some(format!("example.org/team/component-{n}")),
                version: None,
            },
            substitution: Attributes { version: Some(format!("v2.{n}.0")), ..Attributes::default() },
        })
        .collect()
}

fn references() -> Vec<Reference> {
    (0..1000)
        .map(|n| Reference {
            repository: context("registry.example.org/components"),
            name: format!("example.org/team/component-{n}"),
            version: "v1.0.0".to_owned(),
        })
        .collect()
}

fn overwrites(criterion: &mut Criterion) {
    let (rules, references) = (rules(), references());
    let mut group = criterion.benchmark_group("overwrites");
    group.throughput(Throughput::Elements(references.len() as u64));
    group.bench_function("100 rules, 1000 references", |bencher| {
        bencher
            .iter(|| references.iter().filter(|reference| rules.apply(black_box(reference)).matched).count());
    });
    group.finish();
}

/// In-memory store of descriptors as bytes, and as decoded objects after their first use, as in the
/// resolver's cache.
#[derive(Clone, Default)]
struct Store {
    descriptors: Arc<HashMap<(String, String), Kept>>,
    keeps: bool,
}

struct Kept {
    bytes: Vec<u8>,
    loaded: OnceLock<LoadedDescriptor>,
}

impl Repository for Store {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let kept = self.descriptors.get(&(name.to_owned(), version.to_owned()));
        Ok(kept.map(|kept| kept.bytes.clone()))
    }

    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        let kept = self.descriptors.get(&(name.to_owned(), version.to_owned()));
        let load = |kept: &Kept| Descriptor::load(&kept.bytes, context);
        Ok(kept
            .map(|kept| if self.keeps { kept.loaded.get_or_init(|| load(kept)).clone() } else { load(kept) }))
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        Err(RepositoryError::Missing { address: access.to_string() })
    }
}

impl Repositories for Store {
    fn open(&self, _: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Ok(Arc::new(self.clone()))
    }
}

fn document(name: &str, version: &str, references: &[Value], resources: usize) -> Vec<u8> {
    let resources: Vec<Value> = (0..resources)
        .map(|n| {
            json!({
                "name": format!("image-{n}"), "version": "1.0.0", "type": "ociImage", "relation": "external",
                "access": {"type": "ociArtifact", "imageReference": format!("registry.example.org/images/image-{n}:1.0.0")},
                "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": "ociArtifactDigest/v1", "value": "0".repeat(64)},
                "labels": [{"name": "team", "value": {"name": "shop", "mail": "shop@example.org"}, "signing": true}],
            })
        })
        .collect();
    let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": name, "version": version, "provider": "example.org", "sources": [], "repositoryContexts": [],
        "componentReferences": references, "resources": resources,
    }});
    document.to_string().into_bytes()
}

/// Measures a closure in which each version refers to the next ten. The rules give every tenth
/// another version.
fn closure(criterion: &mut Criterion) {
    let name = |n: usize| format!("example.org/team/component-{n}");
    let mut store = HashMap::new();
    for n in 0..1000 {
        let references: Vec<Value> = (n + 1..(n + 11).min(1000))
            .map(|n| json!({"name": format!("c-{n}"), "componentName": name(n), "version": "v1.0.0"}))
            .collect();
        for version in ["v1.0.0".to_owned(), format!("v2.{n}.0")] {
            let bytes = document(&name(n), &version, &references, 3);
            store.insert((name(n), version), Kept { bytes, loaded: OnceLock::new() });
        }
    }
    let descriptors = Arc::new(store);
    let (rules, inline) = (rules(), InlineSet::default());
    let root = references().remove(0);
    let substitution = rules.apply(&root);
    let limits = groundwork_component::Limits { versions: 10_000, depth: 1000 };
    let mut group = criterion.benchmark_group("closure of 1000 versions, 100 rules");
    for (kind, keeps) in [("cold", false), ("warm", true)] {
        let store = Store { descriptors: Arc::clone(&descriptors), keeps };
        group.bench_function(kind, |bencher| {
            bencher.iter(|| {
                let resolver = Resolver::new(&store, &rules, &inline, &substitution).with_limits(limits);
                let root = resolver.lookup(&substitution.effective).expect("the root is there");
                assert_eq!(resolver.closure(&root).expect("all of it is there").len(), 1000);
            });
        });
    }
    group.finish();
}

fn large_descriptor(criterion: &mut Criterion) {
    let bytes = document("example.org/team/large", "v1.0.0", &[], 2800);
    let descriptor = Descriptor::parse(&bytes).expect("the descriptor is valid");
    let mut group = criterion.benchmark_group("descriptor of 1 MB");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("parse", |bencher| bencher.iter(|| Descriptor::parse(black_box(&bytes))));
    for normalisation in [Normalisation::V1, Normalisation::V2] {
        group.bench_function(normalisation.name(), |bencher| {
            bencher.iter(|| normalisation.apply(black_box(&descriptor)));
        });
    }
    group.finish();
}

criterion_group!(benches, overwrites, closure, large_descriptor);
criterion_main!(benches);
