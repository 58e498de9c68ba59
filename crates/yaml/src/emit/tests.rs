use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The rows of `blueprints.md` 5.5.1; acceptance item 13.
#[test]
fn rows_of_the_chapter() {
    for row in include_str!("../../tests/data/emit.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (value, expected) = row.split_once('\t').expect("two columns");
        let value: Value = serde_json::from_str(value).expect("first column is JSON");
        let expected: String = serde_json::from_str(expected).expect("second column is a JSON string");
        let text = to_string_through_json(&value).unwrap_or_default();
        assert_eq!(text.strip_suffix('\n').unwrap_or(&text), expected, "{value}");
    }
}

/// Case: control characters that the way through JSON refuses are escaped on the direct way, so
/// that every value can be written.
#[test]
fn direct_way_never_fails() {
    for (text, yaml) in
        [("a\u{7f}b", "\"a\\x7Fb\"\n"), ("a\u{85}b", "\"a\\Nb\"\n"), ("\u{ffff}", "\"\\uFFFF\"\n")]
    {
        assert_eq!(to_string(&json!(text)), yaml);
        assert_eq!(crate::from_str(yaml).unwrap(), json!(text));
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[ -~\u{a0}\n\t:#'\"-]{0,12}".prop_map(Value::from),
        "[a-z]{1,9}( [a-z]{1,9}){0,30}".prop_map(Value::from),
        prop::sample::select(vec![
            "yes",
            "~",
            "0x1F",
            "1e3",
            "2001-01-01",
            "12:30",
            "",
            "<<",
            "- a",
            "a: b",
            "|",
            "..."
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z0-9 .:/-]{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Property: a written value is read back as the same value.
    #[test]
    fn round_trip(value in json_value()) {
        let text = to_string(&value);
        prop_assert_eq!(crate::from_str(&text).map_err(|error| error.to_string()), Ok(value), "{}", text);
    }
}

/// Differences of the library's version 3 (`helm.md` 6.5).
#[test]
fn pretty_layout() {
    let value = serde_json::json!({"l": ["k", ["on"], {"a": 1, "b": []}], "big": 2_000_000.0, "int": 2_000_000, "t": "x\ny", "m": {}});
    assert_eq!(
        super::to_string_pretty(&value),
        "big: 2e+06\nint: 2000000\nl:\n  - k\n  - - \"on\"\n  - a: 1\n    b: []\nm: {}\nt: |-\n  x\n  y\n"
    );
    let long = "w".repeat(78) + " vvvv";
    assert_eq!(super::to_string_pretty(&serde_json::json!(long)), long.clone() + "\n");
}

/// Case: templates make values of up to ten thousand levels, which overflowed the stack.
#[test]
fn deep_values_need_no_stack() {
    let levels = 9_900;
    let written = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
        let deep = (0..levels).fold(Value::Null, |inner, level| {
            if level % 2 == 0 { vec![inner].into() } else { Map::from_iter([("a".to_owned(), inner)]).into() }
        });
        (to_string_through_json(&deep).map(|text| text.len()), to_string_pretty(&deep).len())
    });
    let (through_json, pretty) = written.unwrap().join().unwrap();
    assert!(through_json.unwrap() > levels && pretty > levels);
}
