//! Methods of sets.

use crate::fault::Fault;
use crate::values::{Answer, Given, Heap, Id, Method, Value, mismatch};

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
fn other(heap: &mut Heap, given: &Given) -> Result<Id, Fault> {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Set(id) => Ok(*id),
        value => {
            let found = heap.elements(value)?;
            let items = found.ok_or_else(|| mismatch("1", value, "iterable"))?;
            Ok(id(&heap.set_of(items)?))
        }
    }
}

fn add(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    heap.insert(id(of), given.at(0), Value::None)?;
    Ok(Value::None)
}

fn clear(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    heap.table_mut(id(of), "clear")?.clear();
    Ok(Value::None)
}

fn difference(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let other = other(heap, given)?;
    let result = heap.new_set()?;
    heap.add_those(result, id(of), other, false)?;
    Ok(Value::Set(result))
}

fn intersection(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let other = other(heap, given)?;
    let result = heap.new_set()?;
    heap.add_those(result, id(of), other, true)?;
    Ok(Value::Set(result))
}

fn symmetric_difference(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let other = other(heap, given)?;
    let result = heap.new_set()?;
    heap.add_those(result, id(of), other, false)?;
    heap.add_those(result, other, id(of), false)?;
    Ok(Value::Set(result))
}

fn is_within(heap: &Heap, small: Id, large: Id) -> Answer {
    for name in heap.iterate(&Value::Set(small))? {
        if !heap.table(large).contains(&heap.key(&name)?) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn issubset(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let other = other(heap, given)?;
    is_within(heap, id(of), other)
}

fn issuperset(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let other = other(heap, given)?;
    is_within(heap, other, id(of))
}

/// Removes a value, and reports whether it was there.
fn delete(heap: &mut Heap, of: &Value, value: &Value) -> Result<bool, Fault> {
    let key = heap.key(value)?;
    heap.spend(8)?;
    Ok(heap.table_mut(id(of), "delete from")?.remove(&key).is_some())
}

fn discard(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    delete(heap, of, given.at(0))?;
    Ok(Value::None)
}

fn remove(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    if delete(heap, of, given.at(0))? { Ok(Value::None) } else { Err(Fault::new("missing key")) }
}

fn pop(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let first = heap.table(id(of)).next(0).map(|(name, behind)| (name.clone(), behind));
    let (name, behind) = first.ok_or_else(|| Fault::new("empty set"))?;
    heap.spend(behind)?;
    delete(heap, of, &name)?;
    Ok(name)
}

/// Adds the elements of all arguments to a set.
fn add_all(heap: &mut Heap, id: Id, given: &Given) -> Result<(), Fault> {
    given.unnamed()?;
    for (at, value) in given.positional.iter().enumerate() {
        let found = heap.elements(value)?;
        for item in found.ok_or_else(|| mismatch(&(at + 1).to_string(), value, "iterable"))? {
            heap.insert(id, &item, Value::None)?;
        }
    }
    Ok(())
}

fn union(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let result = heap.new_set()?;
    heap.update(result, id(of))?;
    add_all(heap, result, given)?;
    Ok(Value::Set(result))
}

fn update(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    add_all(heap, id(of), given)?;
    Ok(Value::None)
}
