//! Packages on a Porch server (`packagevariants.md` 6.13): calls of its aggregated API, and what its errors mean.
//!
//! ```text
//! NewDraft ──body──> POST ─┐
//! Revision, Resources ─────┼─ Porch ──answer──> Revision, Resources | PorchError: meaning, text
//!   as read, one part changed ──PUT
//! ```
//!
//! Nothing here decides what a variant wants. Objects are kept as they were read: a `PUT` carries what this version does not know as well.

mod client;
mod draft;
mod error;
mod object;

pub use client::Porch;
pub use draft::NewDraft;
pub use error::{Meaning, PorchError, Request, classify};
pub use object::{Resources, Revision};
