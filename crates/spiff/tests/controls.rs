//! Tests of control structures (`spiff.md` 12): spiff++'s behaviour where the chapter leaves it
//! open.

#![allow(clippy::unwrap_used)]

mod common;

use common::value;
use groundwork_spiff::{Document, Engine, Features};

/// The document as YAML, or the report.
fn run(template: &str) -> String {
    let features = Features { control: true, ..Features::default() };
    common::run(&Engine::new().with_features(features), template, &[])
}

/// Checks the result of the map `control`; nil if it vanishes.
#[track_caller]
fn gives(control: &str, wanted: &str) {
    let output = run(&format!("one: 1\nx: {control}\n"));
    assert!(!output.starts_with("unresolved nodes"), "{control}: {output}");
    assert_eq!(value(&output).get("x").cloned().unwrap_or_default(), value(wanted), "{control}");
}

/// Checks the issue of the map `control`.
#[track_caller]
fn fails(control: &str, name: &str, wanted: &str) {
    let report = run(&format!("one: 1\nx: {control}\n"));
    let line = format!("\t<{name} control>\tin test\tx\t()\t*{wanted}");
    assert!(report.lines().any(|own| own == line), "{control}: {report}");
}

#[test]
fn what_is_undefined_chooses_and_is_chosen() {
    gives("{ <<switch: a, a: (( ~~ )), <<default: 5 }", "~");
    gives("{ <<switch: b, a: 1, <<default: (( ~~ )) }", "~");
    gives("{ <<switch: (( ~~ )), a: 1, <<default: 5 }", "~");
    gives("{ <<switch: (( ~~ )), <<cases: [ { match: (( |v|->true )), value: 1 } ] }", "~");
    gives("{ <<type: 5, int: (( ~~ )), <<default: 5 }", "~");
    gives("{ <<if: true, <<then: (( ~~ )), <<else: 5 }", "~");
    gives("{ <<for: (( ~~ )), <<do: 1 }", "~");
    gives("{ <<merge: { a: 1 }, b: (( ~~ )), c: 2 }", "{ a: 1, c: 2 }");
    fails("{ <<if: true, a: (( ~~ )) }", "if", "no regular fields [a] allowed");
}

#[test]
fn conditions_of_cases() {
    let cases = |case: &str| format!("{{ <<switch: v, <<cases: [ {case} ], <<default: none }}");
    for (case, wanted) in [
        ("{ match: (( |v|->v + nope )), value: 1 }", "none"),
        ("{ match: \"(( |v,w|->true ))\", value: 1 }", "none"),
        ("{ match: 5, value: 1 }", "1"),
        ("{ match: 5, case: w, value: 1 }", "none"),
        ("{ match: (( |v|->v == \"v\" )), case: v, value: 1 }", "1"),
    ] {
        gives(&cases(case), wanted);
    }
    for (case, wanted) in [
        ("{ match: (( |v|->v )), value: 1 }", "case 0 boolean match result required, but got string"),
        ("{ case: v, other: 1 }", "case 0 invalid field \"other\""),
        ("{ value: 1 }", "case 0 requires 'case' or `'match' field"),
        ("5", "case 0 requires field 'case'"),
    ] {
        fails(&cases(case), "switch", wanted);
    }
    fails("{ <<switch: v, <<cases: [ { case: w } ] }", "switch", "invalid switch value: \"v\"");
    fails("{ <<switch: v, <<cases: 5 }", "switch", "cases must be a list");
}

#[test]
fn values_that_choose_nothing() {
    fails("{ <<switch: v, a: 1 }", "switch", "invalid switch value: \"v\"");
    fails("{ <<switch: ~, a: 1 }", "switch", "invalid switch value: %!q(<nil>)");
    fails("{ <<switch: 5, a: 1 }", "switch", "invalid switch value type: int");
    fails("{ <<type: 5, string: 1 }", "type", "invalid switch value: \"int\"");
    fails("{ <<merge: [ { a: 1 }, 5 ] }", "merge", "entry 1: invalid entry type: list");
}

