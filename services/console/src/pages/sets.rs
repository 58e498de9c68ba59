//! Pages of PackageVariantSets: the list of all, and one set as the fleet of its variants.

use std::collections::BTreeMap;

use groundwork_api::PackageVariantSet;
use groundwork_fleet::is_paused;
use groundwork_lifecycle::waits::{Wait, of_variant};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::comparison::{Choice, Pair};
use super::installation::{ConditionView, conditions};
use super::list::{ListQuery, Paging, Parameters, choice, input};
use super::parts::{deleting, package_badge, path, waiting};
use crate::landscape::{Content, NamespacedName, PackageState, VariantRow};
use crate::rights::Visible;

#[derive(Debug, Serialize)]
pub(crate) struct SetsPage {
    namespace: String,
    state: String,
    q: String,
    #[serde(flatten)]
    paging: Paging,
    sets: Vec<SetView>,
}

#[derive(Debug, Serialize)]
struct SetView {
    place: NamespacedName,
    state: PackageState,
    #[serde(rename = "isDeleting")]
    is_deleting: bool,
    upstream: String,
    targets: usize,
    variants: BTreeMap<PackageState, usize>,
}

impl SetsPage {
    pub(crate) fn new(content: &Content, sets: &Visible, variants: &Visible, query: ListQuery) -> Self {
        let ListQuery { namespace, state, q, .. } = &query;
        let found: Vec<_> = content
            .sets
            .iter()
            .filter(|(place, row)| {
                sets.contains(&place.namespace)
                    && (namespace.is_empty() || **namespace == *place.namespace)
                    && (state.is_empty() || state == row.state.as_str())
                    && (q.is_empty() || place.name.contains(q) || row.upstream.contains(q))
            })
            .collect();
        let paging = Paging::of(&query, found.len());
        let sets = paging.part(found).into_iter().map(|(place, row)| {
            let mut counts = BTreeMap::new();
            if variants.contains(&place.namespace) {
                for (_, variant) in content.variants_of(row) {
                    *counts.entry(variant.state).or_default() += 1;
                }
            }
            SetView {
                place: place.clone(),
                state: row.state,
                is_deleting: row.is_deleting,
                upstream: row.upstream.to_string(),
                targets: row.targets,
                variants: counts,
            }
        });
        let sets = sets.collect();
        let ListQuery { namespace, state, q, .. } = query;
        Self { namespace, state, q, paging, sets }
    }
}

fn states() -> Vec<(&'static str, &'static str)> {
    let mut states = vec![("", "any")];
    states.extend(PackageState::ALL.map(|state| (state.as_str(), state.as_str())));
    states
}

fn counts(counts: &BTreeMap<PackageState, usize>) -> Markup {
    html! { @for (state, count) in counts { (count) " " (package_badge(*state)) " " } }
}

impl Page for SetsPage {
    fn title(&self) -> String {
        "Package variant sets".to_owned()
    }

    fn topic(&self) -> Option<String> {
        Some("sets".to_owned())
    }

    fn controls(&self) -> Markup {
        html! {
            form method="get" action="/sets" class="filter" {
                (input("Namespace", "namespace", &self.namespace))
                (input("Name or upstream", "q", &self.q))
                (choice("State", "state", &self.state, &states()))
                button type="submit" { "Show" }
                a href="/sets" { "Show all" }
            }
        }
    }

