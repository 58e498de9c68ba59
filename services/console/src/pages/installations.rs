//! Page with the list of Installations.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Deserializer, Serialize};

use super::Page;
use super::list::{ListQuery, Paging, Parameters, address, choice, input};
use super::parts::{JobView, installation_link};
use crate::landscape::{Content, InstallationRow, NamespacedName, State};
use crate::rights::Visible;

const PATH: &str = "/installations";
const SORTS: [(&str, &str); 5] = [
    ("", "by namespace and name"),
    ("state", "failed first"),
    ("began", "latest first"),
    ("elapsed", "longest first"),
    ("component", "by component"),
];

/// Filter and order of the list.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Filter {
    namespace: String,
    state: String,
    /// Search text: part of a name, a component or a phase.
    q: String,
    component: String,
    version: String,
    sort: String,
    /// True to list nested Installations as well.
    #[serde(deserialize_with = "is_yes")]
    nested: bool,
}

fn is_yes<'de, D: Deserializer<'de>>(text: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(text)? == "yes")
}

impl Filter {
    fn fits(&self, place: &NamespacedName, row: &InstallationRow) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (self.nested || row.parent.is_none())
            && is(&self.namespace, &place.namespace)
            && is(&self.state, row.job.state.as_str())
            && is(&self.component, &row.component)
            && is(&self.version, &row.version)
            && (self.q.is_empty()
                || [&*place.name, &*row.component, &*row.template, row.job.phase.as_str()]
                    .iter()
                    .any(|text| text.contains(&self.q)))
    }

    fn parameters(&self) -> Parameters {
        vec![
            ("namespace", self.namespace.clone()),
            ("state", self.state.clone()),
            ("q", self.q.clone()),
            ("component", self.component.clone()),
            ("version", self.version.clone()),
            ("sort", self.sort.clone()),
            ("nested", if self.nested { "yes".to_owned() } else { String::new() }),
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct InstallationsPage {
    filter: Filter,
    #[serde(flatten)]
    paging: Paging,
    installations: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    place: NamespacedName,
    #[serde(flatten)]
    job: JobView,
    component: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<String>,
}

impl InstallationsPage {
    pub(crate) fn new(
        content: &Content,
        visible: &Visible,
        filter: Filter,
        query: &ListQuery,
        now: Timestamp,
    ) -> Self {
        let mut found: Vec<(&NamespacedName, &InstallationRow)> = content
            .installations
            .iter()
            .filter(|(place, row)| filter.fits(place, row) && visible.contains(&place.namespace))
            .collect();
        match filter.sort.as_str() {
            "state" => found.sort_by_key(|(_, row)| row.job.state),
            "began" => found.sort_by_key(|(_, row)| std::cmp::Reverse(row.job.began)),
            "elapsed" => found.sort_by_key(|(_, row)| std::cmp::Reverse(row.job.elapsed(now))),
            "component" => found.sort_by(|(_, one), (_, other)| {
                (&one.component, &one.version).cmp(&(&other.component, &other.version))
            }),
            _ => {}
        }
        let paging = Paging::of(query, found.len());
        let installations = paging
            .part(found)
            .into_iter()
            .map(|(place, row)| Row {
                place: place.clone(),
                job: JobView::of(&row.job, now),
                component: row.component.to_string(),
                version: row.version.to_string(),
                requested: row.requested.as_deref().map(str::to_owned),
            })
            .collect();
        Self { filter, paging, installations }
    }
}

impl Page for InstallationsPage {
    fn title(&self) -> String {
        "Installations".to_owned()
    }

    fn topic(&self) -> Option<String> {
        Some("installations".to_owned())
    }

    fn controls(&self) -> Markup {
        let mut states = vec![("", "any")];
        states.extend(State::ALL.map(|state| (state.as_str(), state.as_str())));
        html! {
            form method="get" action=(PATH) class="filter" {
                (input("Namespace", "namespace", &self.filter.namespace))
                (input("Name, component or phase", "q", &self.filter.q))
                (choice("State", "state", &self.filter.state, &states))
                (choice("Order", "sort", &self.filter.sort, &SORTS))
                label { input type="checkbox" name="nested" value="yes" checked[self.filter.nested]; " with nested ones" }
                @for (name, value) in [("component", &self.filter.component), ("version", &self.filter.version)] {
                    @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                }
                button type="submit" { "Show" }
                a href=(PATH) { "Show all" }
            }
            @if !self.filter.component.is_empty() {
                p { "Installations of the component " strong { (self.filter.component) " " (self.filter.version) } "." }
            }
        }
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! {
            (self.paging.links(PATH, &self.filter.parameters()))
            @if self.installations.is_empty() {
                p { "No Installation that you may see matches." }
            } @else {
                div class="wide" tabindex="0" role="region" aria-label="Installations" {
                    table {
                        thead { tr {
                            th scope="col" { "Installation" }
                            th scope="col" { "Phase" }
                            th scope="col" { "Took" }
                            th scope="col" { "Component" }
                        } }
                        tbody {
                            @for row in &self.installations {
                                tr {
                                    th scope="row" { (installation_link(&row.place)) }
                                    td {
                                        (row.job.badge())
                                        @if let Some(requested) = &row.requested {
                                            " " span class="note" { (requested) " requested" }
                                        }
                                    }
                                    td { (row.job.elapsed()) }
                                    td { (row.component) " " (row.version) }
                                }
                            }
                        }
                    }
                }
                (self.paging.links(PATH, &self.filter.parameters()))
            }
        }
    }
}

/// Returns the address of the list of Installations in a state, or in a namespace.
pub(crate) fn filtered(namespace: &str, state: &str) -> String {
    let parameters =
        [("namespace", namespace.to_owned()), ("state", state.to_owned()), ("nested", "yes".to_owned())];
    address(PATH, &parameters)
}

/// Returns the address of the list of Installations that use a component version.
pub(crate) fn of_component(component: &str, version: &str) -> String {
    let parameters =
        [("component", component.to_owned()), ("version", version.to_owned()), ("nested", "yes".to_owned())];
    address(PATH, &parameters)
}
