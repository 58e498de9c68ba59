//! The flow of one map in one pass (`spiff.md` 3.2).

use std::sync::Arc;

use super::inert::is_inert;
use super::node::{arrived, content_of, dynamic_node, fail, same_node};
use super::patch::{self, Change};
use super::{Flowed, Walker};
use crate::control;
use crate::dependencies::{Attention, Place};
use crate::env::Env;
use crate::eval::{EvalError, markers};
use crate::issue::Issue;
use crate::scope::Scope;
use crate::syntax::ast::{Expr, Marked, Marker, Merge, MergeOption, Name, Step};
use crate::syntax::strings::{is_dynaml, may_be_dynaml};
use crate::value::{Flags, Map, Node, Notes, Value};

/// Result of the insertion field of a map.
enum Insertion {
    /// Inserted fields, to be overridden by the map's own.
    Fields { fields: Vec<(Name, Node)>, field: Inserted },
    /// The insertion is pending, so no other field is flowed in this pass.
    Wait(Node),
    /// A text that is not an expression; it stays beside the fields.
    Broken(Node),
    /// The map is replaced by this node.
    Instead(Node),
}

/// Annotations that an insertion gives to the map.
#[derive(Default)]
struct Inserted {
    flags: Flags,
    notes: Option<Box<Notes>>,
    replace: bool,
    /// The reason why the insertion failed; the map keeps it.
    issue: Option<Issue>,
}

impl Walker<'_, '_> {
    pub(super) fn flow_map(
        &mut self,
        node: &Node,
        map: &Map,
        env: &Env<'_>,
        place: Place,
        attention: Attention,
    ) -> Result<Flowed, EvalError> {
        let mut inner = env.clone();
        inner.scope = Some(Scope::document(self.id, place, env.scope.clone(), env.outside));
        inner.outside = false;
        let inserts = map.get("<<").is_some() || map.get("<<<").is_some();
        let controls = self.run.control() && control::has_controls(map);
        if inserts {
            return self.insert(node, map, Around { outer: env, inner: &inner }, place);
        }
        if controls || node.tag().is_some() || node.has(Flags::DEFAULT) {
            return self.rebuild(node, map, Around { outer: env, inner: &inner }, place, attention, controls);
        }
        self.patch_map(node, map, &inner, place, attention)
    }

    /// Flows a map without insertions, controls and tags: patches the fields that change and leaves
    /// the others as they are.
    fn patch_map(
        &mut self,
        node: &Node,
        map: &Map,
        env: &Env<'_>,
        place: Place,
        attention: Attention,
    ) -> Result<Flowed, EvalError> {
        let before = self.patches.len();
        if attention >= Attention::Own {
            let flags = node.flags | stub_flags(env);
            if flags != node.flags {
                self.patch(place, Change::Flags(flags));
            }
        }
        if attention == Attention::Deep {
            for (key, child) in map {
                self.patch_field(key, child, env, place, Attention::Deep)?;
            }
        } else {
            for marked in self.marked(place) {
                let Step::Field(key) = marked else { continue };
                if let Some(child) = map.get(&key) {
                    self.patch_field(&key, child, env, place, Attention::None)?;
                }
            }
        }
        if attention >= Attention::Own && !node.has_any(Flags::MERGED | Flags::INJECTED) {
            for (key, injected) in injections(map, env) {
                let at = self.child_place(place, &Step::Field(key));
                self.put(at, injected);
            }
        }
        Ok(if self.patches.len() > before { Flowed::Patched } else { Flowed::Same })
    }

    /// Returns the steps to the marked children of `place`.
    pub(super) fn marked(&mut self, place: Place) -> Vec<Step> {
        let dependencies = &mut self.run.document_mut(self.id).dependencies;
        let marked = dependencies.take_marked(place);
        marked.into_iter().map(|child| dependencies.step(child).clone()).collect()
    }

    fn patch_field(
        &mut self,
        key: &Name,
        child: &Node,
        env: &Env<'_>,
        place: Place,
        attention: Attention,
    ) -> Result<(), EvalError> {
        let no_stub = env.nomerge || env.cursor.is_empty();
        if no_stub && attention == Attention::Deep && !self.run.settings.whole_passes && is_inert(child) {
            return Ok(());
        }
        let step = Step::Field(Arc::clone(key));
        if is_plain(child) {
            if let Some(new) = self.override_field(child, env, &step) {
                let at = self.child_place(place, &step);
                self.put(at, new);
            }
            return Ok(());
        }
        let at = self.child_place(place, &step);
        match self.visit(child, &env.child(&step), at, true, attention)? {
            Flowed::New(new) if new.has(Flags::UNDEFINED) => self.patch(at, Change::Remove),
            Flowed::New(new) => self.put(at, new),
            Flowed::Same | Flowed::Patched => {}
        }
        Ok(())
    }

