//! Manifests that nobody but us reads: files of the command, and objects that calls bring along.
//!
//! An API server refuses unknown fields where it is asked to; so does everything here, by the same schemas ([`Schemas`]).

mod json;
mod strict;

pub use json::{JsonError, node, read};
pub use strict::{Finding, Schemas};
