//! `groundwork-judge template helm`.

use serde_json::{Value, json};

use super::answers_to;

const HELM: [&str; 2] = ["template", "helm"];
const DESCRIPTION: &str = "apiVersion: v2\nname: web\nversion: 0.1.0\n";

#[test]
fn lines_are_answered_one_by_one() {
    let chart =
        json!({"Chart.yaml": DESCRIPTION, "templates/t.yaml": "a: {{ .Values.n }} {{ typeOf .Values.n }}"});
    let got = answers_to(
        &HELM,
        &[
            json!({"name": "first", "chart": chart, "values": {"n": 1}, "unknown": 1, "release": null}),
            json!({"name": 2, "chart": {"Chart.yaml": "name: x"}}),
            json!({"name": "three"}),
            json!({"chart": chart, "chartBinary": {"templates/t.yaml": "e3sgbm8gfX0="}}),
            json!([1]),
            json!({"name": "last", "chart": chart, "from": "archive"}),
        ],
    );
    assert_eq!(got.len(), 6);
    assert_eq!(
        got[0],
        json!({"name": "first", "output": {"manifest": "---\n# Source: web/templates/t.yaml\na: 1 float64\n"}})
    );
    assert_eq!(
        got[1]["error"],
        json!({"stage": "load", "message": "validation: chart.metadata.version is required"})
    );
    assert_eq!((&got[1]["name"], &got[2]["error"]["stage"]), (&json!(2), &json!("input")));
    assert_eq!(
        got[3]["error"],
        json!({"stage": "render", "message": "parse error at (web/templates/t.yaml:1): function \"no\" not defined"})
    );
    assert_eq!(got[4]["error"]["stage"], "input");
    assert_eq!(got[5]["output"]["manifest"], "---\n# Source: web/templates/t.yaml\na:  <nil>\n");
}

/// Helm reports an invalid name with a different sentence on upgrades.
#[test]
fn names_of_releases_are_those_that_helm_takes() {
    let files = json!({"Chart.yaml": DESCRIPTION, "templates/t.yaml": "a: 1"});
    let got = answers_to(
        &HELM,
        &[
            json!({"chart": files, "release": {"name": "Rel"}}),
            json!({"chart": files, "release": {"name": "Rel", "isUpgrade": true, "revision": 2}}),
        ],
    );
    let message = |answer: &Value| answer["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(got[0]["error"]["stage"], "render");
    assert!(message(&got[0]).starts_with("release name \"Rel\": invalid release name"), "{got:?}");
    assert_eq!(message(&got[1]), "release name is invalid: Rel");
}
