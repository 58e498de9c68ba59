//! Functions that every script has.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::fault::Fault;
use crate::format::whole;
use crate::methods;
use crate::syntax::literal::MOST_DIGITS;
use crate::values::{Answer, Caller, Given, Heap, Int, Native, Range, Run, Value, mismatch};

/// Returns the names that are defined before a script begins, besides `ctx`.
pub(crate) fn universe() -> Vec<(&'static str, Value)> {
    let constants = [("None", Value::None), ("True", Value::Bool(true)), ("False", Value::Bool(false))];
    constants.into_iter().chain(NATIVES.iter().map(|native| (native.name, Value::Native(native)))).collect()
}

static NATIVES: &[Native] = &[
    Native { name: "abs", run: Run::Plain(abs) },
    Native { name: "all", run: Run::Plain(all) },
    Native { name: "any", run: Run::Plain(any) },
    Native { name: "bool", run: Run::Plain(bool) },
    Native { name: "bytes", run: Run::Plain(bytes) },
    Native { name: "chr", run: Run::Plain(chr) },
    Native { name: "dict", run: Run::Plain(dict) },
    Native { name: "dir", run: Run::Plain(dir) },
    Native { name: "enumerate", run: Run::Plain(enumerate) },
    Native { name: "fail", run: Run::Plain(fail) },
    Native { name: "float", run: Run::Plain(float) },
    Native { name: "getattr", run: Run::Plain(getattr) },
    Native { name: "hasattr", run: Run::Plain(hasattr) },
    Native { name: "hash", run: Run::Plain(hash) },
    Native { name: "int", run: Run::Plain(int) },
    Native { name: "len", run: Run::Plain(len) },
    Native { name: "list", run: Run::Plain(list) },
    Native { name: "max", run: Run::Calling(max) },
    Native { name: "min", run: Run::Calling(min) },
    Native { name: "ord", run: Run::Plain(ord) },
    Native { name: "print", run: Run::Plain(print) },
    Native { name: "range", run: Run::Plain(range) },
    Native { name: "repr", run: Run::Plain(repr) },
    Native { name: "reversed", run: Run::Plain(reversed) },
    Native { name: "set", run: Run::Plain(set) },
    Native { name: "sorted", run: Run::Calling(sorted) },
    Native { name: "str", run: Run::Plain(str) },
    Native { name: "tuple", run: Run::Plain(tuple) },
    Native { name: "type", run: Run::Plain(kind) },
    Native { name: "zip", run: Run::Plain(zip) },
];

/// Returns the elements of a positional argument.
fn iterable(heap: &Heap, given: &Given, at: usize) -> Result<Vec<Value>, Fault> {
    let value = given.at(at);
    let found = heap.elements(value)?;
    found.ok_or_else(|| mismatch(&(at + 1).to_string(), value, "iterable"))
}

fn abs(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Int(value) if value.is_negative() => Ok(Value::Int(value.negate())),
        Value::Int(value) => Ok(Value::Int(value.clone())),
        Value::Float(value) => Ok(Value::Float(value.abs())),
        other => Err(Fault::new(format!("got {}, want int or float", other.kind()))),
    }
}

fn all(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let items = iterable(heap, given, 0)?;
    Ok(Value::Bool(items.iter().all(|item| heap.is_true(item))))
}

fn any(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let items = iterable(heap, given, 0)?;
    Ok(Value::Bool(items.iter().any(|item| heap.is_true(item))))
}

fn bool(heap: &mut Heap, given: &Given) -> Answer {
    given.count(0, 1)?;
    Ok(Value::Bool(given.get(0).is_some_and(|value| heap.is_true(value))))
}

fn bytes(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::Text(text) => heap.bytes(text.as_bytes().to_vec()),
        other => {
            let Some(items) = heap.elements(other)? else {
                let kind = other.kind();
                return Err(Fault::new(format!("got {kind}, want string, bytes, or iterable of ints")));
            };
            let byte = |item: &Value| match item {
                Value::Int(value) => value.small().and_then(|value| u8::try_from(value).ok()),
                _ => None,
            };
            let wrong = |at: usize| Fault::new(format!("at index {at}, got a value that is not a byte"));
            let bytes = items.iter().enumerate().map(|(at, item)| byte(item).ok_or_else(|| wrong(at)));
            let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
            heap.bytes(bytes)
        }
    }
}

