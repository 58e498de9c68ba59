//! Page of one Installation, with everything below it.

use std::collections::BTreeSet;

use groundwork_api::{DeployItem, Execution, Installation, Kind as _};
use groundwork_lifecycle::overview::Node as Tree;
use groundwork_lifecycle::sources::Made;
use groundwork_lifecycle::waits::{self, Wait};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, Time};
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::flow::{self, Graph};
use super::parts::{ErrorView, JobView, installation_link, installation_path, path, waiting};
use crate::landscape::{Content, NamespacedName, State};
use crate::sources::{JobOf, Written};

/// Number of objects shown of a tree. The pages of nested Installations show the rest.
pub(super) const MOST_NODES: usize = 1_000;
/// Limit for the depth of nested Installations. Blueprints never nest so deep, but owners that name
/// each other in a circle do.
const DEEPEST: usize = 32;
/// Number of objects read from the API server for one page, to show their errors.
pub(crate) const MOST_READ: usize = 40;

/// Objects to read from the API server for a page.
#[derive(Debug)]
pub(crate) struct ToRead {
    pub(crate) places: Vec<(&'static str, NamespacedName)>,
    /// True if all objects that others may wait for are in `places`.
    pub(crate) is_all: bool,
}

/// Rights of the visitor beside the right to see the Installation itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// True if the visitor may see the other Installations of the namespace.
    pub(crate) installations: bool,
    pub(crate) executions: bool,
    pub(crate) items: bool,
}

impl Seen {
    /// Reports whether the visitor may see the journal, whose entries are about objects of all
    /// these kinds.
    pub(crate) const fn is_all(self) -> bool {
        self.installations && self.executions && self.items
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstallationPage {
    place: NamespacedName,
    #[serde(flatten)]
    job: JobView,
    /// The Installations that this one is nested in, the root first.
    parents: Vec<NamespacedName>,
    component: Option<ComponentView>,
    context: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<Wait>,
    conditions: Vec<ConditionView>,
    /// Objects below the Installation.
    nodes: Vec<Node>,
    /// Reasons why parts of the page are missing.
    notes: Vec<String>,
    imports: Vec<Named>,
    exports: Vec<Named>,
    siblings: Graph,
    children: Graph,
    /// Operations that the visitor may start.
    operations: Vec<&'static str>,
    /// True if the page links to the journal.
    #[serde(skip)]
    has_journal: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentView {
    written: String,
    /// Component and version after overwrites in the last job, absent if the same as `written`.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<String>,
}

/// A condition of a status, as pages show it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConditionView {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Time of the last transition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
}

impl ConditionView {
    pub(crate) fn of(condition: &MetaCondition) -> Self {
        let MetaCondition { type_, status, reason, message, last_transition_time: Time(since), .. } =
            condition.clone();
        Self { type_, status, reason, message, since: Some(since) }
    }
}

/// Renders a list of conditions.
pub(crate) fn conditions(all: &[ConditionView], now: Timestamp) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "Conditions" }
            dl class="conditions" {
                @for condition in all {
                    dt { (condition.type_) ": " (condition.status) " " span class="note" {
                        (condition.reason)
                        @if let Some(since) = condition.since {
                            " since " (waits::elapsed(now.duration_since(since).max(SignedDuration::ZERO)))
                        }
                    } }
                    dd { pre { (condition.message) } }
                }
            }
        }
    }
}

/// An object of the tree below the Installation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    kind: &'static str,
    place: NamespacedName,
    /// Name of the object in the blueprint.
    #[serde(skip_serializing_if = "str::is_empty")]
    template: String,
    /// Component and version of an Installation, or deployer type of an item.
    #[serde(skip_serializing_if = "str::is_empty")]
    content: String,
    /// Place in the blueprint of this page's Installation that declares the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(flatten)]
    job: JobView,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<Wait>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Node>,
}

impl Node {
    fn new(kind: &'static str, place: NamespacedName, job: JobView) -> Self {
        let (template, content, nodes) = (String::new(), String::new(), Vec::new());
        Self { kind, place, template, content, source: None, job, error: None, waits_for: None, nodes }
    }
}

/// An import or export, with the siblings at its other end.
#[derive(Debug, Serialize)]
struct Named {
    name: String,
    siblings: Vec<NamespacedName>,
}

