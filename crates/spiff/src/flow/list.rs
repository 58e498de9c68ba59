//! The flow of one list in one pass (`spiff.md` 3.3).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::map::{is_optional_merge, stub_flags};
use super::node::{content_of, dynamic_node, same_node};
use super::patch::{self, Change, Patch};
use super::{Flowed, Walker};
use crate::control;
use crate::dependencies::{Attention, Place};
use crate::env::Env;
use crate::eval::{EvalError, Evaluated, evaluate, markers};
use crate::syntax::ast::{Expr, Marked, Marker, Name, Step};
use crate::syntax::strings::is_dynaml;
use crate::value::{Flags, List, Map, Node, Pending, Value};

/// Prefix of a field name that makes the rest of the name the key of the list.
const KEY_PREFIX: &str = "key:";

impl Walker<'_, '_> {
    pub(super) fn flow_list(
        &mut self,
        node: &Node,
        list: &List,
        env: &Env<'_>,
        place: Place,
        attention: Attention,
    ) -> Result<Flowed, EvalError> {
        if !list.is_complete() {
            let Spliced { node: new, entries, complete, changed } =
                match self.splice(node, list, env, place)? {
                    Insertions::Spliced(spliced) => spliced,
                    Insertions::Template(template) => return Ok(Flowed::New(template)),
                };
            let new = Node { value: Value::List(Arc::new(entries.into_iter().collect())), ..new };
            if !complete {
                let new = Node { flags: new.flags | stub_flags(env), ..new };
                return Ok(if !changed && same_node(node, &new) { Flowed::Same } else { Flowed::New(new) });
            }
            if !changed && same_node(node, &new) {
                // An insertion entry that is not an expression stays, beside the other entries.
                return self.patch_list(node, list, env, place, Attention::Deep);
            }
            return self.flow_entries_of(new, env, place);
        }
        if let Some(new) = strip_key_fields(node, list) {
            return self.flow_entries_of(new, env, place);
        }
        self.patch_list(node, list, env, place, attention)
    }

    /// Flows the entries of a list that was made in this pass.
    fn flow_entries_of(&mut self, node: Node, env: &Env<'_>, place: Place) -> Result<Flowed, EvalError> {
        let node = strip_key_fields_of(node);
        let Value::List(list) = &node.value else { return Ok(Flowed::New(node)) };
        if node.has(Flags::REPLACE) {
            return Ok(Flowed::New(node));
        }
        let list = Arc::clone(list);
        let redirected = node.redirect().map(|path| env.redirected(path));
        let env = redirected.as_ref().unwrap_or(env);
        let before = self.patches.len();
        match self.patch_list(&node, &list, env, place, Attention::Deep)? {
            Flowed::New(new) => Ok(Flowed::New(new)),
            Flowed::Same => Ok(Flowed::New(node)),
            Flowed::Patched => {
                let mut new = node;
                let patches = self.patches.split_off(before);
                patch::apply(&mut new, &self.run.document(self.id).dependencies, place, &patches);
                Ok(Flowed::New(new))
            }
        }
    }

