//! Times whole renderings. Each line of standard input is `NAME FOLDER`: a folder with a blueprint and `values.yaml`, which holds what an
//! Installation supplies. It gives `NAME-cold NANOSECONDS`, with everything read and parsed anew, and `NAME-warm NANOSECONDS`, with a
//! blueprint that has been used before, the medians of several.

#![allow(clippy::unwrap_used, clippy::panic)]

mod input;

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long one input is run at least, after a first time.
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
