//! The page on which somebody confirms what is to be done.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;

#[derive(Debug, Serialize)]
pub(crate) struct ConfirmPage {
    /// Such as `reconcile`.
    pub(crate) operation: &'static str,
    /// What it is done to.
    pub(crate) object: String,
    /// What will happen then.
    pub(crate) consequence: &'static str,
    /// In whose name.
    pub(crate) user: String,
    /// Where the form goes.
    #[serde(skip)]
    pub(crate) action: String,
    /// What only this visitor's form carries.
    #[serde(skip)]
    pub(crate) key: String,
    /// The version that the visitor has seen.
    #[serde(skip)]
    pub(crate) version: String,
    /// The page of the object.
    #[serde(skip)]
    pub(crate) back: String,
}

impl Page for ConfirmPage {
    fn title(&self) -> String {
        format!("Confirm: {} {}", self.operation, self.object)
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! {
            p { (self.consequence) }
            p { "It is done in the name of " strong { (self.user) } "." }
            form method="post" action=(self.action) {
                input type="hidden" name="key" value=(self.key);
                input type="hidden" name="version" value=(self.version);
                button type="submit" { (self.operation) }
                " " a href=(self.back) { "Do nothing" }
            }
        }
    }
}