    fn patch_list(
        &mut self,
        node: &Node,
        list: &List,
        env: &Env<'_>,
        place: Place,
        attention: Attention,
    ) -> Result<Flowed, EvalError> {
        let before = self.patches.len();
        let marked: BTreeSet<usize> = self.marked(place).iter().filter_map(position_of).collect();
        let deep = attention == Attention::Deep;
        let steps = self.entry_steps(node, list, env, place)?;
        let mut replaced: Vec<(usize, Node)> = Vec::new();
        let mut moved = false;
        let positions: Vec<usize> =
            if deep || steps.computed { (0..list.len()).collect() } else { marked.iter().copied().collect() };
        for position in positions {
            let (Some(entry), Some(Some(step))) = (list.get(position), steps.steps.get(position)) else {
                continue;
            };
            let computed = steps.computed && steps.was_computed(position);
            let own = if deep || computed { Attention::Deep } else { Attention::None };
            if own == Attention::None && !marked.contains(&position) {
                continue;
            }
            let mut inner = env.child(step);
            inner.nomerge |= node.has(Flags::NO_MERGE) && matches!(step, Step::Index(_));
            let at = self.child_place(place, &Step::Index(i64::try_from(position).unwrap_or(i64::MAX)));
            let seen = self.patches.len();
            let flowed = self.visit(entry, &inner, at, false, own)?;
            moved |= computed && self.is_renamed(&flowed, key_name(node), at, seen, step);
            if let Flowed::New(new) = flowed {
                moved |=
                    !computed && KeyField::of(entry, key_name(node)) != KeyField::of(&new, key_name(node));
                replaced.push((position, new));
            }
        }
        moved &= steps.is_keyed() || may_be_keyed(list, &replaced, key_name(node));
        let is_own = attention >= Attention::Own;
        let injected = if is_own { list_injections(node, env) } else { Vec::new() };
        let flags = if is_own { flags_of(node, env) } else { node.flags };
        let splices = |(position, new): &(usize, Node)| {
            new.has(Flags::UNDEFINED) || self.is_spliced(list.get(*position), new)
        };
        if !injected.is_empty() || replaced.iter().any(splices) {
            let node = Node { flags, ..node.clone() };
            return Ok(self.rebuild_list(&node, before, place, replaced, injected));
        }
        if flags != node.flags {
            self.patch(place, Change::Flags(flags));
        }
        for (position, new) in replaced {
            let at = self.child_place(place, &Step::Index(i64::try_from(position).unwrap_or(i64::MAX)));
            self.put(at, new);
        }
        if moved {
            self.patch(place, Change::Moved);
        }
        Ok(if self.patches.len() > before { Flowed::Patched } else { Flowed::Same })
    }

    /// Reports whether the entry at `place` got another key than the one in `step`. Inside the
    /// entry, the expression of the key can refer to more than it can when the list computes the
    /// key.
    fn is_renamed(&mut self, flowed: &Flowed, key: &str, place: Place, seen: usize, step: &Step) -> bool {
        let key_place = self.child_place(place, &Step::Field(Arc::from(key)));
        let put = |patch: &Patch| match &patch.change {
            Change::Put(new) if patch.place == key_place => Some(new.value.clone()),
            _ => None,
        };
        let value = match flowed {
            Flowed::Same => None,
            Flowed::Patched => self.patches[seen..].iter().rev().find_map(put),
            Flowed::New(Node { value: Value::Map(map), .. }) => map.get(key).map(|field| field.value.clone()),
            Flowed::New(_) => None,
        };
        match (value, step) {
            (None | Some(Value::Expression(_)), _) => false,
            (Some(Value::String(text)), Step::Field(step)) => **step != *format!("{key}:{text}"),
            (Some(Value::String(_)), _) => true,
            (Some(_), step) => matches!(step, Step::Field(_)),
        }
    }

    /// Reports whether a control in a list gave a list, whose entries replace it.
    fn is_spliced(&self, entry: Option<&Node>, new: &Node) -> bool {
        let was_control = match entry.map(|entry| &entry.value) {
            Some(Value::Map(map)) => self.run.control() && control::has_controls(map),
            _ => false,
        };
        was_control && matches!(new.value, Value::List(_))
    }

    /// Builds the list with entries replaced, dropped, spliced in or put in front. Positions
    /// change, so the list is new as a whole.
    fn rebuild_list(
        &mut self,
        node: &Node,
        before: usize,
        place: Place,
        replaced: Vec<(usize, Node)>,
        injected: Vec<Node>,
    ) -> Flowed {
        let mut new = node.clone();
        let patches = self.patches.split_off(before);
        patch::apply(&mut new, &self.run.document(self.id).dependencies, place, &patches);
        let Value::List(list) = &new.value else { return Flowed::Same };
        let mut entries = injected;
        let mut replaced = replaced.into_iter().peekable();
        for (position, entry) in list.iter().enumerate() {
            let Some((_, changed)) = replaced.next_if(|(changed, _)| *changed == position) else {
                entries.push(entry.clone());
                continue;
            };
            if changed.has(Flags::UNDEFINED) {
                continue;
            }
            match &changed.value {
                Value::List(inner) if self.is_spliced(Some(entry), &changed) => {
                    entries.extend(inner.iter().cloned());
                }
                _ => entries.push(changed),
            }
        }
        new.value = Value::List(Arc::new(entries.into_iter().collect()));
        Flowed::New(new)
    }

