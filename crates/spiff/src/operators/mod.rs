//! The binary operators on two values (`spiff.md` 7.3 to 7.6).

pub(crate) mod address;
pub(crate) mod arithmetic;
pub(crate) mod compare;
pub(crate) mod concatenate;
pub(crate) mod logic;
