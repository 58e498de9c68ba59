//! The special name `__ctx` (`spiff.md` 5.4).

use std::sync::Arc;

use super::reference::chain;
use crate::dependencies::ROOT;
use crate::env::Env;
use crate::run::Run;
use crate::scope::{ScopeKind, dotted, step_text};
use crate::syntax::ast::Step;
use crate::value::{Node, Value};

/// Version that spiff++ prints. The engine only shows it and takes no decision by it.
const VERSION: &str = "v1.7.0-beta-8";

pub(super) fn context(run: &Run<'_>, env: &Env<'_>) -> Value {
    let path = env.path.steps();
    let directory = env.source.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let texts = [
        ("VERSION", VERSION),
        ("FILE", &*env.source),
        ("DIR", directory),
        ("RESOLVED_FILE", &*env.source),
        ("RESOLVED_DIR", directory),
    ];
    let mut entries: Vec<(Arc<str>, Node)> =
        texts.into_iter().map(|(key, text)| (Arc::from(key), Node::new(Value::string(text)))).collect();
    let mut add = |key: &str, value: Value| entries.push((Arc::from(key), Node::new(value)));
    add("PATHNAME", Value::string(dotted(&path)));
    add("PATH", steps(&path));
    add("STUBPATH", steps(&env.stub_path.steps()));
    let outermost = chain(env.scope.as_ref()).last();
    let bindings = outermost.and_then(|scope| match &scope.kind {
        ScopeKind::Bindings(value) => Some(value.clone()),
        _ => None,
    });
    add("BINDINGS", bindings.unwrap_or_else(|| Value::map::<&str>([])));
    let outer = outer_roots(run, env);
    if !outer.is_empty() {
        add("OUTER", Value::list(outer));
    }
    Value::Map(Arc::new(entries.into_iter().collect()))
}

fn steps(steps: &[Step]) -> Value {
    Value::list(steps.iter().map(|step| Value::string(&*step_text(step))))
}

/// Returns the root maps of the outer environments, nearest first.
fn outer_roots(run: &Run<'_>, env: &Env<'_>) -> Vec<Value> {
    let mut roots = Vec::new();
    let mut last = None;
    let mut outside = false;
    for scope in chain(env.scope.as_ref()) {
        if outside {
            last = match &scope.kind {
                ScopeKind::Document { document, .. } => {
                    run.node_at(*document, ROOT).map(|node| node.value.clone())
                }
                ScopeKind::Bindings(value) => Some(value.clone()),
                ScopeKind::Local(_) => last,
            };
        }
        if scope.boundary || scope.parent.is_none() {
            roots.extend(last.take());
            outside = true;
        }
    }
    roots
}
