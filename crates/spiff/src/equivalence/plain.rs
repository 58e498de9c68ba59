//! A literal implementation of the passes of `spiff.md` 1.3, for the part of the language that the
//! documents of [`super::documents::plain_case`] use. Each pass makes a new tree, and a pass that
//! changes no node is the last.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::operators::{arithmetic, concatenate};
use crate::syntax::ast::{Expr, Form, Item, LambdaExpr, Link, Marked, Marker, Operator, Reference, Step};
use crate::syntax::strings::is_dynaml;
use crate::value::{Node as Read, Value};
use crate::{Document, Limits, syntax, yaml};

#[derive(Debug, Clone, PartialEq, Default)]
struct Node {
    value: Plain,
    merged: bool,
    injected: bool,
    temporary: bool,
    local: bool,
    undefined: bool,
    tag: Option<String>,
    redirect_off: bool,
    /// True if the node could not take its insertion.
    failed: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
enum Plain {
    #[default]
    Nil,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Fields),
    Expression(Rc<Expr>),
    Lambda(std::sync::Arc<LambdaExpr>, Vec<(String, Node)>),
    Template(Box<Node>),
}

type Fields = BTreeMap<String, Node>;

/// A scalar, computed by the engine's own operators: the tests compare when values are computed,
/// not how.
#[derive(Debug, Clone)]
struct Scalar(Value);

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        yaml::write(&self.0) == yaml::write(&other.0)
    }
}

#[derive(Clone)]
enum Scope {
    Document(Rc<Fields>),
    Local(Vec<(String, Node)>),
}

#[derive(Clone)]
struct Env<'a> {
    scopes: Vec<Scope>,
    root: &'a Node,
    path: Vec<String>,
    stubs: &'a [Node],
    no_merge: bool,
    calls: usize,
}

/// Nested calls of lambdas and templates; deeper nesting counts as endless recursion.
const CALLS: usize = 40;

thread_local! {
    /// True after a recursion that was too deep. The engine ends the run then, so no `||` or
    /// `catch` may hide it.
    static TOO_DEEP: Cell<bool> = const { Cell::new(false) };
}

struct EvalError;
/// A value, or `None` while it is pending.
type Eval = Result<Option<Node>, EvalError>;
/// Tags by name, with the path of their definition.
type Tags = BTreeMap<String, (Vec<String>, Node)>;

/// Passes that no generated document needs. A document that needs more is reported separately.
const PASSES: usize = 400;

/// Returns the finished document as YAML. `Err("")` means that some expressions have no value.
pub(super) fn cascade(template: &str, stubs: &[String]) -> Result<String, &'static str> {
    let read = |text: &str| match Document::read(text, "test", &Limits::default()) {
        Ok(document) => from_read(&document.node),
        Err(_) => Node::default(),
    };
    let mut done: Vec<Node> = Vec::new();
    for stub in stubs.iter().rev() {
        let mut stub = flow(read(stub), &done)?;
        remove(&mut stub, &|node| node.local);
        done.insert(0, stub);
    }
    let mut result = flow(read(template), &done)?;
    remove(&mut result, &|node| node.local || node.temporary);
    Ok(yaml::write(&to_value(&result)))
}

fn flow(mut current: Node, stubs: &[Node]) -> Result<Node, &'static str> {
    let mut tags = Tags::new();
    TOO_DEEP.set(false);
    for _ in 0..PASSES {
        let env =
            Env { scopes: Vec::new(), root: &current, path: Vec::new(), stubs, no_merge: false, calls: 0 };
        let next = flow_node(&current, &env, true, &mut tags);
        if TOO_DEEP.get() {
            return Err("too deep");
        }
        if next == current {
            return if unresolved(&current) { Err("unresolved") } else { Ok(current) };
        }
        current = next;
    }
    Err("no rest")
}

