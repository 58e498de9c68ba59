//! What the interpreter does otherwise than `packagevariants.md` 4.4 is put in terms of functions of our own before it runs.

use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr};
use cel::parser::Expression;
use cel::{Context, ExecutionError, Value};
use groundwork_go::strconv::format_g;

use crate::patterns::Patterns;

/// Texts of numbers and times as Go prints them.
const TEXT: &str = "@text";
/// The keys of a map in byte order; the interpreter has them in any.
const SORTED: &str = "@sorted";
/// A point in time in UTC; the interpreter keeps the zone that it was written in.
const UTC: &str = "@utc";

/// Whether a text matches a pattern; the interpreter compiles the pattern each time.
pub(crate) const MATCHES: &str = "@matches";

/// The expression in terms of those functions, and whether it calls any.
pub(crate) fn rewritten(expression: &Expression) -> (Expression, bool) {
    let mut expression = expression.clone();
    let mut calls = false;
    rewrite(&mut expression, &mut calls);
    (expression, calls)
}

fn rewrite(node: &mut Expression, calls: &mut bool) {
    match &mut node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => rewrite(&mut select.operand, calls),
        Expr::List(list) => list.elements.iter_mut().for_each(|element| rewrite(element, calls)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key, calls);
                    rewrite(&mut entry.value, calls);
                }
            }
        }
        Expr::Struct(_) => {}
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| rewrite(target, calls));
            call.args.iter_mut().for_each(|argument| rewrite(argument, calls));
            match (call.func_name.as_str(), &call.target, call.args.len()) {
                ("string", None, 1) => {
                    TEXT.clone_into(&mut call.func_name);
                    *calls = true;
                }
                // `text.matches(pattern)` and `matches(text, pattern)`.
                ("matches", Some(_), 1) | ("matches", None, 2) => {
                    if let Some(target) = call.target.take() {
                        call.args.insert(0, *target);
                    }
                    MATCHES.clone_into(&mut call.func_name);
                    *calls = true;
                }
                ("timestamp", None, 1) => {
                    wrap(node, UTC);
                    *calls = true;
                }
                _ => {}
            }
        }
        Expr::Comprehension(made) => {
            rewrite(&mut made.iter_range, calls);
            if !matches!(made.iter_range.expr, Expr::List(_)) && made.iter_var2.is_none() {
                wrap(&mut made.iter_range, SORTED);
                *calls = true;
            }
            for part in [&mut made.accu_init, &mut made.loop_cond, &mut made.loop_step, &mut made.result] {
                rewrite(part, calls);
            }
        }
    }
}

fn wrap(node: &mut Expression, function: &str) {
    let inner = std::mem::replace(&mut node.expr, Expr::Unspecified);
    let argument = Expression { id: node.id, expr: inner };
    node.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args: vec![argument] });
}

/// Makes the functions known.
pub(crate) fn add_helpers(context: &mut Context<'_, '_>, patterns: &Arc<Patterns>) {
    let patterns = Arc::clone(patterns);
    let matches = move |text: Value, pattern: Value| patterns.matches(&text, &pattern);
    // The one error is a clash with a function of that name, and no other name begins with `@`.
    let _ = context.add_function(MATCHES, matches);
    let _ = context.add_function(TEXT, text);
    let _ = context.add_function(SORTED, sorted);
    let _ = context.add_function(UTC, utc);
}

fn text(value: Value) -> Result<Value, ExecutionError> {
    let text = match value {
        Value::String(_) => return Ok(value),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Float(number) => format_g(number),
        Value::Bytes(bytes) => match String::from_utf8(bytes.to_vec()) {
            Ok(text) => text,
            Err(_) => return Err(failed("string", "the bytes are no text")),
        },
        Value::Timestamp(time) => {
            let seconds = time.format("%Y-%m-%dT%H:%M:%S").to_string();
            format!("{seconds}{}Z", fraction(time.timestamp_subsec_nanos()))
        }
        Value::Duration(duration) => {
            let sign = if duration < chrono::Duration::zero() { "-" } else { "" };
            let duration = duration.abs();
            let nanos = u32::try_from(duration.subsec_nanos()).unwrap_or_default();
            format!("{sign}{}{}s", duration.num_seconds(), fraction(nanos))
        }
        _ => return Err(failed("string", "no such overload")),
    };
    Ok(text.into())
}

fn failed(function: &str, message: &str) -> ExecutionError {
    ExecutionError::FunctionError { function: function.to_owned(), message: message.to_owned() }
}

/// Behind the point, without zeros at the end.
fn fraction(nanos: u32) -> String {
    if nanos == 0 {
        return String::new();
    }
    format!(".{}", format!("{nanos:09}").trim_end_matches('0'))
}

fn sorted(value: Value) -> Value {
    let Value::Map(map) = &value else { return value };
    let mut keys: Vec<_> = map.map.keys().cloned().collect();
    keys.sort();
    keys.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

fn utc(value: Value) -> Value {
    match value {
        Value::Timestamp(time) => Value::Timestamp(time.to_utc().fixed_offset()),
        other => other,
    }
}
