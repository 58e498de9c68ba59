//! 100 rules against 1,000 references: what an Installation with a large component costs.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use groundwork_component::{Attributes, Overwrites, Reference, RepositoryContext, Rule};
use serde_json::json;

fn context(base_url: &str) -> Option<RepositoryContext> {
    RepositoryContext::new(
        json!({"type": "ociRegistry", "baseUrl": base_url, "componentNameMapping": "urlPath"}),
    )
}

/// Half of the rules compare a repository context, all of them a name; nine of ten match nothing.
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

criterion_group!(benches, overwrites);
criterion_main!(benches);