fn from_read(node: &Read) -> Node {
    let value = match &node.value {
        Value::Map(map) => {
            Plain::Map(map.iter().map(|(key, node)| (key.to_string(), from_read(node))).collect())
        }
        Value::List(list) => Plain::List(list.iter().map(from_read).collect()),
        Value::Nil => Plain::Nil,
        scalar => Plain::Scalar(Scalar(scalar.clone())),
    };
    plain(value)
}

fn plain(value: Plain) -> Node {
    Node { value, ..Node::default() }
}

fn to_value(node: &Node) -> Value {
    match &node.value {
        Plain::Nil => Value::Nil,
        Plain::Scalar(scalar) => scalar.0.clone(),
        Plain::List(list) => Value::list(list.iter().map(to_value)),
        Plain::Map(map) => Value::map(map.iter().map(|(key, node)| (key.as_str(), to_value(node)))),
        Plain::Expression(expression) => Value::string(format!("(( {expression} ))")),
        Plain::Lambda(lambda, _) => Value::string(format!("(( {lambda} ))")),
        Plain::Template(_) => Value::string("template"),
    }
}

fn remove(node: &mut Node, gone: &dyn Fn(&Node) -> bool) {
    match &mut node.value {
        Plain::Map(map) => {
            map.retain(|_, node| !gone(node));
            map.values_mut().for_each(|node| remove(node, gone));
        }
        Plain::List(list) => {
            list.retain(|node| !gone(node));
            list.iter_mut().for_each(|node| remove(node, gone));
        }
        _ => {}
    }
}

fn parse(node: &Node) -> Option<Rc<Expr>> {
    let Plain::Scalar(Scalar(Value::String(text))) = &node.value else { return None };
    syntax::parse(is_dynaml(text)?).ok().map(Rc::new)
}

fn is_insertion(node: &Node) -> bool {
    matches!(&node.value, Plain::Map(map) if map.len() == 1 && map.contains_key("<<"))
}

fn locally_resolved(node: &Node) -> bool {
    match &node.value {
        Plain::Expression(_) => false,
        Plain::Map(map) => !map.contains_key("<<"),
        Plain::List(list) => !list.iter().any(is_insertion),
        _ => true,
    }
}

fn unresolved(node: &Node) -> bool {
    if node.failed {
        return true;
    }
    match &node.value {
        Plain::Map(map) => map.contains_key("<<") || map.values().any(unresolved),
        Plain::List(list) => list.iter().any(|node| is_insertion(node) || unresolved(node)),
        Plain::Scalar(Scalar(Value::String(text))) => is_dynaml(text).is_some(),
        Plain::Expression(_) => true,
        _ => false,
    }
}

fn child<'n>(node: &'n Node, step: &str) -> Option<&'n Node> {
    match &node.value {
        Plain::Map(map) => map.get(step),
        Plain::List(list) => match step.strip_prefix('[') {
            Some(index) => list.get(index.trim_end_matches(']').parse::<usize>().ok()?),
            None => {
                let (key, text) = step.split_once(':').unwrap_or(("name", step));
                list.iter().find(|entry| key_text(entry, key).as_deref() == Some(text))
            }
        },
        _ => None,
    }
}

fn key_text(entry: &Node, key: &str) -> Option<String> {
    match child(entry, key).map(|node| &node.value) {
        Some(Plain::Scalar(Scalar(Value::String(text)))) => Some(text.to_string()),
        _ => None,
    }
}

fn find_in_stubs<'a>(env: &Env<'a>) -> Option<&'a Node> {
    env.stubs.iter().find_map(|stub| {
        env.path.iter().try_fold(stub, |node, step| child(node, step).filter(|_| locally_resolved(node)))
    })
}

fn inside<'a>(env: &Env<'a>, step: &str) -> Env<'a> {
    let mut inner = env.clone();
    inner.path.push(step.to_owned());
    inner
}

