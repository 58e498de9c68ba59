//! `%` and `str.format`.

use std::rc::Rc;

use groundwork_go::strconv::{FloatVerb, append_float};

use crate::fault::Fault;
use crate::values::{Given, Heap, Int, Value, float_text};

/// Text that is counted while it is written.
struct Output<'a> {
    heap: &'a Heap,
    text: String,
}

impl Output<'_> {
    fn push(&mut self, text: &str) -> Result<(), Fault> {
        self.heap.allocate(text.len())?;
        self.text.push_str(text);
        Ok(())
    }
}

/// Evaluates `format % value`.
pub(crate) fn interpolate(heap: &Heap, format: &str, value: &Value) -> Result<String, Fault> {
    let mut out = Output { heap, text: String::new() };
    let arguments = match value {
        Value::Tuple(id) => heap.tuple(*id),
        _ => std::slice::from_ref(value),
    };
    let mut arguments = arguments.iter();
    let mut rest = format;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push(before)?;
        if let Some(behind) = behind.strip_prefix('%') {
            out.push("%")?;
            rest = behind;
            continue;
        }
        let (argument, behind) = match behind.strip_prefix('(') {
            Some(key) => {
                let (key, behind) = key.split_once(')').ok_or_else(|| Fault::new("incomplete format key"))?;
                if !matches!(value, Value::Dict(_)) {
                    return Err(Fault::new("format requires a mapping"));
                }
                let found = heap.field(value, key);
                (found.ok_or_else(|| Fault::new(format!("key not found: {key}")))?, behind)
            }
            None => {
                let next = arguments.next();
                (next.ok_or_else(|| Fault::new("not enough arguments for format string"))?, behind)
            }
        };
        let conversion = behind.chars().next().ok_or_else(|| Fault::new("incomplete format"))?;
        out.push(&converted(heap, conversion, argument)?)?;
        rest = behind.get(conversion.len_utf8()..).unwrap_or_default();
    }
    out.push(rest)?;
    if arguments.next().is_some() && !matches!(value, Value::Dict(_)) {
        return Err(Fault::new("too many arguments for format string"));
    }
    Ok(out.text)
}

fn converted(heap: &Heap, conversion: char, value: &Value) -> Result<Rc<str>, Fault> {
    Ok(match conversion {
        's' => heap.shown(value)?,
        'r' => heap.repr(value)?.into(),
        'd' | 'i' | 'o' | 'x' | 'X' => {
            let integer = whole(value)
                .map_err(|problem| Fault::new(format!("%{conversion} format requires integer: {problem}")))?;
            heap.spend(integer.words().saturating_mul(integer.words()))?;
            radix(&integer, conversion).into()
        }
        'e' | 'f' | 'g' | 'E' | 'F' | 'G' => {
            let number = match value {
                Value::Int(value) => value.float(),
                Value::Float(value) => *value,
                _ => {
                    let kind = value.kind();
                    return Err(Fault::new(format!("%{conversion} format requires float, not {kind}")));
                }
            };
            float(number, conversion).into()
        }
        'c' => character(value)?.to_string().into(),
        '%' => "%".into(),
        _ => return Err(Fault::new(format!("unknown conversion %{conversion}"))),
    })
}

/// Returns the integer part of a number.
pub(crate) fn whole(value: &Value) -> Result<Int, String> {
    match value {
        Value::Int(value) => Ok(value.clone()),
        Value::Float(value) => Int::truncated(*value)
            .ok_or_else(|| format!("cannot convert float {} to integer", float_text(*value))),
        _ => Err(format!("cannot convert {} to int", value.kind())),
    }
}

fn radix(value: &Int, conversion: char) -> String {
    let magnitude = if value.is_negative() { value.negate() } else { value.clone() };
    let sign = if value.is_negative() { "-" } else { "" };
    match conversion {
        'o' => format!("{sign}{:o}", magnitude.big()),
        'x' => format!("{sign}{:x}", magnitude.big()),
        'X' => format!("{sign}{:X}", magnitude.big()),
        _ => value.to_string(),
    }
}

fn float(value: f64, conversion: char) -> String {
    if !value.is_finite() {
        return float_text(value);
    }
    if matches!(conversion, 'g' | 'G') {
        let text = float_text(value);
        return if conversion == 'G' { text.to_uppercase() } else { text };
    }
    let verb = if matches!(conversion, 'e' | 'E') { FloatVerb::Exponent } else { FloatVerb::Decimal };
    let mut out = Vec::new();
    append_float(&mut out, value, verb, Some(6));
    let text = String::from_utf8_lossy(&out).into_owned();
    if conversion.is_ascii_uppercase() { text.to_uppercase() } else { text }
}

