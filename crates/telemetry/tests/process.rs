//! Tests `run` in a process of its own: health over HTTP, logs on standard output, signals and exit
//! status.
//!
//! The process is `telemetry-probe`, see `probe/main.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

const WAIT: Duration = Duration::from_secs(30);

struct Service {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

impl Service {
    fn start(behaviour: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_telemetry-probe"))
            .args(["serve", behaviour])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = follow(child.stdout.take().unwrap());
        Self { child, lines, seen: Vec::new() }
    }

    /// Returns the first line with this message, from the beginning.
    fn line(&mut self, message: &str) -> Value {
        self.find(message, |line| line["message"] == message)
    }

    /// Returns the line that reports a condition as met.
    fn ready(&mut self, condition: &str) -> Value {
        self.find(condition, |line| {
            line["message"] == "a condition is met" && line["fields"]["condition"] == condition
        })
    }

    fn find(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(line) = self.seen.iter().find(|line| wanted(line)) {
            return line.clone();
        }
        loop {
            let Ok(line) = self.lines.recv_timeout(WAIT) else { panic!("no {what:?} in {:#?}", self.seen) };
            self.seen.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Returns the exit status, after the end of the output.
    fn status(&mut self) -> i32 {
        while let Ok(line) = self.lines.recv_timeout(WAIT) {
            self.seen.push(line);
        }
        self.child.wait().unwrap().code().unwrap()
    }

    fn readyz(&mut self) -> String {
        let address = self.line("serving /healthz, /readyz and /metrics")["fields"]["address"].clone();
        let mut stream = TcpStream::connect(address.as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the JSON lines of a process, without the lines of the test harness.
fn follow(output: ChildStdout) -> Receiver<Value> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The harness may begin a line, which the first line of the process then continues.
            let Some(start) = line.find('{') else { continue };
            if let Ok(line) = serde_json::from_str(&line[start..]) {
                let _ = sender.send(line);
            }
        }
    });
    lines
}

#[test]
fn orderly_stop() {
    let mut service = Service::start("orderly");
    let ready = service.ready("bus");
    assert_eq!(ready["service"], "resolver");
    service.signal("TERM");
    assert_eq!(
        service.line("the service is stopping; the next signal stops it at once")["fields"]["signal"],
        "SIGTERM"
    );
    assert_eq!(service.status(), 0);
    let task = service.line("task has ended");
    assert_eq!(task["spans"][0]["name"], "service");
    service.line("the service stopped");
}

/// A service that is still starting must not report ready, or it would get traffic too early.
#[test]
fn not_ready_before_the_service_has_named_its_conditions() {
    let mut service = Service::start("orderly");
    service.ready("bus");
    service.ready("running");
    let at = |found: &dyn Fn(&Value) -> bool| service.seen.iter().position(found).unwrap();
    let named = at(&|line| line["message"] == "conditions are named");
    let running =
        at(&|line| line["message"] == "a condition is met" && line["fields"]["condition"] == "running");
    assert!(named < running, "{:#?}", service.seen);
}

#[test]
fn draining_is_bounded() {
    let mut service = Service::start("overdue");
    service.ready("bus");
    service.ready("running");
    let answer = service.readyz();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    service.signal("INT");
    assert_eq!(service.status(), 1);
    let error = service.line("the service stopped");
    assert_eq!(error["level"], "ERROR");
    assert!(
        error["fields"]["error"].as_str().unwrap().starts_with("1 tasks did not end within 1s"),
        "{error}"
    );
}

#[test]
fn not_ready_while_draining_and_second_signal_ends_at_once() {
    let mut service = Service::start("stubborn");
    service.ready("bus");
    service.ready("running");
    service.signal("TERM");
    service.line("a condition is not met");
    let answer = service.readyz();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("running: stopping\n"), "{answer}");
    service.signal("INT");
    assert_eq!(service.status(), 128 + 2);
}

#[test]
fn error_is_logged_with_its_causes() {
    let mut service = Service::start("fails");
    assert_eq!(service.status(), 1);
    let error = service.line("the service stopped");
    assert_eq!(error["fields"]["error"], "cannot reach the bus: connection refused");
    assert_eq!((&error["level"], &error["service"]), (&"ERROR".into(), &"resolver".into()));
}
