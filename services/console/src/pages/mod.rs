//! Pages of the console. Each page is a value with everything it shows, and is written as HTML for
//! people and as JSON for programs.

pub(crate) mod comparison;
pub(crate) mod components;
pub(crate) mod events;
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod installation;
pub(crate) mod installations;
pub(crate) mod journal;
mod latency;
pub(crate) mod list;
pub(crate) mod message;
pub(crate) mod operation;
pub(crate) mod overview;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod revision;
pub(crate) mod sets;
pub(crate) mod sign_in;
pub(crate) mod variant;

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

/// A page of the console.
pub(crate) trait Page: Serialize {
    fn title(&self) -> String;

    /// Topic of the changes that refresh the page (see [`crate::live::Topic`]). `None` for a page
    /// that stays as it is.
    fn topic(&self) -> Option<String> {
        None
    }

    /// Renders the forms of the page. A refresh leaves them alone, because the visitor may be
    /// filling them in.
    fn controls(&self) -> Markup {
        html! {}
    }

    fn content(&self, now: Timestamp) -> Markup;
}

#[cfg(test)]
mod tests;
