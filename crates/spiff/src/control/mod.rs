//! Control structures: maps that are replaced by the result of a control (`spiff.md` 12, feature
//! `control`).

mod cases;
mod loops;

use std::sync::Arc;

use crate::dependencies::Place;
use crate::env::Env;
use crate::eval::EvalError;
use crate::flow::{Flowed, Walker, fail, same_node};
use crate::issue::Issue;
use crate::operators::concatenate::{go_syntax, shorten};
use crate::run::{is_escaped, is_resolved};
use crate::syntax::ast::{Expr, Name};
use crate::value::{Flags, Map, Node, Pending, Value};

/// The controls with the options that each takes.
const CONTROLS: [(&str, &[&str]); 5] = [
    ("<<for", &["<<do", "<<mapkey"]),
    ("<<if", &["<<then", "<<else"]),
    ("<<merge", &[]),
    ("<<switch", &["<<cases", "<<default"]),
    ("<<type", &["<<default"]),
];

/// The result of running a control.
enum ControlOutcome {
    /// A value that the control needs is not final.
    Pending,
    Undefined,
    Value(Node),
    /// The map is not a valid control, so it can never run.
    Malformed(Issue),
    /// The value or options have the wrong type, so the control can never run.
    Failed(Issue),
    /// The instance of the body fails in this pass.
    Retry(Issue),
}

/// A map with a control, after its fields were flowed.
struct Control<'m> {
    name: &'static str,
    map: &'m Map,
    value: &'m Node,
}

impl<'m> Control<'m> {
    fn option(&self, name: &str) -> Option<&'m Node> {
        self.map.get(name)
    }

    /// Fields that are neither control nor option.
    fn regular(&self) -> impl Iterator<Item = &'m (Arc<str>, Node)> {
        self.map.iter().filter(|(key, _)| !is_control_key(key))
    }
}

fn is_control_key(key: &str) -> bool {
    key.starts_with("<<") && !matches!(key, "<<" | "<<<") && !is_escaped(key)
}

/// Reports whether a map has a control field.
pub(crate) fn has_controls(map: &Map) -> bool {
    map.keys().any(|key| is_control_key(key))
}

/// Reports whether the control instantiates the value of a field, so that the value is not flowed.
pub(crate) fn is_template_option(map: &Map, key: &str) -> bool {
    map.get("<<for").is_some() && matches!(key, "<<do" | "<<mapkey")
}

/// Returns the form in which issues show a map whose control is invalid.
fn describe(map: &Map) -> Value {
    let own = CONTROLS.iter().map(|(name, _)| *name).find(|name| map.get(name).is_some());
    failure(&own.map_or_else(|| "<map>".to_owned(), |own| format!("<{} control>", &own[2..])))
}

/// Returns the value of a control that can never run: an expression without a value, so that no
/// node reads it.
fn failure(shown: &str) -> Value {
    Value::Expression(Pending(Arc::new(Expr::Control(Name::from(shown)))))
}

/// Reports whether all of a control map has been read. The pass that first sees the map parses the
/// inputs of the control and makes its bodies templates. No control fires in the first pass over a
/// document, so that stubs are applied to all inputs before (`spiff.md` 12).
fn is_read(walker: &Walker<'_, '_>, map: &Map) -> bool {
    let is_unread = |key: &str| {
        is_template_option(map, key)
            && map.get(key).is_some_and(|option| !matches!(option.value, Value::Template(_)))
    };
    !walker.run.document(walker.id).dependencies.is_first_pass() && !map.keys().any(|key| is_unread(key))
}

/// Runs the control of a map whose fields have been flowed, if it is ready. `node` is the map
/// before, `at` its place.
pub(crate) fn fire(
    walker: &mut Walker<'_, '_>,
    node: &Node,
    flowed: Node,
    changed: bool,
    env: &Env<'_>,
    at: Place,
) -> Result<Flowed, EvalError> {
    let Value::Map(map) = &flowed.value else { return Ok(Flowed::New(flowed)) };
    let map = Arc::clone(map);
    if let Value::Map(read) = &node.value
        && !is_read(walker, read)
    {
        // The node is new in any case, so the next pass must evaluate it again.
        return Ok(Flowed::New(flowed));
    }
    let before = walker.run.begin_reads(walker.id);
    let outcome = run(walker, &map, env);
    let waits = matches!(outcome, Ok(ControlOutcome::Pending | ControlOutcome::Retry(_)));
    walker.run.end_reads(walker.id, before, waits.then_some(at));
    let mut new = flowed;
    match outcome? {
        ControlOutcome::Pending => {
            new.flags.remove(Flags::ERROR);
            return Ok(if changed || new.flags != node.flags { Flowed::New(new) } else { Flowed::Same });
        }
        ControlOutcome::Retry(issue) => {
            new.flags |= Flags::ERROR;
            fail(&mut new, issue, env);
            return Ok(if changed || !same_node(node, &new) { Flowed::New(new) } else { Flowed::Same });
        }
        ControlOutcome::Malformed(issue) => {
            new.value = failure("<map>");
            new.flags |= Flags::ERROR;
            fail(&mut new, issue, env);
        }
        ControlOutcome::Failed(issue) => {
            new.value = describe(&map);
            new.flags |= Flags::ERROR;
            fail(&mut new, issue, env);
        }
        ControlOutcome::Undefined => {
            new.value = Value::Nil;
            new.flags |= Flags::UNDEFINED;
        }
        ControlOutcome::Value(value) => {
            // If the chosen value failed, the node keeps the failure and its reason.
            let state = value.flags.intersection(Flags::ERROR | Flags::FAILED);
            new.flags = new.flags.difference(Flags::ERROR).union(state);
            new.notes = None;
            if let Some(notes) = value.notes.filter(|notes| notes.issue.is_some()) {
                let own = new.notes_mut();
                (own.issue, own.path) = (notes.issue, notes.path);
            }
            new.value = value.value;
        }
    }
    Ok(Flowed::New(new))
}

