//! Methods of strings. Positions count bytes.

use std::borrow::Cow;
use std::rc::Rc;

use groundwork_go::text::{is_digit, is_letter, is_space};

use crate::fault::Fault;
use crate::format;
use crate::values::{Answer, Given, Heap, Method, Value, View, ViewKind, bounds, mismatch};

pub(super) static METHODS: &[Method] = &[
    Method { name: "capitalize", run: capitalize },
    Method { name: "codepoint_ords", run: codepoint_ords },
    Method { name: "codepoints", run: codepoints },
    Method { name: "count", run: count },
    Method { name: "elem_ords", run: elem_ords },
    Method { name: "elems", run: elems },
    Method { name: "endswith", run: endswith },
    Method { name: "find", run: find },
    Method { name: "format", run: formatted },
    Method { name: "index", run: index },
    Method { name: "isalnum", run: isalnum },
    Method { name: "isalpha", run: isalpha },
    Method { name: "isdigit", run: isdigit },
    Method { name: "islower", run: islower },
    Method { name: "isspace", run: isspace },
    Method { name: "istitle", run: istitle },
    Method { name: "isupper", run: isupper },
    Method { name: "join", run: join },
    Method { name: "lower", run: lower },
    Method { name: "lstrip", run: lstrip },
    Method { name: "partition", run: partition },
    Method { name: "removeprefix", run: removeprefix },
    Method { name: "removesuffix", run: removesuffix },
    Method { name: "replace", run: replace },
    Method { name: "rfind", run: rfind },
    Method { name: "rindex", run: rindex },
    Method { name: "rpartition", run: rpartition },
    Method { name: "rsplit", run: rsplit },
    Method { name: "rstrip", run: rstrip },
    Method { name: "split", run: split },
    Method { name: "splitlines", run: splitlines },
    Method { name: "startswith", run: startswith },
    Method { name: "strip", run: strip },
    Method { name: "title", run: title },
    Method { name: "upper", run: upper },
];

fn text(of: &Value) -> &str {
    of.as_text().map(|text| &**text).unwrap_or_default()
}

/// Returns the string of a method without arguments, after its length is counted.
fn bare<'v>(heap: &Heap, of: &'v Value, given: &Given) -> Result<&'v str, Fault> {
    given.count(0, 0)?;
    heap.spend(text(of).len())?;
    Ok(text(of))
}

/// Returns a part of a string. A part of a character becomes U+FFFD.
fn part(text: &str, start: usize, end: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(text.as_bytes().get(start..end).unwrap_or_default())
}

fn is_cased(found: char) -> bool {
    found.is_lowercase() || found.is_uppercase() || found.to_lowercase().next() != Some(found)
}

/// Returns the title case of a character, which is its upper case where that is one character.
fn titled(found: char) -> char {
    let mut upper = found.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => found,
    }
}

fn lowered(found: char) -> char {
    found.to_lowercase().next().unwrap_or(found)
}

fn capitalize(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let text = bare(heap, of, given)?;
    let change = |(at, found): (usize, char)| if at == 0 { titled(found) } else { lowered(found) };
    heap.text(text.char_indices().map(change).collect::<String>())
}

fn title(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let mut was_cased = false;
    let change = |found: char| {
        let changed = if was_cased { lowered(found) } else { titled(found) };
        was_cased = is_cased(changed);
        changed
    };
    let text = bare(heap, of, given)?.chars().map(change).collect::<String>();
    heap.text(text)
}

fn lower(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let text = bare(heap, of, given)?;
    heap.text(text.chars().map(lowered).collect::<String>())
}

fn upper(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let text = bare(heap, of, given)?;
    heap.text(text.chars().map(titled).collect::<String>())
}

fn view(of: &Value, given: &Given, kind: ViewKind) -> Answer {
    given.count(0, 0)?;
    Ok(Value::View(Rc::new(View { kind, of: of.clone() })))
}

fn elems(_: &mut Heap, of: &Value, given: &Given) -> Answer {
    view(of, given, ViewKind::Elems)
}

fn elem_ords(_: &mut Heap, of: &Value, given: &Given) -> Answer {
    view(of, given, ViewKind::ElemOrds)
}

fn codepoints(_: &mut Heap, of: &Value, given: &Given) -> Answer {
    view(of, given, ViewKind::Codepoints)
}

fn codepoint_ords(_: &mut Heap, of: &Value, given: &Given) -> Answer {
    view(of, given, ViewKind::CodepointOrds)
}

