use super::members;
use crate::{Options, parse_first};

const WANTED: [&str; 2] = ["kind", "metadata"];

fn reduced(text: &str) -> Option<String> {
    members(text, |key| WANTED.contains(&key))
}

#[test]
fn wanted_members_are_cut_out() {
    let text = "# head\napiVersion: v1\nkind: Pod\nspec:\n  list:\n  - a: 1\n    b:\n    - x\n  - - \nmetadata: {}\n";
    assert_eq!(reduced(text), None);
    let text = "apiVersion: v1\nkind: Pod\nspec:\n  list:\n  - a: 1\n    b:\n    - x\n  text: |\n\n    l1\n      l2\n\n  k: \"v\"\n\
                metadata:\n  name: x\n  \"q/k\": 'v'\n# end\nstatus:\n- 1\n";
    assert_eq!(reduced(text).as_deref(), Some("kind: Pod\nmetadata:\n  name: x\n  \"q/k\": 'v'\n# end\n"));
}

#[test]
fn what_is_not_plain_is_left_to_the_reader() {
    for text in [
        "- a",
        "a",
        "a: b: c",
        "a: [b,]",
        "a: [b",
        "a: {b}",
        "a: {b: c}d",
        "a: [b: c]",
        "a: {b:c}",
        "a: &x b",
        "a: *x",
        "a: !!str b",
        "a: b\n  c",
        "a:\n\tb: c",
        "a: \"b\\n\"",
        "a: b #c",
        "a:\n  b: 1\n c: 2",
        "a: 1\n b: 2",
        "a: |2\n  b",
        "a: |\n   \n  b",
        "a: |\n    b\n  c",
        "a: .nan",
        "null: a",
        "? a",
        "a:\n-\n",
        "---\na: b",
        "a: b\r\n",
        "a: 'b\n  c'",
        "a: x\nb",
        "<<: a",
        "a:\n  - b\n - c",
        "a: 'b' c",
        "a: -",
        "a: - b",
    ] {
        assert_eq!(reduced(text), None, "{text:?}");
    }
}

/// Property, with random pieces of lines: the reader accepts every skimmed text, and reads the same
/// members.
#[test]
fn what_is_skimmed_is_read_alike() {
    const STARTS: [&str; 12] =
        ["", "", "", "  ", "  ", "    ", "- ", "  - ", "    - ", "- - ", "   ", "      "];
    const KEYS: [&str; 12] =
        ["kind", "metadata", "name", "a", "\"q k\"", "80", "x.y/z", "null", "true", "a b", "# c", "1.5"];
    const VALUES: [&str; 46] = [
        " :80",
        " ?x",
        " -x",
        " a:b",
        " a#b",
        " <x",
        " =",
        " $x",
        " (x)",
        " ~x",
        " ^x",
        " \\x",
        " a,b]",
        " <<",
        " ü",
        " 2024-01-01",
        "",
        "",
        "",
        " x",
        " 1",
        " \"q\"",
        " 'q'",
        " |",
        " >-",
        " []",
        " {}",
        " [a]",
        " a b",
        " -1",
        " .inf",
        " x: y",
        " x #y",
        " ~",
        " 1e999",
        " -",
        " 'a''b'",
        " \"a\\\"b\"",
        " |+",
        " *a",
        " &a b",
        " http://x:80/y",
        " x:",
        " yes",
        " 0x1F",
        " \"a",
    ];
    let mut state = 7_u64;
    let mut next = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("it fits") % end
    };
    let (mut skimmed, mut texts) = (0, 0);
    for _ in 0..60_000 {
        let mut text = String::from("kind: x\n");
        for _ in 0..next(7) {
            match next(14) {
                0 => text.push('\n'),
                1 => text.push_str("    text goes on\n"),
                2 => text.push_str("  - item\n"),
                _ => {
                    text.push_str(STARTS[next(STARTS.len())]);
                    text.push_str(KEYS[next(KEYS.len())]);
                    text.push(':');
                    text.push_str(VALUES[next(VALUES.len())]);
                    text.push('\n');
                }
            }
        }
        texts += 1;
        let Some(reduced) = reduced(&text) else { continue };
        skimmed += 1;
        let whole = parse_first(&text, Options::default());
        let whole = whole.unwrap_or_else(|error| panic!("{text:?} was skimmed: {error}")).into_value();
        let part = parse_first(&reduced, Options::default());
        let part = part.unwrap_or_else(|error| panic!("{text:?} gives {reduced:?}: {error}")).into_value();
        for key in WANTED {
            assert_eq!(whole.get(key), part.get(key), "{text:?} gives {reduced:?}");
        }
    }
    assert!(skimmed * 10 > texts, "{skimmed} of {texts}");
}
