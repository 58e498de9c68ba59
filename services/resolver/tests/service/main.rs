//! The resolver against a real API server; the bus is the one in the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod common;
mod content;
mod events;
mod resolve;
