//! What evaluations come to: values, what goes with them, and errors.

use std::sync::Arc;

use crate::issue::Issue;
use crate::syntax::ast::Expr;
use crate::value::{Flags, Notes, Value};

/// The result of an evaluation (section 7.1).
pub(crate) type Eval = Result<Evaluated, EvalError>;

/// A value, or `None` if it cannot be decided in this pass.
#[derive(Debug, Default)]
pub(crate) struct Evaluated<T = Value> {
    pub(crate) value: Option<T>,
    pub(crate) info: Info,
}

/// Several expressions that an expression needs as values.
#[derive(Debug)]
pub(crate) enum Readiness<T, P = Info> {
    Ready(T),
    /// One of them at least is pending, and so is the whole.
    Pending(P),
}

/// What goes with a value: annotations for the node that will hold it, and why it is pending.
#[derive(Debug, Clone, Default)]
pub(crate) struct Info {
    pub(crate) flags: Flags,
    notes: Option<Box<Notes>>,
    /// Of something pending: the expression that is left to be evaluated, if it is not the whole of it any more.
    pub(crate) rest: Option<Arc<Expr>>,
    /// Of something that was read and not evaluated: a step into it may leave the rest as it was read.
    pub(crate) raw: bool,
}

/// Why an evaluation has no result.
#[derive(Debug)]
pub(crate) enum EvalError {
    /// The expression failed; `||` and `catch` see this.
    Issue(Box<Issue>),
    /// A limit was reached and the run ends; the run knows which.
    Abort,
}

impl EvalError {
    pub(crate) fn issue(message: impl Into<String>) -> Self {
        Issue::new(message).into()
    }
}

impl From<Issue> for EvalError {
    fn from(issue: Issue) -> Self {
        Self::Issue(Box::new(issue))
    }
}

impl Info {
    pub(crate) fn flagged(flags: Flags) -> Self {
        Self { flags, ..Self::default() }
    }

    /// Of something that is pending because of `issue`.
    pub(crate) fn pending(issue: impl Into<Issue>) -> Self {
        let mut info = Self::default();
        info.notes_mut().issue = Some(Arc::new(issue.into()));
        info
    }

    pub(crate) fn notes(&self) -> Option<&Notes> {
        self.notes.as_deref()
    }

    pub(crate) fn notes_mut(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }

    pub(crate) fn undefined(&self) -> bool {
        self.flags.contains(Flags::UNDEFINED)
    }

    /// The issue that came with a value or with something pending; empty if there is none.
    pub(crate) fn issue(&self) -> Issue {
        let issue = self.notes.as_ref().and_then(|notes| notes.issue.as_ref());
        issue.map(|issue| (**issue).clone()).unwrap_or_default()
    }

    /// Without what is only of interest as long as something is pending.
    pub(crate) fn settled(mut self) -> Self {
        self.rest = None;
        self.flags.remove(Flags::FAILED);
        if let Some(notes) = &mut self.notes {
            notes.issue = None;
        }
        self
    }

    /// The info of a result that was made out of two; what `other` says comes later and wins. What is left to be evaluated of
    /// either is no matter of the whole.
    pub(crate) fn join(&mut self, other: Self) {
        self.rest = None;
        let replace = other.flags.intersection(Flags::REPLACE);
        self.flags = self.flags.difference(Flags::REPLACE).union(other.flags).union(replace);
        let Some(other) = other.notes else { return };
        let Some(own) = &mut self.notes else {
            self.notes = Some(other);
            return;
        };
        own.redirect = other.redirect.or(own.redirect.take());
        own.key_name = other.key_name.or(own.key_name.take());
        own.tag = other.tag.or(own.tag.take());
        own.issue = other.issue.or(own.issue.take());
        own.dynamic = other.dynamic.or(own.dynamic.take());
    }
}

impl Evaluated {
    pub(crate) fn ok(value: Value) -> Eval {
        Ok(Self { value: Some(value), info: Info::default() })
    }

    /// Of something pending that is a part of an expression: what is left of the expression is `around` what is left of the part.
    pub(crate) fn wrapped(mut self, around: impl FnOnce(Expr) -> Expr) -> Self {
        let rest = self.info.rest.take();
        self.info.rest = rest.map(|rest| Arc::new(around(Arc::unwrap_or_clone(rest))));
        self
    }

    /// Of something pending that all else of an expression is done with: what is left is `part`, or what is left of it.
    pub(crate) fn in_place_of(mut self, part: &Expr) -> Self {
        if self.value.is_none() && self.info.rest.is_none() {
            self.info.rest = Some(Arc::new(part.clone()));
        }
        self
    }

    /// Of something pending that is evaluated from the beginning again.
    pub(crate) fn whole(mut self) -> Self {
        self.info.rest = None;
        self
    }

    pub(crate) fn map(self, change: impl FnOnce(Value) -> Value) -> Self {
        Self { value: self.value.map(change), info: self.info }
    }
}

impl<T> Evaluated<T> {
    pub(crate) fn pending(info: Info) -> Self {
        Self { value: None, info }
    }
}
