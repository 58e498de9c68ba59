//! Parsing and rendering of a deployment-like template, and of the parts that dominate larger ones.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use groundwork_gotemplate::{Functions, MissingKey, NumberMode, Options, Template, Value};

const MANIFEST: &str = r#"
deployItems:
{{- range $index, $app := .imports.apps }}
{{- $labels := merge (dict "app" $app.name) $.imports.labels }}
- name: {{ $app.name | lower | replace "_" "-" }}-{{ $index }}
  type: landscaper.gardener.cloud/kubernetes-manifest
  config:
    apiVersion: manifest.deployer.landscaper.gardener.cloud/v1alpha2
    manifests:
    - policy: {{ $app.policy | default "manage" }}
      manifest:
        kind: Deployment
        metadata:
          name: {{ printf "%s-%03d" $app.name $index | quote }}
          labels:
          {{- range $key, $value := $labels }}
            {{ $key }}: {{ $value | quote }}
          {{- end }}
        spec:
          replicas: {{ if gt $app.replicas 1.0 }}{{ int $app.replicas }}{{ else }}1{{ end }}
          ports: {{ toJson $app.ports }}
          {{- with $app.limits }}
          limits:
            cpu: {{ .cpu }}
            memory: {{ .memory | default "64Mi" }}
          {{- end }}
{{- end }}
"#;

fn manifest_data(apps: usize) -> serde_json::Value {
    let app = |index: usize| {
        serde_json::json!({
            "name": format!("App_{index}"),
            "replicas": index % 4,
            "ports": [8080 + index, 9090],
            "limits": {"cpu": "100m", "memory": null},
        })
    };
    let apps: Vec<_> = (0..apps).map(app).collect();
    serde_json::json!({"imports": {"apps": apps, "labels": {"team": "core", "tier": "backend", "stage": "live"}}})
}

fn options() -> Options {
    Options { missing_key: MissingKey::Zero, numbers: NumberMode::Data, ..Options::default() }
}

fn manifests(criterion: &mut Criterion) {
    let functions = Arc::new(Functions::sprig());
    criterion.bench_function("parse manifest", |bencher| {
        bencher.iter(|| {
            Template::parse("execution", black_box(MANIFEST), &functions, &options())
                .expect("the template works")
        });
    });
    let template =
        Template::parse("execution", MANIFEST, &functions, &options()).expect("the template works");
    let json = manifest_data(100);
    criterion.bench_function("render 100 manifests", |bencher| {
        bencher.iter(|| {
            template.render(Value::from_json(black_box(&json), NumberMode::Data)).expect("the template works")
        });
    });
}

fn parts(criterion: &mut Criterion) {
    let functions = Arc::new(Functions::sprig());
    let mut bench = |name: &str, source: &str| {
        let template =
            Template::parse("execution", source, &functions, &options()).expect("the template works");
        let data = Value::from_json(&manifest_data(10), NumberMode::Data);
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| template.render(black_box(data.clone())).expect("the template works"));
        });
    };
    bench(
        "loop with arithmetic",
        "{{ $sum := 0 }}{{ range until 10000 }}{{ $sum = add $sum . }}{{ end }}{{ $sum }}",
    );
    bench("fields", "{{ range 10000 }}{{ $.imports.labels.team }}{{ end }}");
    bench("printf", "{{ range 10000 }}{{ printf \"%5d|%-8s|%.2f\" . \"text\" 2.5 }}{{ end }}");
    let mut calls = String::from("{{ define \"row\" }}<{{ . }}>{{ end }}");
    for row in 0..1_000 {
        writeln!(calls, "text {row} {{{{ template \"row\" {row} }}}}")
            .expect("writing to a string cannot fail");
    }
    bench("text and template calls", &calls);
}

criterion_group!(benches, manifests, parts);
criterion_main!(benches);