fn run(walker: &mut Walker<'_, '_>, map: &Map, env: &Env<'_>) -> Result<ControlOutcome, EvalError> {
    let control = match find(map) {
        Ok(control) => control,
        Err(outcome) => return Ok(outcome),
    };
    let with_control = walker.run.control();
    if control.name == "<<switch" && control.value.has(Flags::UNDEFINED) {
        return Ok(ControlOutcome::Undefined);
    }
    if !is_resolved(control.value, with_control) {
        return Ok(ControlOutcome::Pending);
    }
    let options = map.iter().filter(|(key, _)| !is_template_option(map, key));
    if options.map(|(_, node)| node).any(|node| !is_settled(node, with_control)) {
        return Ok(ControlOutcome::Pending);
    }
    let outcome = match control.name {
        "<<if" => cases::condition(&control),
        "<<switch" if control.option("<<cases").is_some() => cases::matching(walker, &control, env)?,
        "<<switch" => cases::switch(&control),
        "<<type" => cases::by_type(&control),
        "<<merge" => merge(&control),
        _ => loops::run(walker, &control, env)?,
    };
    Ok(match outcome {
        ControlOutcome::Value(node) if node.has(Flags::UNDEFINED) => ControlOutcome::Undefined,
        outcome => outcome,
    })
}

/// Returns the form of a value in a message.
fn text(value: &Value, redacted: bool) -> String {
    if redacted { value.type_name().to_owned() } else { shorten(&go_syntax(value)) }
}

/// Reports whether a node is final: it is resolved, or its unresolved parts have failed.
fn is_settled(node: &Node, control: bool) -> bool {
    match &node.value {
        Value::Expression(_) => node.has_any(Flags::ERROR | Flags::FAILED),
        Value::Map(map) => map.known_resolved() || map.iter().all(|(_, node)| is_settled(node, control)),
        Value::List(list) => list.known_resolved() || list.iter().all(|node| is_settled(node, control)),
        _ => is_resolved(node, control),
    }
}

/// Returns the control of a map, or the outcome if the map breaks the rules of `spiff.md` 12.
fn find(map: &Map) -> Result<Control<'_>, ControlOutcome> {
    let present: Vec<_> = CONTROLS.iter().filter(|(name, _)| map.get(name).is_some()).collect();
    let keys: Vec<&str> = map.keys().map(|key| &**key).filter(|key| is_control_key(key)).collect();
    let malformed = |message: String| ControlOutcome::Malformed(Issue::new(message));
    let is_option = |key: &str| CONTROLS.iter().any(|(_, options)| options.contains(&key));
    if let Some(unknown) =
        keys.iter().find(|key| !is_option(key) && CONTROLS.iter().all(|(name, _)| name != *key))
    {
        return Err(malformed(format!("unknown control or control option \"{unknown}\"")));
    }
    let (name, options) = match present.as_slice() {
        [one] => **one,
        [] => {
            let names: Vec<_> = keys.iter().map(|key| &key[2..]).collect();
            return Err(malformed(format!("control options [{}] without control", names.join(" "))));
        }
        several => {
            let names: Vec<_> = several.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            return Err(malformed(format!("multiple controls {}", names.join(" and "))));
        }
    };
    if let Some(foreign) = keys.iter().find(|key| **key != name && !options.contains(key)) {
        let message = format!("invalid option \"{}\" for control \"{}\"", &foreign[2..], &name[2..]);
        return Err(malformed(message));
    }
    let Some(value) = map.get(name) else { return Err(malformed(String::new())) };
    let control = Control { name, map, value };
    let takes_fields =
        matches!(name, "<<type" | "<<merge") || (name == "<<switch" && map.get("<<cases").is_none());
    let regular: Vec<_> = control.regular().map(|(key, _)| &**key).collect();
    if !takes_fields && !regular.is_empty() {
        let message = format!("no regular fields [{}] allowed", regular.join(" "));
        return Err(ControlOutcome::Failed(Issue::new(message)));
    }
    Ok(control)
}

/// Runs `<<merge`: the fields, overridden by those of the value.
fn merge(control: &Control<'_>) -> ControlOutcome {
    let defined = control.regular().filter(|(_, node)| !node.has(Flags::UNDEFINED));
    let mut merged: Map = defined.cloned().collect();
    let mut add = |map: &Map| {
        for (key, node) in map {
            merged.insert(Arc::clone(key), node.clone());
        }
    };
    match &control.value.value {
        Value::Nil => {}
        Value::Map(map) => add(map),
        Value::List(list) => {
            for (position, value) in list.values().enumerate() {
                match value {
                    Value::Map(map) => add(map),
                    Value::Nil => {}
                    // As in spiff++, the message names the type of the whole value, not that of the
                    // entry.
                    _ => {
                        let message = format!("entry {position}: invalid entry type: list");
                        return ControlOutcome::Failed(Issue::new(message));
                    }
                }
            }
        }
        other => {
            let message = format!("invalid value type: {}", other.type_name());
            return ControlOutcome::Failed(Issue::new(message));
        }
    }
    ControlOutcome::Value(Node::new(Value::Map(Arc::new(merged))))
}