    fn content(&self, _: Timestamp) -> Markup {
        let kept: Parameters =
            vec![("namespace", self.namespace.clone()), ("state", self.state.clone()), ("q", self.q.clone())];
        html! {
            (self.paging.links("/sets", &kept))
            @if self.sets.is_empty() {
                p { "No PackageVariantSet that you may see matches." }
            } @else {
                div class="wide" tabindex="0" role="region" aria-label="Package variant sets" {
                    table {
                        thead { tr {
                            th scope="col" { "Set" } th scope="col" { "State" } th scope="col" { "Upstream" }
                            th scope="col" { "Entries of targets" } th scope="col" { "Variants" }
                        } }
                        tbody {
                            @for set in &self.sets {
                                tr {
                                    th scope="row" { a href=(path("sets", &set.place)) { (set.place) } }
                                    td { (package_badge(set.state)) (deleting(set.is_deleting)) }
                                    td { (set.upstream) }
                                    td { (set.targets) }
                                    td { (counts(&set.variants)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Page of a set with its variants.
#[derive(Debug, Serialize)]
pub(crate) struct SetPage {
    place: NamespacedName,
    state: PackageState,
    upstream: String,
    counts: BTreeMap<PackageState, usize>,
    /// Entries of `spec.targets` in words.
    targets: Vec<String>,
    #[serde(rename = "waitsFor", skip_serializing_if = "Option::is_none")]
    waits_for: Option<Wait>,
    conditions: Vec<ConditionView>,
    notes: Vec<String>,
    q: String,
    #[serde(rename = "variantState")]
    variant_state: String,
    #[serde(flatten)]
    paging: Paging,
    variants: Vec<VariantView>,
    /// Form that compares two variants of the set.
    #[serde(skip)]
    choice: Choice,
}

#[derive(Debug, Serialize)]
struct VariantView {
    place: NamespacedName,
    state: PackageState,
    #[serde(rename = "isDeleting")]
    is_deleting: bool,
    upstream: String,
    downstream: String,
    /// Revisions that are not published yet, each with its stage.
    waits: Vec<(NamespacedName, String)>,
}

impl SetPage {
    /// Builds the page from the stream; `None` if the stream has no such set.
    pub(crate) fn new(
        content: &Content,
        place: &NamespacedName,
        sees_variants: bool,
        query: ListQuery,
        pair: Pair,
    ) -> Option<Self> {
        let (place, row) = content.sets.get_key_value(place)?;
        let ListQuery { q, state: variant_state, .. } = &query;
        let mut counts = BTreeMap::new();
        let mut found: Vec<(&NamespacedName, &VariantRow)> = Vec::new();
        let mut notes = Vec::new();
        if sees_variants {
            for (variant, row) in content.variants_of(row) {
                *counts.entry(row.state).or_default() += 1;
                let is_wanted = (variant_state.is_empty() || variant_state == row.state.as_str())
                    && (q.is_empty()
                        || variant.name.contains(q)
                        || row.downstream_repository.contains(q)
                        || row.downstream_package.contains(q));
                if is_wanted {
                    found.push((variant, row));
                }
            }
            found.sort_by_key(|(_, row)| row.state);
        } else {
            notes.push(format!("You may not get PackageVariants in the namespace {}.", place.namespace));
        }
        let paging = Paging::of(&query, found.len());
        let variants = paging.part(found).into_iter().map(|(place, row)| VariantView {
            place: place.clone(),
            state: row.state,
            is_deleting: row.is_deleting,
            upstream: row.upstream.to_string(),
            downstream: format!("{}/{}", row.downstream_repository, row.downstream_package),
            waits: Vec::new(),
        });
        Some(Self {
            place: place.clone(),
            state: row.state,
            upstream: row.upstream.to_string(),
            counts,
            targets: Vec::new(),
            waits_for: None,
            conditions: Vec::new(),
            notes,
            q: query.q,
            variant_state: query.state,
            variants: variants.collect(),
            paging,
            choice: Choice::new(content, place, sees_variants, pair),
        })
    }

    /// Adds the targets, conditions and waits, which only the object itself has.
    pub(crate) fn add(&mut self, set: &PackageVariantSet) {
        self.targets = set.spec.targets.iter().map(target_in_words).collect();
        let conditions = set.status.as_ref().map(|status| status.conditions.to_vec()).unwrap_or_default();
        self.waits_for = of_variant(&set.metadata, &conditions);
        self.conditions = conditions.iter().map(ConditionView::of).collect();
        if is_paused(set) {
            self.add_note(
                "The set is paused: its variants stay at their present upstream until you remove the annotation \
                 groundwork/pause-upstream."
                    .to_owned(),
            );
        }
    }

    /// Returns the variants on this page of the list.
    pub(crate) fn variants(&self) -> Vec<NamespacedName> {
        self.variants.iter().map(|variant| variant.place.clone()).collect()
    }

    /// Adds the unpublished revisions of a variant.
    pub(crate) fn add_waits(&mut self, variant: &NamespacedName, waits: Vec<(NamespacedName, String)>) {
        if let Some(found) = self.variants.iter_mut().find(|found| found.place == *variant) {
            found.waits = waits;
        }
    }

    pub(crate) fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }
}

fn target_in_words(target: &groundwork_api::PackageVariantTarget) -> String {
    let repositories: Vec<&str> =
        target.repositories.iter().filter_map(|repository| repository.name.as_deref()).collect();
    if !repositories.is_empty() {
        return format!("the repositories {}", repositories.join(", "));
    }
    if target.repository_selector.is_some() {
        return "repositories by label".to_owned();
    }
    match &target.object_selector {
        Some(selector) => format!(
            "objects of {} {}",
            selector.api_version.as_deref().unwrap_or_default(),
            selector.kind.as_deref().unwrap_or_default()
        ),
        None => "nothing".to_owned(),
    }
}

impl Page for SetPage {
    fn title(&self) -> String {
        format!("Package variant set {}", self.place)
    }

    fn topic(&self) -> Option<String> {
        Some(format!("sets/{}", self.place))
    }

    fn controls(&self) -> Markup {
        html! {
            form method="get" action=(path("sets", &self.place)) class="filter" {
                (input("Variant, repository or package", "q", &self.q))
                (choice("State", "state", &self.variant_state, &states()))
                button type="submit" { "Show" }
            }
            (self.choice.markup())
        }
    }

    fn content(&self, now: Timestamp) -> Markup {
        let kept: Parameters = vec![("q", self.q.clone()), ("state", self.variant_state.clone())];
        html! {
            p { (package_badge(self.state)) " of " (self.upstream) }
            (waiting(self.waits_for.as_ref(), now))
            p { (counts(&self.counts)) }
            @for note in &self.notes { p class="note" { (note) } }
            @if !self.targets.is_empty() {
                h2 { "Targets" }
                ol { @for target in &self.targets { li { (target) } } }
            }
            h2 { "Variants" }
            (self.paging.links(&path("sets", &self.place), &kept))
            div class="wide" tabindex="0" role="region" aria-label="Variants" {
                table {
                    thead { tr {
                        th scope="col" { "Variant" } th scope="col" { "State" } th scope="col" { "Downstream" }
                        th scope="col" { "Upstream" } th scope="col" { "Waits for approval" }
                    } }
                    tbody {
                        @for variant in &self.variants {
                            tr {
                                th scope="row" { a href=(path("variants", &variant.place)) { (variant.place.name) } }
                                td { (package_badge(variant.state)) (deleting(variant.is_deleting)) }
                                td { (variant.downstream) }
                                td { (variant.upstream) }
                                td {
                                    @for (revision, stage) in &variant.waits {
                                        a href=(path("revisions", revision)) { (revision.name) } " " (stage) " "
                                    }
                                }
                            }
                        }
                    }
                }
            }
            (conditions(&self.conditions, now))
        }
    }
}