struct Trees<'a> {
    content: &'a Content,
    seen: Seen,
    now: Timestamp,
    /// Number of objects that still fit on the page.
    left: usize,
    is_cut: bool,
}

impl Trees<'_> {
    fn below(&mut self, place: &NamespacedName, depth: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        if self.seen.executions
            && let Some(row) = self.content.executions.get(place)
            && self.take()
        {
            let job = JobView::of(&row.job, self.now);
            let items = if self.seen.items { self.items(place) } else { Vec::new() };
            nodes.push(Node { nodes: items, ..Node::new(Execution::KIND, place.clone(), job) });
        }
        if self.seen.installations && depth < DEEPEST {
            for (child, row) in self.content.children(place) {
                if !self.take() {
                    break;
                }
                let job = JobView::of(&row.job, self.now);
                let content = format!("{} {}", row.component, row.version).trim().to_owned();
                let nodes_below = self.below(&child, depth + 1);
                nodes.push(Node {
                    template: row.template.to_string(),
                    content,
                    nodes: nodes_below,
                    ..Node::new(Installation::KIND, child, job)
                });
            }
        }
        nodes
    }

    fn items(&mut self, execution: &NamespacedName) -> Vec<Node> {
        let mut nodes = Vec::new();
        for (place, row) in self.content.items_of(execution) {
            if !self.take() {
                break;
            }
            let job = JobView::of(&row.job, self.now);
            nodes.push(Node {
                template: row.template.to_string(),
                content: row.type_.to_string(),
                ..Node::new(DeployItem::KIND, place, job)
            });
        }
        nodes
    }

    /// Counts an object. False if the page has no room for it.
    fn take(&mut self) -> bool {
        self.is_cut |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        !self.is_cut
    }
}

impl InstallationPage {
    /// Builds the page from the stream; `None` if the stream has no such Installation.
    pub(crate) fn new(content: &Content, place: &NamespacedName, seen: Seen, now: Timestamp) -> Option<Self> {
        let (place, row) = content.installations.get_key_value(place)?;
        let mut trees = Trees { content, seen, now, left: MOST_NODES, is_cut: false };
        let nodes = trees.below(place, 0);
        let mut notes = Vec::new();
        if trees.is_cut {
            notes.push(format!(
                "Only {MOST_NODES} objects are shown. The pages of nested Installations show the rest."
            ));
        }
        for (is_seen, kinds) in [
            (seen.installations, "other Installations"),
            (seen.executions, "Executions"),
            (seen.items, "DeployItems"),
        ] {
            if !is_seen {
                notes.push(format!("You may not get {kinds} in the namespace {}.", place.namespace));
            }
        }
        let mut parents = Vec::new();
        let mut next = row.parent.as_deref().map(|parent| place.beside(parent));
        while let Some(parent) = next.filter(|parent| !parents.contains(parent)) {
            let above = content.installations.get(&parent).and_then(|row| row.parent.as_deref());
            next = above.map(|above| place.beside(above));
            parents.insert(0, parent);
        }
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        let mut children = Vec::new();
        if seen.installations {
            (before, behind) = (content.predecessors(place), content.successors(place));
            children = content.children(place).into_iter().map(|(child, _)| child).collect();
        }
        let named = |names: &BTreeSet<_>, others: &[NamespacedName], is_export: bool| {
            let ends = |name| {
                let has = |other: &&NamespacedName| {
                    content.installations.get(*other).is_some_and(|row| {
                        let other = if is_export { &row.interface.imports } else { &row.interface.exports };
                        other.contains(name)
                    })
                };
                others.iter().filter(has).cloned().collect()
            };
            names.iter().map(|name| Named { name: flow::shown(name), siblings: ends(name) }).collect()
        };
        let component = (!row.component.is_empty()).then(|| ComponentView {
            written: format!("{} {}", row.component, row.version),
            effective: None,
        });
        let around: Vec<NamespacedName> = before
            .iter()
            .chain([place])
            .chain(behind.iter().filter(|place| !before.contains(place)))
            .cloned()
            .collect();
        Some(Self {
            place: place.clone(),
            job: JobView::of(&row.job, now),
            parents,
            component,
            context: row.context.to_string(),
            requested: row.requested.as_deref().map(str::to_owned),
            error: None,
            waits_for: None,
            conditions: Vec::new(),
            nodes,
            notes,
            imports: named(&row.interface.imports, &before, false),
            exports: named(&row.interface.exports, &behind, true),
            siblings: Graph::among(content, &around),
            children: Graph::among(content, &children),
            operations: Vec::new(),
            has_journal: false,
        })
    }

