//! `groundwork-judge` as other programs use it: request lines in, answer lines out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lints do not recognise as such"
)]

mod blueprints;
mod go;
mod helm;
mod packages;
mod spiff;

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Returns the answers to `input` of a run that must succeed and write no error output.
fn judge(arguments: &[&str], input: &str) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_groundwork-judge"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program answers while it reads. Writing the whole input first would fill its output pipe,
    // and both sides would block.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().unwrap()
    });
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && err.is_empty(), "after {} answers: {err}", out.lines().count());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn answers_to(arguments: &[&str], lines: &[Value]) -> Vec<Value> {
    judge(arguments, &lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}