    /// Returns the steps to the entries: by key if all are maps with different texts in the key
    /// field, by position otherwise.
    fn entry_steps(
        &mut self,
        node: &Node,
        list: &List,
        env: &Env<'_>,
        place: Place,
    ) -> Result<EntrySteps, EvalError> {
        // All entries by position. Those in `positions` have an expression as key, and are flowed
        // so that the key gets a value.
        let by_index = |positions: HashSet<usize>| {
            let index = |position| Some(Step::Index(i64::try_from(position).unwrap_or(i64::MAX)));
            let steps = (0..list.len()).map(index).collect();
            EntrySteps { steps, computed: !positions.is_empty(), positions }
        };
        let key_name = key_name(node);
        if key_name.starts_with('!') || list.is_empty() {
            return Ok(by_index(HashSet::new()));
        }
        let is_computed = |entry: &Node| match &entry.value {
            Value::Map(map) => {
                map.get(key_name).is_some_and(|field| matches!(field.value, Value::Expression(_)))
            }
            _ => false,
        };
        let computed = list.iter().enumerate().filter(|(_, entry)| is_computed(entry));
        let positions: HashSet<usize> = computed.map(|(position, _)| position).collect();
        let (mut steps, mut seen) = (Vec::with_capacity(list.len()), HashSet::with_capacity(list.len()));
        for (position, entry) in list.iter().enumerate() {
            let Value::Map(map) = &entry.value else { return Ok(by_index(positions)) };
            let text = match map.get(key_name).map(|field| &field.value) {
                Some(Value::String(text)) => Some(Arc::clone(text)),
                Some(Value::Expression(expression)) => {
                    let step = Step::Index(i64::try_from(position).unwrap_or(i64::MAX));
                    match self.computed_key(expression, &env.child(&step), place)? {
                        Some(Value::String(text)) => Some(text),
                        Some(_) => return Ok(by_index(positions)),
                        None => None,
                    }
                }
                _ => return Ok(by_index(positions)),
            };
            if let Some(text) = &text
                && !seen.insert(Arc::clone(text))
            {
                return Ok(by_index(positions));
            }
            steps.push(text.map(|text| Step::Field(Arc::from(format!("{key_name}:{text}")))));
        }
        Ok(EntrySteps { steps, computed: !positions.is_empty(), positions })
    }

    /// Evaluates a key field that is an expression. The list waits for the places that the
    /// expression reads.
    fn computed_key(
        &mut self,
        expression: &Pending,
        env: &Env<'_>,
        place: Place,
    ) -> Result<Option<Value>, EvalError> {
        let before = self.run.begin_reads(self.id);
        let result = evaluate(self.run, &expression.0, env);
        let waits = !matches!(result, Ok(Evaluated { value: Some(_), .. }));
        self.run.end_reads(self.id, before, waits.then_some(place));
        match result {
            Ok(evaluated) => Ok(evaluated.value),
            Err(EvalError::Issue(_)) => Ok(None),
            Err(EvalError::Abort) => Err(EvalError::Abort),
        }
    }

    /// Replaces insertion entries by their values. `Err`: this node replaces the whole list.
    fn splice(
        &mut self,
        node: &Node,
        list: &List,
        env: &Env<'_>,
        place: Place,
    ) -> Result<Insertions, EvalError> {
        let mut spliced = Spliced { node: node.clone(), entries: Vec::new(), complete: true, changed: false };
        for (position, entry) in list.iter().enumerate() {
            let Some((key, field)) = insertion_of(entry) else {
                spliced.entries.push(entry.clone());
                continue;
            };
            let at = self.child_place(place, &Step::Index(i64::try_from(position).unwrap_or(i64::MAX)));
            let at = self.child_place(at, &Step::Field(Arc::clone(key)));
            let was_expression = matches!(field.value, Value::Expression(_));
            let base = self.flow_whole(field, env, at, false, Attention::Deep)?;
            spliced.changed |= base.is_some();
            let base = base.unwrap_or_else(|| field.clone());
            match &base.value {
                Value::Expression(expression) => {
                    if let Expr::Marked(marked) = &*expression.0 {
                        let (flags, tag) = markers(marked);
                        spliced.node.flags |= flags;
                        if tag.is_some() {
                            spliced.node.notes_mut().tag = tag;
                        }
                        if marked.markers.contains(&Marker::Template) {
                            let template = self.list_template(&spliced.node, list, position, marked, env);
                            return Ok(Insertions::Template(template));
                        }
                    } else if was_expression && is_optional_merge(&expression.0) {
                        continue;
                    }
                    spliced.complete = false;
                    let pending = Map::new(vec![(Arc::clone(key), base)]);
                    spliced.entries.push(Node { value: Value::Map(Arc::new(pending)), ..entry.clone() });
                }
                Value::List(inserted) => {
                    let inserted = Arc::clone(inserted);
                    if spliced.insert(&base, &inserted, list) {
                        return Ok(Insertions::Spliced(spliced));
                    }
                }
                Value::String(text) if is_dynaml(text).is_some() => {
                    let broken = Map::new(vec![(Arc::clone(key), base)]);
                    spliced.entries.push(Node { value: Value::Map(Arc::new(broken)), ..entry.clone() });
                }
                _ => spliced.inherit(&base),
            }
        }
        Ok(Insertions::Spliced(spliced))
    }

