use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::syntax::ast::{Arguments, Name, Parameter};
use crate::syntax::parse;

/// Generates names that do not begin with a reserved word.
fn name() -> impl Strategy<Value = Name> {
    "[b-dg-km-z_][a-z0-9_]{0,4}"
        .prop_filter("not reserved", |name| !name.starts_with("nil"))
        .prop_map(Arc::from)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        "[a-z0-9_][a-z0-9_-]{0,4}".prop_map(|key| Step::Field(Arc::from(key))),
        any::<i64>().prop_map(Step::Index)
    ]
}

fn reference() -> impl Strategy<Value = Reference> {
    let tag = option::weighted(0.1, "[a-z]{1,3}([.:][a-z]{1,3})?".prop_map(Name::from));
    (tag, any::<bool>(), name(), vec(step(), 0..4)).prop_map(|(tag, absolute, first, mut steps)| {
        if !(tag.is_some() && absolute) {
            steps.insert(0, Step::Field(first));
        }
        Reference { tag, absolute, steps }
    })
}

fn literal() -> impl Strategy<Value = Expr> {
    prop_oneof![
        Just(Expr::Nil),
        Just(Expr::Undefined),
        any::<bool>().prop_map(Expr::Bool),
        any::<i64>().prop_map(Expr::Int),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Expr::Float),
        any::<String>().prop_map(|text| Expr::String(Arc::from(text))),
        Just(Expr::Auto),
        reference().prop_map(Expr::Reference),
        merge().prop_map(Expr::Merge),
    ]
}

fn merge() -> impl Strategy<Value = Merge> {
    let option = prop_oneof![Just(MergeOption::Replace), name().prop_map(MergeOption::On)];
    prop_oneof![
        Just(Merge { option: MergeOption::None, path: None }),
        (option, option::of(reference()))
            // This form is printed as another one, so it does not survive the round trip.
            .prop_filter("as spiff++ prints it", |(option, path)| {
                *option != MergeOption::Replace || path.is_some()
            })
            .prop_map(|(option, path)| Merge { option, path }),
    ]
}

fn operand(inner: &BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let items = || {
        vec((inner.clone(), any::<bool>()).prop_map(|(expression, expand)| Item { expression, expand }), 0..3)
    };
    let pairs = vec((inner.clone(), inner.clone()), 0..3);
    let range =
        (option::of(inner.clone()), option::of(inner.clone())).prop_map(|(start, end)| Range { start, end });
    let arguments = (vec((name(), inner.clone()), 0..2), items())
        .prop_map(|(named, positional)| Arguments { named, positional });
    let link = prop_oneof![
        (arguments, any::<bool>()).prop_map(|(arguments, curry)| Link::Call { arguments, curry }),
        name().prop_map(|name| Link::Step(Step::Field(name))),
        items().prop_filter("one item is an index", |items| items.len() > 1).prop_map(Link::Dynamic),
        Just(Link::All),
        range.clone().prop_map(Link::Slice),
    ];
    let form = prop_oneof![
        Just(Form::MapList),
        Just(Form::MapMap),
        Just(Form::SelectList),
        Just(Form::SelectMap),
        Just(Form::FilterList),
        Just(Form::FilterMap),
        Just(Form::Sum),
    ];
    let group = || inner.clone().prop_map(|inner| Expr::Group(Box::new(inner)));
    let body = prop_oneof![lambda(inner.clone()), group()];
    let mapping = (form, group(), group(), body.clone()).prop_map(|(form, source, initial, lambda)| {
        let initial = (form == Form::Sum).then_some(initial);
        Expr::Mapping(Box::new(Mapping { form, source, initial, lambda }))
    });
    let sync = (group(), lambda(inner.clone()), option::of(inner.clone()), option::of(group())).prop_map(
        |(expression, condition, value, timeout)| {
            let timeout = timeout.filter(|_| value.is_some());
            let value_shares_parameters = value.is_some();
            Expr::Sync(Box::new(Sync { expression, condition, value, value_shares_parameters, timeout }))
        },
    );
    prop_oneof![
        3 => literal(),
        2 => group(),
        1 => inner.clone().prop_map(|inner| Expr::Not(Box::new(inner))),
        1 => inner.clone().prop_map(|inner| Expr::Substitute(Box::new(inner))),
        1 => items().prop_map(Expr::List),
        1 => pairs.prop_map(Expr::Map),
        1 => range.prop_map(|range| Expr::Range(Box::new(range))),
        1 => mapping,
        1 => sync,
        1 => (group(), body).prop_map(|(expression, handler)| Expr::Catch {
            expression: Box::new(expression),
            handler: Box::new(handler),
        }),
        2 => (group(), vec(link, 1..3)).prop_map(|(start, links)| Expr::Chain(Box::new(start), links)),
    ]
    .boxed()
}

