//! The heirs of objects that an item gives up (`installations.md` 7.9, ownership).

use async_trait::async_trait;
use serde_json::Value;

use crate::error::ApplyError;
use crate::object::Reference;
use crate::ownership::Heir;
use crate::record::Giver;

/// An own object that its item does not list any more.
#[derive(Debug, Clone, Copy)]
pub struct GivenUp<'a> {
    pub reference: &'a Reference,
    pub live: &'a Value,
    /// The item that this one has taken it from, if it has.
    pub taken_from: Option<&'a str>,
}

/// The end of an object that is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// No item wants it.
    Goes,
    /// Another item lists it, or may yet.
    HandedOver(Heir),
    /// Another item has objects that would go with it.
    InUse { by: String },
}

/// Knows what other items list.
#[async_trait]
pub trait Succession: std::fmt::Debug + Send + Sync {
    /// The fate of each object, in their order. An heir that does not list an object itself knows of it when this returns.
    ///
    /// # Errors
    ///
    /// Other items could not be read.
    async fn fates(&self, given_up: &[GivenUp<'_>]) -> Result<Vec<Fate>, ApplyError>;

    /// True of an item that has announced an object and is still about to mark it.
    ///
    /// # Errors
    ///
    /// The item could not be read.
    async fn is_handing_over(&self, giver: &Giver) -> Result<bool, ApplyError>;
}
