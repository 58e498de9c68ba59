//! The expression `merge` (`spiff.md` 4.2).

use super::{Eval, EvalError, Evaluated, Info, NOT_DYNAMIC};
use crate::env::Env;
use crate::scope::dotted;
use crate::syntax::ast::{Merge, MergeOption};
use crate::value::{Flags, Value};

pub(super) fn evaluate(merge: &Merge, env: &Env<'_>) -> Eval {
    let mut info = Info::flagged(Flags::MERGED);
    if merge.option == MergeOption::None {
        info.notes_mut().redirect = Some(Vec::new());
        return Ok(Evaluated { value: Some(Value::Nil), info });
    }
    let path = merge.stub_path();
    let found = match &path {
        Some(path) => env.find_stub_path(path),
        None => env.find_in_stubs(),
    };
    let Some(node) = found else {
        let path = path.unwrap_or_else(|| env.stub_path.steps());
        return Err(EvalError::issue(format!("'{}' not found in any stub", dotted(&path))));
    };
    if node.dynamic().is_some() {
        return Err(EvalError::issue(NOT_DYNAMIC));
    }
    info.flags |= node.flags.intersection(Flags::MARKERS.difference(Flags::DYNAMIC));
    if merge.option == MergeOption::Replace {
        info.flags |= Flags::REPLACE;
    }
    annotate(merge, &mut info);
    Ok(Evaluated { value: Some(node.value.clone()), info })
}

/// Sets the annotations of the result that are known before the stubs are read.
pub(super) fn annotate(merge: &Merge, info: &mut Info) {
    if let MergeOption::On(name) = &merge.option {
        info.notes_mut().key_name = Some(name.clone());
    }
    if let Some(path) = merge.stub_path() {
        info.notes_mut().redirect = Some(path);
    }
}