/// Returns the part of the string that the second and third arguments choose, and its place.
fn window<'v>(heap: &Heap, of: &'v Value, given: &Given) -> Result<(Cow<'v, str>, usize), Fault> {
    let text = text(of);
    let (start, end) = bounds(given.at(1), given.at(2), true, text.len())?;
    heap.spend(end - start)?;
    Ok((part(text, start, end), start))
}

fn count(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 3)?;
    let needle = given.text(0)?;
    let (window, _) = window(heap, of, given)?;
    let count =
        if needle.is_empty() { window.chars().count() + 1 } else { window.matches(&**needle).count() };
    Ok(Value::int(count))
}

fn search(heap: &Heap, of: &Value, given: &Given, is_last: bool) -> Result<Option<Value>, Fault> {
    given.count(1, 3)?;
    let needle = given.text(0)?;
    let (window, start) = window(heap, of, given)?;
    let found = if is_last { window.rfind(&**needle) } else { window.find(&**needle) };
    Ok(found.map(|at| Value::int(start + at)))
}

fn find(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    Ok(search(heap, of, given, false)?.unwrap_or_else(|| Value::int(-1_i64)))
}

fn rfind(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    Ok(search(heap, of, given, true)?.unwrap_or_else(|| Value::int(-1_i64)))
}

fn index(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    search(heap, of, given, false)?.ok_or_else(|| Fault::new("substring not found"))
}

fn rindex(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    search(heap, of, given, true)?.ok_or_else(|| Fault::new("substring not found"))
}

/// Reports whether one of the strings of the first argument is at an end of the string.
fn affix(heap: &Heap, of: &Value, given: &Given, fits: fn(&str, &str) -> bool) -> Answer {
    given.count(1, 3)?;
    let (window, _) = window(heap, of, given)?;
    let texts = match given.at(0) {
        Value::Text(text) => return Ok(Value::Bool(fits(&window, text))),
        Value::Tuple(id) => heap.tuple(*id),
        other => {
            let kind = other.kind();
            return Err(Fault::new(format!("got {kind}, want string or tuple of string")));
        }
    };
    for (at, text) in texts.iter().enumerate() {
        let Value::Text(text) = text else {
            let kind = text.kind();
            return Err(Fault::new(format!("want string, got {kind}, for element {at}")));
        };
        heap.spend(text.len())?;
        if fits(&window, text) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn startswith(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    affix(heap, of, given, |text, prefix| text.starts_with(prefix))
}

fn endswith(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    affix(heap, of, given, |text, suffix| text.ends_with(suffix))
}

fn formatted(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let text = format::format(heap, text(of), given)?;
    heap.text(text)
}

fn every(text: &str, is_one: impl Fn(char) -> bool) -> Answer {
    Ok(Value::Bool(!text.is_empty() && text.chars().all(is_one)))
}

fn isalnum(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    every(bare(heap, of, given)?, |found| is_letter(found) || is_digit(found))
}

fn isalpha(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    every(bare(heap, of, given)?, is_letter)
}

fn isdigit(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    every(bare(heap, of, given)?, is_digit)
}

fn isspace(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    every(bare(heap, of, given)?, is_space)
}

fn islower(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let text = bare(heap, of, given)?;
    let is_lower = text.chars().any(is_cased) && text.chars().all(|found| lowered(found) == found);
    Ok(Value::Bool(is_lower))
}

fn isupper(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let text = bare(heap, of, given)?;
    let is_upper = text.chars().any(is_cased) && text.chars().all(|found| titled(found) == found);
    Ok(Value::Bool(is_upper))
}

fn istitle(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let (mut is_title, mut was_cased) = (false, false);
    for found in bare(heap, of, given)?.chars() {
        if found.is_ascii_uppercase() || found.is_lowercase() {
            if found.is_ascii_uppercase() == was_cased {
                return Ok(Value::Bool(false));
            }
            (is_title, was_cased) = (true, true);
        } else if found.is_uppercase() {
            return Ok(Value::Bool(false));
        } else {
            was_cased = false;
        }
    }
    Ok(Value::Bool(is_title))
}

fn join(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let separator = text(of);
    let found = heap.elements(given.at(0))?;
    let items = found.ok_or_else(|| mismatch("1", given.at(0), "iterable"))?;
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let Value::Text(item) = item else {
            return Err(Fault::new(format!("in list, want string, got {}", item.kind())));
        };
        heap.allocate(item.len() + separator.len())?;
        if at > 0 {
            out.push_str(separator);
        }
        out.push_str(item);
    }
    heap.text(out)
}

fn divided(heap: &mut Heap, of: &Value, given: &Given, divide: fn(&str, &str) -> [String; 3]) -> Answer {
    given.count(1, 1)?;
    let separator = given.text(0)?;
    if separator.is_empty() {
        return Err(Fault::new("empty separator"));
    }
    heap.allocate(text(of).len().saturating_mul(2))?;
    let parts = divide(text(of), separator).map(|part| Value::text(&part));
    heap.new_tuple(parts.to_vec())
}

fn partition(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    divided(heap, of, given, |text, separator| match text.split_once(separator) {
        Some((before, behind)) => [before, separator, behind].map(str::to_owned),
        None => [text, "", ""].map(str::to_owned),
    })
}

fn rpartition(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    divided(heap, of, given, |text, separator| match text.rsplit_once(separator) {
        Some((before, behind)) => [before, separator, behind].map(str::to_owned),
        None => ["", "", text].map(str::to_owned),
    })
}

fn removeprefix(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let text = text(of);
    heap.text(text.strip_prefix(&**given.text(0)?).unwrap_or(text))
}

fn removesuffix(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let text = text(of);
    heap.text(text.strip_suffix(&**given.text(0)?).unwrap_or(text))
}

fn replace(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(2, 3)?;
    let (text, old, new) = (text(of), given.text(0)?, given.text(1)?);
    let most = if given.get(2).is_some() { given.int(2)? } else { -1 };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    heap.spend(text.len())?;
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(&**old).count() };
    // The size is counted before the text is built.
    heap.allocate(text.len().saturating_add(found.min(most).saturating_mul(new.len())))?;
    heap.text(text.replacen(&**old, new, most))
}

