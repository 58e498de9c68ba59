//! Counts the allocations of whole renderings: `NAME-cold-bytes` and `NAME-warm-bytes` for the
//! inputs of `bench-blueprints`.
//!
//! This is a separate program, because counting would cost a sixth of the time that
//! `bench-blueprints` measures.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "bench-blueprints/input.rs"]
mod input;

use std::alloc::System;
use std::hint::black_box;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    input::each(|name, run| {
        black_box(run());
        let region = Region::new(ALLOCATOR);
        black_box(run());
        println!("{name}-bytes {}", region.change().bytes_allocated);
    });
}
