//! Tests of stubs, markers and templates together (`spiff.md` 2.2, 3, 5.4, 8 and 10), beyond the
//! worked examples.

#![allow(clippy::unwrap_used)]

mod common;

use common::value;
use groundwork_spiff::{Document, Engine, Value};

/// The document as YAML, or the report.
fn run(template: &str, stubs: &[&str]) -> String {
    common::run(&Engine::new(), template, stubs)
}

#[track_caller]
fn table(cases: &[(&str, &[&str], &str)]) {
    for (template, stubs, wanted) in cases {
        let output = run(template, stubs);
        assert!(!output.starts_with("unresolved nodes"), "{template}: {output}");
        assert_eq!(value(&output), value(wanted), "{template}");
    }
}

#[test]
fn markers_count_although_the_expression_fails() {
    table(&[
        ("secret: (( &temporary ( nope ) ))\na: (( secret ))\n", &["secret: 5\n"], "a: 5"),
        ("secret: (( &local ( nope + 1 ) ))\na: 1\n", &["secret: 5\n"], "a: 1"),
        (
            "secret: (( &temporary ( late ) ))\nlate: (( nope ))\na: 1\n",
            &["secret: 5\nlate: 6\n"],
            "a: 1\nlate: 6",
        ),
    ]);
}

#[test]
fn lists_take_flags_from_stubs() {
    table(&[
        ("l: [ 1 ]\n", &["l: [ { <<: (( &temporary )) }, 2 ]\n"], "{}"),
        ("l: [ 1 ]\n", &["l: (( &temporary ( 5 ) ))\n"], "{}"),
        ("l: [ { <<: (( x )) } ]\nx: [ 1 ]\n", &["l: { <<: (( &temporary )), a: 1 }\n"], "x: [ 1 ]"),
        ("m: { a: 1 }\n", &["m: (( &temporary ( 5 ) ))\n"], "{}"),
    ]);
}

#[test]
fn insertions_bring_no_flags() {
    table(&[
        (
            "a: 1\n",
            &["c: { <<: (( merge q )), b: 1 }\n", "q: { <<: (( &inject )), a: 2 }\n"],
            "a: 1\nq: { a: 2 }",
        ),
        (
            "a: 1\n",
            &["c: [ { <<: (( merge q )) }, 1 ]\n", "q: [ { <<: (( &inject )) }, 2 ]\n"],
            "a: 1\nq: [ 2 ]",
        ),
        ("c: { <<: (( &temporary ( q ) )) }\nq: {}\n", &[], "q: {}"),
    ]);
}

#[test]
fn lists_are_injected_into_once() {
    let entry = "(( &inject ( 5 ) ))";
    table(&[
        ("l: x\n", &[&format!("l: [ {entry}, 6 ]\n"), "l: z\n"], "l: [ 5, 6 ]"),
        ("l: x\n", &[&format!("l: [ {entry}, 6 ]\n")], "l: [ 5, 5, 6 ]"),
        ("l: [ 1 ]\n", &[&format!("l: [ {entry}, 6 ]\n")], "l: [ 5, 1 ]"),
        ("l: [ 1 ]\n", &["l: [ (( &default ( 5 ) )), 6 ]\n"], "l: [ 5, 1 ]"),
    ]);
}

#[test]
fn a_default_that_is_overridden_overrides() {
    let cfg = "cfg: { port: (( &default ( 80 ) )) }\n";
    table(&[
        ("cfg: { port: 1 }\n", &[cfg, "cfg: { port: 443 }\n"], "cfg: { port: 443 }"),
        ("cfg: {}\n", &[cfg, "cfg: { port: 443 }\n"], "cfg: { port: 443 }"),
        ("cfg: { port: 1 }\n", &[cfg, cfg], "cfg: { port: 1 }"),
        // An injected value is not a default for the documents nearer still.
        ("cfg: { port: 1 }\n", &["cfg: {}\n", cfg], "cfg: { port: 80 }"),
    ]);
}

