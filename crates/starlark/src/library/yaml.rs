//! `encoding/yaml.star`: YAML as Go tools read and write it.

use groundwork_yaml::{Content, Node, Options, parse_first};
use serde_json::{Map, Number};

use crate::fault::Fault;
use crate::stack::deeper;
use crate::values::{Answer, Given, Heap, MOST_LEVELS, Member, Module, Native, Run, Value, mismatch};

pub(super) static MODULE: Module = Module {
    name: "yaml",
    members: &[
        ("dumps", Member::Function(&Native { name: "dumps", run: Run::Plain(dumps) })),
        ("loads", Member::Function(&Native { name: "loads", run: Run::Plain(loads) })),
    ],
};

/// Steps for each byte that is read or written.
const BYTE: usize = 100;

/// Bytes of a node that the reader holds for each byte of its text, at least.
const NODE_BYTES: usize = 64;

fn loads(heap: &mut Heap, given: &Given) -> Answer {
    let [source] = given.bind(["source"], 1)?;
    let source = source.unwrap_or(Value::None);
    let Value::Text(text) = &source else { return Err(mismatch("source", &source, "string")) };
    heap.spend(text.len().saturating_mul(BYTE))?;
    // Aliases multiply nodes, so the reader gets a limit for its own memory, too.
    let most_bytes = text.len().saturating_mul(NODE_BYTES).saturating_add(1 << 20).min(64 << 20);
    let options = Options { most_bytes, ..Options::DEFAULT };
    let node = parse_first(text, options).map_err(|problem| {
        Fault::new(format!("yaml: line {}: {}", problem.position().line, problem.message()))
    })?;
    from_node(heap, &node)
}

fn from_node(heap: &mut Heap, node: &Node) -> Answer {
    Ok(match &node.content {
        Content::Null => Value::None,
        Content::Bool(truth) => Value::Bool(*truth),
        Content::Number(number) => from_number(number),
        Content::String(text) => heap.text(text.as_str())?,
        Content::Sequence(items) => {
            let items = items.iter().map(|item| deeper(|| from_node(heap, item)));
            let items = items.collect::<Result<_, _>>()?;
            heap.new_list(items)?
        }
        Content::Mapping(entries) => {
            let dict = heap.new_dict()?;
            for entry in entries {
                let value = deeper(|| from_node(heap, &entry.value))?;
                let key = heap.text(entry.key.as_str())?;
                heap.insert(dict, &key, value)?;
            }
            Value::Dict(dict)
        }
    })
}

fn from_number(number: &Number) -> Value {
    if let Some(value) = number.as_i64() {
        return Value::int(value);
    }
    match number.as_u64() {
        Some(value) => Value::Int(num_bigint::BigInt::from(value).into()),
        None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn dumps(heap: &mut Heap, given: &Given) -> Answer {
    let [source] = given.bind(["source"], 1)?;
    let value = to_json(heap, &source.unwrap_or(Value::None), MOST_LEVELS)?;
    let text = groundwork_yaml::to_string(&value);
    heap.spend(text.len().saturating_mul(BYTE))?;
    heap.text(text)
}

/// Converts a value to JSON. Its texts are counted, since one value may be in many places.
fn to_json(heap: &Heap, value: &Value, levels: usize) -> Result<serde_json::Value, Fault> {
    use serde_json::Value as Json;
    heap.spend(BYTE)?;
    let levels = levels.checked_sub(1).ok_or_else(Heap::too_deep)?;
    let all = |items: &[Value]| -> Result<Json, Fault> {
        heap.allocate_items(items.len())?;
        let items = items.iter().map(|item| deeper(|| to_json(heap, item, levels)));
        Ok(Json::Array(items.collect::<Result<_, _>>()?))
    };
    Ok(match value {
        Value::None => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(value) => {
            let small = value.small().ok_or_else(|| Fault::new(format!("{value} out of range")))?;
            Json::Number(small.into())
        }
        Value::Float(value) => Number::from_f64(*value)
            .map(Json::Number)
            .ok_or_else(|| Fault::new("a float that is not finite cannot be written"))?,
        Value::Text(text) => {
            heap.allocate(text.len())?;
            heap.spend(text.len().saturating_mul(BYTE))?;
            Json::String(text.as_ref().to_owned())
        }
        Value::List(id) => all(heap.list(*id))?,
        Value::Tuple(id) => all(heap.tuple(*id))?,
        Value::Dict(id) => {
            let mut members = Map::new();
            for (name, value) in heap.table(*id).iter() {
                let name = heap.shown(name)?;
                heap.allocate(name.len())?;
                members.insert(name.as_ref().to_owned(), deeper(|| to_json(heap, value, levels))?);
            }
            Json::Object(members)
        }
        Value::Set(_) => return Err(Fault::new("sets aren't yet supported")),
        _ => return Err(Fault::new(format!("unrecognized starlark type: {}", value.kind()))),
    })
}
