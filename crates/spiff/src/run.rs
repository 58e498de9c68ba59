//! One run: its documents, and its remaining limits.

use std::collections::HashMap;
use std::sync::Arc;

use groundwork_budget::live_bytes::{self, Held};
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

/// The state of one run, which every evaluation uses.
#[derive(Debug)]
pub(crate) struct Run<'e> {
    pub(crate) settings: &'e Settings,
    documents: Vec<Document>,
    pub(crate) tags: Tags,
    /// True if the next pass may have another outcome although the places that were read have not
    /// changed (`spiff.md` 18.1).
    pub(crate) volatile: bool,
    pub(crate) catching: Catching,
    pub(crate) syncing: Syncing,
    /// The first limit that was exceeded, which ends the run.
    pub(crate) abort: Option<LimitError>,
    /// Position of the node that was evaluated then: the innermost node of the template, or else of
    /// any text.
    pub(crate) aborted_at: Option<Position>,
    /// Source name of the template's own nodes. Texts that the template parses have other names.
    pub(crate) template: Option<Arc<str>>,
    /// The current document, whose expressions are parsed once for all runs.
    pub(crate) known: Option<&'e crate::api::Document>,
    steps: u64,
    /// Steps that have been reported to the shared budget.
    reported: u64,
    /// Live bytes of this thread's values when the run began.
    start: isize,
    calls: usize,
    /// Parts of the patterns that are compiled and cached. Their next use costs only the search.
    patterns: HashMap<Box<str>, usize>,
}

/// Steps (a power of two) between two checks of the deadline and the shared budget.
const STEPS_PER_CHECK: u64 = 1_024;

/// Scopes that are looked through in the time of a step.
const SCOPES_PER_STEP: u64 = 4;

/// State of the function `catch`: the first pass that meets a call postpones it (`spiff.md` 8.5).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Catching {
    /// True if the current node can postpone its `catch` to the next pass.
    pub(crate) waits: bool,
    /// Number of bodies, scopes, maps and left sides of alternatives around the current expression.
    /// Inside them `catch` is evaluated at once.
    pub(crate) inside: u32,
    pub(crate) met: bool,
}

/// State of `sync` (`spiff.md` 8.5).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Syncing {
    /// Number of nested documents.
    pub(crate) depth: u32,
    /// True if a `sync` waited in this pass.
    pub(crate) waiting: bool,
    /// True if the document has come to rest, so that a `sync` which still waits fails.
    pub(crate) over: bool,
}

/// A document that is being flowed.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    pub(crate) dependencies: Dependencies,
    /// Reads of the current node.
    reads: Reads,
    /// Buffer for walks from the root, so that each does not allocate one.
    walk: Vec<Place>,
    /// Upper bound of its size: the last measured size plus the nodes that were put into it since.
    size: u64,
    _held: Held,
}

/// Bytes of a node of a document being flowed, including its entry in the dependencies.
const NODE_BYTES: usize = 3 * size_of::<Node>();

