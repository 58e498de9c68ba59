//! Page with the differences between two variants of a set.

use groundwork_api::PackageVariant;
use groundwork_fleet::{Field, differences};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Page;
use super::parts::path;
use crate::landscape::{Content, NamespacedName};

/// Limit for the names of variants that the form proposes. Other names can still be typed.
const MOST_PROPOSED: usize = 1_000;
/// Number of differences shown.
const MOST_DIFFERENCES: usize = 1_000;

/// Names of two variants of a set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pair {
    pub(crate) left: String,
    pub(crate) right: String,
}

/// Form that asks for the names of two variants of a set.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    set: Option<NamespacedName>,
    /// Name of each variant, with its downstream repository and package.
    proposed: Vec<(String, String)>,
    pair: Pair,
}

impl Choice {
    /// Proposes the variants of a set. Proposes none if the visitor may not see them.
    pub(crate) fn new(content: &Content, place: &NamespacedName, sees_variants: bool, pair: Pair) -> Self {
        let mut choice = Self { pair, ..Self::default() };
        let Some(row) = content.sets.get(place).filter(|_| sees_variants) else { return choice };
        let names = content.variants_of(row).map(|(variant, row)| {
            let downstream = format!("{}/{}", row.downstream_repository, row.downstream_package);
            (variant.name.to_string(), downstream)
        });
        choice.proposed = names.take(MOST_PROPOSED).collect();
        choice.set = Some(place.clone());
        choice
    }

    /// Renders the form. Both fields share one `datalist`, so that a set of hundreds of variants
    /// needs no script and each name is sent once.
    pub(crate) fn markup(&self) -> Markup {
        let Some(set) = self.set.as_ref().filter(|_| self.proposed.len() > 1) else { return html! {} };
        let field = |label: &str, name: &str, value: &str| {
            html! {
                label { (label) " " input type="text" name=(name) value=(value) list="variants" required autocomplete="off"; }
            }
        };
        html! {
            form method="get" action=(comparison_path(set)) class="filter" {
                (field("Compare the variant", "left", &self.pair.left))
                (field("with", "right", &self.pair.right))
                datalist id="variants" {
                    @for (name, downstream) in &self.proposed { option value=(name) { (downstream) } }
                }
                button type="submit" { "Compare" }
            }
        }
    }
}

