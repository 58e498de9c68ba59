//! Benchmark of whole renderings.
//!
//! Each line of standard input is `NAME FOLDER`: a folder with a blueprint and `values.yaml`, the
//! values that an Installation supplies. The output gives medians: `NAME-cold NANOSECONDS`, with
//! everything read and parsed anew, and `NAME-warm NANOSECONDS`, with a blueprint that has been
//! used before.

#![allow(clippy::unwrap_used, clippy::panic)]

mod input;

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Shortest time for which one input is repeated, after a first run.
const BUDGET: Duration = Duration::from_millis(400);

fn main() {
    input::each(|name, run| {
        black_box(run());
        let mut times = Vec::new();
        let begin = Instant::now();
        while times.len() < 3 || begin.elapsed() < BUDGET {
            let start = Instant::now();
            black_box(run());
            times.push(start.elapsed());
        }
        times.sort();
        println!("{name} {}", times[times.len() / 2].as_nanos());
    });
}
