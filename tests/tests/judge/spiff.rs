//! `groundwork-judge template spiff`.

use serde_json::json;

use super::{answers_to, judge};

const SPIFF: [&str; 2] = ["template", "spiff"];

#[test]
fn many_cases_are_answered_line_by_line() {
    let cases = [
        (
            json!({"name": "a", "template": "a: (( b ))\nb: ((! x ))\n"}),
            json!({"name": "a", "output": "a: (( x ))\nb: (( x ))\n"}),
        ),
        (
            json!({"kind": "flow", "template": "b: ((! x ))\nc: (( &temporary ( 1 ) ))\n"}),
            json!({"name": null, "output": "b: ((! x ))\n"}),
        ),
        (
            json!({"template": "a: 1\n", "stubs": ["a: (( b ))\n", "b: 3\n"], "kind": null}),
            json!({"name": null, "error": "unresolved nodes:\n\t(( b ))\tin template\ta\t()\t*'b' not found"}),
        ),
        (
            json!({"template": "a: (( x / 2 ))", "bindings": {"x": 5}}),
            json!({"name": null, "output": "a: 2.5\n"}),
        ),
        (
            json!({"template": "a: (( x ))", "source": "test"}),
            json!({"name": null, "error": "unresolved nodes:\n\t(( x ))\tin test\ta\t()\t*'x' not found"}),
        ),
        (
            json!({"template": "a: {<<if: true, <<then: 5}", "features": ["control"]}),
            json!({"name": null, "output": "a: 5\n"}),
        ),
        (
            json!({"name": "m", "template": "a: 1\n---\nb: 1\n"}),
            json!({"name": "m", "error": "template holds several documents; only one is allowed"}),
        ),
        (
            json!({"template": "a: (( f ))\nf: (( |x|->x ))\n"}),
            json!({"name": null, "output": "a: (( lambda|x|->x ))\nf: (( lambda|x|->x ))\n"}),
        ),
    ];
    for (case, wanted) in cases {
        assert_eq!(answers_to(&SPIFF, std::slice::from_ref(&case))[0], wanted, "{case}");
    }
    let answers = judge(&SPIFF, "{\n[]\n{\"template\": 5}\n{\"template\": \"a: [\"}\n");
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|answer| answer["error"].is_string()), "{answers:?}");
}
