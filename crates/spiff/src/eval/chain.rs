//! Evaluation of the links behind an operand: calls, steps, dynamic steps, projections (`spiff.md`
//! 5.3, 7.8 and 8.2).

use std::sync::Arc;

use super::{
    Depth, Eval, EvalError, Evaluated, Info, Readiness, arguments, call, evaluate, evaluate_to, lambda,
};
use crate::env::Env;
use crate::limits::LimitError;
use crate::run::{Run, is_resolved, read_value, reading_to_eval, shown};
use crate::syntax::ast::{Arguments, Expr, Item, Link, Range, Step};
use crate::value::{List, Node, Value};

pub(super) fn evaluate_chain(
    run: &mut Run<'_>,
    base: &Expr,
    links: &[Link],
    env: &Env<'_>,
    depth: Depth,
) -> Eval {
    let chain = Chain { base, links, env, depth };
    if let (Expr::Reference(reference), Some(Link::Call { arguments, curry })) = (base, links.first())
        && reference.tag.is_none()
        && !reference.absolute
        && let [Step::Field(name)] = reference.steps.as_slice()
        && &**name != "_"
    {
        let called = call::function(run, name, arguments, *curry, env)?.wrapped(|rest| match rest {
            Expr::Chain(base, mut left) if links.len() > 1 => {
                left.extend_from_slice(&links[1..]);
                Expr::Chain(base, left)
            }
            rest => rest,
        });
        return chain.follow(run, called, 1);
    }
    // A step picks one entry, so the rest of the value need not be final.
    let needed = match links.first() {
        Some(Link::Dynamic(_)) if matches!(base, Expr::Reference(_)) => Depth::Local,
        Some(Link::Step(_) | Link::Dynamic(_)) => depth,
        _ => Depth::Full,
    };
    let value = evaluate_to(run, base, env, needed)?;
    chain.follow(run, value, 0)
}

/// An expression with its links.
#[derive(Clone, Copy)]
struct Chain<'a, 's> {
    base: &'a Expr,
    links: &'a [Link],
    env: &'a Env<'s>,
    depth: Depth,
}

impl Chain<'_, '_> {
    /// Applies the links from `at` on to the value of the part before them.
    fn follow(self, run: &mut Run<'_>, before: Evaluated, at: usize) -> Eval {
        let mut current = before;
        let mut at = at;
        while let Some(link) = self.links.get(at) {
            let Some(value) = current.value.take() else { return self.wait(run, current, at) };
            let info = current.info;
            current = match link {
                Link::Call { arguments, curry } => {
                    let Value::Lambda(lambda) = &value else { return Err(self.not_callable(at)) };
                    at += 1;
                    lambda::call_with(run, lambda, arguments, *curry, self.env)?
                        .wrapped(|rest| self.with_arguments(at - 1, rest))
                }
                Link::Step(_) => {
                    let end = self.links[at..].iter().position(|link| !matches!(link, Link::Step(_)));
                    let end = end.map_or(self.links.len(), |count| at + count);
                    let steps: Vec<Step> = self.links[at..end].iter().filter_map(as_step).collect();
                    at = end;
                    let depth = if info.raw { Depth::Local } else { self.depth };
                    into(run, &value, &steps, depth)?
                }
                Link::Dynamic(items) => {
                    at += 1;
                    dynamic(run, &value, items, info, self.env)?
                }
                Link::All => return self.project(run, entries(&value)?, info, at + 1),
                Link::Slice(range) => {
                    let Value::List(list) = &value else {
                        return Err(EvalError::issue("slice requires array expression"));
                    };
                    match slice(run, list, range, self.env)? {
                        Some(slice) => return self.project(run, slice, info, at + 1),
                        // A projection of a pending value fails in this pass, as in spiff++.
                        None => return Err(info.issue().into()),
                    }
                }
            };
        }
        Ok(current)
    }

    /// Handles a chain whose part before the link `at` is pending.
    fn wait(self, run: &mut Run<'_>, before: Evaluated, at: usize) -> Eval {
        let mut info = before.info;
        for (position, link) in self.links.iter().enumerate().skip(at) {
            match link {
                // Arguments are evaluated in any case, because one of them may fail. Messages do
                // not mention the function.
                Link::Call { arguments, .. } => {
                    let rest = info.rest.take();
                    let (own, left) = match arguments::evaluated(run, arguments, self.env)? {
                        Readiness::Ready(given) => (given.info, None),
                        Readiness::Pending(waiting) => (waiting.info, waiting.rest),
                    };
                    info = own;
                    info.rest = self.left_over(position, rest, left);
                }
                Link::Step(_) | Link::Dynamic(_) => info.rest = None,
                Link::All | Link::Slice(_) => return Err(info.issue().into()),
            }
        }
        Ok(Evaluated::pending(info))
    }

