//! Benchmark of whole runs: documents are read, evaluated and written. Each line of standard input
//! is a run, `NAME TEMPLATE [STUB...] [--bindings FILE]`, and gives a line `NAME NANOSECONDS`, the
//! median of several measurements.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::hint::black_box;
use std::io::BufRead as _;
use std::time::{Duration, Instant};

use groundwork_spiff::{Document, Engine};

/// Shortest total time for which one input is repeated, after a first run.
const BUDGET: Duration = Duration::from_millis(400);

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split_whitespace();
        let (Some(name), Some(template)) = (words.next(), words.next()) else { continue };
        let (mut stubs, mut bindings) = (Vec::new(), None);
        while let Some(word) = words.next() {
            match word {
                "--bindings" => bindings = words.next().map(|file| fs::read_to_string(file).unwrap()),
                stub => stubs.push(fs::read_to_string(stub).unwrap()),
            }
        }
        let template = fs::read_to_string(template).unwrap();
        let mut times = Vec::new();
        let begin = Instant::now();
        while times.len() < 3 || begin.elapsed() < BUDGET {
            let start = Instant::now();
            black_box(run(&template, &stubs, bindings.as_deref()));
            times.push(start.elapsed());
        }
        times.sort();
        println!("{name} {}", times[times.len() / 2].as_nanos());
    }
}

fn run(template: &str, stubs: &[String], bindings: Option<&str>) -> String {
    let engine = Engine::new();
    let read = |text: &str| Document::read(text, "bench", engine.limits()).unwrap();
    let stubs: Vec<_> = stubs.iter().map(|stub| read(stub)).collect();
    let bindings = bindings.map(|text| read(text).value().clone());
    match engine.cascade(&read(template), &stubs, bindings.as_ref()) {
        Ok(output) => output.to_yaml(),
        Err(error) => error.to_string(),
    }
}
