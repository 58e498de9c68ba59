//! Benchmark of a set with 10,000 targets, with an expression in every field of the template, and
//! without a template.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use groundwork_api::PackageVariantSet;
use groundwork_fleet::{Attributes, Inputs, Objects, expand, plan};
use serde_json::{Value, json};

const TARGETS: usize = 10_000;

fn repositories() -> Vec<Attributes> {
    let labels = |n: usize| {
        BTreeMap::from([
            ("region".to_owned(), format!("region-{}", n % 50)),
            ("env".to_owned(), if n.is_multiple_of(2) { "prod" } else { "dev" }.to_owned()),
        ])
    };
    (0..TARGETS)
        .map(|n| Attributes {
            name: format!("cluster-{n:05}"),
            namespace: "fleet".to_owned(),
            labels: labels(n),
            annotations: BTreeMap::from([("example.org/owner".to_owned(), format!("team-{}", n % 7))]),
        })
        .collect()
}

fn set(template: &Value) -> PackageVariantSet {
    let set = json!({
        "metadata": {"name": "dns", "namespace": "fleet", "uid": "7f3c", "generation": 1},
        "spec": {
            "upstream": {"repo": "catalog", "package": "dns", "revision": "v4"},
            "targets": [{"repositorySelector": {}, "template": template}],
        },
    });
    serde_json::from_value(set).expect("the set is one")
}

fn template() -> Value {
    json!({
        "downstream": {"packageExpr": "packageDefault + '-' + target.labels['env']"},
        "labels": {"tier": "edge"},
        "labelExprs": [{"key": "region", "valueExpr": "repository.labels['region']"}],
        "annotationExprs": [{"keyExpr": "'example.org/owner'", "valueExpr": "target.annotations['example.org/owner']"}],
        "packageContext": {"dataExprs": [{"key": "site", "valueExpr": "target.name"}]},
        "injectors": [{"kind": "Endpoint", "nameExpr": "repository.labels['region'] + '-endpoints'"}],
        "pipeline": {"mutators": [
            {"image": "set-namespace:v0.4", "configMapExprs": [{"key": "namespace", "valueExpr": "repoDefault"}]},
        ]},
    })
}

fn benchmark(criterion: &mut Criterion) {
    let repositories = repositories();
    let others = BTreeMap::new();
    let mut group = criterion.benchmark_group("expand");
    group.throughput(Throughput::Elements(TARGETS as u64)).sample_size(10);
    for (name, set) in
        [("10000 targets, plain", set(&Value::Null)), ("10000 targets, template", set(&template()))]
    {
        let objects = Objects { revision_sets: &[], repositories: &repositories, others: &others };
        let inputs = Inputs { set: &set, revisions: None, objects };
        group.bench_function(name, |bencher| {
            bencher.iter(|| expand(black_box(&inputs)).expect("it expands"));
        });
        let expansion = expand(&inputs).expect("it expands");
        group.bench_function(format!("{name}, plan"), |bencher| {
            bencher.iter(|| plan(&set, black_box(&expansion), &[], |_| false).expect("it has a plan"));
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
