//! Lists that are filtered, sorted and divided into pages.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::request::encoded;

/// Default number of rows on a page; `MOST_ROWS` is the maximum.
const ROWS: usize = 50;
const MOST_ROWS: usize = 200;

/// Filters of a list, and the wanted part of it. Each list has some of the filters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
    pub(crate) namespace: String,
    pub(crate) kind: String,
    pub(crate) state: String,
    /// Search text.
    pub(crate) q: String,
    page: String,
    rows: String,
}

/// Part of a list that a page shows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Paging {
    /// Number of the page, counted from 1.
    pub(crate) page: usize,
    pub(crate) pages: usize,
    /// Number of rows of the whole list.
    pub(crate) total: usize,
    #[serde(skip)]
    rows: usize,
}

/// Names and values of the filters and the order in an address.
pub(crate) type Parameters = Vec<(&'static str, String)>;

impl Paging {
    /// Returns the wanted part of a list. A number behind the last page gives the last page.
    pub(crate) fn of(query: &ListQuery, total: usize) -> Self {
        let rows = query.rows.parse().unwrap_or(ROWS).clamp(1, MOST_ROWS);
        let pages = total.div_ceil(rows).max(1);
        Self { page: query.page.parse().unwrap_or(1).clamp(1, pages), pages, total, rows }
    }

    /// Returns the rows of this page.
    pub(crate) fn part<T>(&self, list: impl IntoIterator<Item = T>) -> Vec<T> {
        list.into_iter().skip((self.page - 1) * self.rows).take(self.rows).collect()
    }

    /// Renders links to the other pages, with the parameters `kept`.
    pub(crate) fn links(&self, path: &str, kept: &Parameters) -> Markup {
        let to = |page: usize| {
            let mut parameters = kept.clone();
            parameters.push(("page", page.to_string()));
            if self.rows != ROWS {
                parameters.push(("rows", self.rows.to_string()));
            }
            address(path, &parameters)
        };
        html! {
            nav class="paging" aria-label="Parts of the list" {
                span { (self.total) " in total, page " (self.page) " of " (self.pages) }
                @if self.page > 1 {
                    a href=(to(1)) { "First" }
                    a href=(to(self.page - 1)) rel="prev" { "Previous" }
                }
                @if self.page < self.pages {
                    a href=(to(self.page + 1)) rel="next" { "Next" }
                    a href=(to(self.pages)) { "Last" }
                }
            }
        }
    }
}

/// Returns a path with parameters. Empty parameters are left out.
pub(crate) fn address(path: &str, parameters: &[(&'static str, String)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Renders a selection of a filter.
pub(crate) fn choice(label: &str, name: &str, chosen: &str, all: &[(&str, &str)]) -> Markup {
    html! {
        label {
            (label) " "
            select name=(name) {
                @for (value, text) in all {
                    option value=(value) selected[*value == chosen] { (text) }
                }
            }
        }
    }
}

/// Renders a text field of a filter.
pub(crate) fn input(label: &str, name: &str, value: &str) -> Markup {
    html! { label { (label) " " input type="search" name=(name) value=(value) autocomplete="off"; } }
}
