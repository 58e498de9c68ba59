use super::*;
use crate::yaml::{to_json, write};

fn all(text: &str) -> Result<Vec<Node>, ReadError> {
    read(text, &Arc::from("test"), &Limits::default())
}

fn one(text: &str) -> Node {
    all(text).unwrap().remove(0)
}

fn json(text: &str) -> String {
    to_json(one(text).value()).unwrap()
}

/// The reading part of example E45.
#[test]
fn the_example_of_14_reads_as_the_original_reads_it() {
    let text = r#"
ints: [ 0x1F, 010, 1_000, +5 ]
floats: [ 1.50, 1e3, .5 ]
bools: [ yes, Off ]
nulls: [ ~, NULL, "" ]
strings:
- 1:30
- 1.2.3
- "5"
anchor: &a { p: 1 }
alias: *a
inserted:
  <<: *a
  q: 2
"#;
    let expected = concat!(
        r#"{"alias":{"p":1},"anchor":{"p":1},"bools":[true,false],"floats":[1.5,1000,0.5],"#,
        r#""inserted":{"\u003c\u003c":{"p":1},"q":2},"ints":[31,8,1000,5],"nulls":[null,null,""],"#,
        r#""strings":["1:30","1.2.3","5"]}"#
    );
    assert_eq!(json(text), expected);
}

#[test]
fn keys_tags_and_streams_by_14_1() {
    for (text, expected) in [
        ("y: 1\non: 2\n1: 3\n~: 4\n", r#"{"1":3,"on":2,"y":1,"~":4}"#),
        ("a: 1\na: 2\n", r#"{"a":2}"#),
        ("!!str 5", r#""5""#),
        ("[!!int \"5\", !!float 1, !!bool yes, !!null ~, !own 5, ! 5]", r#"[5,1,true,null,5,"5"]"#),
        ("!!binary aGk=", r#""aGk=""#),
        ("when: 2001-01-01", r#"{"when":"2001-01-01"}"#),
        ("{\"a\": [1, {\"b\": null}]}", r#"{"a":[1,{"b":null}]}"#),
        ("", "null"),
        ("# nothing\n", "null"),
        ("---\n", "null"),
        ("x: (( a ? b :c ))", r#"{"x":"(( a ? b :c ))"}"#),
        ("x: (( \"a\" || [ 1, 2 ] ))", r#"{"x":"(( \"a\" || [ 1, 2 ] ))"}"#),
        ("x: |-\n  ((\n  a\n  ))\n", r#"{"x":"((\na\n))"}"#),
        ("&k a: *k", r#"{"a":"a"}"#),
        ("\u{feff}a: 1", r#"{"a":1}"#),
    ] {
        assert_eq!(json(text), expected, "{text}");
    }
    assert_eq!(all("a: 1\n---\n---\nb\n").unwrap().len(), 3);
}

#[test]
fn nodes_know_where_they_stand() {
    let document = one("a:\n  b: [x, é, y]\n");
    let Value::Map(map) = document.value() else { unreachable!() };
    let Value::Map(inner) = map.get("a").unwrap().value() else { unreachable!() };
    let Value::List(list) = inner.get("b").unwrap().value() else { unreachable!() };
    let origin = &list.get(2).unwrap().origin;
    assert_eq!((&*origin.source, origin.line, origin.column), ("test", 2, 13));
}

#[test]
fn hostile_input_is_refused() {
    for (text, message) in [
        ("a: 1\nb: \0", "line 2, column 4: a NUL character is not allowed"),
        ("[a]: 1", "line 1, column 1: map key must be a string, not a list or map"),
        ("{[a]: 1}", "line 1, column 2: map key must be a string, not a list or map"),
        ("a: &a [*a]", "line 1, column 8: an anchor contains an alias to itself"),
        ("!!int x", "line 1, column 7: the value does not fit its tag !!int"),
    ] {
        assert_eq!(all(text).unwrap_err().to_string(), message, "{text}");
    }
    for text in ["a: [", "a: b: c", "*x", "a: 1\n% b\n", "\"", "{a: 1"] {
        assert!(matches!(all(text), Err(ReadError::Syntax { .. })), "{text}");
    }
    let bomb: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    let bomb = format!("a0: &a0 [x]\n{bomb}");
    assert!(matches!(all(&bomb), Err(ReadError::TooManyNodes { .. })));
    let deep: String = (1..600).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    assert!(matches!(all(&format!("a0: &a0 [x]\n{deep}")), Err(ReadError::TooDeep { .. })));
    for open in ["[", "{a: ", "- ", "? "] {
        let text = open.repeat(100_000);
        assert!(
            matches!(
                all(&text),
                Err(ReadError::TooDeep { .. } | ReadError::Syntax { .. } | ReadError::Key { .. })
            ),
            "{open}"
        );
    }
    let limits = Limits { string_bytes: 10, ..Limits::default() };
    assert!(matches!(read("a: 12345678901", &Arc::from(""), &limits), Err(ReadError::TooLarge { .. })));
}

/// Case: aliases share their content. The writer uses no aliases, so the output of shared content
/// within the limits is bounded, too.
#[test]
fn aliases_share_their_content() {
    let document = one("a: &a {x: [1]}\nb: *a\n");
    let Value::Map(map) = document.value() else { unreachable!() };
    let (Value::Map(a), Value::Map(b)) = (map.get("a").unwrap().value(), map.get("b").unwrap().value())
    else {
        unreachable!()
    };
    assert!(Arc::ptr_eq(a, b));
    assert_eq!(write(document.value()), "a:\n  x:\n  - 1\nb:\n  x:\n  - 1\n");
}