fn chr(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let code = given.int(0)?;
    if code < 0 {
        return Err(Fault::new(format!("Unicode code point {code} out of range (<0)")));
    }
    if code > 0x10_ffff {
        return Err(Fault::new(format!("Unicode code point U+{code:X} out of range (>0x10FFFF)")));
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    heap.text(found.to_string())
}

fn dict(heap: &mut Heap, given: &Given) -> Answer {
    let got = given.positional.len();
    if got > 1 {
        return Err(Fault::new(format!("got {got} arguments, want at most 1")));
    }
    let id = heap.new_dict()?;
    methods::dict::fill(heap, id, given)?;
    Ok(Value::Dict(id))
}

fn dir(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let mut names = methods::names(given.at(0));
    names.sort_unstable();
    heap.texts(names)
}

fn enumerate(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 2)?;
    let start = if given.get(1).is_some() { given.int(1)? } else { 0 };
    let mut pairs = Vec::new();
    for (at, item) in (start..).zip(iterable(heap, given, 0)?) {
        pairs.push(heap.new_tuple(vec![Value::int(at), item])?);
    }
    heap.new_list(pairs)
}

/// Joins the texts of the positional arguments.
fn joined(heap: &Heap, given: &Given) -> Result<String, Fault> {
    let separator = match given.named.as_slice() {
        [] => " ".into(),
        [(name, Value::Text(text))] if &**name == "sep" => text.clone(),
        [(name, value)] if &**name == "sep" => return Err(mismatch("sep", value, "string")),
        [(name, _), ..] => return Err(Fault::new(format!("unexpected keyword argument \"{name}\""))),
    };
    let mut line = String::new();
    for (at, value) in given.positional.iter().enumerate() {
        let text = heap.shown(value)?;
        let separator: &str = if at > 0 { &separator } else { "" };
        heap.allocate(text.len() + separator.len())?;
        line.push_str(separator);
        line.push_str(&text);
    }
    Ok(line)
}

fn fail(heap: &mut Heap, given: &Given) -> Answer {
    Err(Fault::new(joined(heap, given)?))
}

fn print(heap: &mut Heap, given: &Given) -> Answer {
    let line = joined(heap, given)?;
    heap.print(&line);
    Ok(Value::None)
}

fn float(_: &mut Heap, given: &Given) -> Answer {
    given.count(0, 1)?;
    Ok(Value::Float(match given.get(0) {
        None => 0.0,
        Some(Value::Bool(truth)) => f64::from(u8::from(*truth)),
        Some(Value::Int(value)) => value.finite()?,
        Some(Value::Float(value)) => *value,
        Some(Value::Text(text)) => parse_float(text)?,
        Some(other) => return Err(Fault::new(format!("got {}, want number or string", other.kind()))),
    }))
}

fn parse_float(text: &str) -> Result<f64, Fault> {
    let lower = text.to_lowercase();
    let (sign, magnitude) = match lower.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    match magnitude {
        "" if text.is_empty() => return Err(Fault::new("empty string")),
        "inf" | "infinity" => return Ok(sign * f64::INFINITY),
        "nan" => return Ok(f64::NAN),
        _ => {}
    }
    match groundwork_go::strconv::parse_float(text.as_bytes()) {
        Some(value) if value.is_infinite() => Err(Fault::new("floating-point number too large")),
        Some(value) => Ok(value),
        None => Err(Fault::new(format!("invalid float literal: {text}"))),
    }
}

fn getattr(heap: &mut Heap, given: &Given) -> Answer {
    given.count(2, 3)?;
    let name = given.text(1)?.clone();
    match (methods::field(heap, given.at(0), &name), given.get(2)) {
        (Ok(value), _) => Ok(value),
        (Err(fault), _) if fault.is_limit() => Err(fault),
        (Err(_), Some(default)) => Ok(default.clone()),
        (Err(fault), None) => Err(fault),
    }
}

fn hasattr(heap: &mut Heap, given: &Given) -> Answer {
    given.count(2, 2)?;
    let name = given.text(1)?.clone();
    match methods::field(heap, given.at(0), &name) {
        Err(fault) if fault.is_limit() => Err(fault),
        found => Ok(Value::Bool(found.is_ok())),
    }
}

