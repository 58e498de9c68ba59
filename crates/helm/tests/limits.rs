//! Tests of charts that never end, or grow without end (`helm.md` 11 and 12): the result is an
//! error, without a panic, and soon.

use std::time::{Duration, Instant};

use groundwork_gotemplate::Deadline;
use groundwork_helm::{Chart, File, Renderer, Request};

const DESCRIPTION: &str = "apiVersion: v2\nname: c\nversion: 0.1.0\n";

/// Renders a chart with one template, and checks that it takes only a few seconds.
fn outcome(template: &str) -> Result<String, String> {
    let files = vec![
        File::new("Chart.yaml", DESCRIPTION.as_bytes()),
        File::new("templates/t.yaml", template.as_bytes()),
        File::new("values.yaml", *b"text: '{{ tpl .Values.text . }}'\n"),
    ];
    let end = Instant::now() + Duration::from_secs(5);
    let request =
        Request { deadline: Some(Deadline::new(move || Instant::now() >= end)), ..Request::default() };
    let renderer = Renderer::new(Chart::from_directory(files).expect("it is a chart"));
    // The stack is as small as that of threads in services.
    let work = move || {
        renderer.render(&request).map(|rendered| rendered.manifest()).map_err(|error| error.to_string())
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("there is a thread");
    thread.join().expect("nothing panics")
}

fn stopped(template: &str) -> String {
    outcome(template).expect_err("it is stopped")
}

#[test]
fn inclusions_without_end() {
    let error = stopped("{{ define \"a\" }}{{ include \"a\" . }}{{ end }}a: {{ include \"a\" . }}");
    assert!(
        error.ends_with("rendering template has a nested reference name: a: unable to execute template"),
        "{error}"
    );
    assert!(error.len() < 2_000, "{} bytes", error.len());
    let error = stopped("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}a: {{ template \"a\" . }}");
    assert!(error.contains("exceeded maximum template depth"), "{error}");
    let error = stopped("a: {{ tpl .Values.text . }}");
    assert!(error.contains("tpl is nested deeper than 1000 levels"), "{}", &error[..error.len().min(500)]);
    assert!(error.len() < 1 << 20, "{} bytes", error.len());
}

#[test]
fn work_without_end() {
    let error = stopped("{{ range until 1000000000 }}x{{ end }}");
    assert!(error.starts_with("rendering stopped: ") || error.contains("limit"), "{error}");
    let error = stopped(
        "{{ define \"a\" }}{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}{{ end }}{{ end }}{{ include \"a\" . }}",
    );
    assert!(error.starts_with("rendering stopped: "), "{error}");
    let error = stopped("a: {{ repeat 1000000000 \"x\" }}");
    assert!(error.contains("limit"), "{error}");
    let doubling = "{{ $x := \"0123456789\" }}".to_owned()
        + &"{{ $x = print $x $x $x $x $x $x $x $x }}".repeat(12)
        + "{{ $x }}";
    let error = stopped(&doubling);
    assert!(error.contains("limit"), "{error}");
    let tables = "{{ $x := dict }}".to_owned()
        + &"{{ $x = list $x $x $x $x $x $x $x $x }}".repeat(12)
        + "{{ toYaml $x }}";
    let error = stopped(&tables);
    assert!(error.contains("limit"), "{error}");
}

#[test]
fn values_that_hold_themselves() {
    // As in Go, a value without a JSON form becomes an empty text.
    let text = outcome("a: '{{ $_ := set .Values \"me\" .Values }}{{ toYaml .Values }}'");
    assert_eq!(text, Ok("---\n# Source: c/templates/t.yaml\na: ''\n".to_owned()));
    let error = stopped("{{ $_ := set .Values \"me\" .Values }}{{ toToml .Values }}");
    assert!(error.contains("nested too deep"), "{error}");
}

#[test]
fn many_documents() {
    let error = stopped("{{ range until 10001 }}\n---\na: 1\n{{ end }}");
    assert_eq!(error, "chart has more than 10000 documents");
}