    fn list_template(&self, node: &Node, list: &List, marker: usize, marked: &Marked, env: &Env<'_>) -> Node {
        let mut entries: Vec<Node> = Vec::with_capacity(list.len());
        for (position, entry) in list.iter().enumerate() {
            if position != marker {
                entries.push(entry.clone());
            } else if let Some(inserted) = content_of(marked, entry) {
                let inner = Map::new(vec![(Arc::from("<<"), inserted)]);
                entries.push(Node::at(Value::Map(Arc::new(inner)), entry.origin.clone()));
            }
        }
        let content = Node::at(Value::List(Arc::new(entries.into_iter().collect())), node.origin.clone());
        let template = self.template(content, Value::List(Arc::new(list.clone())), env);
        let new = Node { value: Value::Template(template), ..node.clone() };
        if marked.markers.contains(&Marker::Dynamic) { dynamic_node(new) } else { new }
    }
}

fn key_name(node: &Node) -> &str {
    node.key_name().map_or("name", |name| &**name)
}

/// Returns the entries of the stub list that are put in front (`spiff.md` 10.2), as the stub has
/// them, including dynamic ones.
fn list_injections(node: &Node, env: &Env<'_>) -> Vec<Node> {
    if !takes_injections(node, env) {
        return Vec::new();
    }
    let Some(Value::List(stub)) = env.find_in_stubs().map(|stub| &stub.value) else {
        return Vec::new();
    };
    let injected = stub.iter().filter(|entry| entry.has_any(Flags::INJECT | Flags::DEFAULT));
    let injected = injected.map(|entry| {
        let mut new = entry.clone();
        new.flags |= Flags::INJECTED | Flags::INJECT;
        if let Some(notes) = &mut new.notes {
            notes.dynamic = None;
        }
        new
    });
    injected.collect()
}

fn takes_injections(node: &Node, env: &Env<'_>) -> bool {
    !env.nomerge && !node.has_any(Flags::MERGED | Flags::INJECTED)
}

/// Returns the flags that a list takes from the stub node at its path, even if that is not a list
/// (`spiff.md` 3.3, step 0), and the flag that the stub's injections are done.
fn flags_of(node: &Node, env: &Env<'_>) -> Flags {
    let flags = node.flags | stub_flags(env);
    let is_met = takes_injections(node, env) && env.find_in_stubs().is_some();
    if is_met { flags.union(Flags::INJECTED) } else { flags }
}

/// The step to each entry. An entry with `None` is not flowed, because its key is not known yet.
struct EntrySteps {
    steps: Vec<Option<Step>>,
    computed: bool,
    positions: HashSet<usize>,
}

impl EntrySteps {
    fn is_keyed(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Some(Step::Field(_))))
    }

    fn was_computed(&self, position: usize) -> bool {
        self.positions.contains(&position)
    }
}

/// The content of an entry's key field.
#[derive(PartialEq, Eq)]
enum KeyField<'n> {
    /// The entry is not a map, has no such field, or the field is not a text.
    None,
    Text(&'n str),
    /// The key is not known yet.
    Pending,
}

impl<'n> KeyField<'n> {
    fn of(entry: &'n Node, key: &str) -> Self {
        let Value::Map(map) = &entry.value else { return Self::None };
        match map.get(key).map(|field| &field.value) {
            Some(Value::String(text)) => Self::Text(text),
            Some(Value::Expression(_)) => Self::Pending,
            _ => Self::None,
        }
    }
}

/// Reports whether the entries may still have keys when some of them are replaced.
fn may_be_keyed(list: &List, replaced: &[(usize, Node)], key: &str) -> bool {
    let mut replaced = replaced.iter().peekable();
    list.iter().enumerate().all(|(position, entry)| {
        let new = replaced.next_if(|(changed, _)| *changed == position).map(|(_, new)| new);
        KeyField::of(new.unwrap_or(entry), key) != KeyField::None
    })
}

