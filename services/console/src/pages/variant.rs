//! Page of a PackageVariant with its package revisions.

use groundwork_api::PackageVariant;
use groundwork_fleet::is_paused;
use groundwork_lifecycle::waits::{Wait, of_variant};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::installation::{ConditionView, conditions};
use super::parts::{package_badge, path, waiting};
use super::revision::RevisionView;
use crate::landscape::{Content, NamespacedName, PackageState};

#[derive(Debug, Serialize)]
pub(crate) struct VariantPage {
    place: NamespacedName,
    state: PackageState,
    upstream: String,
    downstream: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<NamespacedName>,
    revisions: Vec<RevisionView>,
    #[serde(rename = "waitsFor", skip_serializing_if = "Option::is_none")]
    waits_for: Option<Wait>,
    conditions: Vec<ConditionView>,
    notes: Vec<String>,
}

impl VariantPage {
    /// Builds the page from the stream; `None` if the stream has no such variant.
    pub(crate) fn new(content: &Content, place: &NamespacedName, sees_sets: bool) -> Option<Self> {
        let (place, row) = content.variants.get_key_value(place)?;
        let set = row.set.as_ref().filter(|_| sees_sets).and_then(|uid| {
            let mut sets = content.sets.iter().filter(|(set, _)| set.namespace == place.namespace);
            sets.find(|(_, set)| set.uid == *uid).map(|(place, _)| place.clone())
        });
        Some(Self {
            place: place.clone(),
            state: row.state,
            upstream: row.upstream.to_string(),
            downstream: format!("{}/{}", row.downstream_repository, row.downstream_package),
            set,
            revisions: Vec::new(),
            waits_for: None,
            conditions: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Adds the conditions and other fields that only the object itself has.
    pub(crate) fn add(&mut self, variant: &PackageVariant) {
        let conditions = variant.status.as_ref().map(|status| status.conditions.to_vec()).unwrap_or_default();
        self.waits_for = of_variant(&variant.metadata, &conditions);
        self.conditions = conditions.iter().map(ConditionView::of).collect();
        if is_paused(variant) {
            self.add_note(
                "The variant is paused: it stays at its present upstream until you remove the annotation \
                 groundwork/pause-upstream from it or its set."
                    .to_owned(),
            );
        }
    }

    pub(crate) fn add_revision(&mut self, revision: RevisionView) {
        self.revisions.push(revision);
    }

    pub(crate) fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }
}

impl Page for VariantPage {
    fn title(&self) -> String {
        format!("Package variant {}", self.place)
    }

    fn topic(&self) -> Option<String> {
        Some(format!("variants/{}", self.place))
    }

    fn content(&self, now: Timestamp) -> Markup {
        html! {
            p { (package_badge(self.state)) }
            (waiting(self.waits_for.as_ref(), now))
            @for note in &self.notes { p class="note" { (note) } }
            dl class="facts" {
                dt { "Upstream" } dd { (self.upstream) }
                dt { "Downstream" } dd { (self.downstream) }
                @if let Some(set) = &self.set { dt { "Made by" } dd { a href=(path("sets", set)) { (set) } } }
            }
            @if !self.revisions.is_empty() {
                h2 { "Package revisions" }
                ul class="rows" { @for revision in &self.revisions { li { (revision.line()) } } }
            }
            (conditions(&self.conditions, now))
        }
    }
}
