//! Results of evaluations: values, their annotations, and errors.

use std::sync::Arc;

use crate::issue::Issue;
use crate::syntax::ast::Expr;
use crate::value::{Flags, Notes, Value};

/// The result of an evaluation (`spiff.md` 7.1).
pub(crate) type Eval = Result<Evaluated, EvalError>;

/// A value with its annotations; the value is `None` if it cannot be decided in this pass.
#[derive(Debug, Default)]
pub(crate) struct Evaluated<T = Value> {
    pub(crate) value: Option<T>,
    pub(crate) info: Info,
}

/// The values of several expressions that an expression needs.
#[derive(Debug)]
pub(crate) enum Readiness<T, P = Info> {
    Ready(T),
    /// At least one value is pending, and therefore the whole.
    Pending(P),
}

/// Annotations of a value for the node that will get it, and the reason why it is pending.
#[derive(Debug, Clone, Default)]
pub(crate) struct Info {
    pub(crate) flags: Flags,
    notes: Option<Box<Notes>>,
    /// The remaining expression of a pending value, if a part of the whole has been evaluated.
    pub(crate) rest: Option<Arc<Expr>>,
    /// True for content that was read and not evaluated: a step into it may leave the rest
    /// unevaluated.
    pub(crate) raw: bool,
}

/// The failure of an evaluation.
#[derive(Debug)]
pub(crate) enum EvalError {
    /// The expression failed; `||` and `catch` handle this.
    Issue(Box<Issue>),
    /// A limit was reached and the run ends. The run has recorded the limit.
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

    /// Creates the info of a value that is pending because of `issue`.
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

    /// Returns the issue of a failed or pending value; empty if there is none.
    pub(crate) fn issue(&self) -> Issue {
        let issue = self.notes.as_ref().and_then(|notes| notes.issue.as_ref());
        issue.map(|issue| (**issue).clone()).unwrap_or_default()
    }

    /// Drops the parts that matter only while the value is pending.
    pub(crate) fn settled(mut self) -> Self {
        self.rest = None;
        self.flags.remove(Flags::FAILED);
        if let Some(notes) = &mut self.notes {
            notes.issue = None;
        }
        self
    }

    /// Adds the info of another value from which the result is made; the later one wins. The
    /// remaining expressions of both parts are dropped, since they are not those of the whole.
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

    /// Wraps the remaining expression of a pending part: `around` builds the remaining expression
    /// of the whole from it.
    pub(crate) fn wrapped(mut self, around: impl FnOnce(Expr) -> Expr) -> Self {
        let rest = self.info.rest.take();
        self.info.rest = rest.map(|rest| Arc::new(around(Arc::unwrap_or_clone(rest))));
        self
    }

    /// Sets the remaining expression of the whole to `part`, or to the remaining expression of
    /// `part`. For a pending value whose other parts are done.
    pub(crate) fn in_place_of(mut self, part: &Expr) -> Self {
        if self.value.is_none() && self.info.rest.is_none() {
            self.info.rest = Some(Arc::new(part.clone()));
        }
        self
    }

    /// Drops the remaining expression, so that the next pass evaluates the whole again.
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
