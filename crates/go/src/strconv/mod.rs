//! Numbers as Go's `strconv` and `encoding/json` write and read them.

mod float;
mod parse;

pub use float::{FloatVerb, append_float, append_json, format_g, format_g32, format_json};
pub use parse::{float_to_i64, parse_float, parse_int, parse_uint};
