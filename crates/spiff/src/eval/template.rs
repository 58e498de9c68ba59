//! Instances of templates (`spiff.md` 8.4).

use std::sync::Arc;

use super::{Eval, EvalError, Evaluated, Info, evaluate};
use crate::env::Env;
use crate::flow;
use crate::flow::Unresolved;
use crate::issue::Issue;
use crate::run::Run;
use crate::scope::Scope;
use crate::syntax::ast::Expr;
use crate::value::{Flags, Node, Template, Value};

/// Evaluates `*EXPR`.
pub(super) fn substitute(run: &mut Run<'_>, operand: &Expr, env: &Env<'_>) -> Eval {
    let operand = evaluate(run, operand, env)?;
    match operand.value {
        None => Ok(Evaluated::pending(operand.info).whole()),
        Some(Value::Template(template)) => instantiate(run, &template, env),
        Some(_) => Err(EvalError::issue("template value required")),
    }
}

/// Flows the content of a template at the node that uses it.
pub(crate) fn instantiate(run: &mut Run<'_>, template: &Arc<Template>, env: &Env<'_>) -> Eval {
    let mut inner = env.clone();
    inner.scope =
        Some(Scope::local(vec![(Arc::from("_"), Value::Template(Arc::clone(template)))], inner.scope));
    let content = || Node { flags: Flags::empty(), notes: None, ..template.content.clone() };
    let parsed = if env.stubs.is_empty() {
        let known = |expression: &str| run.known_expression(expression);
        template.parsed.get_or_init(|| flow::parsed_content(&content(), run.settings, known)).clone()
    } else {
        None
    };
    let content = parsed.unwrap_or_else(content);
    let failure = || format!("resolution of template '{}' failed", template.path);
    flow_inside(run, content, &inner, failure)
}

/// Flows `content` as a document of its own that sees everything that `env` sees.
fn flow_inside(run: &mut Run<'_>, content: Node, env: &Env<'_>, failure: impl Fn() -> String) -> Eval {
    // A new document costs more than its nodes: it has dependencies and passes of its own.
    run.spend(250 + 4 * u64::from(content.value.size()))?;
    let id = run.open(content);
    let unresolved = run.called(|run| flow::flow(run, id, env, false))?;
    let root = run.document(id).root.clone();
    let undefined = root.has(Flags::UNDEFINED);
    run.close(id, &root.value);
    if unresolved.is_empty() {
        let info = if undefined { Info::flagged(Flags::UNDEFINED) } else { Info::default() };
        return Ok(Evaluated { value: Some(root.value), info });
    }
    let issue = Issue {
        message: failure(),
        nested: unresolved.iter().map(Unresolved::to_issue).collect(),
        sequence: false,
    };
    if unresolved.iter().any(Unresolved::is_error) {
        Err(issue.into())
    } else {
        Ok(Evaluated::pending(Info::pending(issue)))
    }
}
