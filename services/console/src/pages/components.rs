//! Pages of the component versions that Installations use, and of one closure with its effective
//! versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_proto::component::v1::Reference;
use groundwork_proto::resolver::v1::explained_reference::State as ReferenceState;
use groundwork_proto::resolver::v1::rule_outcome::Outcome;
use groundwork_proto::resolver::v1::{ExplainResponse, RuleOutcome};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::installations::of_component;
use super::list::{ListQuery, Paging, Parameters, input};
use super::parts::installation_link;
use crate::landscape::{Content, NamespacedName};
use crate::rights::Visible;

/// Number of references shown of a closure.
const MOST_REFERENCES: usize = 2_000;

#[derive(Debug, Serialize)]
pub(crate) struct ComponentsPage {
    q: String,
    #[serde(flatten)]
    paging: Paging,
    components: Vec<ComponentRow>,
}

#[derive(Debug, Serialize)]
struct ComponentRow {
    name: String,
    /// Version as Installations write it.
    version: String,
    installations: usize,
    /// An Installation that uses the version. Its closure is that of the component unless
    /// overwrites differ.
    #[serde(skip)]
    example: NamespacedName,
}

type NameAndVersion<'a> = (&'a Arc<str>, &'a Arc<str>);

impl ComponentsPage {
    pub(crate) fn new(content: &Content, visible: &Visible, query: ListQuery) -> Self {
        let q = &query.q;
        let mut found: BTreeMap<NameAndVersion<'_>, (usize, &NamespacedName)> = BTreeMap::new();
        for (place, row) in &content.installations {
            let is_wanted = !row.component.is_empty()
                && visible.contains(&place.namespace)
                && (q.is_empty() || row.component.contains(q) || row.version.contains(q));
            if is_wanted {
                found.entry((&row.component, &row.version)).or_insert((0, place)).0 += 1;
            }
        }
        let paging = Paging::of(&query, found.len());
        let rows =
            paging.part(found).into_iter().map(|((name, version), (installations, example))| ComponentRow {
                name: name.to_string(),
                version: version.to_string(),
                installations,
                example: example.clone(),
            });
        let components = rows.collect();
        Self { q: query.q, paging, components }
    }
}

impl Page for ComponentsPage {
    fn title(&self) -> String {
        "Components".to_owned()
    }

    fn topic(&self) -> Option<String> {
        Some("installations".to_owned())
    }

    fn controls(&self) -> Markup {
        html! {
            form method="get" action="/components" class="filter" {
                (input("Name or version", "q", &self.q))
                button type="submit" { "Show" }
                a href="/components" { "Show all" }
            }
        }
    }

