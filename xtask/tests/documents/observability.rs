//! Tests that alerts and dashboards name existing metrics and labels, and that pages explain every
//! alert.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::workspace;

/// Metrics of Prometheus itself.
const OF_PROMETHEUS: [&str; 1] = ["up"];
/// Labels that a scrape adds, and the label of histogram buckets.
const ADDED_LABELS: [&str; 5] = ["job", "instance", "namespace", "pod", "le"];
/// Words of the query language.
const WORDS: [&str; 17] = [
    "sum",
    "by",
    "rate",
    "increase",
    "histogram_quantile",
    "min_over_time",
    "deriv",
    "absent",
    "and",
    "or",
    "on",
    "without",
    "max",
    "min",
    "avg",
    "count",
    "unless",
];

struct Metric {
    is_histogram: bool,
    labels: BTreeSet<String>,
}

/// Returns the text of a file; a missing file is empty, which makes the test fail.
fn text(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_default()
}

/// Reads the table of docs/metrics.md, which another test compares with the metrics of the
/// services.
fn metrics() -> BTreeMap<String, Metric> {
    let page = text("docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `groundwork_"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let labels = cells[3].split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned);
        let metric = Metric { is_histogram: cells[2] == "histogram", labels: labels.collect() };
        (cells[1].trim_matches('`').to_owned(), metric)
    })
    .collect()
}

/// Returns the errors in a query.
fn problems(query: &str, metrics: &BTreeMap<String, Metric>) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut named, mut known) = (BTreeSet::new(), BTreeSet::new());
    let mut outside = String::new();
    // Skip texts, which are values of labels, and brackets, which have times.
    let mut rest = query;
    while let Some((before, after)) = rest.split_once('"') {
        outside.push_str(before);
        rest = after.split_once('"').map_or("", |(_, after)| after);
    }
    outside.push_str(rest);
    let mut depth = 0_usize;
    let words: String = outside
        .chars()
        .map(|c| {
            depth = match c {
                '[' => depth + 1,
                ']' => depth.saturating_sub(1),
                _ => depth,
            };
            if depth > 0 || !(c.is_ascii_alphanumeric() || c == '_') { ' ' } else { c }
        })
        .collect();
    for word in words.split_whitespace().filter(|word| !word.starts_with(|c: char| c.is_ascii_digit())) {
        if WORDS.contains(&word) || OF_PROMETHEUS.contains(&word) {
            continue;
        }
        if !word.starts_with("groundwork_") {
            named.insert(word);
            continue;
        }
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        match (metrics.get(word), base.and_then(|base| metrics.get(base))) {
            (Some(metric), _) if !metric.is_histogram => known.extend(&metric.labels),
            (None, Some(metric)) if metric.is_histogram => known.extend(&metric.labels),
            _ => problems.push(format!("there is no metric {word}: {query}")),
        }
    }
    let unknown = named
        .into_iter()
        .filter(|label| !ADDED_LABELS.contains(label) && !known.iter().any(|known| known.as_str() == *label));
    problems.extend(unknown.map(|label| format!("no metric of it has the label {label}: {query}")));
    problems
}

fn alerts() -> Vec<Value> {
    let document: Value =
        groundwork_yaml::from_str(&text("k8s/components/observability/alerts.yaml")).unwrap_or_default();
    let groups = document["spec"]["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
}

fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("expr").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| queries(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn queries_ask_for_what_there_is() {
    let metrics = metrics();
    let mut all: Vec<String> =
        alerts().iter().map(|alert| alert["expr"].as_str().unwrap().to_owned()).collect();
    let dashboard: Value =
        serde_json::from_str(&text("k8s/components/observability/groundwork.json")).unwrap();
    queries(&dashboard, &mut all);
    assert!(all.len() > 20, "{}", all.len());
    let wrong: Vec<String> = all.iter().flat_map(|query| problems(query, &metrics)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every metric has to show in a dashboard or alert.
    let unseen: Vec<&String> =
        metrics.keys().filter(|name| !all.iter().any(|query| query.contains(name.as_str()))).collect();
    let only_counted = [
        "groundwork_known_events_total",
        "groundwork_package_render_seconds",
        "groundwork_watcher_lists_total",
    ];
    assert_eq!(unseen, only_counted);
}

#[test]
fn a_query_that_is_wrong_is_noticed() {
    let metrics = metrics();
    for (query, problem) in [
        ("sum(groundwork_work_key)", "there is no metric groundwork_work_key:"),
        ("groundwork_reaction_seconds > 1", "there is no metric groundwork_reaction_seconds:"),
        ("groundwork_work_keys_bucket", "there is no metric groundwork_work_keys_bucket:"),
        ("sum by (kind) (groundwork_work_keys)", "no metric of it has the label kind:"),
        ("groundwork_work_keys{name=\"x\"}", "no metric of it has the label name:"),
    ] {
        let found = problems(query, &metrics);
        assert!(found.len() == 1 && found[0].starts_with(problem), "{query}: {found:?}");
    }
    assert!(problems("rate(groundwork_handled_total{outcome=\"failed\"}[10m]) > 0.2", &metrics).is_empty());
}

#[test]
fn every_alert_is_explained() {
    let page = text("docs/slo.md");
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = alerts();
    let named: BTreeSet<&str> = alerts.iter().filter_map(|alert| alert["alert"].as_str()).collect();
    assert_eq!(sections, named);
    assert!(!named.is_empty());
}