#[test]
fn dynamic_markers_take_any_template() {
    let hello = "hello: (( &template ( \"hello \" (who || \"stub\") ) ))\n";
    for dynamic in ["hello", "true ? hello :~", "( hello )"] {
        let stub = format!("greet: (( &dynamic ( {dynamic} ) ))\n{hello}");
        table(&[
            ("who: doc\ngreet: literal\n", &[&stub], "who: doc\ngreet: hello doc"),
            ("a: (( stub(greet) ))\n", &[&stub], "a: hello stub"),
            // The merge fails, so the node keeps the template and is instantiated in the document.
            ("who: doc\ngreet: (( merge ))\n", &[&stub], "who: doc\ngreet: hello doc"),
            ("who: doc\nx: (( merge greet || 1 ))\n", &[&stub], "who: doc\nx: 1"),
        ]);
    }
    let inner = format!("m: {{ greet: (( &dynamic ( hello ) )) }}\n{hello}");
    table(&[
        ("who: doc\nm: { <<: (( merge )) }\n", &[&inner], "who: doc\nm: { greet: hello stub }"),
        // The value stays dynamic for the documents nearer still.
        (
            "who: doc\nm: { greet: 1 }\n",
            &["m: { greet: 2 }\nwho: far\n", &inner],
            "who: far\nm: { greet: hello far }",
        ),
    ]);
    let report = run("x: (( &dynamic ( 5 ) ))\n", &[]);
    assert!(report.ends_with("\t*dynamic marker for non-template value node"), "{report}");
    let report = run("x: (( &dynamic ( nope ) ))\n", &[]);
    assert!(report.ends_with("\t*dynamic marker for non-template value node"), "{report}");
}

#[test]
fn names_that_lambdas_capture() {
    let tpl = "tpl:\n  <<: (( &template &temporary ))\n  deep: { f: (( &temporary ( |n|->base + n ) )) }\n";
    table(&[(
        &format!("{tpl}inst: (( ( $base = 7 ) *tpl ))\nr: (( inst.deep.f(1) ))\n"),
        &[],
        "inst: { deep: {} }\nr: 8",
    )]);
    for (expression, wanted) in [
        // A captured name wins over a field that is nearer.
        ("( $a = 1 ) (|x|->x a)(\"-\")", "\"-1\""),
        ("( $a = 1 ) ( $f = |x|->x a ) ( $a = 2 ) f(\"-\")", "fails"),
        ("( $a = 1 ) ( $f = |x|->x a ) ( $a = 2 ) (f)(\"-\")", "\"-1\""),
    ] {
        let output = run(&format!("a: 5\nx: (( {expression} ))\n"), &[]);
        if wanted == "fails" {
            assert!(output.contains("unknown function 'f'"), "{output}");
        } else {
            assert_eq!(value(&output)["x"], value(wanted), "{expression}");
        }
    }
}

#[test]
fn the_place_of_definition_in_lambdas_of_lambdas() {
    table(&[(
        "lib: { <<: (( &temporary )), unit: lib, mk: (( |a|->|b|->_.unit a b )) }\nuse: { unit: use, r: (( lib.mk(1)(2) )) }\n",
        &[],
        "use: { unit: use, r: lib12 }",
    )]);
}

#[test]
fn insertions_that_are_no_expressions() {
    let report = run("l: [ { <<: (( oops + )) }, (( nope )) ]\nr: (( l ))\n", &[]);
    assert!(report.contains("(( oops + ))\tin test\tl.[0].<<\t()\t*parse error near"), "{report}");
    assert!(report.contains("(( nope ))\tin test\tl.[1]\t()\t*'nope' not found"), "{report}");
    assert!(report.contains("\tin test\tr\t()\t@'l' not complete"), "{report}");
    let report = run("m: { <<: (( \"(( oops + ))\" )), a: (( nope )) }\n", &[]);
    assert!(
        report.contains("\tm.<<\t(") && report.contains("\tin test\tm.a\t()\t*'nope' not found"),
        "{report}"
    );
}

