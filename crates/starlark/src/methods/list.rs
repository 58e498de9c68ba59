//! Methods of lists.

use crate::fault::Fault;
use crate::values::{Answer, Given, Heap, Id, Method, Value, bounds, mismatch, out_of_range};

pub(super) static METHODS: &[Method] = &[
    Method { name: "append", run: append },
    Method { name: "clear", run: clear },
    Method { name: "extend", run: extend },
    Method { name: "index", run: index },
    Method { name: "insert", run: insert },
    Method { name: "pop", run: pop },
    Method { name: "remove", run: remove },
];

fn id(of: &Value) -> Id {
    match of {
        Value::List(id) => *id,
        _ => Id::MAX,
    }
}

fn append(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    heap.allocate_items(1)?;
    heap.list_mut(id(of), "append to")?.push(given.at(0).clone());
    Ok(Value::None)
}

fn clear(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    heap.list_mut(id(of), "clear")?.clear();
    Ok(Value::None)
}

fn extend(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let found = heap.elements(given.at(0))?;
    let items = found.ok_or_else(|| mismatch("1", given.at(0), "iterable"))?;
    heap.allocate_items(items.len())?;
    heap.list_mut(id(of), "extend")?.extend(items);
    Ok(Value::None)
}

/// Returns the place of the first element that equals a value.
fn position(heap: &Heap, items: &[Value], value: &Value) -> Result<Option<usize>, Fault> {
    for (at, item) in items.iter().enumerate() {
        if heap.equal(item, value)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn index(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 3)?;
    let items = heap.list(id(of));
    let (start, end) = bounds(given.at(1), given.at(2), true, items.len())?;
    let found = position(heap, items.get(start..end).unwrap_or_default(), given.at(0))?;
    found.map(|at| Value::int(start + at)).ok_or_else(|| Fault::new("value not in list"))
}

fn insert(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(2, 2)?;
    let at = given.int(0)?;
    heap.allocate_items(1)?;
    let length = heap.list(id(of)).len();
    heap.spend(length)?;
    let back = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    let at = if at < 0 { length.saturating_sub(back) } else { back.min(length) };
    heap.list_mut(id(of), "insert into")?.insert(at, given.at(1).clone());
    Ok(Value::None)
}

fn pop(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 1)?;
    let index = if given.get(0).is_some() { given.int(0)? } else { -1 };
    let length = heap.list(id(of)).len();
    let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let at = if index < 0 { length.checked_sub(back) } else { Some(back) };
    let at = at.filter(|at| *at < length).ok_or_else(|| out_of_range(index, length, "list"))?;
    heap.spend(length - at)?;
    Ok(heap.list_mut(id(of), "pop from")?.remove(at))
}

fn remove(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let found = position(heap, heap.list(id(of)), given.at(0))?;
    heap.spend(heap.list(id(of)).len())?;
    let items = heap.list_mut(id(of), "remove from")?;
    items.remove(found.ok_or_else(|| Fault::new("element not found"))?);
    Ok(Value::None)
}