fn flow_node(node: &Node, env: &Env<'_>, over: bool, tags: &mut Tags) -> Node {
    let mut env = env.clone();
    env.no_merge |= node.redirect_off;
    let mut result = flow_value(node, &env, over, tags);
    if let Some(tag) = &result.tag
        && !unresolved(&result)
        && !result.undefined
    {
        let (path, known) = tags.entry(tag.clone()).or_insert_with(|| (env.path.clone(), result.clone()));
        if *path == env.path {
            known.clone_from(&result);
        } else {
            result.failed = true;
        }
    }
    result
}

fn flow_value(node: &Node, env: &Env<'_>, over: bool, tags: &mut Tags) -> Node {
    let mut new = node.clone();
    match &node.value {
        Plain::Expression(expression) => {
            match evaluate_marked(expression, env, tags) {
                Ok(Some(value)) => {
                    let (temporary, local) = (node.temporary || value.temporary, node.local || value.local);
                    new = Node { temporary, local, tag: node.tag.clone().or(value.tag.clone()), ..value };
                    if let Some(expression) = parse(&new) {
                        new.value = Plain::Expression(expression);
                    }
                    if matches!(new.value, Plain::Expression(_)) || new.merged {
                        return new;
                    }
                }
                Ok(None) => return new,
                // The markers of a pending expression apply to its node already (`spiff.md` 2.2 and
                // 3.1).
                Err(EvalError) => {
                    if let Expr::Marked(marked) = &**expression {
                        let (temporary, local, tag) = markers(marked);
                        new.temporary |= temporary;
                        new.local |= local;
                        new.tag = new.tag.or(tag);
                    }
                }
            }
            if !over {
                return new;
            }
        }
        _ if node.merged => return new,
        Plain::Map(fields) => return flow_map(node, fields, env, tags),
        Plain::List(entries) => return flow_list(node, entries, env, tags),
        _ => {
            if let Some(expression) = parse(node) {
                return Node { value: Plain::Expression(expression), ..new };
            }
        }
    }
    match find_in_stubs(env) {
        Some(stub) if over && !new.merged && !env.no_merge && !new.injected => Node {
            value: stub.value.clone(),
            temporary: stub.temporary || new.temporary,
            local: stub.local || new.local,
            tag: new.tag.clone(),
            ..Node::default()
        },
        _ => new,
    }
}

/// Flows a map, including its insertion field.
fn flow_map(node: &Node, fields: &Fields, env: &Env<'_>, tags: &mut Tags) -> Node {
    let mut env = env.clone();
    env.scopes.push(Scope::Document(Rc::new(fields.clone())));
    let mut result = node.clone();
    result.temporary |= !env.no_merge && find_in_stubs(&env).is_some_and(|stub| stub.temporary);
    let mut new = Fields::new();
    if let Some(field) = fields.get("<<") {
        // A tag in the insertion field is the tag of the map.
        let base = flow_value(field, &env, false, tags);
        if base.undefined {
            return Node { undefined: true, ..result };
        }
        match &base.value {
            Plain::Expression(expression) => {
                if let Expr::Marked(marked) = &**expression {
                    let (temporary, local, tag) = markers(marked);
                    result.temporary |= temporary;
                    result.local |= local;
                    result.tag = tag.or(result.tag);
                    if marked.markers.contains(&Marker::Template) {
                        let mut content = fields.clone();
                        content.remove("<<");
                        if let Some(inner) = &marked.expression {
                            let inner = Expr::Group(Box::new(inner.clone()));
                            content.insert("<<".to_owned(), plain(Plain::Expression(Rc::new(inner))));
                        }
                        result.value = Plain::Template(Box::new(plain(Plain::Map(content))));
                        return result;
                    }
                }
                let evaluated = matches!(field.value, Plain::Expression(_));
                if !(evaluated && is_plain_merge(expression)) {
                    let mut waiting = fields.clone();
                    waiting.insert("<<".to_owned(), base.clone());
                    result.value = Plain::Map(waiting);
                    return result;
                }
            }
            Plain::Map(inserted) => {
                result.injected |= base.merged;
                new.extend(inserted.clone());
            }
            Plain::Nil => {}
            _ => result.failed = true,
        }
        result.temporary |= base.temporary;
        result.local |= base.local;
        result.tag = base.tag.clone().or(result.tag);
        result.redirect_off |= base.redirect_off;
        env.no_merge |= base.redirect_off;
    }
    for (key, field) in fields.iter().filter(|(key, _)| *key != "<<") {
        let flowed = flow_node(field, &inside(&env, key), true, tags);
        if flowed.undefined {
            new.remove(key);
        } else {
            new.insert(key.clone(), flowed);
        }
    }
    result.value = Plain::Map(new);
    result
}