#[test]
fn markers_are_printed_as_they_were_written() {
    for (text, printed) in [
        ("&default (nope)", "&default ((nope))"),
        ("&default ( nope )", "&default (( nope ))"),
        ("&inject ( late )", "late"),
        ("prefer late", "late"),
        ("&tag:a:b ( nope+1 )", "(( &tag:a:b ( nope+1 ) ))"),
        ("&tag:a:b(nope + 1)", "&tag:a:b ((nope + 1))"),
    ] {
        let report = run(&format!("x: (( {text} ))\nlate: (( late ))\n"), &[]);
        let shown = if printed.starts_with("((") { printed.to_owned() } else { format!("(( {printed} ))") };
        assert!(report.contains(&format!("\t{shown}\tin test\tx\t")), "{text}: {report}");
    }
}

#[test]
fn sync_is_decided_at_rest() {
    table(&[
        ("b: 5\nx: (( sync[b|v|->v == 5,v * 3] ))\n", &[], "b: 5\nx: 15"),
        ("b: (( c ))\nc: 5\nx: (( sync[b|v,e|->v == 5|v|->v + 1] ))\n", &[], "b: 5\nc: 5\nx: 6"),
        ("b: 5\nx: (( sync[b|v|->v == 5] ))\n", &[], "b: 5\nx: 5"),
        ("b: 5\nx: (( sync(b, value == 5, value \"!\") ))\n", &[], "b: 5\nx: 5!"),
        ("x: (( sync[nope|v,e|->v == 5] || \"else\" ))\ny: (( x ))\n", &[], "x: else\ny: else"),
        ("x: (( sync(nope, valid == false, error) ))\n", &[], "x: \"'nope' not found\""),
    ]);
    for (expression, wanted) in [
        ("sync[5|v|->v == 6]", "*sync timeout reached"),
        ("sync[nope|v|->v == 6]", ""),
        ("sync[nope|v,e|->false]", "*'nope' not found"),
        ("sync[5|v|->v]", "*condition must evaluate to bool"),
        ("sync[5|l]", "*sync condition must evaluate to a lambda value"),
        ("sync(5)", "*2 or 3 arguments required for sync"),
    ] {
        let report = run(&format!("l: 1\nx: (( {expression} ))\n"), &[]);
        assert!(report.contains("\tin test\tx\t()") && report.contains(wanted), "{report}");
    }
}

#[test]
fn the_function_catch_waits_a_pass() {
    let tagged = "a: (( &temporary ( 1 ) ))\nz:\n  <<: (( &tag:t ))\n  v: 1\n";
    for (expression, wanted) in [
        ("catch(t::v).valid", "true"),
        ("[ catch(t::v).valid ]", "[ true ]"),
        ("catch[t::v|v,e|->e // \"\"]", "\"tag 't' not found\""),
        // In these places `catch` cannot be postponed, so it is evaluated at once.
        ("( $a = catch(t::v) ) a.valid", "false"),
        ("(|x|->catch(t::v).valid)(1)", "false"),
        ("catch(t::v).valid || 1", "false"),
    ] {
        let output = run(&format!("{tagged}b: (( {expression} ))\n"), &[]);
        assert_eq!(value(&output)["b"], value(wanted), "{expression}: {output}");
    }
}

#[test]
fn tags_of_stubs_may_be_defined_again() {
    let stub = "a: { <<: (( &tag:*t )), v: 5 }\n";
    table(&[("a: { <<: (( &tag:*t )), v: 1 }\nr: (( t::v ))\n", &[stub], "a: { v: 5 }\nr: 5")]);
    let report = run("b: { <<: (( &tag:t )), v: 1 }\nc: (( &tag:t ))\n", &[stub]);
    assert_eq!(
        report,
        "unresolved nodes:\n\t<map>\tin test\tb\t()\t*duplicate tag \"t\": b <-> a\n\t(( &tag:t ))\tin test\tc\t()\t*duplicate tag \"t\": c <-> a"
    );
}

