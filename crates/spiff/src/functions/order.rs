//! `sort` (`spiff.md` 11.3).

use std::sync::Arc;

use super::arguments::{count, list};
use super::calling::{Answer, Caller};
use crate::issue::Issue;
use crate::value::{Lambda, List, Node, Value};

/// Comparison: whether the first value comes before the second; `None` as with [`Caller::call`].
type Less<'a> = dyn FnMut(&Value, &Value) -> Result<Option<bool>, Issue> + 'a;

/// `sort(list [, lambda])`, stable, as a new list **[D6]**.
pub(super) fn sort(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 1..=2, "sort takes one or two arguments")?;
    let list = list(&arguments[0], "argument for sort must be a list")?;
    let nodes: Vec<Node> = list.iter().cloned().collect();
    let sorted = match arguments.get(1) {
        None => return by_value(nodes).map(Some),
        Some(Value::Lambda(lambda)) => {
            merge_sort(nodes, &mut |first, second| by_lambda(caller, lambda, first, second))
        }
        Some(_) => return Err("second argument for sort must be a lambda function".into()),
    };
    let sorted = sorted.map_err(|issue| Issue::caused("sort failed", issue))?;
    Ok(sorted.map(|nodes| Value::List(Arc::new(List::new(nodes)))))
}

fn by_value(mut nodes: Vec<Node>) -> Result<Value, Issue> {
    let is_uniform = nodes.len() < 2
        || nodes.iter().all(|node| node.value.as_str().is_some())
        || nodes.iter().all(|node| node.value.as_int().is_some());
    if !is_uniform {
        let cause = Issue::new("list elements must either be strings or integers");
        return Err(Issue::caused("sort failed", cause));
    }
    nodes.sort_by(|first, second| {
        let ints = first.value.as_int().cmp(&second.value.as_int());
        ints.then_with(|| first.value.as_str().cmp(&second.value.as_str()))
    });
    Ok(Value::List(Arc::new(List::new(nodes))))
}

fn by_lambda(
    caller: &mut dyn Caller,
    lambda: &Arc<Lambda>,
    first: &Value,
    second: &Value,
) -> Result<Option<bool>, Issue> {
    match caller.call(lambda, &[first.clone(), second.clone()])? {
        None => Ok(None),
        Some(Value::Bool(less)) => Ok(Some(less)),
        Some(order) => {
            let order = order.as_int().ok_or("lambda must return a bool or integer")?;
            Ok(Some(order < 0))
        }
    }
}

/// A merge sort of our own. The standard library's sort may panic if the comparison is not an
/// order, and a lambda need not give one or may fail.
fn merge_sort(nodes: Vec<Node>, less: &mut Less<'_>) -> Result<Option<Vec<Node>>, Issue> {
    if nodes.len() < 2 {
        return Ok(Some(nodes));
    }
    let mut left = nodes;
    let right = left.split_off(left.len() / 2);
    let Some(left) = merge_sort(left, less)? else { return Ok(None) };
    let Some(right) = merge_sort(right, less)? else { return Ok(None) };
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let Some(is_less) = less(&second.value, &first.value)? else { return Ok(None) };
        merged.extend(if is_less { right.next() } else { left.next() });
    }
    merged.extend(left.chain(right));
    Ok(Some(merged))
}