fn flow_list(node: &Node, entries: &[Node], env: &Env<'_>, tags: &mut Tags) -> Node {
    let keyed = entries.iter().all(|entry| key_text(entry, "name").is_some())
        && entries
            .iter()
            .map(|entry| key_text(entry, "name"))
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            == entries.len();
    let mut new = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        let step = match key_text(entry, "name") {
            Some(name) if keyed => format!("name:{name}"),
            _ => format!("[{position}]"),
        };
        let flowed = flow_node(entry, &inside(env, &step), false, tags);
        if !flowed.undefined {
            new.push(flowed);
        }
    }
    Node { value: Plain::List(new), ..node.clone() }
}

fn is_plain_merge(expression: &Expr) -> bool {
    matches!(expression, Expr::Merge(merge) if merge.path.is_none()
        && merge.option == crate::syntax::ast::MergeOption::Plain)
}

fn markers(marked: &Marked) -> (bool, bool, Option<String>) {
    let tag = marked.markers.iter().find_map(|marker| match marker {
        Marker::Tag { name, .. } => Some(name.to_string()),
        _ => None,
    });
    (marked.markers.contains(&Marker::Temporary), marked.markers.contains(&Marker::Local), tag)
}

fn evaluate_marked(expression: &Expr, env: &Env<'_>, tags: &mut Tags) -> Eval {
    let Expr::Marked(marked) = expression else { return evaluate(expression, env, tags) };
    let (temporary, local, tag) = markers(marked);
    let inner = if marked.markers.contains(&Marker::Template) {
        let Some(inner) = &marked.expression else { return Err(EvalError) };
        plain(Plain::Template(Box::new(plain(Plain::Expression(Rc::new(inner.clone()))))))
    } else {
        match &marked.expression {
            Some(inner) => match evaluate(inner, env, tags)? {
                Some(value) => value,
                None => return Ok(None),
            },
            None => Node::default(),
        }
    };
    Ok(Some(Node {
        temporary: inner.temporary || temporary,
        local: inner.local || local,
        tag: tag.or(inner.tag.clone()),
        ..inner
    }))
}