/// Result of resolving the insertions of a list.
enum Insertions {
    /// The insertions gave a list.
    Spliced(Spliced),
    /// A template, because one insertion is its marker.
    Template(Node),
}

/// A list while its insertion points are replaced.
struct Spliced {
    node: Node,
    entries: Vec<Node>,
    complete: bool,
    /// True if an insertion point has changed, even if only the reason why it is pending.
    changed: bool,
}

impl Spliced {
    /// Takes over the annotations of an inserted value.
    fn inherit(&mut self, base: &Node) {
        if base.has(Flags::MERGED) {
            self.node.flags |= Flags::NO_MERGE | Flags::INJECTED;
        }
        if let Some(name) = base.key_name() {
            self.node.notes_mut().key_name = Some(Arc::clone(name));
        }
        if let Some(tag) = base.tag() {
            self.node.notes_mut().tag = Some(tag.clone());
        }
        if let Some(path) = base.redirect() {
            self.node.notes_mut().redirect = Some(path.to_vec());
        }
    }

    /// Inserts a list. Returns whether it replaces the whole list.
    fn insert(&mut self, base: &Node, inserted: &List, literal: &List) -> bool {
        self.inherit(base);
        self.node.flags |= Flags::INJECTED;
        let key = self.node.key_name().map_or_else(|| Arc::from("name"), Arc::clone);
        let known: HashSet<&str> = literal.iter().filter_map(|entry| key_text(entry, &key)).collect();
        let new =
            inserted.iter().filter(|entry| key_text(entry, &key).is_none_or(|text| !known.contains(text)));
        let new = new.map(|entry| Node { flags: entry.flags | Flags::MERGED, ..entry.clone() });
        if base.has(Flags::REPLACE) {
            self.entries = new.collect();
            self.complete = true;
            self.node.flags |= Flags::REPLACE;
            return true;
        }
        self.entries.extend(new);
        false
    }
}

fn position_of(step: &Step) -> Option<usize> {
    match step {
        Step::Index(position) => usize::try_from(*position).ok(),
        Step::Field(_) => None,
    }
}

fn insertion_of(entry: &Node) -> Option<(&Name, &Node)> {
    match &entry.value {
        Value::Map(map) if entry.is_insertion() => map.iter().next().map(|(key, node)| (key, node)),
        _ => None,
    }
}

/// Returns the text of the key field of an entry.
fn key_text<'n>(entry: &'n Node, key: &str) -> Option<&'n str> {
    match &entry.value {
        Value::Map(map) => map.get(key).and_then(|field| field.value.as_str()),
        _ => None,
    }
}

fn strip_key_fields_of(node: Node) -> Node {
    match &node.value {
        Value::List(list) => strip_key_fields(&node, list).unwrap_or(node),
        _ => node,
    }
}

/// Removes `key:` from the names of fields and remembers the key field (`spiff.md` 3.3, step 2).
fn strip_key_fields(node: &Node, list: &List) -> Option<Node> {
    let mut key_name: Option<Name> = None;
    let mut off = false;
    let mut found = false;
    let entries: Vec<Node> = list
        .iter()
        .map(|entry| {
            let Value::Map(map) = &entry.value else { return entry.clone() };
            let Some((key, field)) = map.iter().find(|(key, _)| key.starts_with(KEY_PREFIX)) else {
                return entry.clone();
            };
            found = true;
            let stripped = &key[KEY_PREFIX.len()..];
            let (name, is_off) = stripped.strip_prefix('!').map_or((stripped, false), |name| (name, true));
            off |= is_off || key_name.as_ref().is_some_and(|known| &**known != name);
            key_name = Some(Arc::from(name));
            let mut new = (**map).clone();
            new.remove(key);
            new.insert(Arc::from(name), field.clone());
            Node { value: Value::Map(Arc::new(new)), ..entry.clone() }
        })
        .collect();
    if !found {
        return None;
    }
    let mut new = node.clone();
    let name = key_name.unwrap_or_else(|| Arc::from("name"));
    new.notes_mut().key_name = Some(if off { Arc::from(format!("!{name}")) } else { name });
    new.value = Value::List(Arc::new(entries.into_iter().collect()));
    Some(new)
}
