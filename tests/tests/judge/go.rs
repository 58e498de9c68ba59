//! `groundwork-judge template go`.

use serde_json::{Value, json};

use super::{answers_to, judge};

const GO: [&str; 2] = ["template", "go"];

fn answers(lines: &[Value]) -> Vec<Value> {
    answers_to(&GO, lines)
}

#[test]
fn lines_are_answered_in_order_whatever_they_are() {
    let found = judge(
        &GO,
        concat!(
            "{\"template\":\"a{{.x}}\",\"data\":{\"x\":3}}\n",
            "no json\n",
            "[\"t\",\"x\"]\n",
            "{\"name\":\"n\"}\n",
            "\n",
            "{\"name\":\"p\",\"template\":\"{{\"}\n",
            "{\"name\":\"e\",\"template\":\"lost {{fail `no`}}\"}\n",
            "{\"name\":\"last\",\"template\":\"{{1}}\"}",
        ),
    );
    let input_error = |answer: &Value| {
        assert_eq!((&answer["name"], &answer["phase"]), (&Value::Null, &json!("input")), "{answer}");
        assert!(answer["error"].is_string() && answer["output"].is_null());
    };
    assert_eq!(found.len(), 8);
    assert_eq!(found[0], json!({"name": "t", "output": "a3"}));
    found[1..5].iter().for_each(input_error);
    assert_eq!(found[5], json!({"name": "p", "error": "template: p:1: unclosed action", "phase": "parse"}));
    let error = "template: e:1:7: executing \"e\" at <fail `no`>: error calling fail: no";
    assert_eq!(found[6], json!({"name": "e", "error": error, "phase": "exec"}));
    assert_eq!(found[7], json!({"name": "last", "output": "1"}));
}

#[test]
fn members_choose_how_a_case_is_rendered() {
    let cases = [
        (json!({"template": "{{.x}}", "data": {}, "missingkey": "zero"}), "<no value>"),
        (json!({"template": "{{.x}}", "data": {}, "missingkey": "invalid"}), "<no value>"),
        (json!({"template": "{{typeOf .}} {{.}}", "data": 1_000_000}), "float64 1e+06"),
        (json!({"template": "{{typeOf .}} {{.}}", "data": 1_000_000, "numbers": "int64"}), "int64 1000000"),
        (json!({"template": "{{typeOf .}} {{until .}}", "data": 2, "numbers": "int"}), "int [0 1]"),
        (json!({"template": "{{typeOf .}} {{.}}", "data": 1_000_000, "numbers": "data"}), "float64 1000000"),
        (json!({"template": "<<.>> {{", "data": "d", "left": "<<", "right": ">>"}), "d {{"),
        (
            json!({"template": "{{template `x`}}", "extra": [{"name": "e", "template": "{{define `x`}}X{{end}}"}]}),
            "X",
        ),
        (json!({"template": "a{{define `x`}}{{.}}{{end}}", "execute": "x", "data": "d"}), "d"),
        (json!({"template": "{{slice `abc` 1}}", "sprig": false}), "bc"),
        (json!({"template": "{{trunc 1 `é`}}{{trunc 5 `ab€é`}}|", "name": null}), "\u{fffd}ab€|"),
        (json!({"template": "{{substr 0 2 `€`}}"}), "\u{fffd}\u{fffd}"),
    ];
    let lines: Vec<Value> = cases.iter().map(|(case, _)| case.clone()).collect();
    for ((case, expected), answer) in cases.iter().zip(answers(&lines)) {
        assert_eq!(answer, json!({"name": "t", "output": expected}), "{case}");
    }
    let errors = [
        (
            json!({"template": "", "execute": "x"}),
            "exec",
            r#"template: no template "x" associated with template "t""#,
        ),
        (
            json!({"template": "{{upper}}", "sprig": false}),
            "parse",
            r#"template: t:1: function "upper" not defined"#,
        ),
        (
            json!({"template": "", "extra": [{"name": "e", "template": "{{"}]}),
            "parse",
            "template: e:1: unclosed action",
        ),
    ];
    let lines: Vec<Value> = errors.iter().map(|(case, ..)| case.clone()).collect();
    for ((case, phase, error), answer) in errors.iter().zip(answers(&lines)) {
        assert_eq!(answer, json!({"name": "t", "error": error, "phase": phase}), "{case}");
    }
    for bad in [
        json!({"template": "", "missingkey": "x"}),
        json!({"template": "", "numbers": "x"}),
        json!({"template": 1}),
    ] {
        assert_eq!(answers(&[bad])[0]["phase"], "input");
    }
}

#[test]
fn limits_can_be_set() {
    let line = json!({"template": "{{ range 1200000 }}{{ end }}"}).to_string();
    let found = judge(&["template", "go", "--template-work", "1"], &line);
    let error = found[0]["error"].as_str().unwrap();
    assert!(error.contains("exceeds the limit of 1000000 steps"), "{error}");
}

/// `--jsonl` is accepted, so that callers written for `groundwork … --jsonl` only have to change
/// the program's name.
#[test]
fn jsonl_may_be_said() {
    assert_eq!(
        judge(&["template", "go", "--jsonl"], "{\"template\": \"a\"}"),
        [json!({"name": "t", "output": "a"})]
    );
}