fn evaluate(expression: &Expr, env: &Env<'_>, tags: &mut Tags) -> Eval {
    let scalar = |value: Value| Ok(Some(plain(Plain::Scalar(Scalar(value)))));
    match expression {
        Expr::Nil => Ok(Some(Node::default())),
        Expr::Undefined => Ok(Some(Node { undefined: true, ..Node::default() })),
        Expr::Bool(flag) => scalar(Value::Bool(*flag)),
        Expr::Int(number) => scalar(Value::Int(*number)),
        Expr::String(text) => scalar(Value::String(text.clone())),
        Expr::Group(inner) => evaluate(inner, env, tags),
        Expr::Reference(reference) => look_up(reference, env, tags),
        Expr::Merge(merge) if merge.option == crate::syntax::ast::MergeOption::None => {
            Ok(Some(Node { merged: true, redirect_off: true, ..Node::default() }))
        }
        Expr::Merge(_) => match find_in_stubs(env) {
            Some(stub) => Ok(Some(Node {
                merged: true,
                tag: None,
                redirect_off: false,
                injected: false,
                ..stub.clone()
            })),
            None => Err(EvalError),
        },
        Expr::Conditional(condition, yes, no) => match evaluate(condition, env, tags)? {
            None => Ok(None),
            Some(value) => {
                let chosen = if to_value(&value).is_truthy() { yes } else { no };
                Ok(evaluate(chosen, env, tags)?.map(|result| joined(result, &[value])))
            }
        },
        Expr::List(items) => {
            let Some(values) = all(items, env, tags)? else { return Ok(None) };
            let undefined = values.iter().any(|value| value.undefined);
            let merged = values.iter().any(|value| value.merged);
            let temporary = values.iter().any(|value| value.temporary);
            let local = values.iter().any(|value| value.local);
            let entries = values.into_iter().map(|value| plain(value.value)).collect();
            Ok(Some(Node { undefined, merged, temporary, local, ..plain(Plain::List(entries)) }))
        }
        Expr::Map(pairs) => {
            Ok(named(pairs, env, tags)?.map(|pairs| plain(Plain::Map(pairs.into_iter().collect()))))
        }
        Expr::Scope(pairs, body) => match named(pairs, env, tags)? {
            None => Ok(None),
            Some(names) => evaluate(body, &local(env, names), tags),
        },
        Expr::Lambda(lambda) => Ok(Some(plain(Plain::Lambda(lambda.clone(), captured(env))))),
        Expr::Binary(operator, left, right) => binary(*operator, left, right, env, tags),
        Expr::Substitute(operand) => match evaluate(operand, env, tags)? {
            None => Ok(None),
            Some(Node { value: Plain::Template(content), .. }) => instance(&content, env, tags),
            Some(_) => Err(EvalError),
        },
        Expr::Mapping(mapping) if mapping.form == Form::MapList => map(mapping, env, tags),
        Expr::Catch { expression, handler } => {
            let (value, error) = match evaluate(expression, env, tags) {
                Ok(None) => return Ok(None),
                Ok(Some(value)) => (plain(value.value), Node::default()),
                Err(EvalError) => (Node::default(), plain(Plain::Scalar(Scalar(Value::string("failed"))))),
            };
            let Expr::Lambda(lambda) = &**handler else { return Err(EvalError) };
            call(lambda, &captured(env), vec![value, error], env, tags)
        }
        Expr::Chain(base, links) => match (&**base, links.as_slice()) {
            (_, [Link::Call { arguments, .. }]) => match evaluate(base, env, tags)? {
                None => all(&arguments.positional, env, tags).map(|_| None),
                Some(Node { value: Plain::Lambda(lambda, statics), .. }) => {
                    let Some(given) = all(&arguments.positional, env, tags)? else { return Ok(None) };
                    let values = given.iter().map(|value| plain(value.value.clone())).collect();
                    let result = call(&lambda, &statics, values, env, tags)?;
                    Ok(result.map(|result| joined(result, &given)))
                }
                Some(_) => Err(EvalError),
            },
            _ => Err(EvalError),
        },
        _ => Err(EvalError),
    }
}

fn named(
    pairs: &[(Expr, Expr)],
    env: &Env<'_>,
    tags: &mut Tags,
) -> Result<Option<Vec<(String, Node)>>, EvalError> {
    let mut names = Vec::new();
    for (key, value) in pairs {
        let Some(key) = evaluate(key, env, tags)? else { return Ok(None) };
        let Value::String(key) = to_value(&key) else { return Err(EvalError) };
        let Some(value) = evaluate(value, env, tags)? else { return Ok(None) };
        names.push((key.to_string(), plain(value.value)));
    }
    Ok(Some(names))
}

/// Returns the values of all items. Later items are evaluated even if one is pending, because they
/// may fail.
fn all(items: &[Item], env: &Env<'_>, tags: &mut Tags) -> Result<Option<Vec<Node>>, EvalError> {
    let values: Result<Vec<_>, _> = items.iter().map(|item| evaluate(&item.expression, env, tags)).collect();
    Ok(values?.into_iter().collect())
}

