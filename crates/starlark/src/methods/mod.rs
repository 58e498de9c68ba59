//! Methods of the built-in types.

pub(crate) mod dict;
mod list;
mod set;
mod string;

use std::rc::Rc;

use crate::fault::Fault;
use crate::library;
use crate::values::{Answer, Given, Heap, Method, Value, View, ViewKind};

/// Returns the methods of a value.
fn of(value: &Value) -> &'static [Method] {
    match value {
        Value::Text(_) => string::METHODS,
        Value::Bytes(_) => BYTES,
        Value::List(_) => list::METHODS,
        Value::Dict(_) => dict::METHODS,
        Value::Set(_) => set::METHODS,
        Value::Pattern(_) => library::PATTERN_METHODS,
        Value::Time(_) => library::TIME_METHODS,
        _ => &[],
    }
}

/// Returns a method of a value.
pub(crate) fn find(value: &Value, name: &str) -> Option<&'static Method> {
    of(value).iter().find(|method| method.name == name)
}

/// Returns a field or method of a value.
pub(crate) fn field(heap: &Heap, of: &Value, name: &str) -> Answer {
    if let Some(method) = find(of, name) {
        heap.allocate_items(2)?;
        return Ok(Value::Bound(Rc::new((of.clone(), method))));
    }
    let found = match of {
        Value::Struct(of) => {
            of.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        }
        Value::Module(module) => module.member(name),
        Value::Time(time) => library::time_field(time, name),
        Value::Duration(duration) => library::duration_field(*duration, name),
        _ => None,
    };
    found.ok_or_else(|| {
        let kind = of.kind();
        let what = match of {
            Value::Struct(_) => "attribute",
            _ => "field or method",
        };
        Fault::new(format!("{kind} has no .{name} {what}"))
    })
}

/// Returns the names of the fields and methods of a value.
pub(crate) fn names(value: &Value) -> Vec<&'static str> {
    let fields: Vec<&'static str> = match value {
        Value::Struct(of) => of.fields.iter().map(|(name, _)| *name).collect(),
        Value::Module(module) => module.names(),
        Value::Time(_) => library::TIME_FIELDS.to_vec(),
        Value::Duration(_) => library::DURATION_FIELDS.to_vec(),
        _ => Vec::new(),
    };
    fields.into_iter().chain(of(value).iter().map(|method| method.name)).collect()
}

static BYTES: &[Method] = &[Method { name: "elems", run: bytes_elems }];

fn bytes_elems(_: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 0)?;
    Ok(Value::View(Rc::new(View { kind: ViewKind::ElemOrds, of: of.clone() })))
}