    /// Returns the chain up to the call at `position`, if a part of function or arguments was
    /// evaluated.
    fn left_over(
        self,
        position: usize,
        function: Option<Arc<Expr>>,
        arguments: Option<Arguments>,
    ) -> Option<Arc<Expr>> {
        let Link::Call { arguments: whole, curry } = self.links.get(position)? else { return None };
        if function.is_none() && arguments.is_none() {
            return None;
        }
        let call = Link::Call { arguments: arguments.unwrap_or_else(|| whole.clone()), curry: *curry };
        let function = match function {
            Some(function) => Arc::unwrap_or_clone(function),
            None => self.before(position),
        };
        Some(Arc::new(chained(function, call)))
    }

    /// Returns the part before the link `at`, as an expression of its own.
    fn before(self, at: usize) -> Expr {
        if at == 0 {
            return self.base.clone();
        }
        Expr::Chain(Box::new(self.base.clone()), self.links[..at].to_vec())
    }

    fn not_callable(self, at: usize) -> EvalError {
        let function = self.before(at);
        EvalError::issue(format!("function call '{function}' requires function name or lambda value"))
    }

    /// Replaces the call at `at` by `call`.
    fn with_arguments(self, at: usize, call: Expr) -> Expr {
        let Expr::Chain(_, links) = call else { return call };
        let mut all = self.links[..at].to_vec();
        all.extend(links);
        all.extend_from_slice(&self.links[at + 1..]);
        Expr::Chain(Box::new(self.base.clone()), all)
    }

    /// Applies the links from `at` on to each entry. As in spiff++, a failure has no message
    /// (`spiff.md` 7.8 does not ask for one).
    fn project(self, run: &mut Run<'_>, entries: Vec<Node>, mut info: Info, at: usize) -> Eval {
        if at >= self.links.len() {
            let list = Value::List(Arc::new(entries.into_iter().collect()));
            return Ok(Evaluated { value: Some(list), info });
        }
        let mut results = Vec::with_capacity(entries.len());
        for entry in entries {
            let before = Evaluated { value: Some(entry.value), info: Info::default() };
            let result = match self.follow(run, before, at) {
                Err(EvalError::Issue(_)) => return Err(info.issue().into()),
                result => result?,
            };
            let Some(value) = result.value else {
                info.join(result.info);
                return Ok(Evaluated::pending(info));
            };
            results.push(arguments::made(value, self.env));
        }
        Ok(Evaluated { value: Some(Value::List(Arc::new(results.into_iter().collect()))), info })
    }
}

/// Returns an expression with `link` behind it.
fn chained(expression: Expr, link: Link) -> Expr {
    match expression {
        Expr::Chain(base, mut links) => {
            links.push(link);
            Expr::Chain(base, links)
        }
        expression => Expr::Chain(Box::new(expression), vec![link]),
    }
}

fn as_step(link: &Link) -> Option<Step> {
    match link {
        Link::Step(step) => Some(step.clone()),
        _ => None,
    }
}

/// Takes steps into a value that is already evaluated.
fn into(run: &Run<'_>, value: &Value, steps: &[Step], depth: Depth) -> Eval {
    let reading = read_value(&Node::new(value.clone()), steps, depth == Depth::Full, run.control());
    reading_to_eval(reading, |count| shown(&steps[..count], false))
}

/// Evaluates `.[EXPR]`. As in spiff++, a pending or failing index has no message, and the value
/// found must be final as a whole.
fn dynamic(run: &mut Run<'_>, value: &Value, items: &[Item], root: Info, env: &Env<'_>) -> Eval {
    let given = match arguments::items(run, items, env, Expr::List) {
        Err(EvalError::Issue(_)) => return Err(root.issue().into()),
        given => given?,
    };
    let Readiness::Ready(given) = given else { return Ok(Evaluated::pending(root.settled())) };
    let indices = match given.positional.as_slice() {
        [Node { value: Value::Int(_) | Value::Data(_), .. }] if !matches!(value, Value::List(_)) => {
            return Err(EvalError::issue("index requires array expression"));
        }
        [Node { value: Value::List(list), .. }] => list.iter().cloned().collect(),
        _ => given.positional,
    };
    if indices.is_empty() {
        let message = "at least one index or field name required for reference qualifier";
        return Err(EvalError::issue(message));
    }
    let mut steps = Vec::with_capacity(indices.len());
    for index in &indices {
        if !is_resolved(index, run.control()) {
            return Ok(Evaluated::pending(root.settled()));
        }
        steps.push(qualifier(&index.value)?);
    }
    let found = into(run, value, &steps, Depth::Local)?;
    match &found.value {
        Some(value) if !is_resolved(&Node::new(value.clone()), run.control()) => {
            Ok(Evaluated::pending(found.info))
        }
        _ => Ok(found),
    }
}

fn qualifier(value: &Value) -> Result<Step, EvalError> {
    match value {
        Value::String(name) => Ok(Step::Field(Arc::clone(name))),
        Value::Int(index) | Value::Data(index) => Ok(Step::Index(*index)),
        _ => Err(EvalError::issue("index or field name required for reference qualifier")),
    }
}