fn hash(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let value = match given.at(0) {
        Value::Text(text) => {
            heap.spend(text.len())?;
            // The hash of Java, but over code points, as Go's implementation has it.
            let add =
                |hash: i32, found: char| hash.wrapping_mul(31).wrapping_add(u32::from(found).cast_signed());
            i64::from(text.chars().fold(0_i32, add))
        }
        Value::Bytes(bytes) => {
            heap.spend(bytes.len())?;
            let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
            i64::from(bytes.iter().fold(2_166_136_261, add))
        }
        other => return Err(Fault::new(format!("got {}, want string or bytes", other.kind()))),
    };
    Ok(Value::int(value))
}

fn int(heap: &mut Heap, given: &Given) -> Answer {
    let [value, base] = given.bind(["x", "base"], 0)?;
    let value = value.unwrap_or(Value::Int(Int::Small(0)));
    let Value::Text(text) = &value else {
        if base.is_some() {
            return Err(Fault::new("can't convert non-string with explicit base"));
        }
        if let Value::Bool(truth) = value {
            return Ok(Value::int(i64::from(truth)));
        }
        return whole(&value).map(Value::Int).map_err(Fault::new);
    };
    let base = match base {
        None => 10,
        Some(Value::Int(base)) => base.small().unwrap_or(-1),
        Some(other) => return Err(Fault::new(format!("for base, got {}, want int", other.kind()))),
    };
    let base = u32::try_from(base).ok().filter(|base| matches!(*base, 0 | 2..=36));
    let base = base.ok_or_else(|| Fault::new("base must be an integer >= 2 && <= 36"))?;
    heap.spend(text.len().min(MOST_DIGITS).pow(2))?;
    let found = parse_int(text, base);
    found.map(Value::Int).ok_or_else(|| Fault::new(format!("invalid literal with base {base}: {text}")))
}

fn parse_int(text: &str, base: u32) -> Option<Int> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let implied = match prefix.as_str() {
        "0o" => 8,
        "0x" => 16,
        "0b" => 2,
        _ => 0,
    };
    let is_implied = implied != 0 && digits.len() > 2 && (base == 0 || base == implied);
    let (digits, base) = if is_implied { (digits.get(2..)?, implied) } else { (digits, base) };
    let base = if base == 0 {
        if digits.starts_with('0') && digits.bytes().any(|digit| digit != b'0') {
            return None;
        }
        10
    } else {
        base
    };
    let value = Int::from(crate::syntax::literal::integer(digits, base).ok()?);
    Some(if is_negative { value.negate() } else { value })
}

fn len(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let value = given.at(0);
    match heap.len(value) {
        Some(length) => Ok(Value::int(length)),
        None => Err(Fault::new(format!("value of type {} has no len", value.kind()))),
    }
}

fn list(heap: &mut Heap, given: &Given) -> Answer {
    given.count(0, 1)?;
    let items = if given.get(0).is_some() { iterable(heap, given, 0)? } else { Vec::new() };
    heap.new_list(items)
}

fn max(caller: &mut dyn Caller, given: &Given) -> Answer {
    extreme(caller, given, Ordering::Greater)
}

fn min(caller: &mut dyn Caller, given: &Given) -> Answer {
    extreme(caller, given, Ordering::Less)
}

/// Returns the first element that no other element exceeds in the given direction.
fn extreme(caller: &mut dyn Caller, given: &Given, wanted: Ordering) -> Answer {
    let key = match given.named.as_slice() {
        [] => None,
        [(name, key)] if &**name == "key" => Some(key.clone()),
        [(name, _), ..] => return Err(Fault::new(format!("unexpected keyword argument \"{name}\""))),
    };
    let items = match given.positional.len() {
        0 => return Err(Fault::new("got 0 arguments, want at least 1")),
        1 => iterable(caller.heap(), given, 0)?,
        _ => given.positional.clone(),
    };
    let mut best: Option<(Value, Value)> = None;
    for item in items {
        let rank = match &key {
            Some(key) => caller.call(key, Given::of(vec![item.clone()]))?,
            None => item.clone(),
        };
        let is_better = match &best {
            Some((_, known)) => caller.heap().order(&rank, known)? == wanted,
            None => true,
        };
        if is_better {
            best = Some((item, rank));
        }
    }
    best.map(|(item, _)| item).ok_or_else(|| Fault::new("argument is an empty sequence"))
}

