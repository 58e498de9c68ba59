//! Methods of dicts.

use crate::fault::Fault;
use crate::values::{Answer, Given, Heap, Id, Method, Value};

pub(super) static METHODS: &[Method] = &[
    Method { name: "clear", run: clear },
    Method { name: "get", run: get },
    Method { name: "items", run: items },
    Method { name: "keys", run: keys },
    Method { name: "pop", run: pop },
    Method { name: "popitem", run: popitem },
    Method { name: "setdefault", run: setdefault },
    Method { name: "update", run: update },
    Method { name: "values", run: values },
];

fn id(of: &Value) -> Id {
    match of {
        Value::Dict(id) => *id,
        _ => Id::MAX,
    }
}

fn clear(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    heap.table_mut(id(of), "clear")?.clear();
    Ok(Value::None)
}

fn get(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 2)?;
    let key = heap.key(given.at(0))?;
    Ok(heap.table(id(of)).get(&key).unwrap_or(given.at(1)).clone())
}

fn items(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let table = heap.table(id(of));
    heap.allocate_items(table.len().saturating_mul(2))?;
    let pairs: Vec<Vec<Value>> =
        table.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    let pairs = pairs.into_iter().map(|pair| heap.new_tuple(pair)).collect::<Result<_, _>>()?;
    heap.new_list(pairs)
}

fn keys(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let keys = heap.iterate(of)?;
    heap.new_list(keys)
}

fn values(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let table = heap.table(id(of));
    heap.allocate_items(table.len())?;
    let values = table.iter().map(|(_, value)| value.clone()).collect();
    heap.new_list(values)
}

fn pop(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 2)?;
    let key = heap.key(given.at(0))?;
    heap.spend(8)?;
    let found = heap.table_mut(id(of), "delete from")?.remove(&key);
    let found = found.map(|(_, value)| value).or_else(|| given.get(1).cloned());
    found.ok_or_else(|| Fault::new("missing key"))
}

fn popitem(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let (name, behind) = match heap.table(id(of)).next(0) {
        Some((name, behind)) => (name.clone(), behind),
        None => return Err(Fault::new("empty dict")),
    };
    heap.spend(behind)?;
    let key = heap.key(&name)?;
    let removed = heap.table_mut(id(of), "delete from")?.remove(&key);
    let (name, value) = removed.unwrap_or((name, Value::None));
    heap.new_tuple(vec![name, value])
}

fn setdefault(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 2)?;
    let key = heap.key(given.at(0))?;
    if let Some(value) = heap.table(id(of)).get(&key) {
        return Ok(value.clone());
    }
    let value = given.at(1).clone();
    heap.insert(id(of), given.at(0), value.clone())?;
    Ok(value)
}

fn update(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let got = given.positional.len();
    if got > 1 {
        return Err(Fault::new(format!("got {got} arguments, want at most 1")));
    }
    fill(heap, id(of), given)?;
    Ok(Value::None)
}

/// Adds the pairs of the arguments to a dict.
pub(crate) fn fill(heap: &mut Heap, id: Id, given: &Given) -> Result<(), Fault> {
    match given.get(0) {
        None => {}
        Some(Value::Dict(other)) => heap.update(id, *other)?,
        Some(pairs) => {
            for (at, pair) in heap.iterate(pairs)?.iter().enumerate() {
                let element = format!("dictionary update sequence element #{at}");
                let Some(items) = heap.elements(pair)? else {
                    return Err(Fault::new(format!("{element} is not iterable ({})", pair.kind())));
                };
                let [name, value] = items.as_slice() else {
                    return Err(Fault::new(format!("{element} has length {}, want 2", items.len())));
                };
                heap.insert(id, name, value.clone())?;
            }
        }
    }
    for (name, value) in &given.named {
        heap.insert(id, &Value::Text(name.clone()), value.clone())?;
    }
    Ok(())
}
