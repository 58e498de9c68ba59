//! Heirs: items that take over objects which another item gives up (`installations.md` 7.9,
//! ownership).

use async_trait::async_trait;
use serde_json::Value;

use crate::error::ApplyError;
use crate::object::Reference;
use crate::ownership::Giver;
use crate::ownership::Heir;

/// An own object that its item no longer lists.
#[derive(Debug, Clone, Copy)]
pub struct GivenUp<'a> {
    pub reference: &'a Reference,
    pub live: &'a Value,
    /// The item from which this one has taken the object over, if it has.
    pub taken_from: Option<&'a str>,
}

/// Fate of an object that is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The object is deleted, because no other item lists it.
    Goes,
    /// Another item lists the object, or may list it soon.
    HandedOver(Heir),
    /// Another item has objects that would be deleted with this one.
    InUse { by: String },
}

/// Source of knowledge about the objects that other items list.
#[async_trait]
pub trait Succession: std::fmt::Debug + Send + Sync {
    /// Returns the fate of each object, in the same order. An heir that does not list an object
    /// itself is informed before this returns.
    ///
    /// # Errors
    ///
    /// Other items could not be read.
    async fn fates(&self, given_up: &[GivenUp<'_>]) -> Result<Vec<Fate>, ApplyError>;

    /// Reports whether an item has announced an object and has not marked it yet.
    ///
    /// # Errors
    ///
    /// The item could not be read.
    async fn is_handing_over(&self, giver: &Giver) -> Result<bool, ApplyError>;
}
