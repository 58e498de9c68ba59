//! Rust types of every object Groundwork reads and writes, and their CRDs.
