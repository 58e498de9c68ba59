//! Methods of dicts.

use crate::eval::{Answer, Given, Machine, Method};
use crate::fault::Fault;
use crate::values::{Id, Value};

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

fn clear(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    machine.heap.table_mut(id(of), "clear")?.clear();
    Ok(Value::None)
}

fn get(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(1, 2)?;
    let key = machine.heap.key(given.at(0))?;
    Ok(machine.heap.table(id(of)).get(&key).unwrap_or(given.at(1)).clone())
}

fn items(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let table = machine.heap.table(id(of));
    machine.heap.allocate_items(table.len().saturating_mul(2))?;
    let pairs: Vec<Vec<Value>> =
        table.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    let pairs = pairs.into_iter().map(|pair| machine.heap.new_tuple(pair)).collect::<Result<_, _>>()?;
    machine.heap.new_list(pairs)
}

fn keys(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let keys = machine.elements(of)?;
    machine.heap.new_list(keys)
}

fn values(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let table = machine.heap.table(id(of));
    machine.heap.allocate_items(table.len())?;
    let values = table.iter().map(|(_, value)| value.clone()).collect();
    machine.heap.new_list(values)
}

fn pop(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(1, 2)?;
    let key = machine.heap.key(given.at(0))?;
    machine.heap.spend(8)?;
    let found = machine.heap.table_mut(id(of), "delete from")?.remove(&key);
    let found = found.map(|(_, value)| value).or_else(|| given.get(1).cloned());
    found.ok_or_else(|| Fault::new("missing key"))
}

fn popitem(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    let (name, behind) = match machine.heap.table(id(of)).next(0) {
        Some((name, behind)) => (name.clone(), behind),
        None => return Err(Fault::new("empty dict")),
    };
    machine.heap.spend(behind)?;
    let key = machine.heap.key(&name)?;
    let removed = machine.heap.table_mut(id(of), "delete from")?.remove(&key);
    let (name, value) = removed.unwrap_or((name, Value::None));
    machine.heap.new_tuple(vec![name, value])
}

fn setdefault(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    given.count(1, 2)?;
    let key = machine.heap.key(given.at(0))?;
    if let Some(value) = machine.heap.table(id(of)).get(&key) {
        return Ok(value.clone());
    }
    let value = given.at(1).clone();
    machine.heap.insert(id(of), given.at(0), value.clone())?;
    Ok(value)
}

fn update(machine: &mut Machine<'_>, of: &Value, given: &Given) -> Answer {
    let got = given.positional.len();
    if got > 1 {
        return Err(Fault::new(format!("got {got} arguments, want at most 1")));
    }
    fill(machine, id(of), given)?;
    Ok(Value::None)
}

/// Adds the pairs of the arguments to a dict.
pub(crate) fn fill(machine: &mut Machine<'_>, id: Id, given: &Given) -> Result<(), Fault> {
    match given.get(0) {
        None => {}
        Some(Value::Dict(other)) => machine.update(id, *other)?,
        Some(pairs) => {
            for (at, pair) in machine.elements(pairs)?.iter().enumerate() {
                let element = format!("dictionary update sequence element #{at}");
                let Some(items) = machine.heap.elements(pair)? else {
                    return Err(Fault::new(format!("{element} is not iterable ({})", pair.kind())));
                };
                let [name, value] = items.as_slice() else {
                    return Err(Fault::new(format!("{element} has length {}, want 2", items.len())));
                };
                machine.heap.insert(id, name, value.clone())?;
            }
        }
    }
    for (name, value) in &given.named {
        machine.heap.insert(id, &Value::Text(name.clone()), value.clone())?;
    }
    Ok(())
}