/// The result of following a path.
pub(crate) enum Reading {
    Found(Value, Option<Name>),
    /// The step with this number does not exist.
    Missing(usize),
    /// The node behind the first `steps` steps is not final yet.
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
            steps: 0,
            reported: 0,
            start: live_bytes::now(),
            calls: 0,
            patterns: HashMap::new(),
        }
    }

    /// Returns the expression of a string in the current document, if it is cached.
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

    /// Drops the document that was opened last, unless a value in `kept` may still refer to it.
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

    /// Accounts for steps before they are made.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), EvalError> {
        let before = self.steps / STEPS_PER_CHECK;
        self.steps = self.steps.saturating_add(steps);
        let limits = &self.settings.limits;
        let limit = if self.steps > limits.steps {
            LimitError::Steps(limits.steps)
        } else if live_bytes::since(self.start) > limits.value_bytes {
            LimitError::Held(limits.value_bytes)
        } else if self.steps / STEPS_PER_CHECK != before {
            return self.report();
        } else {
            return Ok(());
        };
        Err(self.stop(limit))
    }

    /// Reports the steps to the shared budget and checks the deadline.
    #[cold]
    fn report(&mut self) -> Result<(), EvalError> {
        if let Some(budget) = &self.settings.budget {
            let spent = budget.spend(self.steps - self.reported);
            self.reported = self.steps;
            if let Err(exceeded) = spent {
                return Err(self.stop(LimitError::Budget(exceeded)));
            }
        }
        match &self.settings.deadline {
            Some(deadline) if deadline.is_over() => Err(self.stop(LimitError::Time)),
            _ => Ok(()),
        }
    }

    /// Accounts for searching a pattern in a text of this many bytes. Compiling is paid once, or
    /// each time if the pattern is too large for the cache.
    pub(crate) fn pattern(&mut self, pattern: &str, bytes: usize) -> Result<(), EvalError> {
        let known = self.patterns.get(pattern).copied();
        let parts = match known {
            Some(parts) => parts,
            None => {
                let parts = regexp::account(pattern, |steps| self.spend(steps as u64))?;
                if self.patterns.len() >= functions::KEPT_PATTERNS {
                    self.patterns.clear();
                }
                if regexp::is_light(parts) {
                    self.patterns.insert(pattern.into(), parts);
                }
                parts
            }
        };
        self.spend(regexp::searching_steps(parts, bytes) as u64)
    }

    pub(crate) fn stop(&mut self, limit: LimitError) -> EvalError {
        self.abort.get_or_insert(limit);
        EvalError::Abort
    }

    /// Records a node whose evaluation was stopped. Inner nodes come first; a node of the template
    /// itself replaces one of another text.
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

    /// Evaluates an expression inside which a function `catch` is never postponed to the next pass.
    pub(crate) fn inside<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        self.catching.inside += 1;
        let result = evaluate(self);
        self.catching.inside -= 1;
        result
    }

    /// Runs a call that may be nested in itself, and counts its depth.
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

    /// Refuses values beyond the limits. Every value that an expression gives passes here.
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

    /// Refuses a document that exceeds the limits after nodes were put into it. The document is
    /// measured only when the sum of all puts exceeds the limit, because measuring takes time.
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

    /// Begins to record reads in a document. Returns the reads recorded before.
    pub(crate) fn begin_reads(&mut self, id: DocumentId) -> Reads {
        std::mem::take(&mut self.document_mut(id).reads)
    }

    /// Ends the recording of [`Run::begin_reads`]. The node `waiting`, if given, waits at each
    /// place that was read.
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

    /// Reads the value at `steps` below `place`.
    pub(crate) fn read(&mut self, id: DocumentId, place: Place, steps: &[Step], full: bool) -> Reading {
        let control = self.control();
        self.document_mut(id).read(place, steps, full, control)
    }

    /// Reports whether the map at `place` has a field, and records a missing field as read.
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

    /// Returns the first of these scopes with the name. Maps without the name are recorded as read.
    /// Maps that are nested in one another are found in one walk from the root. Each scope costs
    /// work, because nested templates have many.
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
        self.spend(looked / SCOPES_PER_STEP)?;
        Ok(found)
    }

    /// Returns the node at `place` of a document, as the last pass left it.
    pub(crate) fn node_at(&self, id: DocumentId, place: Place) -> Option<&Node> {
        self.document(id).node_at(place)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(budget) = &self.settings.budget {
            // A drop cannot fail. The next run on the shared budget gets the error instead.
            let _ = budget.spend(self.steps - self.reported);
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

    /// Returns the nodes from the root to `place`, if the place exists.
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

    /// Returns [`Document::node_at`] without allocating.
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

/// Takes a step as [`find_step`] does. Returns also the equivalent step by position.
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

/// Follows a path into a value that belongs to no document.
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

/// Reports whether the node itself has no part left to evaluate: "locally resolved" in `spiff.md`
/// 2.3.
pub(crate) fn is_locally_resolved(node: &Node, control: bool) -> bool {
    match &node.value {
        Value::Expression(_) => false,
        Value::Map(map) => is_complete_map(map, control),
        Value::List(list) => list.is_complete(),
        _ => true,
    }
}

/// Reports whether a map has no field that inserts or controls.
pub(crate) fn is_complete_map(map: &Map, control: bool) -> bool {
    map.known_resolved()
        || if control {
            !map.keys().any(|key| key.starts_with("<<") && !is_escaped(key))
        } else {
            map.get("<<").is_none() && map.get("<<<").is_none()
        }
}

/// Reports whether a key is escaped: it loses a `!` at the end of the run, and has no special
/// meaning before (`spiff.md` 13.2).
pub(crate) fn is_escaped(key: &str) -> bool {
    key.trim_start_matches('<').starts_with('!')
}

/// Reports whether the node and everything below it has no part left to evaluate: "resolved" in
/// `spiff.md` 2.3.
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

/// Finds the steps to the first descendant that keeps `node` from being resolved.
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

/// Reports whether a lambda or template is in a value.
fn has_closures(value: &Value) -> bool {
    match value {
        Value::Lambda(_) | Value::Template(_) => true,
        Value::Map(map) => map.iter().any(|(_, node)| has_closures(&node.value)),
        Value::List(list) => list.values().any(has_closures),
        _ => false,
    }
}

/// Converts a reading to the result of the reference; `prefix` formats the given number of its
/// first steps.
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

/// Writes `steps` as messages show them, with a dot in front if they are absolute.
pub(crate) fn shown(steps: &[Step], absolute: bool) -> String {
    let text = dotted(steps);
    if absolute && !steps.is_empty() { format!(".{text}") } else { text }
}
