//! The concatenation of neighbouring expressions (`spiff.md` 7.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_go::strconv::format_g;

use crate::issue::Issue;
use crate::issue::quote;
use crate::syntax::ast::Expr;
use crate::value::{Lambda, Map, Node, Value};

/// Evaluates `A B` on strings, lists, or maps. The expressions are those of the operands, for the
/// message.
///
/// # Errors
///
/// Types that do not concatenate.
pub(crate) fn concatenate(
    first: &Value,
    second: &Value,
    first_expression: &Expr,
    second_expression: &Expr,
) -> Result<Value, Issue> {
    if let Some(text) = text_of(first) {
        let behind = match second {
            Value::Lambda(lambda) => Some(lambda_text(lambda)),
            second => text_of(second),
        };
        if let Some(behind) = behind {
            return Ok(Value::string(text + &behind));
        }
    }
    match (first, second) {
        (Value::List(_) | Value::Map(_), Value::Nil) => Ok(first.clone()),
        (Value::List(list), Value::List(other)) => {
            Ok(Value::List(Arc::new(list.iter().chain(other.iter()).cloned().collect())))
        }
        (Value::List(list), other) => {
            let last = Node::new(other.clone());
            Ok(Value::List(Arc::new(list.iter().cloned().chain([last]).collect())))
        }
        (Value::Map(map), Value::Map(other)) => Ok(Value::Map(Arc::new(union(map, other)))),
        _ => Err(Issue::new(format!(
            "type '{}'({second_expression}) cannot be concatenated with type '{}'({first_expression})",
            second.type_name(),
            first.type_name(),
        ))),
    }
}

fn union(map: &Map, other: &Map) -> Map {
    map.iter().chain(other).cloned().collect()
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Int(number) | Value::Data(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Returns the text of a lambda and its captured names, for strings and messages.
pub(crate) fn lambda_text(lambda: &Lambda) -> String {
    lambda_at(lambda, 0)
}

/// Levels of lambdas captured by lambdas that are shown. The text is shortened afterwards, but
/// would have to be built in full first.
const DEEPEST: usize = 3;

fn lambda_at(lambda: &Lambda, depth: usize) -> String {
    if lambda.statics.is_empty() || depth > DEEPEST {
        return lambda.expression.to_string();
    }
    format!("{}{}", names_at(&lambda.statics, depth + 1), lambda.expression)
}

/// Returns local names and their values as `{x: 1}`, without the middle if it is long. Of two equal
/// names the last one counts.
pub(crate) fn names_text<'a>(names: impl IntoIterator<Item = &'a (Arc<str>, Value)>) -> String {
    names_at(names, 0)
}

fn names_at<'a>(names: impl IntoIterator<Item = &'a (Arc<str>, Value)>, depth: usize) -> String {
    let names: BTreeMap<&str, &Value> =
        names.into_iter().map(|(name, value)| (&**name, value)).filter(|(name, _)| *name != "_").collect();
    let names: Vec<_> =
        names.into_iter().map(|(name, value)| format!("{name}: {}", go_syntax_at(value, depth))).collect();
    shorten(&format!("{{{}}}", names.join(", ")))
}

/// Characters of a value that can be visible in a message that is shortened afterwards.
const VISIBLE: usize = 200;

/// Returns a value on one line, as Go's `%#v` shows it in spiff++.
pub(crate) fn go_syntax(value: &Value) -> String {
    go_syntax_at(value, 0)
}

