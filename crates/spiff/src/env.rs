//! The environment of an evaluation.

use std::rc::Rc;
use std::sync::Arc;

use crate::scope::{DocumentId, Path, Scope, ScopeKind, ScopeRef};
use crate::syntax::ast::{Name, Step};
use crate::value::{Flags, List, Node, Value};

/// The environment of a node (`spiff.md` 3): scopes, paths, stubs. Cloning it is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Env<'s> {
    pub(crate) scope: Option<ScopeRef>,
    /// The document that absolute references start from.
    pub(crate) root: DocumentId,
    /// Path from the root of `root`. Entries of keyed lists are steps by key.
    pub(crate) path: Path,
    pub(crate) stub_path: Path,
    /// Stubs, nearest first.
    pub(crate) stubs: &'s [Node],
    /// The nodes of the stubs at `stub_path`.
    pub(crate) cursor: Cursor<'s>,
    pub(crate) nomerge: bool,
    /// True if the scopes up to here belong to an outer environment: the next map is the first of
    /// its own.
    pub(crate) outside: bool,
    /// Name of the document that the node was written in.
    pub(crate) source: Arc<str>,
}

/// The node at the stub path in each stub, or `None` if no stub has the path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor<'s>(Option<Rc<[Option<&'s Node>]>>);

impl<'s> Cursor<'s> {
    pub(crate) fn roots(stubs: &'s [Node]) -> Self {
        Self::of(stubs.iter().map(Some).collect())
    }

    fn of(nodes: Vec<Option<&'s Node>>) -> Self {
        if nodes.iter().all(Option::is_none) { Self(None) } else { Self(Some(nodes.into())) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn nodes(&self) -> impl Iterator<Item = &'s Node> {
        self.0.as_deref().unwrap_or_default().iter().copied().flatten()
    }

    pub(crate) fn child(&self, step: &Step) -> Self {
        let Some(nodes) = &self.0 else { return Self(None) };
        Self::of(nodes.iter().map(|node| node.and_then(|node| stub_step(node, step))).collect())
    }

    /// Returns the node of the nearest stub in which the node does not come from a default
    /// (`spiff.md` 3.4).
    pub(crate) fn find(&self) -> Option<&'s Node> {
        self.nodes().find(|node| !node.has(Flags::IMPLIED))
    }

    /// Returns [`Cursor::find`] of a child, without creating its cursor.
    pub(crate) fn find_child(&self, step: &Step) -> Option<&'s Node> {
        self.nodes().filter_map(|node| stub_step(node, step)).find(|node| !node.has(Flags::IMPLIED))
    }
}

impl<'s> Env<'s> {
    /// Returns the environment of the entry or field `step`; scopes stay.
    pub(crate) fn child(&self, step: &Step) -> Self {
        let path = self.path.child(step.clone());
        let stub_path =
            if self.path.is(&self.stub_path) { path.clone() } else { self.stub_path.child(step.clone()) };
        Self {
            path,
            stub_path,
            cursor: self.cursor.child(step),
            scope: self.scope.clone(),
            source: Arc::clone(&self.source),
            ..*self
        }
    }

    /// Returns the environment with another stub path. An empty path turns stub lookup off.
    pub(crate) fn redirected(&self, path: &[Step]) -> Self {
        let mut env = self.clone();
        if path.is_empty() {
            env.nomerge = true;
        } else {
            env.nomerge = false;
            env.stub_path = Path::from(path);
            env.cursor = path.iter().fold(Cursor::roots(self.stubs), |cursor, step| cursor.child(step));
        }
        env
    }

    /// Returns the environment for an expression that comes from another document, or `None` if it
    /// comes from this one.
    pub(crate) fn written_in(&self, source: &Arc<str>) -> Option<Self> {
        let elsewhere = !source.is_empty() && *source != self.source;
        elsewhere.then(|| Self { source: Arc::clone(source), ..self.clone() })
    }

    pub(crate) fn with_local(&self, names: Vec<(Name, Value)>) -> Self {
        let mut env = self.clone();
        env.scope = Some(Scope::local(names, env.scope.take()));
        env
    }

    pub(crate) fn find_in_stubs(&self) -> Option<&'s Node> {
        self.cursor.find()
    }

    /// Returns the node of the stubs at `path`, counted from their roots.
    pub(crate) fn find_stub_path(&self, path: &[Step]) -> Option<&'s Node> {
        path.iter().fold(Cursor::roots(self.stubs), |cursor, step| cursor.child(step)).find()
    }

    /// Returns the names of the scope expressions, lambdas, loops and templates around the
    /// expression, also across maps and lists, up to the end of its environment. The innermost is
    /// last, and each name occurs once.
    pub(crate) fn locals(&self) -> Vec<(Name, Value)> {
        let mut names: Vec<(Name, Value)> = Vec::new();
        let mut scope = self.scope.as_ref();
        while let Some(current) = scope {
            if let ScopeKind::Local(own) = &current.kind {
                for (name, value) in own.iter().rev() {
                    if names.iter().all(|(known, _)| known != name) {
                        names.push((Arc::clone(name), value.clone()));
                    }
                }
            }
            scope = current.parent.as_ref().filter(|_| !current.boundary);
        }
        names.reverse();
        names
    }

    /// Returns the scope in which `_.name` starts its search, for a lambda that is evaluated here:
    /// the scope of the enclosing lambda or template, which is the last `_` among `locals`
    /// (`spiff.md` 5.4).
    pub(crate) fn definition_scope(&self, locals: &[(Name, Value)]) -> Option<ScopeRef> {
        match locals.iter().rev().find(|(name, _)| &**name == "_") {
            Some((_, Value::Lambda(outer))) => outer.scope.clone(),
            Some((_, Value::Template(outer))) => outer.scope.clone(),
            _ => self.scope.clone(),
        }
    }
}

/// Returns the node one step below. A step into an incomplete node finds no node (`spiff.md` 3.4).
fn stub_step<'s>(node: &'s Node, step: &Step) -> Option<&'s Node> {
    match &node.value {
        Value::Map(map) if map.get("<<").is_none() && map.get("<<<").is_none() => find_step(node, step),
        Value::List(list) if list.is_complete() => find_step(node, step),
        _ => None,
    }
}

/// Takes one step of a path into a value (`spiff.md` 5.3).
pub(crate) fn find_step<'n>(node: &'n Node, step: &Step) -> Option<&'n Node> {
    match (&node.value, step) {
        (Value::Map(map), Step::Field(name)) => map.get(name),
        (Value::List(list), Step::Index(index)) => list.get(list_position(list, *index)?),
        (Value::List(list), Step::Field(name)) => list.get(keyed_position(node, list, name)?),
        _ => None,
    }
}

/// Returns a position in a list. Negative positions count from the end.
pub(crate) fn list_position(list: &List, index: i64) -> Option<usize> {
    let length = i64::try_from(list.len()).ok()?;
    let position = if index < 0 { index.checked_add(length)? } else { index };
    usize::try_from(position).ok().filter(|position| *position < list.len())
}

/// Returns the position of an entry by `KEY:VALUE`, or by `VALUE` with the key name of the list,
/// which is `name` by default.
pub(crate) fn keyed_position(node: &Node, list: &List, step: &str) -> Option<usize> {
    match step.split_once(':') {
        Some((key, value)) => list.position(key, value),
        None => list.position(node.key_name().map_or("name", |name| &**name), step),
    }
}
