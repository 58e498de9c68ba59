//! The Starlark language as go.starlark.net has it, for scripts that change Kubernetes objects.
//!
//! ```text
//! text --syntax--> tree with resolved names --eval--> changed values
//! objects (YAML trees) --convert--> values in a heap; after the script --convert--> objects
//! ```
//!
//! Scripts come from other people. They reach no file, network, environment or clock, and each of
//! them has limits: [`Limits`] for what it does, and fixed ones for the depth of blocks,
//! expressions, calls and values. An operation is counted before it begins, so that no single one
//! exceeds a limit by much. No script makes the evaluator panic.
//!
//! The reference is <https://github.com/google/starlark-go> with sets, recursion, reassigned
//! globals, `while`, and statements outside of functions. Differences: `packagevariants.md` 8.5.

mod builtins;
mod convert;
mod eval;
mod fault;
mod format;
mod int;
mod library;
mod methods;
mod stack;
mod syntax;
mod values;

use std::rc::Rc;

use groundwork_yaml::tree::Node;

use eval::Machine;
use fault::Fault;
use values::{Heap, Struct, Value};

/// Limits for one script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps (`crates/budget`).
    pub steps: u64,
    /// Bytes of all values that the script makes, in the whole time of its run.
    pub bytes: u64,
}

/// Work and bytes that a script has used. More than a limit means that the script was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Parts of steps, [`PARTS_PER_STEP`](groundwork_budget::PARTS_PER_STEP) to a step: 25 for each
    /// statement and each part of an expression, one for each byte of a text that is read.
    pub parts: u64,
    pub bytes: u64,
}

/// Result of a script.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Value of `ctx.resource_list` at the end, or the message with the name of the script, the
    /// line and the column. The message of a script that exceeds a limit is empty.
    pub result: Result<Node, String>,
    /// Lines that the script printed, up to 64 KiB.
    pub printed: String,
    pub used: Used,
}

/// Runs a script, which sees a list of objects as `ctx.resource_list`.
///
/// `ctx.open_api` and `ctx.environment` are empty.
pub fn run(name: &str, source: &str, resources: &Node, limits: Limits) -> Ran {
    let mut ran = Ran { result: Err(String::new()), printed: String::new(), used: Used::default() };
    let result = evaluate(source, resources, limits, &mut ran);
    ran.result = result.map_err(|fault| if fault.is_limit() { String::new() } else { fault.text(name) });
    ran
}

/// Parts of steps and bytes for each byte of a source, whose tree is larger than the text.
const PER_BYTE: usize = 100;

fn evaluate(source: &str, resources: &Node, limits: Limits, ran: &mut Ran) -> Result<Node, Fault> {
    let mut heap = Heap::new(limits);
    let cost = source.len().saturating_mul(PER_BYTE);
    let allowed = heap.allocate(cost);
    ran.used = heap.used();
    allowed?;
    let mut known = builtins::universe();
    known.push(("ctx", Value::None));
    let find = |name: &str| known.iter().position(|(known, _)| *known == name);
    let script = syntax::parse(source, &find)?;
    let prepared = prepare(&mut heap, resources);
    ran.used = heap.used();
    let (list, context) = prepared?;
    if let Some((_, value)) = known.last_mut() {
        *value = context;
    }
    let mut machine = Machine::new(heap, &script, &known);
    let result = machine.run().and_then(|()| machine.heap.write(&list));
    ran.used = machine.heap.used();
    ran.printed = machine.heap.take_printed();
    result
}

/// Creates the values that the script sees: the list, and `ctx` with it.
fn prepare(heap: &mut Heap, resources: &Node) -> Result<(Value, Value), Fault> {
    let list = heap.read(resources)?;
    let open_api = Value::Dict(heap.new_dict()?);
    let environment = Value::Dict(heap.new_dict()?);
    let fields = vec![("environment", environment), ("open_api", open_api), ("resource_list", list.clone())];
    Ok((list, Value::Struct(Rc::new(Struct { fields }))))
}

#[cfg(test)]
mod tests;
