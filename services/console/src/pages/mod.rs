//! The pages: each is a value with what it shows, which is written as HTML for people and as JSON for programs.

pub(crate) mod comparison;
pub(crate) mod components;
pub(crate) mod events;
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod glance;
pub(crate) mod installation;
pub(crate) mod installations;
pub(crate) mod journal;
pub(crate) mod list;
pub(crate) mod message;
pub(crate) mod operation;
mod pace;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod revision;
pub(crate) mod sets;
pub(crate) mod sign_in;
pub(crate) mod variant;

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

/// What a page shows.
pub(crate) trait Page: Serialize {
    fn title(&self) -> String;

    /// Which changes of the cluster change the page; none for one that stays as it is. See [`crate::live::Topic`].
    fn topic(&self) -> Option<String> {
        None
    }

    /// What stays when the content is shown anew: forms that somebody may be filling in.
    fn controls(&self) -> Markup {
        html! {}
    }

    fn content(&self, now: Timestamp) -> Markup;
}

#[cfg(test)]
mod tests;
