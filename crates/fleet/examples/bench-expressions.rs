//! Times the expansion of a set. Arguments are `EXPRESSIONS TARGETS`: a file with the expressions
//! of the template, and the number of targets. The output line is `expand` and the nanoseconds per
//! target, as the median of several runs.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use groundwork_api::{PackageRevision, PackageVariantSet};
use groundwork_fleet::{Attributes, Inputs, Objects, expand};
use serde_json::{Value, json};

const RUNS: usize = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let expressions = fs::read_to_string(arguments.next().unwrap()).unwrap();
    let expressions: Vec<String> = serde_json::from_str(&expressions).unwrap();
    let count: usize = arguments.next().unwrap().parse().unwrap();
    let repositories: Vec<Attributes> = (0..count).map(repository).collect();
    let set = set(&expressions);
    let others = BTreeMap::new();
    // The upstream revision must exist, since expressions read it.
    let revisions = [upstream()];
    let inputs = Inputs {
        set: &set,
        revisions: Some(&revisions),
        objects: Objects { revision_sets: &[], repositories: &repositories, others: &others },
    };
    let mut times: Vec<u128> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            black_box(expand(black_box(&inputs)).unwrap());
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    println!("expand {}", times[RUNS / 2] / u128::try_from(count).unwrap());
}

fn repository(n: usize) -> Attributes {
    let env = if n.is_multiple_of(2) { "prod" } else { "dev" };
    Attributes {
        name: format!("cluster-{n:05}"),
        namespace: "fleet".to_owned(),
        labels: [("region", format!("region-{}", n % 50)), ("env", env.to_owned())]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        annotations: [("example.org/owner".to_owned(), format!("team-{}", n % 7))].into(),
    }
}

fn upstream() -> PackageRevision {
    let revision = json!({
        "metadata": {"name": "catalog.dns.v4", "namespace": "fleet"},
        "spec": {
            "repository": "catalog", "packageName": "dns", "workspaceName": "v4", "revision": 4,
            "lifecycle": "Published",
        },
    });
    serde_json::from_value(revision).unwrap()
}

fn set(expressions: &[String]) -> PackageVariantSet {
    let labels: Vec<Value> = expressions
        .iter()
        .enumerate()
        .map(|(at, expression)| json!({"key": format!("label-{at}"), "valueExpr": expression}))
        .collect();
    let set = json!({
        "metadata": {"name": "dns", "namespace": "fleet", "uid": "7f3c", "generation": 1},
        "spec": {
            "upstream": {"repo": "catalog", "package": "dns", "revision": "v4"},
            "targets": [{"repositorySelector": {}, "template": {"labelExprs": labels}}],
        },
    });
    serde_json::from_value(set).unwrap()
}