fn lambda(body: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let default = body.clone().prop_map(|inner| Expr::Group(Box::new(inner)));
    (vec(name(), 0..3), option::of(default), any::<bool>(), body)
        .prop_map(|(names, default, variadic, body)| {
            let mut parameters: Vec<_> =
                names.into_iter().map(|name| Parameter { name, default: None }).collect();
            if let Some(last) = parameters.last_mut() {
                last.default = default;
            }
            let variadic = variadic && !parameters.is_empty();
            Expr::Lambda(Arc::new(LambdaExpr { parameters, variadic, body }))
        })
        .boxed()
}

fn expression() -> impl Strategy<Value = Expr> {
    literal().prop_recursive(4, 48, 4, |inner| {
        let operand = operand(&inner);
        let pair = (operand.clone(), operand.clone());
        let operator = prop::sample::select(vec![
            Operator::Add,
            Operator::Subtract,
            Operator::Multiply,
            Operator::Divide,
            Operator::Modulo,
            Operator::Equal,
            Operator::NotEqual,
            Operator::Less,
            Operator::LessEqual,
            Operator::Greater,
            Operator::GreaterEqual,
            Operator::And,
            Operator::Or,
            Operator::Concatenate,
            Operator::Otherwise,
            Operator::OtherwiseValid,
        ]);
        prop_oneof![
            3 => operand.clone(),
            2 => (operator, pair).prop_map(|(operator, (left, right))| {
                Expr::Binary(operator, Box::new(separated(left)), Box::new(right))
            }),
            1 => (operand.clone(), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| Expr::Conditional(Box::new(c), Box::new(a), Box::new(b))),
            1 => lambda(inner.clone()),
            1 => (vec((inner.clone(), inner.clone()), 0..3), inner)
                .prop_map(|(pairs, body)| Expr::Scope(pairs, Box::new(body))),
        ]
    })
}

/// Puts brackets around a `merge` without a path, because a text behind it would be read as its
/// path.
fn separated(left: Expr) -> Expr {
    match left {
        Expr::Merge(Merge { path: None, ref option }) if *option != MergeOption::None => {
            Expr::Group(Box::new(left))
        }
        left => left,
    }
}

/// Removes the brackets that prefix operators print around their operand.
fn compact(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '(' | ')' | ' ')).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn printing_then_parsing_is_the_identity(expression in expression()) {
        let printed = expression.to_string();
        let parsed = parse(&printed).map_err(|error| TestCaseError::fail(format!("{printed}: {error}")))?;
        // Steps behind a call or a group are printed behind brackets, which parse as an expression
        // of their own.
        if !printed.contains(").") {
            prop_assert_eq!(ungrouped(&parsed), ungrouped(&expression), "{}", printed);
        }
        prop_assert_eq!(compact(&parsed.to_string()), compact(&printed));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-c0-9 .:|\\[\\](){}\"\\\\,=+*!?~&>-]{0,40}") {
        if let Ok(parsed) = parse(&text) {
            let printed = parsed.to_string();
            let again = parse(&printed);
            prop_assert!(again.is_ok(), "{} as {}", text, printed);
        }
    }
}

/// Returns the debug text without the groups directly in a prefix operator: `!(A)` parses as `!`
/// before a group.
fn ungrouped(expression: &Expr) -> String {
    let mut text = format!("{expression:?}");
    for prefix in ["Not(", "Substitute("] {
        let grouped = format!("{prefix}Group(");
        while let Some(at) = text.find(&grouped) {
            let start = at + prefix.len();
            let end = closing(&text, start + "Group".len());
            text.replace_range(end..=end, "");
            text.replace_range(start..start + "Group(".len(), "");
        }
    }
    text
}

/// Returns the position at which the bracket at `open` closes, in debug text; quoted strings are
/// skipped.
fn closing(text: &str, open: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut level, mut at) = (0, open);
    loop {
        match bytes[at] {
            b'(' => level += 1,
            b')' => {
                level -= 1;
                if level == 0 {
                    return at;
                }
            }
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {}
        }
        at += 1;
    }
}
