//! Generator of random documents with references and merges. Names are few, so that references
//! often find a node.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Texts of one run.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) template: String,
    pub(super) stubs: Vec<String>,
    pub(super) control: bool,
}

/// A node before it is written.
#[derive(Debug, Clone)]
enum Part {
    Scalar(String),
    Map(Vec<(String, Part)>),
    List(Vec<Part>),
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn name() -> impl Strategy<Value = String> {
    select(NAMES.to_vec()).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    (prop::bool::weighted(0.2), vec(name(), 1..3), prop::option::weighted(0.1, 0..2_i64)).prop_map(
        |(absolute, names, index)| {
            let index = index.map(|index| format!(".[{index}]")).unwrap_or_default();
            format!("{}{}{index}", if absolute { "." } else { "" }, names.join("."))
        },
    )
}

fn leaf(fixed: Vec<&'static str>) -> impl Strategy<Value = String> {
    prop_oneof![
        6 => path(),
        2 => (0..4_i64).prop_map(|number| number.to_string()),
        1 => select(fixed).prop_map(str::to_owned),
    ]
}

/// Generates expressions that are made of other expressions.
fn compound(inner: &BoxedStrategy<String>) -> impl Strategy<Value = String> + use<> {
    let two = || (inner.clone(), inner.clone());
    let named = || (path(), inner.clone());
    prop_oneof![
        two().prop_map(|(left, right)| format!("{left} + {right}")),
        two().prop_map(|(left, right)| format!("({left}) ({right})")),
        two().prop_map(|(left, right)| format!("({left}) || ({right})")),
        two().prop_map(|(left, right)| format!("({left}) // ({right})")),
        (two(), inner.clone()).prop_map(|((c, t), f)| format!("({c}) ? ({t}) :({f})")),
        inner.clone().prop_map(|inner| format!("catch[{inner}|v,e|->e ? \"failed\" :v]")),
        inner.clone().prop_map(|inner| format!("[{inner}]")),
        (name(), inner.clone()).prop_map(|(name, inner)| format!("( ${name} = {inner} ) {name}")),
        named().prop_map(|(path, inner)| format!("map[{path}|x|->[ x, {inner} ]]")),
        named().prop_map(|(path, inner)| format!("(|x|->x {path})({inner})")),
        path().prop_map(|path| format!("*{path}")),
    ]
}

const FIXED: [&str; 9] = ["\"x\"", "~", "~~", "true", "merge", "[ 1, 2 ]", "{ \"a\" = 1 }", "t::a", "t::."];

/// Generates expressions whose values the plain passes can compute, too.
fn plain_expression() -> impl Strategy<Value = String> {
    leaf(FIXED.to_vec()).prop_recursive(2, 6, 3, |inner| compound(&inner))
}

fn expression() -> impl Strategy<Value = String> {
    let mut fixed = FIXED.to_vec();
    fixed.extend(["__ctx.PATHNAME", "stub(a)", "merge d.a", "stub(d.b)"]);
    leaf(fixed).prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            11 => compound(&inner),
            1 => inner.clone().prop_map(|inner| format!("catch[{inner}|v,e|->e || v]")),
            1 => inner.clone().prop_map(|inner| format!("defined({inner})")),
            1 => path().prop_map(|path| format!("{path}.[*].a")),
            1 => inner.prop_map(|inner| format!("_.{}", inner.len() % 3)),
        ]
    })
}

fn dynaml() -> impl Strategy<Value = Part> {
    let marker = select(vec!["&temporary", "&tag:t", "&inject", "&default", "&template", "&state", "&local"]);
    prop_oneof![
        10 => expression().prop_map(|text| format!("(( {text} ))")),
        1 => expression().prop_map(|text| format!("(( prefer {text} ))")),
        2 => (marker, prop::option::of(expression())).prop_map(|(marker, inner)| match inner {
            Some(inner) => format!("(( {marker} ( {inner} ) ))"),
            None => format!("(( {marker} ))"),
        }),
        1 => (path(), path()).prop_map(|(first, second)| format!("(( |x|->x {first} {second} ))")),
        1 => Just("(( a b".to_owned()),
    ]
    .prop_map(Part::Scalar)
}

fn insertion() -> impl Strategy<Value = Part> {
    let fixed = select(vec![
        "(( merge ))",
        "(( merge required ))",
        "(( merge replace ))",
        "(( merge none ))",
        "(( merge on a ))",
        "(( &temporary ))",
        "(( &template ))",
        "(( &tag:t ))",
        "(( &inject ))",
        "(( &default ))",
        "(( ~ ))",
        "(( ~~ ))",
    ]);
    prop_oneof![
        2 => fixed.prop_map(|text| Part::Scalar(text.to_owned())),
        1 => path().prop_map(|path| Part::Scalar(format!("(( {path} ))"))),
    ]
}