#[test]
fn loops_over_what_is_no_range() {
    gives("{ <<for: { i: [ 1, 2 ] }, <<do: (( i )), <<mapkey: (( i == 1 ? ~ :\"k\" )) }", "{ k: 2 }");
    for (variables, wanted) in [
        ("{ i: 5 }", "control variable \"i\" requires list or map value, but got int"),
        ("{ i: ~ }", "control variable \"i\" requires list or map value, but got nil"),
        ("{ \"a,b,c\": [ 1 ] }", "invalid control variable spec \"a,b,c\""),
        ("{ \"-\": [ 1 ] }", "invalid range variable name \"-\" (must be [a-zA-Z0-9_]+)"),
        ("[ 5 ]", "control variable list entry requires may but got int"),
        ("[ { values: [ 1 ] } ]", "control variable list entry requires name field"),
        ("[ { name: i } ]", "control variable list entry requires values field"),
        (
            "[ { name: i, values: [ 1 ], index: 5 } ]",
            "control index variable name must be of type string but got int",
        ),
        ("[ { name: i, values: [ 1 ], other: 5 } ]", "invalid control variable list entry field \"other\""),
        ("5", "value field must be map but got int"),
    ] {
        fails(&format!("{{ <<for: {variables}, <<do: (( i )) }}"), "for", wanted);
    }
    fails("{ <<for: { i: [ 1 ] } }", "for", "do field required");
}

#[test]
fn a_round_that_fails_says_which_it_was() {
    let report = run("x: { <<for: { i: [ 1 ], k: { p: v } }, <<do: (( nope )) }\n");
    assert!(report.contains("*error evaluating body\n"), "{report}");
    assert!(report.contains("control variables:  k[p]=\"v\"; i[0]=1: resolution of template"), "{report}");
}

/// The document with a stub as YAML, or the report.
fn run_with(template: &str, stub: &str) -> String {
    let engine = Engine::new().with_features(Features { control: true, ..Features::default() });
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    match engine.cascade(&read(template), &[read(stub)], None) {
        Ok(output) => output.to_yaml(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn stubs_override_what_a_control_came_to() {
    for (template, stub, wanted) in [
        ("x: { <<if: true, <<then: (( width )) }", "x: 9", "x: 9"),
        ("x: { <<if: false, <<then: 1 }", "x: 3", "x: 3"),
        ("x: { <<switch: a, b: 1 }", "x: 3", "x: 3"),
        ("x: { <<wrong: a }", "x: 3", "x: 3"),
        ("x: { <<if: true, <<then: { w: (( width )), h: 1 } }", "x: { w: 7 }", "x: { w: 7, h: 1 }"),
        // A branch that is not chosen may have failed.
        ("x: { <<if: false, <<then: (( width )), <<else: { a: 1 } }", "y: 1", "x: { a: 1 }"),
        ("x: { <<if: true, <<then: 5, <<else: { <<switch: a, b: 1 } }", "y: 1", "x: 5"),
        // No control fires before stubs are applied to the fields.
        ("rate: 3\nx: { <<for: { u: [ 1 ] }, <<do: (( u * rate )) }", "rate: 10", "rate: 10\nx: [ 10 ]"),
        (
            "rate: 3\nx: { <<for: { u: [ 1 ] }, <<do: { v: (( rate )) } }",
            "rate: 10",
            "rate: 10\nx: [ { v: 10 } ]",
        ),
    ] {
        assert_eq!(value(&run_with(template, stub)), value(wanted), "{template}");
    }
}

#[test]
fn controls_that_failed_are_no_values() {
    for (template, wanted) in [
        (
            "x: { <<if: true, <<then: { <<switch: medium, big: 1 } }\ny: (( x || 1 ))\n",
            "<switch control>\tin test\tx\t()\t*invalid switch value: \"medium\"",
        ),
        ("x: { <<if: true, <<then: (( w * 2 )) }\n", "(( w * 2 ))\tin test\tx\t(...<<then)\t*'w' not found"),
        (
            "x: { <<for: { i: [ 1 ] }, <<do: 1, <<mapkey: text }\n",
            "<for control>\tin test\tx\t()\t*mapkey must be an expression",
        ),
    ] {
        let report = run(template);
        assert!(report.starts_with(&format!("unresolved nodes:\n\t{wanted}")), "{report}");
        assert!(!report.contains("\ty\t()\t*"), "{report}");
    }
}
