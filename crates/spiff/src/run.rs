//! One run: its documents, and what it may still use.

use std::collections::HashMap;
use std::sync::Arc;

use groundwork_budget::held::{self, Held};
use groundwork_go::regexp;

use crate::api::Position;
use crate::dependencies::{Dependencies, Place, ROOT};
use crate::env::{find_step, keyed_position, list_position};
use crate::eval::{Eval, EvalError, Info};
use crate::functions;
use crate::limits::{EVALUATION, LimitError};
use crate::reads::{Read, Reads};
use crate::scope::{DocumentId, ScopeKind, ScopeRef, dotted};
use crate::settings::Settings;
use crate::syntax::ast::{Expr, Name, Step};
use crate::syntax::strings::is_dynaml;
use crate::tags::Tags;
use crate::value::{Flags, List, Map, Node, Origin, Value};

/// The state of one run; whatever is evaluated, is evaluated with it.
#[derive(Debug)]
pub(crate) struct Run<'e> {
    pub(crate) settings: &'e Settings,
    documents: Vec<Document>,
    pub(crate) tags: Tags,
    /// Set by whatever may have another outcome in the next pass although nothing that it read has changed (18.1).
    pub(crate) volatile: bool,
    pub(crate) catching: Catching,
    pub(crate) syncing: Syncing,
    /// Why the run has to end: the first limit that was reached.
    pub(crate) abort: Option<LimitError>,
    /// The node in work at that moment: the innermost that stands in the template, or in any text.
    pub(crate) aborted_at: Option<Position>,
    /// What the template is called by its own nodes, and by no text that it reads.
    pub(crate) template: Option<Arc<str>>,
    /// The document in work, whose expressions are parsed once for all runs.
    pub(crate) known: Option<&'e crate::api::Document>,
    work: u64,
    /// What the shared account has learned of.
    reported: u64,
    /// What this thread held when the run began.
    start: isize,
    calls: usize,
    /// Patterns that were compiled and are kept, with their weight: the next use costs only the search.
    patterns: HashMap<Box<str>, usize>,
}

/// The host is asked each time this many units (a power of two) are full.
const UNITS_PER_CHECK: u64 = 4_096;

/// How the function `catch` is met: the pass that comes to it first leaves it alone (section 8.5).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Catching {
    /// Whether the node in work can wait for the next pass with it.
    pub(crate) waits: bool,
    /// Bodies, scopes, maps and left sides of alternatives around the expression in work: they are evaluated at once.
    pub(crate) inside: u32,
    pub(crate) met: bool,
}

/// How `sync` stands (section 8.5).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Syncing {
    /// Documents in each other.
    pub(crate) depth: u32,
    /// Whether one has waited in the pass.
    pub(crate) waiting: bool,
    /// Whether the document has come to rest: who still waits fails.
    pub(crate) over: bool,
}

/// A document in work.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    pub(crate) dependencies: Dependencies,
    /// What the node in work has read so far.
    reads: Reads,
    /// For walks from the root, so that none has to ask for memory.
    walk: Vec<Place>,
    /// What its size is at most: that of the last look, and what was put into it since.
    size: u64,
    _held: Held,
}

/// What a node of a document in work takes, with its place among the dependencies.
const NODE_BYTES: usize = 3 * size_of::<Node>();

/// What a path leads to.
pub(crate) enum Reading {
    Found(Value, Option<Name>),
    /// The first so many steps lead nowhere.
    Missing(usize),
    /// Behind the first so many steps is something that is not final yet.
    Pending {
        steps: usize,
        incomplete: bool,
        failed: bool,
    },
}

impl<'e> Run<'e> {
    pub(crate) fn new(settings: &'e Settings) -> Self {
        Self {
            settings,
            documents: Vec::new(),
            tags: Tags::default(),
            volatile: false,
            catching: Catching::default(),
            syncing: Syncing::default(),
            abort: None,
            aborted_at: None,
            template: None,
            known: None,
            work: 0,
            reported: 0,
            start: held::now(),
            calls: 0,
            patterns: HashMap::new(),
        }
    }

    /// An expression that stands in the document in work.
    pub(crate) fn known_expression(&self, text: &str) -> Option<Arc<Expr>> {
        self.known?.expression(text)
    }

    pub(crate) fn control(&self) -> bool {
        self.settings.features.control
    }