fn node(controls: bool) -> impl Strategy<Value = Part> {
    let scalar = prop_oneof![
        2 => (0..4_i64).prop_map(|number| Part::Scalar(number.to_string())),
        1 => select(vec!["x", "~", "true"]).prop_map(|text| Part::Scalar(text.to_owned())),
        6 => dynaml(),
    ];
    scalar.prop_recursive(3, 16, 4, move |inner| {
        let key = select(vec!["a", "b", "c", "d", "e", "f", "name", "key:a"]).prop_map(str::to_owned);
        let fields = vec((key, inner.clone()), 1..4);
        let entries = vec(inner.clone(), 1..4);
        let plain = prop_oneof![
            4 => fields.clone().prop_map(Part::Map),
            2 => (insertion(), fields).prop_map(|(insertion, mut fields)| {
                fields.push(("<<".to_owned(), insertion));
                Part::Map(fields)
            }),
            2 => entries.clone().prop_map(Part::List),
            1 => (insertion(), entries, any::<bool>()).prop_map(|(insertion, mut entries, first)| {
                let insertion = Part::Map(vec![("<<".to_owned(), insertion)]);
                entries.insert(if first { 0 } else { entries.len() }, insertion);
                Part::List(entries)
            }),
        ];
        let control = prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(condition, then)| {
                Part::Map(vec![("<<if".to_owned(), condition), ("<<then".to_owned(), then)])
            }),
            (inner.clone(), inner.clone()).prop_map(|(value, body)| {
                let values = Part::Map(vec![("x".to_owned(), value)]);
                Part::Map(vec![("<<for".to_owned(), values), ("<<do".to_owned(), body)])
            }),
            (inner.clone(), inner).prop_map(|(value, field)| {
                Part::Map(vec![("<<switch".to_owned(), value), ("x".to_owned(), field)])
            }),
        ];
        prop_oneof![5 => plain, u32::from(controls) => control]
    })
}

fn plain_node() -> impl Strategy<Value = Part> {
    let marker = select(vec!["&temporary", "&tag:t", "&template", "&local"]);
    let scalar = prop_oneof![
        2 => (0..4_i64).prop_map(|number| Part::Scalar(number.to_string())),
        1 => select(vec!["x", "~", "true"]).prop_map(|text| Part::Scalar(text.to_owned())),
        5 => plain_expression().prop_map(|text| Part::Scalar(format!("(( {text} ))"))),
        1 => (marker.clone(), plain_expression())
            .prop_map(|(marker, inner)| Part::Scalar(format!("(( {marker} ( {inner} ) ))"))),
    ];
    scalar.prop_recursive(3, 12, 4, move |inner| {
        let fields = vec((name(), inner.clone()), 1..4).boxed();
        let inserted = prop_oneof![
            1 => Just("(( merge ))".to_owned()),
            1 => Just("(( merge none ))".to_owned()),
            2 => marker.clone().prop_map(|marker| format!("(( {marker} ))")),
            2 => path().prop_map(|path| format!("(( {path} ))")),
        ];
        prop_oneof![
            4 => fields.clone().prop_map(Part::Map),
            2 => (inserted, fields).prop_map(|(insertion, mut fields)| {
                fields.push(("<<".to_owned(), Part::Scalar(insertion)));
                Part::Map(fields)
            }),
            1 => vec(inner, 1..4).prop_map(Part::List),
        ]
    })
}

/// Generates documents in the part of the language that the plain passes know.
pub(super) fn plain_case() -> impl Strategy<Value = Case> {
    let text = || vec((name(), plain_node()), 2..6).prop_map(write_document);
    (text(), vec(text(), 0..3)).prop_map(|(template, stubs)| Case { template, stubs, control: false })
}

fn write_document(fields: Vec<(String, Part)>) -> String {
    let mut text = String::new();
    write_part(&Part::Map(fields), &mut text);
    text.push('\n');
    text
}

fn document(controls: bool) -> impl Strategy<Value = String> {
    vec((name(), node(controls)), 2..6).prop_map(write_document)
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    any::<bool>().prop_flat_map(|control| {
        (document(control), vec(document(false), 0..3)).prop_map(move |(template, stubs)| Case {
            template,
            stubs,
            control,
        })
    })
}

/// Writes a part in flow style, which needs no indentation.
fn write_part(part: &Part, text: &mut String) {
    match part {
        Part::Scalar(scalar) if scalar.starts_with("((") => {
            let _ = write!(text, "'{scalar}'");
        }
        Part::Scalar(scalar) => text.push_str(scalar),
        Part::Map(fields) => {
            text.push('{');
            for (position, (key, value)) in fields.iter().enumerate() {
                let _ = write!(text, "{}'{key}': ", if position > 0 { ", " } else { "" });
                write_part(value, text);
            }
            text.push('}');
        }
        Part::List(entries) => {
            text.push('[');
            for (position, entry) in entries.iter().enumerate() {
                text.push_str(if position > 0 { ", " } else { "" });
                write_part(entry, text);
            }
            text.push(']');
        }
    }
}