/// Returns the entries for `[*]`.
fn entries(value: &Value) -> Result<Vec<Node>, EvalError> {
    match value {
        Value::List(list) => Ok(list.iter().cloned().collect()),
        Value::Map(map) => Ok(map.iter().map(|(_, node)| node.clone()).collect()),
        _ => Err(EvalError::issue("only map or list allowed for projection")),
    }
}

/// Evaluates one end of a range; `None` if it was not written. Nil counts as 0.
fn bound(run: &mut Run<'_>, end: Option<&Expr>, env: &Env<'_>) -> Result<Bound, EvalError> {
    let Some(end) = end else { return Ok(Bound::Absent) };
    let mut evaluated = evaluate(run, end, env)?;
    match evaluated.value {
        None => Ok(Bound::Pending(evaluated.info.rest.take())),
        Some(Value::Nil) => Ok(Bound::At(0)),
        Some(value) => match value.as_int() {
            Some(number) => Ok(Bound::At(number)),
            None => Err(EvalError::issue("integer operand required")),
        },
    }
}

enum Bound {
    Absent,
    At(i64),
    /// The end is pending; its remaining expression, if a part was evaluated.
    Pending(Option<Arc<Expr>>),
}

impl Bound {
    fn into_rest(self, whole: Option<&Expr>) -> (Option<Expr>, bool) {
        match self {
            Self::Pending(Some(rest)) => (Some(Arc::unwrap_or_clone(rest)), true),
            _ => (whole.cloned(), false),
        }
    }
}

/// Evaluates `[a..b]`. A pending end has no message.
pub(super) fn range(run: &mut Run<'_>, range: &Range, env: &Env<'_>) -> Eval {
    let (Some(first), Some(last)) = (&range.start, &range.end) else {
        return Err(EvalError::issue("range expression requires start and end index"));
    };
    let start = bound(run, Some(first), env)?;
    let end = bound(run, Some(last), env)?;
    let (start, end) = match (start, end) {
        (Bound::At(start), Bound::At(end)) => (start, end),
        (start, end) => {
            let (start, in_start) = start.into_rest(Some(first));
            let (end, in_end) = end.into_rest(Some(last));
            let rest = (in_start || in_end).then(|| Arc::new(Expr::Range(Box::new(Range { start, end }))));
            let mut info = Info::default();
            info.rest = rest;
            return Ok(Evaluated::pending(info));
        }
    };
    let limit = run.settings.limits.nodes;
    if start.abs_diff(end) >= limit as u64 {
        return Err(run.stop(LimitError::Nodes(limit)));
    }
    run.spend(start.abs_diff(end))?;
    let numbers: Vec<Value> = if start <= end {
        (start..=end).map(Value::Int).collect()
    } else {
        (end..=start).rev().map(Value::Int).collect()
    };
    Evaluated::ok(Value::list(numbers))
}

/// Evaluates `list.[a..b]`, both ends included; `None` if an end is pending. A failing end has no
/// message.
fn slice(
    run: &mut Run<'_>,
    list: &List,
    range: &Range,
    env: &Env<'_>,
) -> Result<Option<Vec<Node>>, EvalError> {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if range.start.is_none() && range.end.is_none() {
        return Err(EvalError::issue("slice requires at least one bound"));
    }
    let mut evaluated = |end: Option<&Expr>| match bound(run, end, env) {
        Err(EvalError::Issue(_)) => Err(EvalError::issue("")),
        end => end,
    };
    let (first, last) = (evaluated(range.start.as_ref())?, evaluated(range.end.as_ref())?);
    let (start, end) = match (first, last) {
        (Bound::Pending(_), _) | (_, Bound::Pending(_)) => return Ok(None),
        (Bound::At(start), Bound::At(end)) => (start, end),
        (Bound::At(start), Bound::Absent) => (start, if start < 0 { -1 } else { length - 1 }),
        (Bound::Absent, Bound::At(end)) => (if end < 0 { -length } else { 0 }, end),
        (Bound::Absent, Bound::Absent) => (0, length - 1),
    };
    if start > end {
        return Ok(Some(Vec::new()));
    }
    if (start < 0) != (end < 0) {
        return Err(EvalError::issue("mixed negative and non-negative range not possible for slice"));
    }
    for bound in [start, end] {
        if bound >= length {
            return Err(EvalError::issue(format!("slice out of range ({bound} >= length {length})")));
        }
        if bound < -length {
            return Err(EvalError::issue(format!("slice out of range ({bound} < -length {length})")));
        }
    }
    let position = |bound: i64| usize::try_from(if bound < 0 { bound + length } else { bound }).unwrap_or(0);
    // A copied node has a place of its own in the document.
    run.spend(4 * end.abs_diff(start))?;
    Ok(Some(list.iter().take(position(end) + 1).skip(position(start)).cloned().collect()))
}
