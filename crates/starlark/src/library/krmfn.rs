//! `krmfn.star`: comparisons of Kubernetes objects.

use crate::fault::Fault;
use crate::values::{Answer, Given, Heap, Member, Module, Native, Run, Value, mismatch};

pub(super) static MODULE: Module = Module {
    name: "krmfn",
    members: &[
        ("match_gvk", Member::Function(&Native { name: "match_gvk", run: Run::Plain(match_gvk) })),
        ("match_name", Member::Function(&Native { name: "match_name", run: Run::Plain(match_name) })),
        (
            "match_namespace",
            Member::Function(&Native { name: "match_namespace", run: Run::Plain(match_namespace) }),
        ),
    ],
};

/// Reports whether the text at a path of an object equals an argument. A missing field counts as
/// the empty text.
fn has(heap: &Heap, given: &Given, path: &[&str], at: usize) -> Result<bool, Fault> {
    let Value::Dict(_) = given.at(0) else { return Err(mismatch("1", given.at(0), "dict")) };
    let wanted = given.text(at)?;
    let found = path.iter().try_fold(given.at(0), |value, name| heap.field(value, name));
    Ok(match found {
        None | Some(Value::None) => wanted.is_empty(),
        Some(value) => heap.shown(value)? == *wanted,
    })
}

fn match_gvk(heap: &mut Heap, given: &Given) -> Answer {
    given.count(3, 3)?;
    let fits = has(heap, given, &["apiVersion"], 1)? && has(heap, given, &["kind"], 2)?;
    Ok(Value::Bool(fits))
}

fn match_name(heap: &mut Heap, given: &Given) -> Answer {
    given.count(2, 2)?;
    has(heap, given, &["metadata", "name"], 1).map(Value::Bool)
}

fn match_namespace(heap: &mut Heap, given: &Given) -> Answer {
    given.count(2, 2)?;
    has(heap, given, &["metadata", "namespace"], 1).map(Value::Bool)
}
