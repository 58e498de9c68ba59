//! Benchmark: loading and rendering of a chart like the one that `helm create` makes.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use groundwork_helm::{Chart, File, Renderer, Request};

macro_rules! file {
    ($path:literal) => {
        ($path, include_str!(concat!("../tests/data/charts/web/", $path)))
    };
}

const FILES: [(&str, &str); 8] = [
    file!("Chart.yaml"),
    file!("values.yaml"),
    file!("templates/_helpers.tpl"),
    file!("templates/configmap.yaml"),
    file!("templates/deployment.yaml"),
    file!("templates/ingress.yaml"),
    file!("templates/service.yaml"),
    file!("templates/serviceaccount.yaml"),
];

fn load() -> Chart {
    let files = FILES.iter().map(|(path, text)| File::new(*path, text.as_bytes())).collect();
    Chart::from_files(files).expect("it is a chart")
}

fn charts(criterion: &mut Criterion) {
    let request = Request::default();
    let renderer = Renderer::new(load());
    criterion.bench_function("load", |bencher| bencher.iter(load));
    criterion.bench_function("render a chart that is kept", |bencher| {
        bencher.iter(|| renderer.render(black_box(&request)).expect("it renders"));
    });
    criterion.bench_function("load and render", |bencher| {
        bencher.iter(|| Renderer::new(load()).render(black_box(&request)).expect("it renders"));
    });
}

criterion_group!(benches, charts);
criterion_main!(benches);
