use super::*;

/// Reads and writes a text, in the layout of the text.
fn check(text: &str, expected: &str) {
    let tree = compose(text).unwrap();
    let layout = Layout { indents_lists: text.contains(":\n  - ") };
    assert_eq!(write(&tree.root.unwrap(), layout), expected, "{text}");
}

fn same(text: &str) {
    check(text, text);
}

#[test]
fn what_is_in_order_stays() {
    same("a: 1\nb: \"x\"\nc: 'y'\nd:\ne: ~\nf: {}\ng: []\n");
    same("a: [1, 'b', {c: d}] # line\nm: {a: b, c: [d]}\n");
    same("list:\n- a # one\n- b: 1\n  c: 2\n- - d\n  - e\n");
    same("list:\n  - a\n  - b:\n      - c\n    d: e\n");
    same("text: |\n  one\n    two\n\n  three\nkept: |+\n  x\n\nnext: |-\n  y\n");
    same("text: >-\n  one two\n\n  three\nnext: 1\n");
    same("metadata: # kpt-merge: a/b\n  name: b\n");
    same("a: !!str 5\nb: 0x1F\nc: 1_000\nd: yes\n");
    same(
        "a: \"b\\tc\"\nlong: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccc\n",
    );
}

#[test]
fn comments_stay_where_they_belong() {
    same("a: 1\n# above b\nb: 2 # behind b\n");
    same("a:\n  # above b\n  b: 1\n  # below b\nc: 2\n");
    same("a: 1\n# foot of a\n\nb: 2\n");
    same("a: 1\n# one\n\n# two\nb: 2\n");
    same("l:\n# first\n- a\n# second\n- b\n");
    same("l: # of the list\n- a\n");
    same("t: | # text\n  a\nb: 1\n");
    same("a: # nothing\nb: 1\n");
    check("a: 1     # far\n\n\nb:    2\n", "a: 1 # far\nb: 2\n");
    check("l:\n    - a\n    - b: 1\n      c: 2\n", "l:\n- a\n- b: 1\n  c: 2\n");
}

#[test]
fn the_lines_of_a_value() {
    let tree = compose("---\n# above\n\na: 1\nb:\n- c\n# below\n\n# far\n").unwrap();
    assert_eq!(tree.lines, 3..6);
    assert!(compose("# nothing\n").unwrap().root.is_none());
    assert!(compose("").unwrap().root.is_none());
    assert!(compose("a: 1\na: 2\n").is_err());
    assert!(compose("a: [\n").is_err());
}

#[test]
fn aliases_are_written_out() {
    check("a: &x {b: 1}\nc: *x\n", "a: {b: 1}\nc: {b: 1}\n");
}

#[test]
fn types_and_data() {
    let kind = |text: &str| Node::plain(text).kind();
    for (text, expected) in [
        ("", Kind::Null),
        ("null", Kind::Null),
        ("~", Kind::Null),
        ("true", Kind::Bool),
        ("yes", Kind::String),
        ("12", Kind::Int),
        ("-0", Kind::Int),
        ("0x1f", Kind::Int),
        ("1_0", Kind::String),
        ("1.5", Kind::Float),
        ("1e3", Kind::Float),
        (".5", Kind::Float),
        (".", Kind::String),
        ("1.2.3", Kind::String),
        (".inf", Kind::Float),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
    let equal = |left: &str, right: &str| {
        compose(left).unwrap().root.unwrap().equals(&compose(right).unwrap().root.unwrap())
    };
    assert!(equal("{a: 1, b: [x]}", "b: # c\n- \"x\"\na: 1\n"));
    assert!(equal("[0x10, True]", "[16, true]"));
    assert!(!equal("a: 1", "a: \"1\""));
    assert!(!equal("[a, b]", "[b, a]"));
}

#[test]
fn new_strings_are_quoted_where_readers_would_differ() {
    for (text, written) in [
        ("a", "a"),
        ("yes", "\"yes\""),
        ("5", "\"5\""),
        ("0o7", "\"0o7\""),
        ("12:30", "\"12:30\""),
        ("2020-01-01", "\"2020-01-01\""),
        ("", "\"\""),
        ("a: b", "'a: b'"),
        ("# x", "'# x'"),
        ("a|b", "a|b"),
        ("null", "\"null\""),
        ("1_0", "\"1_0\""),
    ] {
        assert_eq!(write(&Node::string(text), Layout::default()), format!("{written}\n"));
    }
}