    /// Adds the error, conditions and effective component, which only the object itself has.
    pub(crate) fn add(&mut self, installation: &Installation) {
        let Some(status) = &installation.status else { return };
        self.error = status.last_error.as_ref().map(ErrorView::of);
        self.conditions = status
            .conditions
            .iter()
            .map(|condition| ConditionView {
                type_: condition.type_.clone(),
                status: condition.status.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.as_ref().map(|Time(time)| *time),
            })
            .collect();
        if let (Some(shown), Some(effective)) = (&mut self.component, &status.component_reference) {
            let effective = format!("{} {}", effective.component_name, effective.version);
            shown.effective = Some(effective).filter(|effective| *effective != shown.written);
        }
    }

    /// Returns the objects below that are worth reading: the failed ones first, then those that run
    /// or are being deleted. While the Installation itself is running or being deleted, all others
    /// follow, because they may wait for their turn.
    pub(crate) fn to_read(&self) -> ToRead {
        let mut found = Vec::new();
        fn collect(nodes: &[Node], found: &mut Vec<(State, bool, &'static str, NamespacedName)>) {
            for node in nodes {
                let matters =
                    matches!(node.job.state, State::Failed | State::Running) || node.job.is_deleting;
                found.push((node.job.state, matters, node.kind, node.place.clone()));
                collect(&node.nodes, found);
            }
        }
        collect(&self.nodes, &mut found);
        let matter = found.iter().filter(|(_, matters, ..)| *matters).count();
        let is_at_work = self.is_running() || self.job.is_deleting;
        found.retain(|(_, matters, ..)| *matters || is_at_work);
        found.sort_by_key(|(state, matters, ..)| (!*matters, *state));
        let places = found.into_iter().map(|(_, _, kind, place)| (kind, place)).take(MOST_READ).collect();
        ToRead { places, is_all: matter <= MOST_READ }
    }

    /// Adds the waits of the objects of the tree.
    pub(crate) fn add_waits(&mut self, tree: &Tree) {
        fn add(nodes: &mut [Node], tree: &Tree) {
            for node in nodes {
                let known = tree
                    .nodes
                    .iter()
                    .find(|known| known.kind == node.kind && *known.name == *node.place.name);
                if let Some(known) = known {
                    node.waits_for.clone_from(&known.waits_for);
                    add(&mut node.nodes, known);
                }
            }
        }
        self.waits_for.clone_from(&tree.waits_for);
        add(&mut self.nodes, tree);
    }

    /// Adds the error of an object below.
    pub(crate) fn add_error(&mut self, kind: &str, place: &NamespacedName, error: &ErrorView) {
        fn find<'a>(nodes: &'a mut [Node], kind: &str, place: &NamespacedName) -> Option<&'a mut Node> {
            for node in nodes {
                if node.kind == kind && node.place == *place {
                    return Some(node);
                }
                if let Some(found) = find(&mut node.nodes, kind, place) {
                    return Some(found);
                }
            }
            None
        }
        if let Some(node) = find(&mut self.nodes, kind, place) {
            node.error = Some(error.clone());
        }
    }

    /// Adds the places in the blueprint that declare the objects directly below. The pages of
    /// nested Installations show theirs.
    pub(crate) fn add_sources(&mut self, written: &Written) {
        let source =
            |made: Made, node: &Node| written.place(&made.subject(&node.template)).map(str::to_owned);
        for node in &mut self.nodes {
            if node.kind == Installation::KIND {
                node.source = source(Made::NestedInstallation, node);
            } else {
                for item in &mut node.nodes {
                    item.source = source(Made::DeployItem, item);
                }
            }
        }
    }

    /// Returns the job that the page shows, as the key for its sources.
    pub(crate) fn job(&self) -> JobOf {
        (self.place.clone(), self.job.began, self.job.ended)
    }

    pub(crate) fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Adds the operations that the visitor may start.
    pub(crate) fn offer(&mut self, operations: Vec<&'static str>) {
        self.operations = operations;
    }

    pub(crate) const fn offer_journal(&mut self) {
        self.has_journal = true;
    }

    pub(crate) fn is_root(&self) -> bool {
        self.parents.is_empty()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.job.state == State::Running
    }
}

