//! The spiff++ language: YAML documents whose strings may be *dynaml* expressions, merged with
//! stubs.
//!
//! The behaviour is specified in the chapter `spiff.md` of docs/reference. Comments that mention
//! spiff++ mean the Go tool that the chapter follows.
//!
//! ```text
//! text --yaml::read--> Node --flow (passes: eval, stubs)--> Node --yaml::write--> text
//!                               ^ syntax: string -> Expr        \--> unresolved report
//! ```

mod api;
mod control;
mod dependencies;
mod env;
#[cfg(test)]
mod equivalence;
mod eval;
mod flow;
mod functions;
mod issue;
mod limits;
mod operators;
mod reads;
mod run;
mod scope;
mod settings;
mod static_analysis;
mod syntax;
mod tags;
mod value;
mod yaml;

pub use api::{Document, Engine, Error, Output, Position, Report};
pub use flow::Unresolved;
pub use issue::Issue;
pub use limits::{LimitError, Limits};
pub use settings::{Clock, Features, Files, HostFunction, Randomness};
pub use static_analysis::{PathStep, WrittenExpression};
#[doc(hidden)]
pub use syntax::reprinted;
pub use value::{Lambda, List, Map, Node, Pending, Template, Value};
pub use yaml::ReadError;
