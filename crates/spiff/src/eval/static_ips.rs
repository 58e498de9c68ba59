//! The function `static_ips(i…)` (`spiff.md` 11.3), which comes from Cloud Foundry and reads its
//! inputs from the fields around it.

use std::sync::Arc;

use super::{Eval, EvalError, Evaluated, evaluate};
use crate::env::Env;
use crate::functions::{address_indices, address_pool};
use crate::run::Run;
use crate::syntax::ast::{Expr, Name, Reference, Step};
use crate::value::Value;

/// Returns addresses by number from the `static` ranges of `.networks.NAME.subnets`, as many as
/// `instances` says. The nearest fields `name` and `instances` are used.
pub(super) fn static_ips(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let indices = address_indices(arguments)?;
    if indices.is_empty() {
        return Err(EvalError::issue(""));
    }
    let name = field(run, false, &["name"], env)?;
    let network = match name.value {
        None => return Ok(name.whole()),
        Some(Value::String(network)) => network,
        Some(_) => return Err(EvalError::issue("name field must be string")),
    };
    let subnets = field(run, true, &["networks", &network, "subnets"], env)?;
    let ranges = match &subnets.value {
        None => return Ok(subnets.whole()),
        Some(subnets) => ranges(subnets, &network)?,
    };
    let instances = field(run, false, &["instances"], env)?;
    let wanted = match &instances.value {
        None => return Err(instances.info.issue().into()),
        Some(instances) => instances.as_int().ok_or_else(|| EvalError::issue(""))?,
    };
    let addresses = address_pool(&ranges, &indices)?;
    match usize::try_from(wanted).ok().filter(|wanted| *wanted <= addresses.len()) {
        Some(wanted) => Evaluated::ok(Value::list(addresses.into_iter().take(wanted).map(Value::string))),
        None => Err(EvalError::issue(format!("too less static IPs for {wanted} instances"))),
    }
}

fn field(run: &mut Run<'_>, absolute: bool, steps: &[&str], env: &Env<'_>) -> Eval {
    let steps = steps.iter().map(|step| Step::Field(Arc::from(*step))).collect();
    evaluate(run, &Expr::Reference(Reference { tag: None, absolute, steps }), env)
}

/// Returns the ranges of all subnets of a network.
fn ranges(subnets: &Value, network: &Name) -> Result<Vec<Arc<str>>, EvalError> {
    let Value::List(subnets) = subnets else { return Err(EvalError::issue("subnets field must be a list")) };
    let mut ranges = Vec::new();
    for subnet in subnets.values() {
        let Value::Map(subnet) = subnet else { return Err(EvalError::issue("subnet must be a map")) };
        let Some(own) = subnet.get("static") else {
            return Err(EvalError::issue(format!("no static ips for network {network}")));
        };
        let Value::List(own) = &own.value else {
            return Err(EvalError::issue(format!("static ips for network {network} must be a list")));
        };
        for range in own.values() {
            let Value::String(range) = range else {
                return Err(EvalError::issue(format!("invalid entry for static ips for network {network}")));
            };
            ranges.push(Arc::clone(range));
        }
    }
    Ok(ranges)
}