fn tree(nodes: &[Node], now: Timestamp) -> Markup {
    html! {
        ul class="tree" {
            @for node in nodes {
                li {
                    @let name = if node.template.is_empty() { &*node.place.name } else { node.template.as_str() };
                    span class="kind" { (node.kind) } " "
                    @if node.kind == Installation::KIND {
                        a href=(installation_path(&node.place)) title=(node.place) { (name) }
                    } @else {
                        span title=(node.place) { (name) }
                    }
                    " " (node.job.badge())
                    " " span class="note" {
                        (node.job.elapsed()) " " (node.content)
                        @if let Some(source) = &node.source { " from " (source) }
                    }
                    (waiting(node.waits_for.as_ref(), now))
                    @if let Some(error) = &node.error { (error.markup()) }
                    @if !node.nodes.is_empty() { (tree(&node.nodes, now)) }
                }
            }
        }
    }
}

fn names(title: &str, word: &str, all: &[Named]) -> Markup {
    html! {
        @if !all.is_empty() {
            h3 { (title) }
            ul class="rows" {
                @for named in all {
                    li {
                        (named.name)
                        @for (index, place) in named.siblings.iter().enumerate() {
                            (if index == 0 { format!(" {word} ") } else { ", ".to_owned() })
                            (installation_link(place))
                        }
                    }
                }
            }
        }
    }
}

impl Page for InstallationPage {
    fn title(&self) -> String {
        format!("Installation {}", self.place)
    }

    fn topic(&self) -> Option<String> {
        Some(format!("installations/{}", self.place))
    }

    fn content(&self, now: Timestamp) -> Markup {
        html! {
            @if !self.parents.is_empty() {
                p {
                    "Nested in "
                    @for (index, parent) in self.parents.iter().enumerate() {
                        @if index > 0 { " › " }
                        (installation_link(parent))
                    }
                }
            }
            p { (self.job.badge()) " " span class="note" { (self.job.elapsed()) }
                @if let Some(requested) = &self.requested { " " span class="note" { (requested) " requested" } }
            }
            (waiting(self.waits_for.as_ref(), now))
            @if !self.operations.is_empty() {
                p class="operations" {
                    @for operation in &self.operations {
                        a class="button" href={ (installation_path(&self.place)) "/" (operation) } { (operation) }
                    }
                }
            }
            @for note in &self.notes { p class="note" { (note) } }
            @if let Some(error) = &self.error { (error.markup()) }
            dl class="facts" {
                @if let Some(component) = &self.component {
                    dt { "Component" }
                    dd {
                        a href=(path("components", &self.place)) { (component.written) }
                        @if let Some(effective) = &component.effective { ", overwritten by " strong { (effective) } }
                    }
                }
                dt { "Context" } dd { (self.context) }
                @if let Some(began) = self.job.began { dt { "Job began" } dd { (super::parts::moment(began)) " UTC" } }
                @if let Some(ended) = self.job.ended { dt { "Job ended" } dd { (super::parts::moment(ended)) " UTC" } }
                @if self.has_journal {
                    dt { "Journal" } dd { a href=(path("journal", &self.place)) { "History of its jobs" } }
                }
            }
            @if !self.nodes.is_empty() { h2 { "Objects of this Installation" } (tree(&self.nodes, now)) }
            @if !self.imports.is_empty() || !self.exports.is_empty() { h2 { "Data flow" } }
            @if self.siblings.has_flows() { (self.siblings.markup("Data flow between the Installation and its siblings")) }
            (names("Imports", "from", &self.imports))
            (names("Exports", "to", &self.exports))
            @if self.children.has_flows() {
                h2 { "Data flow inside" }
                (self.children.markup("Data flow between the nested Installations"))
            }
            (conditions(&self.conditions, now))
        }
    }
}
