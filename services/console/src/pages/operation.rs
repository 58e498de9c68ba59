//! Page that asks the visitor to confirm an operation.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;

#[derive(Debug, Serialize)]
pub(crate) struct ConfirmPage {
    /// Name of the operation, such as `reconcile`.
    pub(crate) operation: &'static str,
    /// Namespace and name of the object.
    pub(crate) object: String,
    /// Effect of the operation, as a sentence.
    pub(crate) consequence: &'static str,
    /// Name of the visitor, who is the author of the change.
    pub(crate) user: String,
    /// Address that the form is sent to.
    #[serde(skip)]
    pub(crate) action: String,
    /// Key that proves that the form was made for this visitor.
    #[serde(skip)]
    pub(crate) key: String,
    /// `resourceVersion` that the visitor has seen.
    #[serde(skip)]
    pub(crate) version: String,
    /// Address of the object's page.
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
            p { "The operation is done as user " strong { (self.user) } "." }
            form method="post" action=(self.action) {
                input type="hidden" name="key" value=(self.key);
                input type="hidden" name="version" value=(self.version);
                button type="submit" { (self.operation) }
                " " a href=(self.back) { "Cancel" }
            }
        }
    }
}
