//! Values of scripts.

mod compare;
mod display;
mod heap;
mod index;
mod key;
mod native;
mod table;

use std::rc::Rc;

use groundwork_go::regexp::Pattern;
use groundwork_go::time::Instant;

pub(crate) use display::float_text;
pub(crate) use heap::{Closure, Heap, MOST_LEVELS};
pub(crate) use index::{bounds, out_of_range, place, reversed, signed, small_index};
pub(crate) use key::Key;
pub(crate) use native::{Answer, Caller, Given, Member, Method, Module, Native, Run, mismatch};
pub(crate) use table::Table;

pub(crate) use crate::int::Int;

/// Place of a value in the [`Heap`].
pub(crate) type Id = usize;

/// Value of a script. Values that contain others lie in the [`Heap`], and are freed with it: no
/// chain of values is dropped by recursion, and cycles leave nothing behind.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(Int),
    Float(f64),
    /// String. Positions count bytes, as in Go.
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    Tuple(Id),
    List(Id),
    Dict(Id),
    Set(Id),
    Range(Rc<Range>),
    View(Rc<View>),
    Function(Id),
    Native(&'static Native),
    /// Method of a value, such as `list.append`.
    Bound(Rc<(Value, &'static Method)>),
    Module(&'static Module),
    Struct(Rc<Struct>),
    Pattern(Rc<Pattern>),
    Time(Rc<Instant>),
    /// Duration in nanoseconds.
    Duration(i64),
    /// Variable that closures share; only in frames.
    Cell(Id),
    /// Variable without a value; only in frames, cells and globals.
    Unset,
}

/// Numbers of a `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: i64,
    pub(crate) stop: i64,
    pub(crate) step: i64,
}

impl Range {
    pub(crate) fn len(&self) -> usize {
        let WideRange { start, stop, step } = self.wide();
        let span = if step > 0 { stop - start } else { start - stop };
        let count = if span <= 0 || step == 0 { 0 } else { (span - 1) / step.abs() + 1 };
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn wide(&self) -> WideRange {
        WideRange { start: self.start.into(), stop: self.stop.into(), step: self.step.into() }
    }

    pub(crate) fn get(&self, at: usize) -> Value {
        let at = i128::try_from(at).unwrap_or(i128::MAX);
        let value = i128::from(self.start).saturating_add(i128::from(self.step).saturating_mul(at));
        Value::Int(i64::try_from(value).map_or(Int::Small(i64::MAX), Int::Small))
    }

    pub(crate) fn contains(&self, value: &Int) -> bool {
        let Some(value) = value.small().map(i128::from) else { return false };
        let WideRange { start, stop, step } = self.wide();
        let is_within =
            if step > 0 { value >= start && value < stop } else { value <= start && value > stop };
        is_within && step != 0 && (value - start) % step == 0
    }
}

struct WideRange {
    start: i128,
    stop: i128,
    step: i128,
}

/// Elements of a string or of bytes.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) kind: ViewKind,
    pub(crate) of: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewKind {
    Elems,
    ElemOrds,
    Codepoints,
    CodepointOrds,
}

impl ViewKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Elems => "elems",
            Self::ElemOrds => "elem_ords",
            Self::Codepoints => "codepoints",
            Self::CodepointOrds => "codepoint_ords",
        }
    }
}

impl View {
    /// Returns the element at a place that counts bytes.
    pub(crate) fn get(&self, at: usize) -> Value {
        let bytes = match &self.of {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => &[],
        };
        match (bytes.get(at), self.kind) {
            (Some(byte), ViewKind::Elems) => heap::piece(*byte),
            (Some(byte), _) => Value::int(i64::from(*byte)),
            (None, _) => Value::None,
        }
    }
}

/// Value with fields that scripts cannot set, such as `ctx`.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) fields: Vec<(&'static str, Value)>,
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn int(value: impl Into<Int>) -> Self {
        Self::Int(value.into())
    }

    pub(crate) fn as_text(&self) -> Option<&Rc<str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the type.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Tuple(_) => "tuple",
            Self::List(_) => "list",
            Self::Dict(_) => "dict",
            Self::Set(_) => "set",
            Self::Range(_) => "range",
            Self::View(view) => match (&view.of, view.kind) {
                (Self::Bytes(_), _) => "bytes.elems",
                (_, ViewKind::Elems | ViewKind::ElemOrds) => "string.elems",
                (_, ViewKind::Codepoints | ViewKind::CodepointOrds) => "string.codepoints",
            },
            Self::Function(_) => "function",
            Self::Native(_) | Self::Bound(_) => "builtin_function_or_method",
            Self::Module(_) => "module",
            Self::Struct(_) => "struct",
            Self::Pattern(_) => "regexp",
            Self::Time(_) => "time.time",
            Self::Duration(_) => "time.duration",
            Self::Cell(_) | Self::Unset => "variable",
        }
    }
}
