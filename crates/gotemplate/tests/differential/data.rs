//! Data for a case: names are fixed, so that generated expressions can refer to them, and contents
//! are random.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// Paths from the root, by the kind of their values.
pub(crate) const TEXTS: &[&str] = &["s", "uni", "m.c", "deep.a.b.c", "csv"];
pub(crate) const NUMBERS: &[&str] = &["i", "f", "big", "m.a", "deep.a.n"];
pub(crate) const INTEGERS: &[&str] = &["i", "deep.a.n"];
pub(crate) const BOOLS: &[&str] = &["b", "m.b"];
pub(crate) const LISTS: &[&str] = &["l", "ls", "ln", "lm", "el", "m.l", "deep.a.list"];
pub(crate) const MAPS: &[&str] = &["m", "ms", "e", "deep", "deep.a", "deep.a.b"];
pub(crate) const NOTHING: &[&str] = &["n", "nope", "m.n", "m.nope", "deep.nope.x", "nope.x.y", "n.x"];

pub(crate) fn random(random: &mut Random) -> Value {
    json!({
        "s": text(random),
        "uni": random.pick(&["hé", "日本", "ß", "a\u{301}", "\u{1f600}!"]),
        "csv": random.pick(&["a,b,c", "", "x", "1,2,,3", "b, a"]),
        "i": random.below(40),
        "f": ([0.5, -1.25, 2.0, 1e-7, 12345.678][random.below(5)]),
        "big": ([1_000_000, 2_500_000, 9_007_199_254_740_993_i64, -1_048_576][random.below(4)]),
        "b": random.chance(50),
        "n": null,
        "l": list(random, scalar),
        "ls": list(random, |random| text(random).into()),
        "ln": list(random, |random| random.below(10).into()),
        "lm": list(random, |random| json!({"k": text(random), "n": random.below(5)})),
        "el": [],
        "m": {"a": random.below(9), "b": random.chance(50), "c": text(random), "n": null, "l": list(random, scalar)},
        "ms": map(random),
        "e": {},
        "deep": {"a": {"b": {"c": text(random)}, "n": random.below(100), "list": list(random, scalar)}},
    })
}

fn text(random: &mut Random) -> &'static str {
    random.pick(&[
        "",
        "web",
        "A b",
        "x-1",
        "Hello, World",
        "10",
        "a<b>&'\"",
        "line\nnext",
        "true",
        "été",
        "3.5",
    ])
}

fn scalar(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 => random.chance(50).into(),
        2 | 3 => random.below(10).into(),
        4 => json!(1.5),
        5 if random.chance(30) => json!([1, "x"]),
        6 if random.chance(30) => json!({"k": "v"}),
        _ => text(random).into(),
    }
}

fn list(random: &mut Random, item: fn(&mut Random) -> Value) -> Value {
    let length = random.below(5);
    (0..length).map(|_| item(random)).collect::<Vec<_>>().into()
}

fn map(random: &mut Random) -> Value {
    let mut map = Map::new();
    for key in ["a", "b", "Z", "é", "k 1"] {
        if random.chance(60) {
            map.insert(key.to_owned(), text(random).into());
        }
    }
    map.into()
}