/// Adds the annotations of other values to a result that is made of them.
fn joined(mut result: Node, others: &[Node]) -> Node {
    for other in others {
        result.undefined |= other.undefined;
        result.merged |= other.merged;
        result.temporary |= other.temporary;
        result.local |= other.local;
    }
    result
}

/// Returns the environment one call deeper.
fn deeper<'a>(env: &Env<'a>) -> Result<Env<'a>, EvalError> {
    if env.calls >= CALLS || TOO_DEEP.get() {
        TOO_DEEP.set(true);
        return Err(EvalError);
    }
    Ok(Env { calls: env.calls + 1, ..env.clone() })
}

/// Returns all local names around an expression, the innermost last, each once.
fn captured(env: &Env<'_>) -> Vec<(String, Node)> {
    let mut names: Vec<(String, Node)> = Vec::new();
    for scope in env.scopes.iter().rev() {
        let Scope::Local(own) = scope else { continue };
        for (name, value) in own.iter().rev() {
            if names.iter().all(|(known, _)| known != name) {
                names.push((name.clone(), value.clone()));
            }
        }
    }
    names.reverse();
    names
}

fn local<'a>(env: &Env<'a>, names: Vec<(String, Node)>) -> Env<'a> {
    let mut inner = env.clone();
    inner.scopes.push(Scope::Local(names));
    inner
}

fn call(
    lambda: &LambdaExpr,
    statics: &[(String, Node)],
    values: Vec<Node>,
    env: &Env<'_>,
    tags: &mut Tags,
) -> Eval {
    if lambda.parameters.len() != values.len() {
        return Err(EvalError);
    }
    let mut names = statics.to_vec();
    names.extend(lambda.parameters.iter().map(|parameter| parameter.name.to_string()).zip(values));
    evaluate(&lambda.body, &local(&deeper(env)?, names), tags)
}

fn map(mapping: &crate::syntax::ast::Mapping, env: &Env<'_>, tags: &mut Tags) -> Eval {
    let Expr::Reference(reference) = &mapping.source else { return Err(EvalError) };
    let Some(source) = walk_to(reference, env, false, tags)? else { return Ok(None) };
    let Expr::Lambda(lambda) = &mapping.lambda else { return Err(EvalError) };
    let entries: Vec<Node> = match source.value {
        Plain::List(list) => list,
        Plain::Map(map) => map.into_values().collect(),
        _ => return Err(EvalError),
    };
    let mut results = Vec::new();
    for entry in entries {
        let statics = captured(env);
        let Some(result) = call(lambda, &statics, vec![plain(entry.value)], env, tags)? else {
            return Ok(None);
        };
        if !result.undefined && result.value != Plain::Nil {
            results.push(plain(result.value));
        }
    }
    Ok(Some(plain(Plain::List(results))))
}

fn binary(operator: Operator, left: &Expr, right: &Expr, env: &Env<'_>, tags: &mut Tags) -> Eval {
    let first = evaluate(left, env, tags);
    if matches!(operator, Operator::Otherwise | Operator::OtherwiseValid) {
        let valid = operator == Operator::OtherwiseValid;
        return match first {
            Ok(Some(value)) if !(value.undefined || valid && value.value == Plain::Nil) => Ok(Some(value)),
            Ok(None) if valid && matches!(left, Expr::Reference(_)) => Err(EvalError),
            Ok(None) => Ok(None),
            Ok(Some(value)) => {
                let result = evaluate(right, env, tags)?;
                Ok(result.map(|result| Node { undefined: result.undefined, ..joined(result, &[value]) }))
            }
            Err(EvalError) => evaluate(right, env, tags),
        };
    }
    let (first, second) = (first?, evaluate(right, env, tags)?);
    let (Some(first), Some(second)) = (first, second) else { return Ok(None) };
    if [&first, &second].iter().any(|node| matches!(node.value, Plain::Lambda(..) | Plain::Template(_))) {
        return match (operator, first.value) {
            (Operator::Concatenate, Plain::List(mut list)) => {
                list.push(plain(second.value));
                Ok(Some(plain(Plain::List(list))))
            }
            _ => Err(EvalError),
        };
    }
    let (one, two) = (to_value(&first), to_value(&second));
    let value = match operator {
        Operator::Add => arithmetic::add(&one, &two),
        Operator::Concatenate => concatenate::concatenate(&one, &two, left, right),
        _ => return Err(EvalError),
    };
    let mut node = from_read(&Read::new(value.map_err(|_| EvalError)?));
    node.undefined = first.undefined || second.undefined;
    node.merged = first.merged || second.merged;
    node.temporary = first.temporary || second.temporary;
    node.local = first.local || second.local;
    Ok(Some(node))
}

