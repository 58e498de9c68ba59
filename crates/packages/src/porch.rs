//! Client of a Porch server (`packagevariants.md` 6.13): calls of its aggregated API, and the
//! classification of its errors.
//!
//! ```text
//! NewDraft ──body──> POST ─┐
//! Revision, Resources ─────┼─ Porch ──answer──> Revision, Resources | PorchError: meaning, text
//!   as read, one part changed ──PUT
//! ```
//!
//! This crate does not decide what a variant needs. Objects are kept as JSON as they were read, so
//! that a `PUT` also contains members that this version does not know.

mod client;
mod draft;
mod error;
mod object;

pub use client::{Porch, RENDER_STATUS, STORE_CATEGORY};
pub use draft::NewDraft;
pub use error::{Meaning, PorchError, Request, classify};
pub use object::{Resources, Revision};