    /// Flows a node whose result is needed at once. Returns `None` if the node is unchanged.
    pub(super) fn flow_whole(
        &mut self,
        node: &Node,
        env: &Env<'_>,
        place: Place,
        over: bool,
        attention: Attention,
    ) -> Result<Option<Node>, EvalError> {
        let before = self.patches.len();
        match self.visit(node, env, place, over, attention)? {
            Flowed::Same => Ok(None),
            Flowed::New(new) => Ok(Some(new)),
            Flowed::Patched => {
                let mut new = node.clone();
                let patches = self.patches.split_off(before);
                patch::apply(&mut new, &self.run.document(self.id).dependencies, place, &patches);
                Ok(Some(new))
            }
        }
    }

    /// Flows a map with `<<` or `<<<`.
    fn insert(
        &mut self,
        node: &Node,
        map: &Map,
        around: Around<'_, '_>,
        place: Place,
    ) -> Result<Flowed, EvalError> {
        let env = around.inner;
        let key = if map.get("<<").is_some() { "<<" } else { "<<<" };
        let (Some(field), step) = (map.get(key), Step::Field(Arc::from(key))) else {
            return Ok(Flowed::Same);
        };
        let flags = node.flags | stub_flags(env);
        if map.get("<<").is_some() && map.get("<<<").is_some() {
            let mut new = node.clone();
            new.flags |= Flags::ERROR;
            fail(&mut new, Issue::new("multiple merge keys not allowed"), around.outer);
            return Ok(changed(node, new));
        }
        let at = self.child_place(place, &step);
        let base = self.flow_whole(field, env, at, false, Attention::Deep)?;
        let is_new = base.is_some();
        match self.insertion(node, map, field, base.unwrap_or_else(|| field.clone()), around) {
            Insertion::Instead(new) => Ok(changed(node, new)),
            Insertion::Wait(base) => {
                if flags != node.flags {
                    self.patch(place, Change::Flags(flags));
                }
                if is_new {
                    self.put(at, base);
                }
                Ok(if is_new || flags != node.flags { Flowed::Patched } else { Flowed::Same })
            }
            Insertion::Broken(base) => {
                let mut rest = map.clone();
                rest.remove(key);
                let Fields { fields, changed } =
                    self.fields(&rest, env, place, node.has(Flags::DEFAULT), Attention::Deep)?;
                let mut flowed: Map = fields.into_iter().collect();
                flowed.insert(Arc::from(key), base);
                let new = Node { flags, value: Value::Map(Arc::new(flowed)), ..node.clone() };
                Ok(if changed || is_new || flags != node.flags { Flowed::New(new) } else { Flowed::Same })
            }
            Insertion::Fields { fields, field } => {
                let mut rest = map.clone();
                rest.remove(key);
                let mut outer = node.clone();
                outer.flags = flags | field.flags;
                self.complete(outer, &rest, fields, &field, around, place)
            }
        }
    }

    /// Interprets the flowed insertion field `base`.
    fn insertion(
        &self,
        node: &Node,
        map: &Map,
        field: &Node,
        base: Node,
        around: Around<'_, '_>,
    ) -> Insertion {
        if base.has(Flags::UNDEFINED) {
            let mut gone = node.clone();
            gone.flags |= Flags::UNDEFINED;
            return Insertion::Instead(gone);
        }
        let mut inserted = Inserted::default();
        match &base.value {
            Value::Expression(expression) => {
                if let Expr::Marked(marked) = &*expression.0 {
                    return self.marked_map(node, map, marked, base.clone(), around);
                }
                // Parsing a string takes a pass of its own. A failing optional merge is dropped
                // only in the pass that evaluates it.
                let evaluated = matches!(field.value, Value::Expression(_));
                if evaluated && is_optional_merge(&expression.0) {
                    return Insertion::Fields { fields: Vec::new(), field: inserted };
                }
                Insertion::Wait(base)
            }
            Value::Map(fields) => {
                inserted.replace = base.has(Flags::REPLACE);
                if base.has(Flags::MERGED) {
                    inserted.flags |= Flags::INJECTED;
                }
                let fields = fields.iter().cloned().collect();
                inserted.notes = base.notes;
                Insertion::Fields { fields, field: inserted }
            }
            Value::Nil => {
                inserted.notes = base.notes;
                Insertion::Fields { fields: Vec::new(), field: inserted }
            }
            Value::String(text) if is_dynaml(text).is_some() => Insertion::Broken(base),
            other => {
                let message = format!("require map value for '<<' insert, found '{}'", other.type_name());
                inserted.issue = Some(Issue::new(message));
                Insertion::Fields { fields: Vec::new(), field: inserted }
            }
        }
    }