fn go_syntax_at(value: &Value, depth: usize) -> String {
    match value {
        Value::String(text) => quote(&text.chars().take(VISIBLE).collect::<String>()),
        Value::List(list) => {
            let entries: Vec<_> =
                list.values().take(VISIBLE).map(|value| go_syntax_at(value, depth)).collect();
            format!("[{}]", entries.join(", "))
        }
        Value::Map(map) => {
            let fields: Vec<_> = map
                .iter()
                .filter(|(key, _)| &**key != "_")
                .take(VISIBLE)
                .map(|(key, node)| format!("{key}: {}", go_syntax_at(&node.value, depth)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Lambda(lambda) => lambda_at(lambda, depth),
        scalar => short(scalar),
    }
}

/// Returns a value on one line, as Go's `%v` shows it in spiff++.
pub(crate) fn short(value: &Value) -> String {
    match value {
        Value::Nil => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) | Value::Data(number) => number.to_string(),
        Value::Float(number) => format_g(*number),
        Value::String(text) => text.to_string(),
        Value::Binary(bytes) => {
            let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
            format!("[{}]", numbers.join(" "))
        }
        Value::List(list) => {
            let entries: Vec<_> = list.values().map(short).collect();
            format!("[{}]", entries.join(", "))
        }
        Value::Map(map) => {
            let fields: Vec<_> = map.iter().map(|(key, node)| (key, &node.value)).collect();
            short_map(&fields)
        }
        Value::Expression(pending) => pending.0.to_string(),
        Value::Lambda(lambda) => lambda_text(lambda),
        Value::Template(_) => "<template>".to_owned(),
    }
}

fn short_map(fields: &[(&Arc<str>, &Value)]) -> String {
    let mut fields = fields.to_vec();
    fields.sort_by(|left, right| left.0.cmp(right.0));
    let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("{key}: {}", short(value))).collect();
    format!("{{{}}}", fields.join(", "))
}

/// Removes the middle of a text of more than 40 characters (`spiff.md` 8.2).
pub(crate) fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length <= 40 {
        return text.to_owned();
    }
    let head: String = text.chars().take(17).collect();
    let tail: String = text.chars().skip(length - 17).collect();
    format!("{head} ... {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;
    use crate::yaml::to_json;

    fn join(first: &Value, second: &Value) -> String {
        match concatenate(first, second, &parse("a").unwrap(), &parse("b.c").unwrap()) {
            Ok(value) => to_json(&value).unwrap(),
            Err(issue) => issue.message,
        }
    }

    fn lambda() -> Value {
        let Ok(Expr::Lambda(expression)) = parse("|y|->x + y") else { unreachable!() };
        let statics = vec![(Arc::from("x"), Value::Int(1)), (Arc::from("_"), Value::Nil)];
        Value::Lambda(Arc::new(Lambda { expression, defaults: vec![None], statics, scope: None }))
    }

    #[test]
    fn concatenation_by_7_4() {
        let text = Value::string;
        let list = || Value::list([Value::Int(1)]);
        let map = |key: &str, number| Value::map([(key, Value::Int(number))]);
        for (first, second, result) in [
            (text("v"), Value::Int(1), r#""v1""#),
            (Value::Int(1), Value::Bool(true), r#""1true""#),
            (Value::Data(5), text("x"), r#""5x""#),
            (Value::Bool(false), text(""), r#""false""#),
            (text("f: "), lambda(), r#""f: {x: 1}lambda|y|-\u003ex + y""#),
            (list(), list(), "[1,1]"),
            (list(), Value::Nil, "[1]"),
            (list(), map("k", 5), r#"[1,{"k":5}]"#),
            (map("a", 1), map("b", 2), r#"{"a":1,"b":2}"#),
            (map("a", 1), map("a", 2), r#"{"a":2}"#),
            (map("a", 1), Value::Nil, r#"{"a":1}"#),
            (text("x"), Value::Float(1.5), "type 'float'(b.c) cannot be concatenated with type 'string'(a)"),
            (text("x"), Value::Nil, "type 'nil'(b.c) cannot be concatenated with type 'string'(a)"),
            (Value::Nil, text("x"), "type 'string'(b.c) cannot be concatenated with type 'nil'(a)"),
            (lambda(), text("x"), "type 'string'(b.c) cannot be concatenated with type 'lambda'(a)"),
            (map("a", 1), list(), "type 'list'(b.c) cannot be concatenated with type 'map'(a)"),
        ] {
            assert_eq!(join(&first, &second), result);
        }
    }

    #[test]
    fn long_values_lose_their_middle() {
        let value =
            Value::map([("b", Value::list([Value::Nil, Value::Float(1.5)])), ("a", Value::string("x"))]);
        assert_eq!(short(&value), "{a: x, b: [<nil>, 1.5]}");
        assert_eq!(shorten(&"é".repeat(40)), "é".repeat(40));
        assert_eq!(
            shorten(&format!("{}{}", "a".repeat(30), "b".repeat(30))),
            format!("{} ... {}", "a".repeat(17), "b".repeat(17))
        );
    }
}