    pub(crate) fn open(&mut self, root: Node) -> DocumentId {
        let held = Held::new(1_024 + NODE_BYTES * root.value.size() as usize);
        let id = DocumentId(u32::try_from(self.documents.len()).unwrap_or(u32::MAX));
        self.documents.push(Document {
            root,
            dependencies: Dependencies::new(),
            reads: Reads::default(),
            walk: Vec::new(),
            size: 0,
            _held: held,
        });
        id
    }

    /// Forgets the document that was opened last, unless something in `kept` may still look into it.
    pub(crate) fn close(&mut self, id: DocumentId, kept: &Value) {
        if id.0 as usize + 1 == self.documents.len() && !has_closures(kept) {
            self.documents.pop();
        }
    }

    pub(crate) fn document(&self, id: DocumentId) -> &Document {
        &self.documents[id.0 as usize]
    }

    pub(crate) fn document_mut(&mut self, id: DocumentId) -> &mut Document {
        &mut self.documents[id.0 as usize]
    }

    /// Accounts for one evaluation.
    pub(crate) fn step(&mut self) -> Result<(), EvalError> {
        self.spend(EVALUATION)
    }

    /// Accounts for work before it is done.
    pub(crate) fn spend(&mut self, units: u64) -> Result<(), EvalError> {
        let before = self.work / UNITS_PER_CHECK;
        self.work = self.work.saturating_add(units);
        let limits = &self.settings.limits;
        let limit = if self.work > limits.work {
            LimitError::Work(limits.work)
        } else if held::since(self.start) > limits.value_bytes {
            LimitError::Held(limits.value_bytes)
        } else if self.work / UNITS_PER_CHECK != before {
            return self.report();
        } else {
            return Ok(());
        };
        Err(self.stop(limit))
    }

    /// What has to be asked from time to time.
    #[cold]
    fn report(&mut self) -> Result<(), EvalError> {
        if let Some(budget) = &self.settings.budget {
            let spent = budget.spend(self.work - self.reported);
            self.reported = self.work;
            if let Err(exceeded) = spent {
                return Err(self.stop(LimitError::Budget(exceeded)));
            }
        }
        match &self.settings.deadline {
            Some(deadline) if deadline.is_over() => Err(self.stop(LimitError::Time)),
            _ => Ok(()),
        }
    }

    /// Accounts for a pattern that is searched in a text of so many bytes: at worst the whole pattern is gone through for each of them.
    /// What it compiles to is paid for the first time, or each time if it is so large that it is not kept.
    pub(crate) fn pattern(&mut self, pattern: &str, bytes: usize) -> Result<(), EvalError> {
        let known = self.patterns.get(pattern).copied();
        let weight = match known {
            Some(weight) => weight,
            None => {
                self.spend(1_000 + (regexp::reading_weight(pattern) as u64).saturating_mul(130))?;
                let weight = regexp::weight(pattern);
                self.spend((weight as u64).saturating_mul(60))?;
                if self.patterns.len() >= functions::KEPT_PATTERNS {
                    self.patterns.clear();
                }
                if regexp::is_light(weight) {
                    self.patterns.insert(pattern.into(), weight);
                }
                weight
            }
        };
        self.spend((bytes as u64).saturating_mul(4 + weight as u64) / 4)
    }

    pub(crate) fn stop(&mut self, limit: LimitError) -> EvalError {
        self.abort.get_or_insert(limit);
        EvalError::Abort
    }

    /// Notes a node whose evaluation was stopped: inner ones come first, and give way to one of the template itself.
    pub(crate) fn stopped_at(&mut self, node: &Node) {
        let Origin { source, line, column } = &node.origin;
        let is_of_template =
            |source: &Arc<str>| self.template.as_ref().is_some_and(|name| Arc::ptr_eq(name, source));
        let is_better = match &self.aborted_at {
            None => true,
            Some(known) => is_of_template(source) && !is_of_template(&known.source),
        };
        if *line > 0 && is_better {
            self.aborted_at = Some(Position { source: Arc::clone(source), line: *line, column: *column });
        }
    }

