use proptest::prelude::*;

use super::*;
use crate::node::Step;

fn check(yaml: &str, json: &str) {
    let shown = match crate::from_str(yaml) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(shown, json, "{yaml}");
}

#[test]
fn keys_become_text() {
    check(
        "{010: a, 1.0: b, 1.10: c, on: d, 2001-12-14: e, 'on': f, 0x1F: g}",
        r#"{"1":"b","1.1":"c","2001-12-14":"e","31":"g","8":"a","on":"f","true":"d"}"#,
    );
    check("y: 1\non: 2", r#"{"true":2}"#);
    check("~: 1", "error: line 1, column 1: null is not allowed as a key");
    check("? [a]\n: 1", "error: line 1, column 3: a list or a map is not allowed as a key");
}

#[test]
fn last_of_equal_keys_wins() {
    check("a: 1\nb: 2\na: 3", r#"{"a":3,"b":2}"#);
    let strict = Options { unique_keys: true, ..Options::default() };
    let error = parse_first("a: 1\nb: {c: 2, c: 3}", strict).unwrap_err().to_string();
    assert_eq!(error, "line 2, column 11: the key is already used on line 2");
}

#[test]
fn merge_keys() {
    check("b: &b {p: 1, q: 2}\nc:\n  <<: *b\n  q: 3", r#"{"b":{"p":1,"q":2},"c":{"p":1,"q":3}}"#);
    check("q: 3\n<<: [{p: 1}, {p: 2, q: 4, z: 5}]", r#"{"p":1,"q":3,"z":5}"#);
    check("a: {<<: 5}", "error: line 1, column 9: the merge key << needs a map or a list of maps");
    check("'<<': 1", r#"{"<<":1}"#);
    let node = parse_first("<<: (( x ))", Options { merge_keys: false, ..Options::default() }).unwrap();
    assert_eq!(node.to_value().to_string(), r#"{"<<":"(( x ))"}"#);
}

#[test]
fn parts() {
    let part = |path: &[&str]| match path {
        ["a"] => Part::Whole,
        ["m"] => Part::Members,
        ["m", "b"] => Part::Whole,
        _ => Part::Nothing,
    };
    let parts = |text: &str, most_bytes: usize| {
        let options = Options { most_bytes, ..Options::default() };
        match parse_parts(text, options, part) {
            Ok(node) => node.to_value().to_string(),
            Err(error) => format!("error: {error}"),
        }
    };
    for (text, expected) in [
        ("a: 1\nm: {a: 2, b: {a: 3, c: [4]}}\nz: {a: 5}", r#"{"a":1,"m":{"b":{"a":3,"c":[4]}}}"#),
        ("z: [{a: [1, {b: 2}]}, 3]\na: 1\na: 2", r#"{"a":2}"#),
        ("z: &z {b: 1}\nx: [&y 5, {k: &t [1]}]\nm: *z\na: [*y, *t]", r#"{"a":[5,[1]],"m":{"b":1}}"#),
        ("z: &z {b: 1, c: 2}\nm:\n  <<: *z\n  c: 3", r#"{"m":{"b":1,"c":2}}"#),
        ("m: 5", r#"{"m":5}"#),
        ("[1]", "[1]"),
        ("", "null"),
        ("---\n---\n", "null"),
        ("a: 1\nz: {", "error: line 2, column 4: unclosed bracket '{'"),
    ] {
        assert_eq!(parts(text, 1 << 20), expected, "{text}");
    }
    // Parts that are not wanted take no memory.
    let unwanted = format!("z: [{}]\na: 1", "[{k: v}],".repeat(10_000));
    assert_eq!(parts(&unwanted, 1000), r#"{"a":1}"#);
    let wanted = format!("a: [{}]", "[{k: v}],".repeat(10_000));
    assert!(parts(&wanted, 1 << 20).contains("takes more than the limit of 1048576 bytes"));
}

#[test]
fn tags() {
    check("[!!str 5, !!int '5', !!float 5, !mine 5, !!binary aGk=, ! 5]", r#"["5",5,5.0,"5","hi","5"]"#);
    check("!!int x", "error: line 1, column 7: the value does not fit its tag !!int");
}

#[test]
fn documents() {
    let all = |text: &str| {
        let documents = parse_all(text, Options::default()).unwrap();
        documents.iter().map(|node| node.to_value().to_string()).collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(all(""), "");
    assert_eq!(all("a: 1\n---\n---\nb: 2\n"), r#"{"a":1} | null | {"b":2}"#);
    check("---\na: 1\n---\nb: [", r#"{"a":1}"#);
    check("---\n---\na: 1", "null");
    check("# nothing\n", "null");
    check("\u{feff}a: 1", r#"{"a":1}"#);
    check("a: 1\n%b: 2", "error: line 2, column 1: missing explicit document end marker before directive");
    check("%YAML 1.1\n---\na: 1", r#"{"a":1}"#);
}

#[test]
fn values_json_cannot_hold() {
    check("a: .inf", "error: line 1, column 4: infinity and not-a-number cannot be expressed in JSON");
}

#[test]
fn hostile_aliases() {
    check("a: &a [*a]", "error: line 1, column 8: an anchor contains an alias to itself");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let error = crate::from_str(&bomb).unwrap_err();
    assert_eq!(error.message(), "the document contains excessive aliasing");
}

/// Case: each level of nested anchors would be kept as one more copy. A megabyte of text once took
/// gigabytes.
#[test]
fn anchors_over_long_lists_are_bounded() {
    let nest = |last: &str| {
        let open: String = (0..250).map(|level| format!("&a{level} [")).collect();
        format!("{open}{}{last}{}", "x,".repeat(100_000), "]".repeat(250))
    };
    // No alias refers to these anchors, so no copies are kept.
    let options = Options { most_bytes: 32 << 20, ..Options::default() };
    assert!(parse_first(&nest("x"), options).is_ok());
    let error = parse_first(&format!("- {}\n- *a249\n", nest("x")), options).unwrap_err();
    assert_eq!(error.message(), "the text takes more than the limit of 33554432 bytes of memory; divide it");
}

#[test]
fn what_a_text_takes_in_memory_is_bounded() {
    let options = Options { most_bytes: 1 << 20, ..Options::default() };
    for text in [
        format!("[{}]", "1,".repeat(20_000)),
        format!("{{{}}}", (0..10_000).map(|key| format!("k{key}: 1,")).collect::<String>()),
        "- a\n".repeat(20_000),
        format!("a: {}", "x".repeat(2 << 20)),
        "---\na: 1\n".repeat(20_000),
        format!("- &a [{}]\n{}", "x,".repeat(1_000), "- *a\n".repeat(20)),
    ] {
        let error = parse_all(&text, options).unwrap_err();
        assert!(error.message().contains("more than the limit of 1048576 bytes"), "{error}");
    }
}

#[test]
fn whether_more_documents_follow_needs_two_of_them() {
    let several = |text: &str| crate::has_several_documents(text, Options::default());
    assert!(!several("a: 1\n"));
    assert!(!several(""));
    assert!(several("a: 1\n---\n"));
    assert!(several("a: 1\n---\nb: ["));
    assert!(several("a: ["));
    assert!(several(&format!("{}[", "---\na: 1\n".repeat(1_000))));
}

/// Case: the content of a Secret must not reach an error text.
#[test]
fn errors_do_not_quote_the_text() {
    for text in [
        "a: hunter2: b",
        "[hunter2",
        "hunter2: [a\nb: c",
        "'hunter2",
        "\"\\hunter2\"",
        "*hunter2",
        "!hunter2!x y",
        "@hunter2",
        "`hunter2",
    ] {
        let error = crate::from_str(text).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn positions_lead_to_keys_and_items() {
    let node = parse_first("spec:\n  imports:\n  - name: a\n    value: 1\n", Options::default()).unwrap();
    let at = |path: Vec<Step<'static>>| {
        let position = node.locate(path);
        (position.line, position.column)
    };
    assert_eq!(at(vec![Step::Key("spec"), Step::Key("imports"), Step::Index(0), Step::Key("value")]), (4, 5));
    assert_eq!(
        at(vec![Step::Key("spec"), Step::Key("imports"), Step::Index(0), Step::Key("missing")]),
        (3, 5)
    );
    assert_eq!(at(vec![Step::Key("spec"), Step::Key("nope"), Step::Key("deeper")]), (1, 1));
}

proptest! {
    #[test]
    fn any_text_gives_a_value_or_an_error(text in "\\PC{0,80}") {
        let _ = parse_all(&text, Options::default());
    }

    #[test]
    fn yaml_like_text_gives_a_value_or_an_error(text in "[-a:{}\\[\\],&*!|>'\"#%@`<? \n\t0.]{0,60}") {
        let _ = parse_all(&text, Options::default());
    }
}

/// Case: only the quote ends a quoted text, however its lines are indented.
#[test]
fn quoted_texts_go_on_at_any_indentation() {
    let read = |text: &str| crate::from_str(text).map(|value| value.to_string());
    assert_eq!(read("a: \"x\ny\""), Ok(r#"{"a":"x y"}"#.to_owned()));
    assert_eq!(read("a:\n  b: 'x\n\n c'\n  d: 1\n"), Ok(r#"{"a":{"b":"x\nc","d":1}}"#.to_owned()));
    assert_eq!(read("k: \"l1\nl2: x\n  l3\"\n"), Ok(r#"{"k":"l1 l2: x l3"}"#.to_owned()));
    assert!(read("a: \"x\nb: y\n").is_err());
}

/// Case: twelve megabytes of `---` once took seconds.
#[test]
fn documents_of_a_text_are_counted() {
    let options = Options { most_documents: 3, ..Options::default() };
    assert_eq!(parse_all("---\n---\n---\n", options).unwrap().len(), 3);
    let error = parse_all("---\n---\na: 1\n---\n---\n", options).unwrap_err();
    assert_eq!(error.message(), "the text has more than 3 documents; divide it");
    assert_eq!(error.position().line, 5);
}
