//! Tests of the resolver with a real API server and the in-process bus.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod common;
mod content;
mod events;
mod resolve;
