use std::sync::{Arc, OnceLock};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::limits::Limits;
use crate::syntax::ast::Expr;
use crate::syntax::parse;
use crate::value::{Lambda, Node, Pending, Template};
use crate::yaml::read;

fn read_one(text: &str) -> Result<Value, String> {
    let mut documents =
        read(text, &Arc::from("test"), &Limits::default()).map_err(|error| error.to_string())?;
    if documents.len() != 1 {
        return Err(format!("{} documents", documents.len()));
    }
    Ok(documents.remove(0).value)
}

#[test]
fn the_layout_is_that_of_the_original() {
    for text in [
        "a\n",
        "null\n",
        "{}\n",
        "[]\n",
        "a: 1\nb:\n- 1\n- - x\n  - v: 2\n    z: []\n- {}\nc:\n  d: null\n",
        "- 1.5\n- 1e+08\n- +.inf\n- -.inf\n- .nan\n- true\n",
        "- \"\"\n- \"5\"\n- \"yes\"\n- \"null\"\n- \"1e3\"\n- \"2001-01-01\"\n- 1:30\n",
        "- '- a'\n- 'a: b'\n- '# a'\n- 'a:'\n- '*a'\n- '[a'\n- ' a'\n- it's\n- '''a'\n- (( a ))\n- \"\\t\"\n",
        "a: |\n  x\n  y\nb: |-\n  x\n\n  y\nc: |+\n  x\n\nd: |2-\n    x\n  y\n",
        "- |\n  x\n- |-\n  a\n  b\n",
        "\"5\": a\n\"a\\nb\": c\nyes?: d\n",
        "x: !!binary aGk=\n",
        "日本: 語 😀\n",
    ] {
        let value = read_one(text).unwrap();
        assert_eq!(write(&value), text);
    }
    let key = "k".repeat(200);
    assert_eq!(
        write(&Value::map([(key.as_str(), Value::list([Value::Int(1)]))])),
        format!("? {key}\n: - 1\n")
    );
}

/// Case: unprintable characters are escaped, by name where YAML has a name, as in spiff++.
#[test]
fn what_is_not_printable_is_escaped() {
    for (text, written) in [
        ("a\0\u{7}\u{8}\u{b}\u{c}\u{1b}", r#""a\0\a\b\v\f\e""#),
        ("\u{85}\u{2028}\u{2029}\u{feff}", r#""\N\L\P\uFEFF""#),
        ("\r\t\u{7f}\u{80}\u{fffe}", r#""\r\t\x7F\x80\uFFFE""#),
        ("\u{a0}😀", "\u{a0}😀"),
    ] {
        assert_eq!(write(&Value::string(text)), format!("{written}\n"));
    }
}

#[test]
fn what_has_no_value_is_written_as_its_source() {
    let expression = Arc::new(parse("a + \"x\"").unwrap());
    let Ok(Expr::Lambda(lambda)) = parse("|x|->x") else { unreachable!() };
    let lambda = Lambda { expression: lambda, defaults: vec![None], statics: Vec::new(), scope: None };
    let template = Template {
        content: Node::new(Value::Nil),
        original: Value::map([("a", Value::string("(( b ))"))]),
        scope: None,
        path: "t".into(),
        parsed: OnceLock::new(),
    };
    let value = Value::map([
        ("e", Value::Expression(Pending(expression))),
        ("l", Value::Lambda(Arc::new(lambda))),
        ("t", Value::Template(Arc::new(template))),
    ]);
    assert_eq!(write(&value), "e: (( a + \"x\" ))\nl: (( lambda|x|->x ))\nt:\n  a: (( b ))\n");
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>().prop_filter("NUL is refused", |text| !text.contains('\0')),
        "[-?:,\\[\\]{}#&*!|>'\"%@` \nay0-9.~_\t\r]{0,8}",
        "(yes|no|null|~|0x1F|1_000|\\.inf|2001-01-01|1e3|---|\\.\\.\\.)",
    ];
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        text.clone().prop_map(Value::string),
        vec(any::<u8>(), 0..5).prop_map(|bytes| Value::Binary(bytes.into())),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::list),
            btree_map(text.clone(), inner, 0..5).prop_map(Value::map),
        ]
    })
}

/// Returns the content without the changes that writing makes: a float without fraction reads as an
/// int.
fn comparable(value: &Value) -> String {
    match value {
        Value::Float(number) if number.is_finite() && number.fract() == 0.0 => {
            format!("number {}", number + 0.0)
        }
        #[expect(clippy::cast_precision_loss, reason = "both sides are compared as doubles")]
        Value::Int(number) => format!("number {}", *number as f64),
        Value::List(list) => format!("{:?}", list.values().map(comparable).collect::<Vec<_>>()),
        Value::Map(map) => {
            format!("{:?}", map.iter().map(|(key, node)| (key, comparable(&node.value))).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_was_written_reads_back(value in value()) {
        let text = write(&value);
        let read = read_one(&text).map_err(|error| TestCaseError::fail(format!("{error} in {text}")))?;
        prop_assert_eq!(comparable(&read), comparable(&value), "{}", text);
        let again = read_one(&write(&read)).map_err(TestCaseError::fail)?;
        prop_assert_eq!(comparable(&again), comparable(&read));
    }
}