    /// Evaluates what is never left for the next pass with a function `catch` in it.
    pub(crate) fn inside<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        self.catching.inside += 1;
        let result = evaluate(self);
        self.catching.inside -= 1;
        result
    }

    /// Does something that calls and may be called by itself again.
    pub(crate) fn called<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        if self.calls >= self.settings.limits.calls {
            return Err(self.stop(LimitError::Calls(self.settings.limits.calls)));
        }
        self.calls += 1;
        let result = call(self);
        self.calls -= 1;
        result
    }

    /// Refuses values beyond the limits; every value that an expression gives passes here.
    pub(crate) fn check(&mut self, value: &Value) -> Result<(), EvalError> {
        let limits = &self.settings.limits;
        let limit = match value {
            Value::String(text) if text.len() > limits.string_bytes => {
                LimitError::StringBytes(limits.string_bytes)
            }
            Value::List(_) | Value::Map(_) if value.size() as usize > limits.nodes => {
                LimitError::Nodes(limits.nodes)
            }
            Value::List(_) | Value::Map(_) if value.nesting() as usize > limits.nesting => {
                LimitError::Nesting(limits.nesting)
            }
            _ => return Ok(()),
        };
        Err(self.stop(limit))
    }

    /// Refuses a document that has grown beyond the limits by what was put into it. The whole of it is looked at only when the sum
    /// of all puts says that this could be so.
    pub(crate) fn grow(&mut self, id: DocumentId, put: u64) -> Result<(), EvalError> {
        let limit = self.settings.limits.nodes;
        let document = self.document_mut(id);
        document.size = document.size.saturating_add(put);
        if document.size <= limit as u64 {
            return Ok(());
        }
        document.size = u64::from(document.root.value.size());
        if document.size > limit as u64 { Err(self.stop(LimitError::Nodes(limit))) } else { Ok(()) }
    }

    /// Begins to note what is read in a document; gives what was noted before.
    pub(crate) fn begin_reads(&mut self, id: DocumentId) -> Reads {
        std::mem::take(&mut self.document_mut(id).reads)
    }

    /// Ends what [`Run::begin_reads`] began. With `waiting`, that node waits at each place that was read.
    pub(crate) fn end_reads(&mut self, id: DocumentId, before: Reads, waiting: Option<Place>) {
        let document = self.document_mut(id);
        let reads = std::mem::replace(&mut document.reads, before);
        let Some(waiting) = waiting else { return };
        for Read { place, absent } in reads {
            let place = match absent {
                Some(name) => document.dependencies.child(place, &Step::Field(name)),
                None => place,
            };
            document.dependencies.wait(place, waiting);
        }
    }

    /// The value at `steps` below `place`.
    pub(crate) fn read(&mut self, id: DocumentId, place: Place, steps: &[Step], full: bool) -> Reading {
        let control = self.control();
        self.document_mut(id).read(place, steps, full, control)
    }

    /// Whether the map at `place` has a field.
    pub(crate) fn has_field(&mut self, id: DocumentId, place: Place, name: &Name) -> bool {
        let document = self.document_mut(id);
        let found = match document.walk_to(place).map(|node| &node.value) {
            Some(Value::Map(map)) => map.get(name).is_some(),
            _ => return false,
        };
        if !found {
            document.reads.note(Read { place, absent: Some(Arc::clone(name)) });
        }
        found
    }

    /// The first of these scopes that has the name. Maps that do not have it are noted as read; those that are inside of each other
    /// are found on one way from the root. Each look is accounted for: templates in each other have many scopes.
    pub(crate) fn scope_with<'s>(
        &mut self,
        scopes: impl Iterator<Item = &'s ScopeRef>,
        name: &Name,
    ) -> Result<Option<&'s ScopeRef>, EvalError> {
        let mut missing: Vec<(DocumentId, Place)> = Vec::new();
        let mut way: Option<(DocumentId, Vec<(Place, &Node)>)> = None;
        let mut found = None;
        let mut looked = 0;
        for scope in scopes {
            looked += 1;
            let has = match &scope.kind {
                ScopeKind::Local(names) => names.iter().any(|(own, _)| own == name),
                ScopeKind::Bindings(Value::Map(map)) => map.get(name).is_some(),
                ScopeKind::Bindings(_) => false,
                ScopeKind::Document { document, place } => {
                    let known = way.as_mut().filter(|(known, _)| known == document).and_then(|(_, way)| {
                        let position = way.iter().rposition(|(known, _)| known == place)?;
                        way.truncate(position + 1);
                        way.last().map(|(_, node)| *node)
                    });
                    let node = known.or_else(|| {
                        let new = self.document(*document).way_to(*place)?;
                        let (_, node) = *new.last()?;
                        way = Some((*document, new));
                        Some(node)
                    });
                    match node.map(|node| &node.value) {
                        Some(Value::Map(map)) if map.get(name).is_none() => {
                            missing.push((*document, *place));
                            false
                        }
                        Some(Value::Map(_)) => true,
                        _ => false,
                    }
                }
            };
            if has {
                found = Some(scope);
                break;
            }
        }
        for (document, place) in missing {
            let absent = Some(Arc::clone(name));
            self.document_mut(document).reads.note(Read { place, absent });
        }
        self.spend(looked)?;
        Ok(found)
    }

    /// The node at `place` of a document, as the last pass left it.
    pub(crate) fn node_at(&self, id: DocumentId, place: Place) -> Option<&Node> {
        self.document(id).node_at(place)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(budget) = &self.settings.budget {
            // Whoever goes on with the account learns that it is empty.
            let _ = budget.spend(self.work - self.reported);
        }
    }
}