#[test]
fn what_is_told_of_nodes_that_wait_or_say_nothing() {
    for (template, wanted) in [
        ("x: (( ~ == b ))\nb: (( c ))\nc: 1\n", "(( nil == b ))\tin test\tx\t()\t*'b' unresolved"),
        (
            "r: { x: (( auto )) }\n",
            "(( auto ))\tin test\tr.x\t(r.x)\t*auto only allowed for size entry in resource pools",
        ),
        (
            "t: (( &template ( p ) ))\np: (( p ))\nx: (( *t ))\n",
            "(( *(t) ))\tin test\tx\t()\t*resolution of template 't' failed",
        ),
    ] {
        let report = run(template, &[]);
        assert!(report.contains(&format!("\t{wanted}")), "{report}");
    }
}

#[test]
fn the_state_of_entries_keeps_their_keys() {
    let engine = Engine::new();
    let state = |text: &str| {
        let template = Document::read(text, "test", engine.limits()).unwrap();
        engine.cascade(&template, &[], None).unwrap().state().map(Value::to_json)
    };
    for (template, wanted) in [
        ("l: [ { name: a, v: (( &state ( 1 ) )), w: 2 }, { name: b } ]", "l: [ { name: a, v: 1 } ]"),
        ("l: [ { key:id: a, v: (( &state ( 1 ) )) }, { id: b, v: 2 } ]", "l: [ { id: a, v: 1 } ]"),
        ("l: [ { v: (( &state ( 1 ) )), w: 2 } ]", "l: [ { v: 1 } ]"),
        ("m: { v: (( &state ( \"((! x ))\" ) )), w: 2 }", "m: { v: \"((! x ))\" }"),
        ("m: { <<: (( &state )), v: 1, t: (( &temporary ( 2 ) )) }", "m: { v: 1 }"),
    ] {
        assert_eq!(state(template), Some(value(wanted)), "{template}");
    }
}

#[test]
fn what_waited_is_still_preferred_and_marked() {
    let late = "l1: (( l2 ))\nl2: (( l3 ))\nl3: { a: 1, b: 2 }\n";
    let fields = "l1: { a: 1, b: 2 }\nl2: { a: 1, b: 2 }\nl3: { a: 1, b: 2 }\n";
    table(&[
        (
            &format!("{late}x: (( prefer l1 ))\n"),
            &["x: { b: 3, c: 4 }\n"],
            &format!("{fields}x: {{ a: 1, b: 3 }}"),
        ),
        (&format!("{late}x: (( l1 ))\n"), &["x: { b: 3, c: 4 }\n"], &format!("{fields}x: {{ b: 3, c: 4 }}")),
        (&format!("{late}x: (( &temporary ( l1 ) ))\n"), &[], fields),
        (
            &format!("{late}x: (( &tag:t ( l1 ) ))\ny: (( t::a ))\n"),
            &[],
            &format!("{fields}x: {{ a: 1, b: 2 }}\ny: 1"),
        ),
    ]);
}

#[test]
fn entries_that_moved_are_told_where_they_are() {
    let report = run("l: [ (( nope )) ]\n", &["l: [ (( &inject ( 1 ) )) ]\n"]);
    assert_eq!(report, "unresolved nodes:\n\t(( nope ))\tin test\tl.[1]\t()\t*'nope' not found");
}

#[test]
fn a_sync_in_a_template_waits_with_the_document() {
    let template = "t: (( &template &temporary ( sync[late|v|->v == 6] || \"else\" ) ))\nx: (( *t ))\n";
    table(&[
        (&format!("{template}late: (( l2 ))\nl2: 6\n"), &[], "x: 6\nlate: 6\nl2: 6"),
        (&format!("{template}late: 5\n"), &[], "x: else\nlate: 5"),
    ]);
}