fn character(value: &Value) -> Result<char, Fault> {
    match value {
        Value::Int(code) => {
            let found = code.small().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32);
            found.ok_or_else(|| {
                Fault::new(format!("%c format requires a valid Unicode code point, got {code}"))
            })
        }
        Value::Text(text) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(found), None) => Ok(found),
                _ => Err(Fault::new("%c format requires a single-character string")),
            }
        }
        _ => {
            let kind = value.kind();
            Err(Fault::new(format!("%c format requires int or single-character string, not {kind}")))
        }
    }
}

/// Evaluates `format.format(…)`.
pub(crate) fn format(heap: &Heap, format: &str, given: &Given) -> Result<String, Fault> {
    let mut out = Output { heap, text: String::new() };
    let mut numbering = Numbering { next: 0, is_automatic: None };
    let mut rest = format;
    loop {
        let (literal, behind) = match rest.split_once('{') {
            Some((literal, behind)) => (literal, Some(behind)),
            None => (rest, None),
        };
        out.push(&closed(literal)?)?;
        let Some(behind) = behind else { return Ok(out.text) };
        if let Some(behind) = behind.strip_prefix('{') {
            out.push("{")?;
            rest = behind;
            continue;
        }
        let (field, behind) = behind.split_once('}').ok_or_else(|| Fault::new("unmatched '{' in format"))?;
        rest = behind;
        let (name, conversion) = parts(field)?;
        heap.spend(given.named.len())?;
        let value = numbering.find(name, given)?;
        match conversion {
            "s" => out.push(&heap.shown(value)?)?,
            "r" => out.push(&heap.repr(value)?)?,
            _ => return Err(Fault::new(format!("unknown conversion \"{conversion}\""))),
        }
    }
}

/// Replaces `}}` by `}`.
fn closed(literal: &str) -> Result<String, Fault> {
    let mut out = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some((before, behind)) = rest.split_once('}') {
        let Some(behind) = behind.strip_prefix('}') else {
            return Err(Fault::new("single '}' in format"));
        };
        out.push_str(before);
        out.push('}');
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Splits a field into its name and conversion.
fn parts(field: &str) -> Result<(&str, &str), Fault> {
    let (name, conversion, specification) = match field.split_once('!') {
        Some((name, rest)) => {
            let (conversion, specification) = rest.split_once(':').unwrap_or((rest, ""));
            (name, conversion, specification)
        }
        None => {
            let (name, specification) = field.split_once(':').unwrap_or((field, ""));
            (name, "s", specification)
        }
    };
    if specification.is_empty() {
        return Ok((name, conversion));
    }
    Err(Fault::new(format!("format spec features not supported in replacement fields: {specification}")))
}

struct Numbering {
    next: usize,
    is_automatic: Option<bool>,
}

impl Numbering {
    fn find<'g>(&mut self, name: &str, given: &'g Given) -> Result<&'g Value, Fault> {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            return keyword(name, given);
        }
        let is_automatic = name.is_empty();
        if *self.is_automatic.get_or_insert(is_automatic) != is_automatic {
            let (manual, automatic) = ("manual field specification", "automatic field numbering");
            let (from, to) = if is_automatic { (manual, automatic) } else { (automatic, manual) };
            return Err(Fault::new(format!("cannot switch from {from} to {to}")));
        }
        let at = if is_automatic { self.next } else { name.parse().unwrap_or(usize::MAX) };
        self.next = self.next.saturating_add(1);
        given.get(at).ok_or_else(|| Fault::new("tuple index out of range"))
    }
}

fn keyword<'g>(name: &str, given: &'g Given) -> Result<&'g Value, Fault> {
    if let Some((_, value)) = given.named.iter().find(|(known, _)| &**known == name) {
        return Ok(value);
    }
    Err(Fault::new(if name.contains('.') {
        format!("attribute syntax x.y is not supported in replacement fields: {name}")
    } else if name.contains('[') {
        format!("element syntax a[i] is not supported in replacement fields: {name}")
    } else if name.contains('{') {
        "nested replacement fields not supported".to_owned()
    } else {
        format!("keyword {name} not found")
    }))
}