fn comparison_path(set: &NamespacedName) -> String {
    format!("{}/compare", path("sets", set))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparisonPage {
    set: NamespacedName,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<NamespacedName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<NamespacedName>,
    differences: Vec<DifferenceView>,
    /// Number of differences not shown.
    left_out: usize,
    #[serde(skip)]
    choice: Choice,
}

/// A field with different values. A side is absent where the field is not set.
#[derive(Debug, Serialize)]
struct DifferenceView {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<Value>,
}

impl ComparisonPage {
    /// Creates the page before two variants are chosen.
    pub(crate) fn new(set: NamespacedName, choice: Choice) -> Self {
        Self { set, left: None, right: None, differences: Vec::new(), left_out: 0, choice }
    }

    /// Adds the differences between two variants, in the order in which the page shows them.
    pub(crate) fn compare(
        &mut self,
        left: (NamespacedName, &PackageVariant),
        right: (NamespacedName, &PackageVariant),
    ) {
        let mut fields = Vec::new();
        for (section, [old, new]) in sections(left.1, right.1) {
            fields.extend(differences(section, &old, &new));
        }
        self.left_out = fields.len().saturating_sub(MOST_DIFFERENCES);
        let shown = fields.into_iter().take(MOST_DIFFERENCES);
        self.differences =
            shown.map(|Field { path, old, new }| DifferenceView { path, left: old, right: new }).collect();
        (self.left, self.right) = (Some(left.0), Some(right.0));
    }
}

/// Returns the compared parts of two variants, by their paths. Names, times and other fields that
/// differ between any two objects are left out.
fn sections(left: &PackageVariant, right: &PackageVariant) -> [(&'static str, [Value; 2]); 5] {
    let both = |of: fn(&PackageVariant) -> Value| [left, right].map(of);
    [
        ("metadata.labels", both(|variant| json!(variant.metadata.labels.clone().unwrap_or_default()))),
        (
            "metadata.annotations",
            both(|variant| json!(variant.metadata.annotations.clone().unwrap_or_default())),
        ),
        ("spec", both(spec)),
        ("status", both(status)),
        ("status.conditions", both(conditions)),
    ]
}

fn spec(variant: &PackageVariant) -> Value {
    let mut spec = json!(variant.spec);
    // A single injector may be written with or without the list around it. Both forms must compare
    // as equal.
    if let Ok(injectors) = variant.spec.injectors()
        && !injectors.is_empty()
    {
        spec["injectors"] = json!(injectors);
    }
    spec
}

/// Returns the status without the conditions, which are compared separately, and without
/// `observedGeneration`, which counts the object's own changes.
fn status(variant: &PackageVariant) -> Value {
    let mut status = variant.status.as_ref().map_or_else(|| json!({}), |status| json!(status));
    if let Some(members) = status.as_object_mut() {
        members.remove("conditions");
        members.remove("observedGeneration");
    }
    status
}

/// Returns the conditions by type, without their times, so that their order does not matter.
fn conditions(variant: &PackageVariant) -> Value {
    let all = variant.status.iter().flat_map(|status| status.conditions.iter());
    let members: Map<String, Value> = all
        .map(|condition| {
            let (status, reason, message) = (&condition.status, &condition.reason, &condition.message);
            (condition.type_.clone(), json!({"status": status, "reason": reason, "message": message}))
        })
        .collect();
    Value::Object(members)
}

/// Renders a value: text as it is, everything else as JSON.
fn value(value: Option<&Value>) -> Markup {
    html! {
        @match value {
            None => span class="note" { "not set" },
            Some(Value::String(text)) if text.is_empty() => span class="note" { "empty" },
            Some(Value::String(text)) => pre { (text) },
            Some(other) => pre { (other) },
        }
    }
}

impl Page for ComparisonPage {
    fn title(&self) -> String {
        format!("Two variants of {}", self.set)
    }

    fn topic(&self) -> Option<String> {
        Some(format!("sets/{}", self.set))
    }

    fn controls(&self) -> Markup {
        self.choice.markup()
    }

    fn content(&self, _: Timestamp) -> Markup {
        let column = |place: &NamespacedName| html! { a href=(path("variants", place)) { (place.name) } };
        html! {
            p { "Of the set " a href=(path("sets", &self.set)) { (self.set) } "." }
            @match (&self.left, &self.right) {
                (Some(left), Some(right)) if self.differences.is_empty() => p {
                    (column(left)) " and " (column(right)) " have the same labels, annotations, specification and status."
                },
                (Some(left), Some(right)) => div class="wide" tabindex="0" role="region" aria-label="Differences" {
                    table {
                        thead { tr {
                            th scope="col" { "Field" } th scope="col" { (column(left)) } th scope="col" { (column(right)) }
                        } }
                        tbody {
                            @for field in &self.differences {
                                tr {
                                    th scope="row" { (field.path) }
                                    td { (value(field.left.as_ref())) }
                                    td { (value(field.right.as_ref())) }
                                }
                            }
                        }
                    }
                },
                _ => p { "Enter the names of two variants to compare them." },
            }
            @if self.left_out > 0 { p { (self.left_out) " more differences are not shown." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::PackageVariantSet;

    use super::*;
    use crate::landscape::tests::{landscape, place, shown};
    use crate::pages::frame;

    fn variant(name: &str, spec: &Value, status: &Value) -> PackageVariant {
        let metadata = json!({"name": name, "namespace": "team", "uid": name, "labels": {"tier": "edge"},
            "annotations": {"note/for": name}});
        serde_json::from_value(
            json!({"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant",
            "metadata": metadata, "spec": spec, "status": status}),
        )
        .unwrap()
    }

    fn compared(left: &PackageVariant, right: &PackageVariant) -> ComparisonPage {
        let mut page = ComparisonPage::new(place("edges"), Choice::default());
        page.compare((place("left"), left), (place("right"), right));
        page
    }

    #[test]
    fn fields_that_differ_are_told_one_by_one() {
        let condition = |reason: &str, time: &str| json!({"type": "Ready", "status": "True", "reason": reason, "message": "<i>", "lastTransitionTime": time});
        let left = variant(
            "left",
            &json!({"downstream": {"repo": "edge", "package": "a"}, "injectors": {"name": "one"},
                "packageContext": {"data": {"region": "<b>west</b>"}},
                "pipeline": {"mutators": [{"image": "set-labels:v1", "configMap": {"a": "1"}}]}}),
            &json!({"downstreamTargets": [{"name": "edge.a.1"}], "observedGeneration": 3,
                "conditions": [condition("NoErrors", "2026-01-01T00:00:00Z")]}),
        );
        let right = variant(
            "right",
            &json!({"downstream": {"repo": "edge", "package": "b"}, "injectors": [{"name": "one"}],
                "pipeline": {"mutators": [{"image": "set-labels:v1", "configMap": {"a": "2"}}]}}),
            &json!({"downstreamTargets": [{"name": "edge.b.1"}], "observedGeneration": 4,
                "conditions": [condition("Error", "2026-02-01T00:00:00Z")]}),
        );
        let page = compared(&left, &right);
        let paths: Vec<&str> = page.differences.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "metadata.annotations[\"note/for\"]",
                "spec.downstream.package",
                "spec.packageContext",
                "spec.pipeline.mutators[0].configMap.a",
                "status.downstreamTargets[0].name",
                "status.conditions.Ready.reason",
            ]
        );
        let shown = page.content(Timestamp::UNIX_EPOCH).into_string();
        assert!(shown.contains("&lt;b&gt;west") && !shown.contains("<b>"), "{shown}");
        assert!(shown.contains("not set") && shown.contains("/variants/team/left"), "{shown}");
        let twin: Value = serde_json::from_str(&frame::json(&page, &[])).unwrap();
        let field = &twin["content"]["differences"][1];
        assert_eq!(*field, json!({"path": "spec.downstream.package", "left": "a", "right": "b"}));
    }

    #[test]
    fn the_same_is_said_in_words() {
        let one = variant("one", &json!({}), &json!({}));
        let shown = compared(&one, &one).content(Timestamp::UNIX_EPOCH).into_string();
        assert!(shown.contains("have the same labels"), "{shown}");
        let empty = ComparisonPage::new(place("edges"), Choice::default());
        assert!(empty.content(Timestamp::UNIX_EPOCH).into_string().contains("Enter the names"));
    }

    #[test]
    fn no_more_is_shown_than_people_read() {
        let context = |value: &str| {
            let data: Map<String, Value> =
                (0..MOST_DIFFERENCES + 5).map(|number| (format!("key-{number}"), json!(value))).collect();
            json!({"packageContext": {"data": data}})
        };
        let page =
            compared(&variant("v", &context("a"), &json!({})), &variant("v", &context("b"), &json!({})));
        assert_eq!((page.differences.len(), page.left_out), (MOST_DIFFERENCES, 5));
    }

    /// The form proposes all variants of a set to visitors who may see them, and its fields keep
    /// the choice.
    #[test]
    fn variants_are_chosen_without_a_script() {
        let owner = json!([{"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariantSet", "name": "edges",
            "uid": "uid-edges"}]);
        let mut feeds = vec![shown::<PackageVariantSet>("edges", &json!({}))];
        feeds.extend((0..200).map(|number| {
            let object = json!({"metadata": {"ownerReferences": owner},
                "spec": {"downstream": {"repo": "edge", "package": format!("<p-{number}>")}}});
            shown::<PackageVariant>(&format!("v-{number:03}"), &object)
        }));
        let (landscape, _filler) = landscape(&feeds);
        let content = landscape.read();
        let pair = Pair { left: "v-007".to_owned(), right: "\"><script>".to_owned() };
        let form = Choice::new(&content, &place("edges"), true, pair.clone()).markup().into_string();
        assert_eq!(form.matches("<option").count(), 200);
        assert!(form.contains("value=\"v-007\"") && form.contains("edge/&lt;p-199&gt;"), "{form}");
        assert!(form.contains("action=\"/sets/team/edges/compare\"") && !form.contains("<script>"), "{form}");
        assert_eq!(Choice::new(&content, &place("edges"), false, pair).markup().into_string(), "");
    }
}
