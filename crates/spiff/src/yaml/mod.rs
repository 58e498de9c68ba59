//! Reading and writing of documents (`spiff.md` 14).

mod json;
mod read;
mod scalar;
mod write;

pub(crate) use json::{from_json, to_canonical_json, to_json, to_json_value, to_read_json};
pub use read::ReadError;
pub(crate) use read::read;
pub(crate) use write::write;
