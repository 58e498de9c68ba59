//! Test of the memory of a rendering (`helm.md` 16, claim 12). It has a process of its own, because
//! it measures the peak of the process.

#![cfg(target_os = "linux")]

use std::fmt::Write as _;

use groundwork_helm::{Chart, File, Renderer, Request};

const MIB: usize = 1 << 20;

/// Returns the peak of the process's memory since it was reset, and the current memory, in bytes.
fn memory() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is in the status");
        let number: usize = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
        number * 1024
    };
    (of("VmHWM:"), of("VmRSS:"))
}

/// Creates a large chart: many templates over many values, files that are read, definitions.
fn files() -> Vec<File> {
    let mut values = String::from("services:\n");
    for number in 0..4_000 {
        writeln!(values, "- name: service-{number}\n  image: registry.example.org/team/service-{number}:1.{number}.0\n  labels: {{app: a{number}, tier: backend, team: team-{number}}}\n  ports: [80, 443, {number}]")
            .expect("it is a text");
    }
    let template = "{{ range $index, $service := .Values.services }}{{ if eq (mod $index 40) (int NUMBER) }}\n---\n\
        apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .name }}\n  labels: {{- toYaml .labels | nindent 4 }}\n\
        spec:\n  ports: {{- range .ports }}\n  - port: {{ . }}{{ end }}\n{{ end }}{{ end }}\n";
    let config = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: files}\ndata:\n{{ (.Files.Glob \"files/*\").AsConfig | indent 2 }}\n";
    let definition =
        "description: a field that somebody has described at length, as definitions do\n".repeat(7_000);
    let mut files = vec![
        File::new("Chart.yaml", *b"apiVersion: v2\nname: large\nversion: 0.1.0\n"),
        File::new("values.yaml", values.into_bytes()),
        File::new("templates/config.yaml", config.as_bytes()),
        File::new("crds/all.yaml", definition.into_bytes()),
    ];
    for number in 0..40 {
        let text = template.replace("NUMBER", &number.to_string());
        files.push(File::new(format!("templates/services-{number}.yaml"), text.into_bytes()));
        let line = format!("line of the file {number}, which is as long as lines of files are\n");
        files.push(File::new(format!("files/file-{number}.txt"), line.repeat(500).into_bytes()));
    }
    files
}

#[test]
fn a_rendering_takes_ten_times_its_chart_at_most() {
    let files = files();
    let size: usize = files.iter().map(|file| file.data.len()).sum();
    assert!(size > 2 * MIB, "{size}");
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may look at itself");
    let (_, before) = memory();
    let renderer = Renderer::new(Chart::from_directory(files).expect("it is a chart"));
    let rendered = renderer.render(&Request::default()).expect("it renders");
    let manifest = rendered.manifest();
    let (peak, _) = memory();
    assert_eq!(manifest.matches("kind: Service").count(), 4_000);
    let taken = peak.saturating_sub(before);
    assert!(taken > size, "{taken} bytes for a chart of {size}: the peak is not what was measured");
    assert!(taken < 10 * size + 50 * MIB, "{} MiB for a chart of {} kB", taken / MIB, size / 1024);
}
