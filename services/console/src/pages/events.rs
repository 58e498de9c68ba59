//! Page of the latest events of the stream.

use std::collections::BTreeSet;

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::list::{ListQuery, Paging, Parameters, choice, input};
use super::parts::{moment, path};
use crate::landscape::{Content, NamespacedName, SeenEvent};

/// Kinds that have pages, with the first segment of their addresses.
const SECTIONS: [(&str, &str); 3] =
    [("installations", "installations"), ("packagevariantsets", "sets"), ("packagevariants", "variants")];

#[derive(Debug, Serialize)]
pub(crate) struct EventsPage {
    kind: String,
    namespace: String,
    q: String,
    #[serde(skip)]
    kinds: Vec<String>,
    #[serde(flatten)]
    paging: Paging,
    /// Events, latest first.
    events: Vec<EventView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EventView {
    time: Timestamp,
    kind: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: String,
    name: String,
    /// Absent if the event is a deletion.
    resource_version: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    phase: &'static str,
}

impl EventsPage {
    /// Lists the events for which `sees` is true: the visitor may `get` their objects.
    pub(crate) fn new(content: &Content, sees: impl Fn(&SeenEvent) -> bool, query: ListQuery) -> Self {
        let kinds: BTreeSet<&str> = content.events.iter().map(|event| event.object.kind.plural()).collect();
        let is_wanted = |event: &&SeenEvent| {
            let (object, ListQuery { kind, namespace, q, .. }) = (&event.object, &query);
            (kind.is_empty() || object.kind.plural() == kind)
                && (namespace.is_empty() || object.namespace.as_deref() == Some(namespace))
                && (q.is_empty() || object.name.contains(q))
                && sees(event)
        };
        let found: Vec<&SeenEvent> = content.events.iter().rev().filter(is_wanted).collect();
        let paging = Paging::of(&query, found.len());
        let events = paging.part(found).into_iter().map(|event| EventView {
            time: event.time,
            kind: event.object.kind.plural().to_owned(),
            namespace: event.object.namespace.clone().unwrap_or_default(),
            name: event.object.name.clone(),
            resource_version: event.resource_version.as_deref().map(str::to_owned),
            phase: event.phase,
        });
        let events = events.collect();
        let ListQuery { kind, namespace, q, .. } = query;
        Self { kinds: kinds.into_iter().map(str::to_owned).collect(), kind, namespace, q, paging, events }
    }
}

impl Page for EventsPage {
    fn title(&self) -> String {
        "Events".to_owned()
    }

    fn topic(&self) -> Option<String> {
        Some("events".to_owned())
    }

    fn controls(&self) -> Markup {
        let mut kinds = vec![("", "any")];
        kinds.extend(self.kinds.iter().map(|kind| (kind.as_str(), kind.as_str())));
        html! {
            form method="get" action="/events" class="filter" {
                (choice("Kind", "kind", &self.kind, &kinds))
                (input("Namespace", "namespace", &self.namespace))
                (input("Name", "q", &self.q))
                button type="submit" { "Show" }
                a href="/events" { "Show all" }
            }
        }
    }

    fn content(&self, _: Timestamp) -> Markup {
        let kept: Parameters =
            vec![("kind", self.kind.clone()), ("namespace", self.namespace.clone()), ("q", self.q.clone())];
        html! {
            (self.paging.links("/events", &kept))
            div class="wide" tabindex="0" role="region" aria-label="Events" {
                table {
                    thead { tr {
                        th scope="col" { "Time (UTC)" } th scope="col" { "Kind" } th scope="col" { "Object" }
                        th scope="col" { "Change" } th scope="col" { "Phase" }
                    } }
                    tbody {
                        @for event in &self.events {
                            tr {
                                td { (moment(event.time)) }
                                td { (event.kind) }
                                td {
                                    @let section = SECTIONS.iter().find(|(kind, _)| *kind == event.kind);
                                    @if let Some((_, section)) = section {
                                        @let place = NamespacedName::new(&event.namespace, &event.name);
                                        a href=(path(section, &place)) { (place) }
                                    } @else if event.namespace.is_empty() { (event.name) }
                                    @else { (event.namespace) "/" (event.name) }
                                }
                                td {
                                    @match &event.resource_version {
                                        Some(version) => { "version " (version) }
                                        None => { "deleted" }
                                    }
                                }
                                td { (event.phase) }
                            }
                        }
                    }
                }
            }
        }
    }
}