fn ord(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Text(text) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(found), None) => Ok(Value::int(i64::from(u32::from(found)))),
                _ => {
                    let count = text.chars().count();
                    Err(Fault::new(format!("string encodes {count} Unicode code points, want 1")))
                }
            }
        }
        Value::Bytes(bytes) => match &**bytes {
            [byte] => Ok(Value::int(i64::from(*byte))),
            _ => Err(Fault::new(format!("bytes has length {}, want 1", bytes.len()))),
        },
        other => Err(Fault::new(format!("got {}, want string or bytes", other.kind()))),
    }
}

fn range(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 3)?;
    let first = given.int(0)?;
    let second = if given.get(1).is_some() { Some(given.int(1)?) } else { None };
    let step = if given.get(2).is_some() { given.int(2)? } else { 1 };
    if step == 0 {
        return Err(Fault::new("step argument must not be zero"));
    }
    let (start, stop) = second.map_or((0, first), |stop| (first, stop));
    Ok(Value::Range(Rc::new(Range { start, stop, step })))
}

fn repr(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let text = heap.repr(given.at(0))?;
    heap.text(text)
}

fn reversed(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let mut items = iterable(heap, given, 0)?;
    items.reverse();
    heap.new_list(items)
}

fn set(heap: &mut Heap, given: &Given) -> Answer {
    given.count(0, 1)?;
    let items = if given.get(0).is_some() { iterable(heap, given, 0)? } else { Vec::new() };
    heap.set_of(items)
}

fn sorted(caller: &mut dyn Caller, given: &Given) -> Answer {
    let [items, key, reverse] = given.bind(["iterable", "key", "reverse"], 1)?;
    let items = caller.heap().iterate(&items.unwrap_or(Value::None))?;
    let is_reversed = reverse.is_some_and(|reverse| caller.heap().is_true(&reverse));
    caller.heap().allocate_items(items.len().saturating_mul(2))?;
    let mut ranked = Vec::with_capacity(items.len());
    for item in items {
        let rank = match &key {
            None | Some(Value::None) => item.clone(),
            Some(key) => caller.call(key, Given::of(vec![item.clone()]))?,
        };
        ranked.push((rank, item));
    }
    let ranked = merge_sort(ranked, &mut |left, right| {
        let order = caller.heap().order(&left.0, &right.0)?;
        Ok(if is_reversed { order.reverse() } else { order } != Ordering::Greater)
    })?;
    caller.heap().new_list(ranked.into_iter().map(|(_, item)| item).collect())
}

/// Sorts values, and keeps the order of equal ones. The sorting of the standard library may panic
/// where a comparison fails.
fn merge_sort<T>(
    items: Vec<T>,
    is_ordered: &mut dyn FnMut(&T, &T) -> Result<bool, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(left) = rest.next() {
            merged.push(match rest.next() {
                Some(right) => merge(left, right, is_ordered)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    is_ordered: &mut dyn FnMut(&T, &T) -> Result<bool, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if is_ordered(first, second)? { left.next() } else { right.next() };
        out.extend(next);
    }
    out.extend(left.chain(right));
    Ok(out)
}

fn str(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let text = heap.shown(given.at(0))?;
    heap.text(text)
}

fn tuple(heap: &mut Heap, given: &Given) -> Answer {
    given.count(0, 1)?;
    let items = if given.get(0).is_some() { iterable(heap, given, 0)? } else { Vec::new() };
    heap.new_tuple(items)
}

fn kind(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    Ok(Value::text(given.at(0).kind()))
}

fn zip(heap: &mut Heap, given: &Given) -> Answer {
    given.unnamed()?;
    let mut columns = Vec::new();
    for (at, value) in given.positional.iter().enumerate() {
        let Some(items) = heap.elements(value)? else {
            return Err(Fault::new(format!("argument #{} is not iterable: {}", at + 1, value.kind())));
        };
        columns.push(items);
    }
    let rows = columns.iter().map(Vec::len).min().unwrap_or_default();
    let mut out = Vec::new();
    for row in 0..rows {
        let items = columns.iter().filter_map(|column| column.get(row).cloned()).collect();
        out.push(heap.new_tuple(items)?);
    }
    heap.new_list(out)
}
