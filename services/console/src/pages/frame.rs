//! Frame around every page: head, navigation, warnings and foot.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use serde_json::json;

use super::Page;
use crate::assets;
use crate::landscape::Position;

/// Contents of the frame.
#[derive(Debug, Default)]
pub(crate) struct Frame<'a> {
    /// Name of the visitor, absent on pages for everybody.
    pub(crate) user: Option<&'a str>,
    /// True if the visitor has a token cookie, so that signing out has an effect.
    pub(crate) can_sign_out: bool,
    /// Problems of the console because of which the page may be out of date.
    pub(crate) problems: &'a [String],
    /// Path of the page, without its query.
    pub(crate) path: &'a str,
    /// Address of the JSON form, absent for pages that have none.
    pub(crate) twin: Option<String>,
    /// Position of the console when the page was made, absent on pages without live updates.
    pub(crate) position: Option<Position>,
    /// Seconds after which a browser without scripts loads the page again.
    pub(crate) again: Option<u32>,
}

const SECTIONS: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/installations", "Installations"),
    ("/sets", "Package variant sets"),
    ("/components", "Components"),
    ("/plan", "Plan"),
    ("/events", "Events"),
];

/// Renders a whole page as HTML.
pub(crate) fn html(page: &impl Page, frame: &Frame<'_>, now: Timestamp) -> String {
    let is_here = |section: &str| match section {
        "/" => frame.path == "/",
        section => frame.path.starts_with(section),
    };
    let markup: Markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(seconds) = frame.again { meta http-equiv="refresh" content=(seconds); }
                title { (page.title()) " · Groundwork" }
                link rel="stylesheet" href=(assets::style_path());
                link rel="icon" href=(assets::icon_path()) type="image/svg+xml";
                script src=(assets::script_path()) defer {}
            }
            body {
                a class="skip" href="#content" { "To the content" }
                header {
                    span class="brand" { "Groundwork" }
                    @if let Some(user) = frame.user {
                        nav aria-label="Pages" {
                            @for (path, name) in SECTIONS {
                                a href=(path) aria-current=[is_here(path).then_some("page")] { (name) }
                            }
                        }
                        span class="user" { (user) }
                        @if frame.can_sign_out {
                            form method="post" action="/sign-out" { button type="submit" { "Sign out" } }
                        }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (page.title()) }
                    (page.controls())
                    div id="live" data-topic=[page.topic()] data-since=[frame.position] {
                        @for problem in frame.problems {
                            p class="problem" role="status" { "This page may be outdated: " (problem) "." }
                        }
                        (page.content(now))
                    }
                    p id="connection" class="problem" role="status" hidden {
                        "The console does not answer. This page may be outdated."
                    }
                }
                footer {
                    "Made " time datetime=(now) { (now.strftime("%Y-%m-%d %H:%M:%S").to_string()) } " UTC."
                    @if let Some(twin) = &frame.twin { " " a href=(twin) { "The same for programs" } }
                }
            }
        }
    };
    markup.into_string()
}

/// Renders a page as JSON.
pub(crate) fn json(page: &impl Page, problems: &[String]) -> String {
    let content = serde_json::to_value(page).unwrap_or_default();
    json!({"title": page.title(), "problems": problems, "content": content}).to_string()
}
