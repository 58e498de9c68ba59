//! YAML as Go tools read and write it.
//!
//! The documents that users give to Groundwork were written for programs that read YAML 1.1 through
//! Go and convert it to JSON. `on` is a boolean there, `014` is twelve, `1_000` a thousand, keys
//! become text, of two equal keys the last one wins. The rules are those of `blueprints.md` 12. The
//! output format, which templates hash, is that of `blueprints.md` 5.5.1.
//!
//! ```text
//! text --events--> compose (anchors, merge keys, duplicates) --> Node (value + position)
//!                            └── scalar: plain text to null / bool / number / string
//! Node --to_value--> serde_json::Value --emit--> text
//! ```
//!
//! A [`Node`] remembers the position of each value and key, so that a later check, which sees only
//! JSON, can point at a line of the file ([`Node::locate`]).
//!
//! [`events`] and [`style`] are the layer below: they are common to all readers and writers that
//! follow a Go program, also to those with values and rules of their own, such as spiff.
//!
//! Plain texts, which programs and templates print, get their events from one pass over the bytes.
//! Other texts are read by a parser of all of YAML. Both give the same events for the same text, so
//! callers cannot tell which one ran.
//!
//! [`tree`] is for programs that change files of users: it keeps comments, order and notation.
//!
//! [`heads`] extracts members of a document without reading the rest.
//!
//! No error text of this crate quotes a scalar, because the text may be a Secret.

mod compose;
mod emit;
mod error;
pub mod events;
pub mod heads;
mod node;
mod number;
mod plain;
mod scalar;
pub mod style;
pub mod tree;

pub use compose::{Options, Part, has_several_documents, parse_all, parse_first, parse_parts};
pub use emit::{to_string, to_string_pretty, to_string_through_json};
pub use error::Error;
pub use node::{Content, Entry, Node, Position, Step};
pub use number::{format_g32, format_g64};

use serde_json::Value;

/// Parses the first document of `text` into JSON. The text behind it is not read.
///
/// An empty document is `null`.
///
/// # Errors
///
/// Malformed YAML, keys that are not scalars, and numbers that JSON lacks (`.inf`, `.nan`).
pub fn from_str(text: &str) -> Result<Value, Error> {
    Ok(parse_first(text, Options::default())?.into_value())
}
