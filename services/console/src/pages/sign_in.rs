//! Page on which visitors sign in with a token.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;

#[derive(Debug, Serialize)]
pub(crate) struct SignInPage {
    /// Address to open after signing in.
    #[serde(skip)]
    pub(crate) to: String,
    /// Error of the last attempt.
    pub(crate) problem: Option<String>,
}

impl Page for SignInPage {
    fn title(&self) -> String {
        "Sign in".to_owned()
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! {
            @if let Some(problem) = &self.problem { p class="problem" role="alert" { (problem) } }
            form method="post" action="/sign-in" class="stacked" {
                input type="hidden" name="to" value=(self.to);
                label for="token" { "Bearer token for the API server" }
                input id="token" type="password" name="token" required autocomplete="off" autofocus;
                button type="submit" { "Sign in" }
            }
            p {
                "For example the token of a service account: " code { "kubectl create token NAME" } ". "
                "You see the objects that its user may " code { "get" } "; the console adds no permissions."
            }
        }
    }
}
