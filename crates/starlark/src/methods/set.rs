//! Methods of sets.

use crate::eval::{Answer, Given, Machine, Method, mismatch};
use crate::fault::Fault;
use crate::values::{Id, Value};

pub(super) static METHODS: &[Method] = &[
    Method { name: "add", run: add },
    Method { name: "clear", run: clear },
    Method { name: "difference", run: difference },
    Method { name: "discard", run: discard },
    Method { name: "intersection", run: intersection },
    Method { name: "issubset", run: issubset },
    Method { name: "issuperset", run: issuperset },
    Method { name: "pop", run: pop },
    Method { name: "remove", run: remove },
    Method { name: "symmetric_difference", run: symmetric_difference },
    Method { name: "union", run: union },
    Method { name: "update", run: update },
];

fn id(of: &Value) -> Id {
    match of {
        Value::Set(id) => *id,
        _ => Id::MAX,
    }
}

/// Returns the argument as a set.
fn other(machine: &mut Machine<'_>, given: &Given) -> Result<Id, Fault> {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Set(id) => Ok(*id),
        value => {
            let found = machine.heap.elements(value)?;
            let items = found.ok_or_else(|| mismatch("1", value, "iterable"))?;
            Ok(id(&machine.heap.set_of(items)?))
        }
    }
}

fn add(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    machine.heap.insert(id(of), given.at(0), Value::None)?;
    Ok(Value::None)
}

fn clear(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    machine.heap.table_mut(id(of), "clear")?.clear();
    Ok(Value::None)
}

fn difference(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let other = other(machine, given)?;
    let result = machine.heap.new_set()?;
    machine.add_those(result, id(of), other, false)?;
    Ok(Value::Set(result))
}

fn intersection(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let other = other(machine, given)?;
    let result = machine.heap.new_set()?;
    machine.add_those(result, id(of), other, true)?;
    Ok(Value::Set(result))
}

fn symmetric_difference(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let other = other(machine, given)?;
    let result = machine.heap.new_set()?;
    machine.add_those(result, id(of), other, false)?;
    machine.add_those(result, other, id(of), false)?;
    Ok(Value::Set(result))
}

fn is_within(machine: &Machine<'_>, small: Id, large: Id) -> Answer {
    for name in machine.elements(&Value::Set(small))? {
        if !machine.heap.table(large).contains(&machine.heap.key(&name)?) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn issubset(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let other = other(machine, given)?;
    is_within(machine, id(of), other)
}

fn issuperset(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let other = other(machine, given)?;
    is_within(machine, other, id(of))
}

/// Removes a value, and reports whether it was there.
fn delete(machine: &mut Machine<'_>, of: &Value, value: &Value) -> Result<bool, Fault> {
    let key = machine.heap.key(value)?;
    machine.heap.spend(8)?;
    Ok(machine.heap.table_mut(id(of), "delete from")?.remove(&key).is_some())
}

fn discard(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    delete(machine, of, given.at(0))?;
    Ok(Value::None)
}

fn remove(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    if delete(machine, of, given.at(0))? { Ok(Value::None) } else { Err(Fault::new("missing key")) }
}

fn pop(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let first = machine.heap.table(id(of)).next(0).map(|(name, behind)| (name.clone(), behind));
    let (name, behind) = first.ok_or_else(|| Fault::new("empty set"))?;
    machine.heap.spend(behind)?;
    delete(machine, of, &name)?;
    Ok(name)
}

/// Adds the elements of all arguments to a set.
fn add_all(machine: &mut Machine<'_>, id: Id, given: &Given) -> Result<(), Fault> {
    given.unnamed()?;
    for (at, value) in given.positional.iter().enumerate() {
        let found = machine.heap.elements(value)?;
        for item in found.ok_or_else(|| mismatch(&(at + 1).to_string(), value, "iterable"))? {
            machine.heap.insert(id, &item, Value::None)?;
        }
    }
    Ok(())
}

fn union(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let result = machine.heap.new_set()?;
    machine.update(result, id(of))?;
    add_all(machine, result, given)?;
    Ok(Value::Set(result))
}

fn update(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    add_all(machine, id(of), given)?;
    Ok(Value::None)
}
