//! Scopes in which names are looked up (`spiff.md` 5.2), and paths to nodes.

use std::sync::Arc;

use crate::dependencies::Place;
use crate::syntax::ast::{Name, Step};
use crate::value::Value;

/// A scope of a chain, innermost first.
pub(crate) type ScopeRef = Arc<Scope>;

/// Number of a document within one run. Scopes refer to documents by number, so that no reference
/// cycle arises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DocumentId(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    pub(crate) parent: Option<ScopeRef>,
    /// True if the parent belongs to an outer environment: bindings, or the caller of a nested
    /// flow.
    pub(crate) boundary: bool,
}

#[derive(Debug)]
pub(crate) enum ScopeKind {
    /// A map or list of a document, looked up in its current state: a lambda sees later changes of
    /// the map that it was made in (`spiff.md` 8.6).
    Document { document: DocumentId, place: Place },
    /// Parameters of a lambda, assignments of a scope expression, variables of a loop.
    Local(Vec<(Name, Value)>),
    /// Named values that the program passed to the run.
    Bindings(Value),
}

impl Scope {
    pub(crate) fn local(names: Vec<(Name, Value)>, parent: Option<ScopeRef>) -> ScopeRef {
        Arc::new(Self { kind: ScopeKind::Local(names), parent, boundary: false })
    }

    pub(crate) fn document(
        document: DocumentId,
        place: Place,
        parent: Option<ScopeRef>,
        boundary: bool,
    ) -> ScopeRef {
        Arc::new(Self { kind: ScopeKind::Document { document, place }, parent, boundary })
    }

    pub(crate) fn bindings(value: Value) -> ScopeRef {
        Arc::new(Self { kind: ScopeKind::Bindings(value), parent: None, boundary: false })
    }
}

/// A path from the root of a document. An extended path shares the steps of the shorter one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    parent: Path,
    step: Step,
}

impl Path {
    pub(crate) fn child(&self, step: Step) -> Self {
        Self(Some(Arc::new(Link { parent: self.clone(), step })))
    }

    /// Reports whether both are the same object in memory. If not, they may still be equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// Returns the steps from the root.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut path = self;
        while let Some(last) = &path.0 {
            steps.push(last.step.clone());
            path = &last.parent;
        }
        steps.reverse();
        steps
    }
}

impl From<&[Step]> for Path {
    fn from(steps: &[Step]) -> Self {
        steps.iter().fold(Self::default(), |path, step| path.child(step.clone()))
    }
}

/// Writes steps as messages show them: `a.[0].b`.
pub(crate) fn dotted(steps: &[Step]) -> String {
    let mut text = String::new();
    for (position, step) in steps.iter().enumerate() {
        if position > 0 {
            text.push('.');
        }
        text.push_str(&step_text(step));
    }
    text
}

/// Writes one step as messages show it.
pub(crate) fn step_text(step: &Step) -> std::borrow::Cow<'_, str> {
    match step {
        Step::Field(name) => name.as_ref().into(),
        Step::Index(index) => format!("[{index}]").into(),
    }
}
