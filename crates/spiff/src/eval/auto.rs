//! The expression `auto`: the size of a resource pool. Like `static_ips` it comes from Cloud
//! Foundry.

use std::sync::Arc;

use super::{Eval, EvalError, Evaluated, reference};
use crate::env::Env;
use crate::run::Run;
use crate::scope::step_text;
use crate::syntax::ast::Step;
use crate::value::Value;

/// Evaluates `auto` at `resource_pools.NAME.size`: the sum of the `instances` of all `.jobs` whose
/// `resource_pool` is NAME.
pub(super) fn evaluate(run: &mut Run<'_>, env: &Env<'_>) -> Eval {
    let path = env.path.steps();
    let [collection, pool, field] = path.as_slice() else { return Err(misplaced()) };
    if step_text(collection) != "resource_pools" || step_text(field) != "size" {
        return Err(misplaced());
    }
    let pool = step_text(pool);
    // The step to an entry of a keyed list may be `KEY:VALUE`.
    let pool = pool.split_once(':').map_or(&*pool, |(_, name)| name);
    let jobs = reference::absolute(run, &[Step::Field(Arc::from("jobs"))], env, true, true);
    let jobs = match jobs {
        Err(EvalError::Issue(_)) => return Err(EvalError::issue("no jobs found")),
        jobs => jobs?,
    };
    match &jobs.value {
        None => Ok(jobs.whole()),
        Some(Value::List(jobs)) => Evaluated::ok(Value::Int(instances(jobs.values(), pool)?)),
        Some(_) => Err(EvalError::issue("jobs must be a list")),
    }
}

fn misplaced() -> EvalError {
    EvalError::issue("auto only allowed for size entry in resource pools")
}

/// Returns the sum of the instances. As in spiff++, an error does not name the job without a
/// number.
fn instances<'a>(jobs: impl Iterator<Item = &'a Value>, pool: &str) -> Result<i64, EvalError> {
    let mut size = 0_i64;
    for job in jobs {
        let Value::Map(job) = job else { continue };
        if job.get("resource_pool").and_then(|node| node.value.as_str()) != Some(pool) {
            continue;
        }
        let own = job.get("instances").and_then(|node| node.value.as_int());
        size = size.wrapping_add(own.ok_or_else(|| EvalError::issue(""))?);
    }
    Ok(size)
}
