//! Strict reader of objects that no API server has checked: files given to the command-line tool,
//! and objects in gRPC requests.
//!
//! Unknown fields are errors, as on an API server with strict field validation. The rules come from
//! the CRDs ([`Schemas`]).

mod json;
mod schemas;

pub use json::{JsonError, node, read};
pub use schemas::{Finding, Schemas};