/// Returns the characters to remove from the ends of the string.
fn stripped(heap: &mut Heap, of: &Value, given: &Given, [start, end]: [bool; 2]) -> Answer {
    given.count(0, 1)?;
    let chars = if given.get(0).is_some() { given.text(0)?.clone() } else { "".into() };
    let text = text(of);
    heap.spend(text.len().saturating_mul(chars.len().max(1)))?;
    let is_stripped = |found: char| if chars.is_empty() { is_space(found) } else { chars.contains(found) };
    let text = if start { text.trim_start_matches(is_stripped) } else { text };
    let text = if end { text.trim_end_matches(is_stripped) } else { text };
    heap.text(text)
}

fn strip(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    stripped(heap, of, given, [true, true])
}

fn lstrip(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    stripped(heap, of, given, [true, false])
}

fn rstrip(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    stripped(heap, of, given, [false, true])
}

/// Returns the separator and the largest number of splits.
fn separator(given: &Given) -> Result<(Option<Rc<str>>, usize), Fault> {
    given.count(0, 2)?;
    let most = if given.get(1).is_some() { given.int(1)? } else { -1 };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    match given.get(0) {
        None | Some(Value::None) => Ok((None, most)),
        Some(Value::Text(separator)) if separator.is_empty() => Err(Fault::new("empty separator")),
        Some(Value::Text(separator)) => Ok((Some(separator.clone()), most)),
        Some(other) => Err(Fault::new(format!("got {} for separator, want string", other.kind()))),
    }
}

fn split(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let (separator, most) = separator(given)?;
    let text = text(of);
    heap.spend(text.len())?;
    if let Some(separator) = separator {
        return heap.texts(text.splitn(most.saturating_add(1), &*separator));
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            // The last part keeps the space at its end.
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        parts.push(part);
        rest = behind.trim_start_matches(is_space);
    }
    heap.texts(parts)
}

fn rsplit(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    let (separator, most) = separator(given)?;
    let text = text(of);
    heap.spend(text.len())?;
    let mut parts = Vec::new();
    if let Some(separator) = separator {
        parts.extend(text.rsplitn(most.saturating_add(1), &*separator));
    } else {
        let mut rest = text.trim_end_matches(is_space);
        while !rest.is_empty() {
            if parts.len() == most {
                parts.push(rest);
                break;
            }
            let space = rest.char_indices().rfind(|(_, found)| is_space(*found));
            let start = space.map_or(0, |(at, found)| at + found.len_utf8());
            let (before, part) = rest.split_at(start);
            parts.push(part);
            rest = before.trim_end_matches(is_space);
        }
    }
    heap.texts(parts.into_iter().rev())
}

fn splitlines(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(0, 1)?;
    let keeps_ends = given.get(0).is_some_and(|value| heap.is_true(value));
    let text = text(of);
    heap.spend(text.len())?;
    let lines = text.split_inclusive('\n');
    heap.texts(lines.map(|line| if keeps_ends { line } else { line.strip_suffix('\n').unwrap_or(line) }))
}
