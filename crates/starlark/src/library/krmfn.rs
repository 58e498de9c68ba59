//! `krmfn.star`: comparisons of Kubernetes objects.

use super::{Member, Module};
use crate::eval::{Answer, Given, Machine, Native, mismatch};
use crate::fault::Fault;
use crate::values::Value;

pub(super) static MODULE: Module = Module {
    name: "krmfn",
    members: &[
        ("match_gvk", Member::Function(&Native { name: "match_gvk", run: match_gvk })),
        ("match_name", Member::Function(&Native { name: "match_name", run: match_name })),
        ("match_namespace", Member::Function(&Native { name: "match_namespace", run: match_namespace })),
    ],
};

/// Reports whether the text at a path of an object is that of an argument. A missing field has the
/// empty text.
fn has(machine: &Machine<'_>, given: &Given, path: &[&str], at: usize) -> Result<bool, Fault> {
    let Value::Dict(_) = given.at(0) else { return Err(mismatch("1", given.at(0), "dict")) };
    let wanted = given.text(at)?;
    let found = path.iter().try_fold(given.at(0), |value, name| machine.heap.field(value, name));
    Ok(match found {
        None | Some(Value::None) => wanted.is_empty(),
        Some(value) => machine.heap.shown(value)? == *wanted,
    })
}

fn match_gvk(machine: &mut Machine<'_>, given: &Given) -> Answer {
    given.count(3, 3)?;
    let fits = has(machine, given, &["apiVersion"], 1)? && has(machine, given, &["kind"], 2)?;
    Ok(Value::Bool(fits))
}

fn match_name(machine: &mut Machine<'_>, given: &Given) -> Answer {
    given.count(2, 2)?;
    has(machine, given, &["metadata", "name"], 1).map(Value::Bool)
}

fn match_namespace(machine: &mut Machine<'_>, given: &Given) -> Answer {
    given.count(2, 2)?;
    has(machine, given, &["metadata", "namespace"], 1).map(Value::Bool)
}
