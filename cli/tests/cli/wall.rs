//! The wall around the evaluation of untrusted content: its limits, and that the command otherwise
//! behaves as a single process.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};

use serde_json::json;
use tempfile::TempDir;

/// Work of which the engine's own limits see nothing.
const ENDLESS: &str = "{{ range 1000000000000 }}{{ end }}";

/// Prepares `template go -`, with limits of the engine that no test reaches.
fn template(limits: &[(&str, &str)]) -> Command {
    // Tests that run in the background inherit an ignored SIGINT, and the command would ignore it
    // too.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_groundwork")]);
    command.args(["template", "go", "-", "--template-work", "1000000", "--template-memory", "1000000"]);
    command.envs(limits.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(limits: &[(&str, &str)], text: &str) -> Output {
    let mut child = template(limits).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Waits for the worker of a command, and returns its process id.
fn worker(command: &Child) -> String {
    let path = format!("/proc/{0}/task/{0}/children", command.id());
    loop {
        let children = std::fs::read_to_string(&path).unwrap();
        if let Some(worker) = children.split_whitespace().next() {
            return worker.to_owned();
        }
        std::thread::yield_now();
    }
}

#[test]
fn limits_end_the_work_with_a_sentence() {
    let deep = "{{define \"r\"}}{{template \"r\" .}}{{end}}{{template \"r\" .}}";
    for (name, limit, text, message) in [
        ("GROUNDWORK_WORKER_CPU_SECONDS", "1", ENDLESS, "more than the 1 s of processor time"),
        (
            "GROUNDWORK_WORKER_MEMORY",
            "16",
            "{{ $l := list }}{{ range until 100 }}{{ $l = append $l (repeat 60000000 \"x\") }}{{ end }}",
            "more than the 16 MiB of memory",
        ),
        ("GROUNDWORK_WORKER_MEMORY", "16", deep, "exceeded maximum template depth"),
    ] {
        let output = output(&[(name, limit)], text);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
        assert!(said.contains(message), "{said}");
        assert!(message.contains("depth") || said.contains(&format!("raise {name}")), "{said}");
    }
    let output = output(&[("GROUNDWORK_WORKER_MEMORY", "much")], "");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("invalid value 'much' for '--worker-memory <MEBIBYTES>'"), "{said}");
}

/// Each piece of work has limits of its own, so a long input with many pieces is not refused.
#[test]
fn limits_are_those_of_one_evaluation() {
    let installation = |number: usize| {
        let item = "{name: a, type: t, config: {apiVersion: a, kind: b, x: {{ repeat 1000000 \"x\" }}}}";
        let execution =
            json!({"name": "x", "type": "GoTemplate", "template": format!("deployItems: [{item}]")});
        let blueprint = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint", "deployExecutions": [execution],
        });
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": format!("i{number}"), "namespace": "demo"},
            "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}}},
        })
        .to_string()
    };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, (0..30).map(installation).collect::<Vec<_>>().join("\n---\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_groundwork"));
    let rendered = command.arg("render").arg(&file).env("GROUNDWORK_WORKER_MEMORY", "16").output().unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
}

/// A signal to the command ends both processes, and its parent sees that signal.
#[test]
fn a_signal_ends_the_worker_too() {
    for signal in ["TERM", "INT", "KILL"] {
        let mut child = template(&[]).spawn().unwrap();
        child.stdin.take().unwrap().write_all(ENDLESS.as_bytes()).unwrap();
        worker(&child);
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        // Standard output stays open as long as one of the two processes lives.
        let mut rest = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        assert!(child.wait().unwrap().signal().is_some(), "{signal}");
    }
    // A signal to the worker has the effect that it has on a command without one.
    let mut child = template(&[]).spawn().unwrap();
    let worker = worker(&child);
    assert!(Command::new("kill").args(["-s", "TERM", &worker]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}