impl Document {
    pub(crate) fn node_at(&self, place: Place) -> Option<&Node> {
        if place == ROOT {
            return Some(&self.root);
        }
        self.dependencies.steps(place).into_iter().try_fold(&self.root, find_step)
    }

    /// The nodes from the root to `place`, if there is one.
    fn way_to(&self, place: Place) -> Option<Vec<(Place, &Node)>> {
        let mut places = vec![place];
        let mut at = place;
        while at != ROOT {
            at = self.dependencies.parent(at);
            places.push(at);
        }
        let mut way: Vec<(Place, &Node)> = Vec::with_capacity(places.len());
        let mut node = &self.root;
        for place in places.into_iter().rev() {
            if place != ROOT {
                node = find_step(node, self.dependencies.step(place))?;
            }
            way.push((place, node));
        }
        Some(way)
    }

    /// [`Document::node_at`] without asking for memory.
    fn walk_to(&mut self, place: Place) -> Option<&Node> {
        self.walk.clear();
        let mut at = place;
        while at != ROOT {
            self.walk.push(at);
            at = self.dependencies.parent(at);
        }
        let steps = self.walk.iter().rev().map(|at| self.dependencies.step(*at));
        steps.into_iter().try_fold(&self.root, find_step)
    }

    fn read(&mut self, place: Place, steps: &[Step], full: bool, control: bool) -> Reading {
        let Some(mut node) = self.dependencies.steps(place).into_iter().try_fold(&self.root, find_step)
        else {
            return Reading::Missing(1);
        };
        let mut at = place;
        for (position, step) in steps.iter().enumerate() {
            let Some((taken, next)) = take_step(node, step) else {
                if matches!(node.value, Value::Map(_)) {
                    at = self.dependencies.child(at, step);
                }
                self.reads.note(at.into());
                return Reading::Missing(position + 1);
            };
            at = self.dependencies.child(at, &taken);
            node = next;
            if !is_locally_resolved(node, control) {
                self.reads.note(at.into());
                return pending(node, position + 1);
            }
        }
        if full && !is_resolved(node, control) {
            let mut below = Vec::new();
            find_unresolved(node, control, &mut below);
            let failed = node.has(Flags::FAILED) || node.has(Flags::ERROR);
            at = below.iter().fold(at, |at, step| self.dependencies.child(at, step));
            self.reads.note(at.into());
            return Reading::Pending { steps: steps.len(), incomplete: false, failed };
        }
        self.reads.note(at.into());
        Reading::Found(node.value.clone(), node.key_name().cloned())
    }
}

fn pending(node: &Node, steps: usize) -> Reading {
    let failed = node.has(Flags::FAILED) || node.has(Flags::ERROR);
    Reading::Pending { steps, incomplete: !matches!(node.value, Value::Expression(_)), failed }
}

/// [`find_step`] with the step by position that it stands for.
fn take_step<'n>(node: &'n Node, step: &Step) -> Option<(Step, &'n Node)> {
    match (&node.value, step) {
        (Value::List(list), step) => {
            let position = match step {
                Step::Index(index) => list_position(list, *index)?,
                Step::Field(name) => keyed_position(node, list, name)?,
            };
            Some((Step::Index(i64::try_from(position).ok()?), list.get(position)?))
        }
        _ => Some((step.clone(), find_step(node, step)?)),
    }
}

/// A path into a value that stands in no document.
pub(crate) fn read_value(node: &Node, steps: &[Step], full: bool, control: bool) -> Reading {
    let mut node = node;
    for (position, step) in steps.iter().enumerate() {
        let Some(next) = find_step(node, step) else { return Reading::Missing(position + 1) };
        node = next;
        if !is_locally_resolved(node, control) {
            return pending(node, position + 1);
        }
    }
    if full && !is_resolved(node, control) {
        return Reading::Pending { steps: steps.len(), incomplete: false, failed: false };
    }
    Reading::Found(node.value.clone(), node.key_name().cloned())
}