fn instance(content: &Node, env: &Env<'_>, tags: &mut Tags) -> Eval {
    let env = deeper(env)?;
    let mut current = content.clone();
    for _ in 0..PASSES {
        let next = flow_node(&current, &env, false, tags);
        if TOO_DEEP.get() {
            return Err(EvalError);
        }
        if next == current {
            let failing = is_failing(&current, &env, tags);
            return match unresolved(&current) {
                true if failing => Err(EvalError),
                true => Ok(None),
                false => Ok(Some(Node { undefined: current.undefined, ..plain(current.value) })),
            };
        }
        current = next;
    }
    Err(EvalError)
}

/// Reports whether an expression without a value fails, or only waits.
fn is_failing(node: &Node, env: &Env<'_>, tags: &mut Tags) -> bool {
    match &node.value {
        Plain::Map(map) => {
            let mut inner = env.clone();
            inner.scopes.push(Scope::Document(Rc::new(map.clone())));
            map.iter().any(|(key, node)| {
                let inner = if key == "<<" { inner.clone() } else { inside(&inner, key) };
                is_failing(node, &inner, tags)
            })
        }
        Plain::List(list) => list
            .iter()
            .enumerate()
            .any(|(position, node)| is_failing(node, &inside(env, &format!("[{position}]")), tags)),
        Plain::Expression(expression) => evaluate_marked(expression, env, tags).is_err(),
        Plain::Scalar(Scalar(Value::String(text))) => is_dynaml(text).is_some(),
        _ => false,
    }
}

fn look_up(reference: &Reference, env: &Env<'_>, tags: &mut Tags) -> Eval {
    walk_to(reference, env, true, tags)
}

fn walk_to(reference: &Reference, env: &Env<'_>, deep: bool, tags: &Tags) -> Eval {
    let steps: Vec<String> = reference
        .steps
        .iter()
        .map(|step| match step {
            Step::Field(name) => name.to_string(),
            Step::Index(index) => format!("[{index}]"),
        })
        .collect();
    if let Some(tag) = &reference.tag {
        let Some((_, value)) = tags.get(&**tag) else { return Err(EvalError) };
        return walk(value, &steps, deep);
    }
    if reference.absolute {
        return walk(env.root, &steps, deep);
    }
    for scope in env.scopes.iter().rev() {
        match scope {
            Scope::Local(names) => {
                if let Some((_, value)) = names.iter().rev().find(|(name, _)| *name == steps[0]) {
                    return if locally_resolved(value) { walk(value, &steps[1..], deep) } else { Ok(None) };
                }
            }
            Scope::Document(map) => {
                if let Some(value) = map.get(&steps[0]) {
                    return if locally_resolved(value) { walk(value, &steps[1..], deep) } else { Ok(None) };
                }
            }
        }
    }
    Err(EvalError)
}

fn walk(from: &Node, steps: &[String], deep: bool) -> Eval {
    let mut node = from;
    for step in steps {
        let Some(next) = child(node, step) else { return Err(EvalError) };
        if !locally_resolved(next) {
            return Ok(None);
        }
        node = next;
    }
    if deep && unresolved(node) {
        return Ok(None);
    }
    Ok(Some(plain(node.value.clone())))
}
