//! Go text/template with sprig: lexer, parser, compiled form, evaluator.
//!
//! The behaviour is specified in the chapter `gotemplate.md` of docs/reference.
//!
//! # Guide
//!
//! A [`Template`] is parsed once and rendered often; it is immutable and shareable between threads.
//! The data of a render is a [`Value`] tree with shared, mutable maps and belongs to one thread.
//!
//! ```
//! use std::sync::Arc;
//! use groundwork_gotemplate::{Functions, Options, Template, Value};
//!
//! let functions = Arc::new(Functions::sprig());
//! let options = Options::default();
//! let template = Template::parse("greeting", "Hello {{ .name | upper }}!", &functions, &options)?;
//! let data = serde_json::json!({"name": "world"});
//! let text = template.render(Value::from_json(&data, options.numbers))?;
//! assert_eq!(text, b"Hello WORLD!");
//! # Ok::<(), groundwork_gotemplate::Error>(())
//! ```
//!
//! # Flow
//!
//! ```text
//! source bytes --syntax::lexer--> tokens --syntax::parser--> syntax::tree --eval--> output bytes
//! ```
//!
//! * `syntax` reads the source. The parser writes the compiled form at once: a flat arena of nodes
//!   in which variables are slots, functions are indexes, names are interned and texts are ranges
//!   of the source. Each node has the byte offset that errors show; its canonical source is printed
//!   again only when an error needs it.
//! * `eval` walks the arena. It distinguishes what Go's static types distinguish: a null that comes
//!   straight from a map or list, and a null that went through a pipeline.
//! * `value` has the Go types that templates can see, `format` prints them. Go's own treatment of
//!   texts and numbers is in `groundwork_go`.
//! * `functions` has the registry and the built-ins, `sprig` one module per group of sprig.
//! * Recursion is bounded three times: a depth limit for the message, the step and output budget
//!   for the cost, and `stack` for the native stack.
//!
//! # Features
//!
//! `keys`, on by default, has the functions of sprig that make keys and certificates. It brings a
//! cryptographic library that is built with a C compiler; without it templates that name these
//! functions cannot be parsed.
//!
//! # Where to add a function
//!
//! A sprig function goes into the module of its group under `sprig`, with one line in that module's
//! `register`. A host adds its own with [`Functions::add`]: name, [`Signature`], closure. The
//! evaluator checks arguments against the signature before the call, so that the closure sees only
//! values that fit. A later registration replaces an earlier one.
//!
//! ```
//! use std::sync::Arc;
//! use groundwork_gotemplate::{Functions, Options, Signature, Template, Type, Value};
//!
//! let mut functions = Functions::builtins();
//! let prefix = "app-".to_string();
//! functions.add("named", Signature::fixed(&[Type::String]), move |_, args| match &args[0] {
//!     Value::Str(name) => Ok(Value::from(format!("{prefix}{}", name.to_text()))),
//!     _ => Err("expected a name".into()),
//! });
//! let (source, functions) = (r#"{{ named "web" }}"#, Arc::new(functions));
//! let template = Template::parse("t", source, &functions, &Options::default())?;
//! assert_eq!(template.render(Value::Nil)?, b"app-web");
//! # Ok::<(), groundwork_gotemplate::Error>(())
//! ```

mod budget;
mod context;
mod cycles;
mod encoding;
mod error;
mod eval;
mod format;
mod functions;
mod grants;
mod nesting;
mod options;
mod patterns;
mod sprig;
mod stack;
mod syntax;
mod template;
#[cfg(test)]
mod testing;
mod value;

use groundwork_go::text;

pub use budget::LimitError;
pub use context::Context;
pub use error::{CallError, Error, ErrorKind};
pub use functions::{Function, Functions, Signature, Type};
pub use grants::{Capability, Clock, DeniedError, Environment, Grants, Network, Randomness};
pub use groundwork_budget::Deadline;
pub use nesting::TooDeep;
pub use options::{Delimiters, Host, Limits, MissingKey, NumberMode, Options};
pub use template::{LiteralCall, Session, Template};
pub use value::{DataNumber, Element, IntKind, List, Map, MapValues, Member, NamedType, Object, Str, Value};
