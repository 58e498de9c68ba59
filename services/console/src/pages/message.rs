//! Page with one sentence, for errors.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;

#[derive(Debug, Serialize)]
pub(crate) struct MessagePage {
    #[serde(skip)]
    pub(crate) title: &'static str,
    pub(crate) message: String,
    /// Link to the next page, with its text.
    #[serde(skip)]
    pub(crate) link: Option<(String, &'static str)>,
}

impl Page for MessagePage {
    fn title(&self) -> String {
        self.title.to_owned()
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! {
            p { (self.message) }
            @if let Some((path, text)) = &self.link { p { a href=(path) { (text) } } }
        }
    }
}
