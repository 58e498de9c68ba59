//! Section of the plan page with the changes that PackageVariantSets would make to their variants.

use groundwork_fleet::{Preview, Refused, SetPreview, Site};
use groundwork_plan::Change;
use maud::{Markup, html};

use super::{MOST_SHOWN, badge, fields, more};
use crate::landscape::NamespacedName;
use crate::pages::parts::path;

pub(super) fn result(preview: &Preview) -> Markup {
    html! {
        h3 { "PackageVariantSets" }
        ul class="tree" { @for set in preview.sets.iter().take(MOST_SHOWN) { li { (of_set(set)) } } }
        (more(preview.sets.len()))
        p class="note" {
            "Their plan has the hash " code { (preview.hash) } ": "
            code { "groundwork variants apply --plan" } " applies exactly this plan, or fails."
        }
    }
}

fn of_set(set: &SetPreview) -> Markup {
    let SetPreview { namespace, name, created, changed, deleted, .. } = set;
    let all = created.len() + changed.len() + deleted.len();
    let (created, left) = first(created, MOST_SHOWN);
    let (changed, left) = first(changed, left);
    let (deleted, _) = first(deleted, left);
    html! {
        "PackageVariantSet " strong { (namespace) "/" (name) } ": " (set.summary())
        @for refused in set.failed.iter().chain(&set.refused) { (of_refused(refused)) }
        @if all > 0 {
            ul {
                @for created in created {
                    li {
                        (badge(Change::Created)) " " (created.site.name) (downstream(&created.site))
                        @if let Some(blocked) = &created.blocked { (of_refused(blocked)) }
                    }
                }
                @for changed in changed {
                    li { (badge(Change::Changed)) " " (link(namespace, &changed.site)) (fields(&changed.fields)) }
                }
                @for deleted in deleted {
                    li {
                        (badge(Change::Deleted)) " " (link(namespace, &deleted.site))
                        @for revision in &deleted.revisions { p class="note" { (revision.name) " " (revision.fate) } }
                    }
                }
            }
            (more(all))
        }
    }
}

/// Returns the first `most` entries of a list, and how many entries of further lists may still be
/// shown.
fn first<T>(list: &[T], most: usize) -> (&[T], usize) {
    let shown = &list[..list.len().min(most)];
    (shown, most - shown.len())
}

fn of_refused(Refused { reason, message }: &Refused) -> Markup {
    html! { div class="error" { strong { (reason) } pre { (message) } } }
}

/// Renders a link to a variant that exists.
fn link(namespace: &str, site: &Site) -> Markup {
    html! { a href=(path("variants", &NamespacedName::new(namespace, &site.name))) { (site.name) } (downstream(site)) }
}

fn downstream(site: &Site) -> Markup {
    html! { " " span class="note" { "makes " (site.repo) "/" (site.package) } }
}
