//! `re.star`: patterns of Go. Flags are accepted and have no effect, as in the catalog's function.

use std::rc::Rc;

use groundwork_go::regexp::{Pattern, account};

use crate::fault::Fault;
use crate::values::{Answer, Given, Heap, Member, Method, Module, Native, Run, Value, mismatch};

/// Bytes that a part of a compiled pattern takes.
const PART_BYTES: usize = 100;

pub(super) static MODULE: Module = Module {
    name: "re",
    members: &[
        ("compile", Member::Function(&Native { name: "compile", run: Run::Plain(compile) })),
        (
            "findall",
            Member::Function(&Native {
                name: "findall",
                run: Run::Plain(|heap, given| first(heap, given, findall)),
            }),
        ),
        (
            "match",
            Member::Function(&Native {
                name: "match",
                run: Run::Plain(|heap, given| first(heap, given, matches)),
            }),
        ),
        (
            "search",
            Member::Function(&Native {
                name: "search",
                run: Run::Plain(|heap, given| first(heap, given, search)),
            }),
        ),
        (
            "split",
            Member::Function(&Native {
                name: "split",
                run: Run::Plain(|heap, given| first(heap, given, split)),
            }),
        ),
        (
            "sub",
            Member::Function(&Native { name: "sub", run: Run::Plain(|heap, given| first(heap, given, sub)) }),
        ),
    ],
};

pub(crate) static METHODS: &[Method] = &[
    Method { name: "findall", run: |heap, of, given| compiled(heap, of, given, findall) },
    Method { name: "match", run: |heap, of, given| compiled(heap, of, given, matches) },
    Method { name: "search", run: |heap, of, given| compiled(heap, of, given, search) },
    Method { name: "split", run: |heap, of, given| compiled(heap, of, given, split) },
    Method { name: "sub", run: |heap, of, given| compiled(heap, of, given, sub) },
];

/// Function of a pattern, with its other arguments.
type Use = fn(&mut Heap, &Pattern, &Given) -> Answer;

fn compiled(heap: &mut Heap, of: &Value, given: &Given, run: Use) -> Answer {
    match of {
        Value::Pattern(pattern) => run(heap, pattern, given),
        _ => Ok(Value::None),
    }
}

/// Compiles the first argument, and applies a function to the others.
fn first(heap: &mut Heap, given: &Given, run: Use) -> Answer {
    let mut positional = given.positional.clone();
    let mut named = given.named.clone();
    let pattern = if positional.is_empty() {
        let at = named.iter().position(|(name, _)| &**name == "pattern");
        named.remove(at.ok_or_else(|| Fault::new("missing argument for pattern"))?).1
    } else {
        positional.remove(0)
    };
    let pattern = read(heap, &pattern)?;
    run(heap, &pattern, &Given { positional, named })
}

fn read(heap: &Heap, pattern: &Value) -> Result<Pattern, Fault> {
    let Value::Text(text) = pattern else { return Err(mismatch("pattern", pattern, "string")) };
    let parts = account(text, |steps| heap.spend_steps(steps))?;
    heap.allocate(parts.saturating_mul(PART_BYTES))?;
    Pattern::compile(text).map_err(|problem| Fault::new(format!("error parsing regexp: {problem}")))
}

fn compile(heap: &mut Heap, given: &Given) -> Answer {
    let [pattern, _] = given.bind(["pattern", "flags"], 1)?;
    let pattern = read(heap, &pattern.unwrap_or(Value::None))?;
    Ok(Value::Pattern(Rc::new(pattern)))
}

/// Counts a search of a text by its worst case.
fn spend(heap: &Heap, pattern: &Pattern, text: &str) -> Result<(), Fault> {
    heap.spend_steps(1 + pattern.searching_steps(text.len()))
}

fn text(name: &str, value: Option<Value>) -> Result<Rc<str>, Fault> {
    match value {
        Some(Value::Text(text)) => Ok(text),
        Some(other) => Err(mismatch(name, &other, "string")),
        None => Ok("".into()),
    }
}

fn number(name: &str, value: Option<Value>) -> Result<i64, Fault> {
    match value {
        Some(Value::Int(value)) => value.small().ok_or_else(|| Fault::new(format!("{value} out of range"))),
        Some(other) => Err(mismatch(name, &other, "int")),
        None => Ok(0),
    }
}

fn strings<'t>(heap: &mut Heap, texts: impl Iterator<Item = &'t str>) -> Answer {
    let mut items = Vec::new();
    for text in texts {
        items.push(heap.text(text)?);
    }
    heap.new_tuple(items)
}

fn findall(heap: &mut Heap, pattern: &Pattern, given: &Given) -> Answer {
    let [string, _] = given.bind(["string", "flags"], 1)?;
    let string = text("string", string)?;
    spend(heap, pattern, &string)?;
    strings(heap, pattern.regex().find_iter(&string).map(|found| found.as_str()))
}

fn matches(heap: &mut Heap, pattern: &Pattern, given: &Given) -> Answer {
    let [string, _] = given.bind(["string", "flags"], 1)?;
    let string = text("string", string)?;
    spend(heap, pattern, &string)?;
    let mut rows = Vec::new();
    for captures in pattern.regex().captures_iter(&string) {
        let groups = captures.iter().map(|group| group.map_or("", |group| group.as_str()));
        rows.push(strings(heap, groups)?);
    }
    heap.new_list(rows)
}

fn search(heap: &mut Heap, pattern: &Pattern, given: &Given) -> Answer {
    let [string, _] = given.bind(["string", "flags"], 1)?;
    let string = text("string", string)?;
    spend(heap, pattern, &string)?;
    let Some(found) = pattern.regex().find(&string) else { return Ok(Value::None) };
    heap.new_list(vec![Value::int(found.start()), Value::int(found.end())])
}

fn split(heap: &mut Heap, pattern: &Pattern, given: &Given) -> Answer {
    let [string, most, _] = given.bind(["string", "maxsplit", "flags"], 1)?;
    let (string, most) = (text("string", string)?, number("maxsplit", most)?);
    spend(heap, pattern, &string)?;
    // As in Go, the number is that of the parts; 0 and less mean all of them.
    let most = usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let (mut start, mut last) = (0, 0);
    for found in pattern.regex().find_iter(&string) {
        if parts.len() + 1 >= most {
            break;
        }
        last = found.start();
        // An empty match at the start of the text divides nothing.
        if found.end() != 0 {
            parts.push(string.get(start..last).unwrap_or_default());
        }
        start = found.end();
    }
    if last != string.len() || start != string.len() || parts.is_empty() {
        parts.push(string.get(start..).unwrap_or_default());
    }
    strings(heap, parts.into_iter())
}

fn sub(heap: &mut Heap, pattern: &Pattern, given: &Given) -> Answer {
    let [repl, string, _, _] = given.bind(["repl", "string", "count", "flags"], 2)?;
    let (template, string) = (text("repl", repl)?, text("string", string)?);
    spend(heap, pattern, &string)?;
    let mut out = String::new();
    let (mut end, mut counted) = (0, 0);
    for captures in pattern.regex().captures_iter(&string) {
        let Some(found) = captures.get(0) else { continue };
        out.push_str(string.get(end..found.start()).unwrap_or_default());
        // A reference to a group may be as long as the text, however short the template is.
        let groups = template.matches('$').count();
        heap.spend(template.len().saturating_add(groups.saturating_mul(found.len())))?;
        pattern.expand(&template, &captures, &mut out);
        end = found.end();
        heap.allocate(out.len() - counted)?;
        counted = out.len();
    }
    out.push_str(string.get(end..).unwrap_or_default());
    heap.text(out)
}