    fn content(&self, _: Timestamp) -> Markup {
        let kept: Parameters = vec![("q", self.q.clone())];
        html! {
            p { "Component versions as Installations name them, before overwrites." }
            (self.paging.links("/components", &kept))
            @if self.components.is_empty() {
                p { "No Installation that you may see has a matching component." }
            } @else {
                div class="wide" tabindex="0" role="region" aria-label="Components" {
                    table {
                        thead { tr {
                            th scope="col" { "Component" } th scope="col" { "Version" }
                            th scope="col" { "Installations" } th scope="col" { "Closure" }
                        } }
                        tbody {
                            @for row in &self.components {
                                tr {
                                    th scope="row" { (row.name) }
                                    td { (row.version) }
                                    td { a href=(of_component(&row.name, &row.version)) { (row.installations) } }
                                    td { a href=(super::parts::path("components", &row.example)) { "as used by " (row.example) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Page of the component that an Installation effectively uses, with all that it references.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClosurePage {
    installation: NamespacedName,
    written: String,
    effective: String,
    /// Effect of overwrites, from the Installation's condition.
    condition: String,
    rules: Vec<RuleView>,
    findings: Vec<String>,
    references: Vec<ReferenceView>,
    /// Number of references not shown.
    left_out: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleView {
    /// Number of the rule, counted from 1.
    rule: i32,
    outcome: &'static str,
    /// Attributes in which the reference differs from the pattern of the rule.
    differing: Vec<String>,
    /// Attributes that an earlier rule has already set.
    conflicts: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReferenceView {
    depth: usize,
    name: String,
    written: String,
    /// Version after overwrites, if they change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<String>,
    state: &'static str,
    message: String,
}

fn shown(reference: Option<&Reference>) -> String {
    reference.map(|reference| format!("{} {}", reference.name, reference.version)).unwrap_or_default()
}

impl RuleView {
    fn of(rule: &RuleOutcome) -> Self {
        let outcome = match rule.outcome() {
            Outcome::Applied => "applied",
            Outcome::Ignored => "ignored",
            Outcome::NotMatched => "not matched",
            Outcome::NotReached => "not reached",
            Outcome::Unspecified => "unknown",
        };
        let conflicts =
            rule.conflicts.iter().map(|conflict| format!("{} by rule {}", conflict.attribute, conflict.rule));
        Self { rule: rule.rule, outcome, differing: rule.differing.clone(), conflicts: conflicts.collect() }
    }
}

impl ClosurePage {
    pub(crate) fn new(installation: NamespacedName, answer: &ExplainResponse) -> Self {
        let references = answer.references.iter().take(MOST_REFERENCES).map(|found| {
            let (written, effective) = (shown(found.original.as_ref()), shown(found.effective.as_ref()));
            let state = match found.state() {
                ReferenceState::Followed => "",
                ReferenceState::Repeated => "shown above",
                ReferenceState::Failed => "cannot be read",
                ReferenceState::Limit => "too deep",
                ReferenceState::Unspecified => "unknown",
            };
            ReferenceView {
                depth: usize::try_from(found.depth).unwrap_or_default(),
                name: found.name.clone(),
                effective: Some(effective).filter(|effective| !effective.is_empty() && *effective != written),
                written,
                state,
                message: found.message.clone(),
            }
        });
        Self {
            installation,
            written: shown(answer.original.as_ref()),
            effective: shown(answer.effective.as_ref()),
            condition: answer.condition_message.clone(),
            rules: answer.rules.iter().map(RuleView::of).collect(),
            findings: answer.findings.clone(),
            references: references.collect(),
            left_out: answer.references.len().saturating_sub(MOST_REFERENCES),
        }
    }
}

impl Page for ClosurePage {
    fn title(&self) -> String {
        format!("Component of {}", self.installation)
    }

    fn topic(&self) -> Option<String> {
        Some(format!("installations/{}", self.installation))
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! {
            dl class="facts" {
                dt { "Installation" } dd { (installation_link(&self.installation)) }
                dt { "Written" } dd { (self.written) }
                dt { "Effective" } dd { strong { (self.effective) } }
            }
            @if !self.condition.is_empty() { p { (self.condition) } }
            @for finding in &self.findings { p class="note" { (finding) } }
            @if !self.rules.is_empty() {
                h2 { "Overwrites, rule by rule" }
                ol class="rows" {
                    @for rule in &self.rules {
                        li value=(rule.rule) {
                            strong { (rule.outcome) }
                            @if !rule.differing.is_empty() { ", mismatch in " (rule.differing.join(", ")) }
                            @if !rule.conflicts.is_empty() { ", already set: " (rule.conflicts.join(", ")) }
                        }
                    }
                }
            }
            h2 { "Closure" }
            @if self.references.is_empty() { p { "It references no other component." } }
            @else {
                div class="wide" tabindex="0" role="region" aria-label="Closure" {
                    table {
                        thead { tr {
                            th scope="col" { "Depth" } th scope="col" { "Reference" } th scope="col" { "Written" }
                            th scope="col" { "Effective" } th scope="col" { "Remarks" }
                        } }
                        tbody {
                            @for found in &self.references {
                                tr {
                                    td { (found.depth) }
                                    th scope="row" { (found.name) }
                                    td { (found.written) }
                                    td { @if let Some(effective) = &found.effective { strong { (effective) } } @else { "as written" } }
                                    td { (found.state) " " (found.message) }
                                }
                            }
                        }
                    }
                }
            }
            @if self.left_out > 0 { p { (self.left_out) " more references are not shown." } }
        }
    }
}
