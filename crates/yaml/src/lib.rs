//! YAML as Go tools understand it.
//!
//! Everything people hand to Groundwork was written for programs that read YAML 1.1 through Go and turn it
//! into JSON. `on` is a boolean there, `014` is twelve, `1_000` a thousand, keys become text, of two equal
//! keys the last one wins. The rules are those of the chapter `blueprints.md` section 12; the output format,
//! which templates hash, is that of section 5.5.1.
//!
//! ```text
//! text --events--> compose (anchors, merge keys, duplicates) --> Node (value + position)
//!                            └── scalar: plain text to null / bool / number / string
//! Node --to_value--> serde_json::Value --emit--> text
//! ```
//!
//! A [`Node`] remembers where each value and key stands, so that a later check, which sees only JSON, can point
//! at a line of the file ([`Node::locate`]).
//!
//! [`events`] and [`style`] are below that: what every reader and writer of YAML shares whose original was written in Go, also
//! one with values and rules of its own, as spiff has them.
//!
//! Plain texts, which is what programs and templates print, have their events from one pass over the bytes; whatever is not plain is read by
//! a parser that knows all of YAML. Both give the same events of the same text, so nobody above can tell which it was.
//!
//! [`tree`] is for programs that change files of people: it keeps comments, order and notation.
//!
//! [`skim`] cuts members out of a document without reading the rest.
//!
//! No error text of this crate quotes a scalar: the text may be a Secret.

mod compose;
mod emit;
mod error;
pub mod events;
mod node;
mod number;
mod plain;
mod scalar;
pub mod skim;
pub mod style;
pub mod tree;

pub use compose::{Options, Part, has_several_documents, parse_all, parse_first, parse_parts};
pub use emit::{to_string, to_string_pretty, to_string_through_json};
pub use error::Error;
pub use node::{Content, Entry, Node, Position, Step};
pub use number::{format_g32, format_g64};

use serde_json::Value;

/// Parses the first document of `text` into JSON; what follows it is not read.
///
/// An empty document is `null`.
///
/// # Errors
///
/// Malformed YAML, keys that are no scalars, and numbers that JSON cannot hold (`.inf`, `.nan`).
pub fn from_str(text: &str) -> Result<Value, Error> {
    Ok(parse_first(text, Options::default())?.into_value())
}