/// Whether nothing is left to be evaluated of the node itself: "locally resolved" in section 2.3.
pub(crate) fn is_locally_resolved(node: &Node, control: bool) -> bool {
    match &node.value {
        Value::Expression(_) => false,
        Value::Map(map) => is_complete_map(map, control),
        Value::List(list) => list.is_complete(),
        _ => true,
    }
}

/// A map without a field that inserts or controls.
pub(crate) fn is_complete_map(map: &Map, control: bool) -> bool {
    map.known_resolved()
        || if control {
            !map.keys().any(|key| key.starts_with("<<") && !is_escaped(key))
        } else {
            map.get("<<").is_none() && map.get("<<<").is_none()
        }
}

/// Whether a key loses a `!` at the end of the run, and means nothing before (13.2).
pub(crate) fn is_escaped(key: &str) -> bool {
    key.trim_start_matches('<').starts_with('!')
}

/// Whether nothing is left to be evaluated of the node and all below it: "resolved" in section 2.3.
pub(crate) fn is_resolved(node: &Node, control: bool) -> bool {
    match &node.value {
        Value::Expression(_) => false,
        Value::String(text) => is_dynaml(text).is_none(),
        Value::Map(map) => map.known_resolved() || is_resolved_map(map, control),
        Value::List(list) => list.known_resolved() || is_resolved_list(list, control),
        _ => true,
    }
}

fn is_resolved_map(map: &Map, control: bool) -> bool {
    let resolved = is_complete_map(map, control) && map.iter().all(|(_, node)| is_resolved(node, control));
    if resolved {
        map.remember_resolved();
    }
    resolved
}

fn is_resolved_list(list: &List, control: bool) -> bool {
    let resolved = list.is_complete() && list.iter().all(|entry| is_resolved(entry, control));
    if resolved {
        list.remember_resolved();
    }
    resolved
}

/// Steps to the first descendant that keeps `node` from being resolved.
fn find_unresolved(node: &Node, control: bool, steps: &mut Vec<Step>) {
    match &node.value {
        Value::Map(map) if is_complete_map(map, control) => {
            let Some((key, next)) = map.iter().find(|(_, node)| !is_resolved(node, control)) else { return };
            steps.push(Step::Field(Arc::clone(key)));
            find_unresolved(next, control, steps);
        }
        Value::List(list) if list.is_complete() => {
            let Some(position) = list.iter().position(|entry| !is_resolved(entry, control)) else { return };
            steps.push(Step::Index(i64::try_from(position).unwrap_or(i64::MAX)));
            if let Some(entry) = list.get(position) {
                find_unresolved(entry, control, steps);
            }
        }
        _ => {}
    }
}

/// Whether a lambda or template is in a value.
fn has_closures(value: &Value) -> bool {
    match value {
        Value::Lambda(_) | Value::Template(_) => true,
        Value::Map(map) => map.iter().any(|(_, node)| has_closures(&node.value)),
        Value::List(list) => list.values().any(has_closures),
        _ => false,
    }
}

/// What a reading means for the reference that asked; `prefix` writes its first so many steps.
pub(crate) fn reading_to_eval(reading: Reading, prefix: impl Fn(usize) -> String) -> Eval {
    match reading {
        Reading::Found(value, key_name) => {
            let mut info = Info::default();
            if let Some(name) = key_name {
                info.notes_mut().key_name = Some(name);
            }
            Ok(crate::eval::Evaluated { value: Some(value), info })
        }
        Reading::Missing(steps) => Err(EvalError::issue(format!("'{}' not found", prefix(steps)))),
        Reading::Pending { steps, incomplete, failed } => {
            let what = if incomplete { "not complete" } else { "unresolved" };
            let mut info = Info::pending(format!("'{}' {what}", prefix(steps)));
            if failed {
                info.flags |= Flags::FAILED;
            }
            Ok(crate::eval::Evaluated { value: None, info })
        }
    }
}

/// `steps` as a message shows them, with a dot in front if they are absolute.
pub(crate) fn shown(steps: &[Step], absolute: bool) -> String {
    let text = dotted(steps);
    if absolute && !steps.is_empty() { format!(".{text}") } else { text }
}