    /// Applies markers to the map. With `&template` the map becomes a template.
    fn marked_map(
        &self,
        node: &Node,
        map: &Map,
        marked: &Marked,
        base: Node,
        around: Around<'_, '_>,
    ) -> Insertion {
        let (flags, tag) = markers(marked);
        let mut new = node.clone();
        new.flags |= flags | stub_flags(around.inner);
        if tag.is_some() {
            new.notes_mut().tag = tag;
        }
        let mut content = map.clone();
        content.remove("<<");
        content.remove("<<<");
        if marked.markers.contains(&Marker::Template) {
            if let Some(inserted) = content_of(marked, &base) {
                content.insert(Arc::from("<<"), inserted);
            }
            let mut original = map.clone();
            // An output shows the expression as it was written, below the key with which it was
            // written.
            if let Some((key, _)) = map
                .iter()
                .find(|(key, field)| is_insertion_key(key) && !matches!(field.value, Value::String(_)))
            {
                original.insert(Arc::clone(key), base);
            }
            let content = Node { value: Value::Map(Arc::new(content)), ..node.clone() };
            let template = self.template(content, Value::Map(Arc::new(original)), around.outer);
            new.value = Value::Template(template);
            return Insertion::Instead(if flags.contains(Flags::DYNAMIC) { dynamic_node(new) } else { new });
        }
        content.insert(Arc::from("<<"), base);
        new.value = Value::Map(Arc::new(content));
        Insertion::Instead(new)
    }

    /// Builds the map of the inserted fields and its own fields, which are flowed and win.
    fn complete(
        &mut self,
        mut node: Node,
        literal: &Map,
        inserted: Vec<(Name, Node)>,
        insertion: &Inserted,
        around: Around<'_, '_>,
        place: Place,
    ) -> Result<Flowed, EvalError> {
        let redirect = insertion.notes.as_ref().and_then(|notes| notes.redirect.clone());
        let tag = insertion.notes.as_ref().and_then(|notes| notes.tag.clone());
        if insertion.replace {
            node.flags |= Flags::REPLACE;
            node.value = Value::Map(Arc::new(inserted.into_iter().collect()));
            return Ok(Flowed::New(node));
        }
        let redirected = redirect.as_ref().map(|path| around.inner.redirected(path));
        let env = redirected.as_ref().unwrap_or(around.inner);
        let mut fields: Vec<(Name, Node)> = inserted;
        fields.retain(|(key, _)| literal.get(key).is_none());
        let is_default = node.has(Flags::DEFAULT);
        fields.extend(self.fields(literal, env, place, is_default, Attention::Deep)?.fields);
        let mut map: Map = fields.into_iter().collect();
        if !node.has_any(Flags::MERGED | Flags::INJECTED) {
            for (key, injected) in injections(&map, env) {
                map.insert(key, injected);
            }
        }
        node.value = Value::Map(Arc::new(map));
        if let Some(issue) = &insertion.issue {
            node.flags |= Flags::ERROR;
            fail(&mut node, issue.clone(), around.outer);
        }
        if redirect.is_some() || tag.is_some() {
            let notes = node.notes_mut();
            notes.redirect = redirect.or(notes.redirect.take());
            notes.tag = tag.or(notes.tag.take());
        }
        Ok(Flowed::New(node))
    }

    /// Flows all fields and returns the results.
    fn fields(
        &mut self,
        map: &Map,
        env: &Env<'_>,
        place: Place,
        is_default: bool,
        attention: Attention,
    ) -> Result<Fields, EvalError> {
        let mut fields = Vec::with_capacity(map.len());
        let mut changed = false;
        // Marks on this map are dropped, because each field is asked for its own marks below.
        self.run.document_mut(self.id).dependencies.take_marked(place);
        let is_control = self.run.control() && control::has_controls(map);
        for (key, child) in map {
            let step = Step::Field(Arc::clone(key));
            let at = self.child_place(place, &step);
            let inner = env.child(&step);
            let new = if is_control && control::is_template_option(map, key) {
                self.option_template(child, &inner)
            } else {
                self.flow_whole(child, &inner, at, !is_control, attention)?
            };
            changed |= new.is_some();
            let mut new = new.unwrap_or_else(|| child.clone());
            // A control decides itself about an undefined value, option or field, so it keeps the
            // field.
            if new.has(Flags::UNDEFINED) && !is_control {
                continue;
            }
            if is_default && !new.has_any(Flags::DEFAULT | Flags::IMPLIED) {
                new.flags |= Flags::IMPLIED;
                changed = true;
            }
            fields.push((Arc::clone(key), new));
        }
        Ok(Fields { fields, changed })
    }

