//! Benchmark of a merge of 200 files: the upstream has changed a field in half of them, and users
//! have changed another field in a third.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use groundwork_krm::{Package, Strategy, Versions, merge};

const FILES: usize = 200;

/// Returns a Deployment of about fifty lines, with comments.
fn deployment(index: usize, image: &str, replicas: usize) -> String {
    let mut text = format!(
        "# Serves zone {index}.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: server-{index}\n  labels:\n    app: server\n\
         spec:\n  replicas: {replicas} # people tune this\n  selector:\n    matchLabels:\n      app: server-{index}\n  template:\n    metadata:\n      labels:\n        app: server-{index}\n    spec:\n      containers:\n"
    );
    for container in ["server", "sidecar", "metrics"] {
        let _ = write!(
            text,
            "      - name: {container}\n        image: registry.example/{container}:{image} # released weekly\n        args: [--zone, \"{index}\"]\n        env:\n        - name: LEVEL\n          value: info\n        resources:\n          requests:\n            cpu: 100m\n            memory: 64Mi\n"
        );
    }
    text
}

fn package(image: impl Fn(usize) -> &'static str, replicas: impl Fn(usize) -> usize) -> Package {
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: fleet\n".to_owned();
    let files = (1..FILES)
        .map(|index| (format!("zones/{index:03}.yaml"), deployment(index, image(index), replicas(index))));
    files.chain([("Kptfile".to_owned(), kptfile)]).collect()
}

fn benchmark(criterion: &mut Criterion) {
    let original = package(|_| "v1", |_| 1);
    let updated = package(|index| if index % 2 == 0 { "v2" } else { "v1" }, |_| 1);
    let local = package(|_| "v1", |index| if index % 3 == 0 { 5 } else { 1 });
    let mut group = criterion.benchmark_group("merge");
    group.sample_size(20);
    group.bench_function("200 files", |bencher| {
        bencher.iter(|| {
            merge(
                Strategy::ResourceMerge,
                Versions::new(black_box(&original), black_box(&updated), black_box(&local)),
            )
        });
    });
    let merged =
        merge(Strategy::ResourceMerge, Versions::new(&original, &updated, &local)).expect("they merge");
    assert!(merged.files["zones/006.yaml"].contains("server:v2 # released weekly\n"), "the benchmark merges");
    assert!(
        merged.files["zones/006.yaml"].contains("replicas: 5 # people tune this\n"),
        "the benchmark merges"
    );
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