    /// Makes a body of a loop a template, which is instantiated for each round.
    fn option_template(&self, child: &Node, env: &Env<'_>) -> Option<Node> {
        if matches!(child.value, Value::Template(_)) {
            return None;
        }
        let content = match &child.value {
            Value::String(text) => {
                self.parse(text, env).map_or_else(|| child.clone(), |value| Node { value, ..child.clone() })
            }
            _ => child.clone(),
        };
        let original = child.value.clone();
        Some(Node::at(Value::Template(self.template(content, original, env)), child.origin.clone()))
    }

    /// Builds a map that must be evaluated as a whole whenever a part of it changes.
    fn rebuild(
        &mut self,
        node: &Node,
        map: &Map,
        around: Around<'_, '_>,
        place: Place,
        attention: Attention,
        controls: bool,
    ) -> Result<Flowed, EvalError> {
        let env = around.inner;
        let below = if attention == Attention::Deep { Attention::Deep } else { Attention::None };
        let Fields { fields, changed } = self.fields(map, env, place, node.has(Flags::DEFAULT), below)?;
        let mut flowed: Map = fields.into_iter().collect();
        let mut new = node.clone();
        new.flags |= stub_flags(env);
        let mut is_changed = changed || new.flags != node.flags;
        if !node.has_any(Flags::MERGED | Flags::INJECTED) {
            for (key, injected) in injections(&flowed, env) {
                flowed.insert(key, injected);
                is_changed = true;
            }
        }
        new.value = Value::Map(Arc::new(flowed));
        if controls {
            return control::fire(self, node, new, is_changed, around.inner, place);
        }
        Ok(if is_changed { Flowed::New(new) } else { Flowed::Same })
    }

    /// Reports whether a control map has been replaced by its result, which may be a failure.
    pub(super) fn is_finished_control(&self, map: &Map, new: &Node) -> bool {
        self.run.control()
            && control::has_controls(map)
            && (!matches!(new.value, Value::Map(_)) || new.has(Flags::ERROR))
    }
}

/// The environment of a map, and that of its fields.
#[derive(Clone, Copy)]
struct Around<'a, 's> {
    outer: &'a Env<'s>,
    inner: &'a Env<'s>,
}

struct Fields {
    fields: Vec<(Name, Node)>,
    changed: bool,
}

/// Returns the fields that the stub at the stub path adds (`spiff.md` 10.2).
fn injections(map: &Map, env: &Env<'_>) -> Vec<(Name, Node)> {
    if env.nomerge {
        return Vec::new();
    }
    let Some(Value::Map(stub)) = env.find_in_stubs().map(|stub| &stub.value) else {
        return Vec::new();
    };
    let added = stub
        .iter()
        .filter(|(key, field)| field.has_any(Flags::INJECT | Flags::DEFAULT) && map.get(key).is_none());
    added.map(|(key, field)| (Arc::clone(key), injected(field))).collect()
}

/// Returns a field that a stub injects. For nearer documents it is not a default.
fn injected(field: &Node) -> Node {
    let mut new = field.clone();
    new.flags |= Flags::INJECTED | Flags::INJECT;
    arrived(new, field)
}

fn changed(node: &Node, new: Node) -> Flowed {
    if same_node(node, &new) { Flowed::Same } else { Flowed::New(new) }
}

/// Returns the flags that a map or list takes over from the stub node at its path.
pub(super) fn stub_flags(env: &Env<'_>) -> Flags {
    if env.nomerge {
        return Flags::empty();
    }
    let taken = Flags::TEMPORARY | Flags::STATE;
    env.find_in_stubs().map_or(Flags::empty(), |stub| stub.flags.intersection(taken))
}

fn is_insertion_key(key: &str) -> bool {
    matches!(key, "<<" | "<<<")
}

/// Reports whether only a stub's value can change the node.
fn is_plain(node: &Node) -> bool {
    match &node.value {
        Value::Expression(_) | Value::Map(_) | Value::List(_) => false,
        Value::String(text) => !may_be_dynaml(text) && node.tag().is_none(),
        _ => node.tag().is_none(),
    }
}

/// Reports whether an insertion is a plain `merge`, which inserts no fields if no stub has any
/// (`spiff.md` 4.2).
pub(super) fn is_optional_merge(expression: &Expr) -> bool {
    matches!(expression, Expr::Merge(Merge { option: MergeOption::Plain | MergeOption::On(_), path: None }))
}
