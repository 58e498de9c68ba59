//! Evaluation of a script.

mod call;
mod expression;
mod operator;
mod statement;

use std::rc::Rc;

pub(crate) use call::{Given, Method, Native, mismatch};
pub(crate) use expression::{bounds, out_of_range};
pub(crate) use operator::finite_int;

use crate::fault::Fault;
use crate::syntax::{Expr, ExprKind, Name, Script, Slot};
use crate::values::{Heap, Id, Value};

/// Result of an evaluation.
pub(crate) type Answer = Result<Value, Fault>;

/// Steps that a statement or a part of an expression costs: about one for each nanosecond.
const STEP: usize = 25;

/// Levels of expressions and calls within one another. Each takes up to four kilobytes of stack.
const MOST_NESTED: usize = 10_000;

/// Variables of all running functions.
const MOST_VARIABLES: usize = 1_000_000;

/// Stack that a level of evaluation may take, and the size of a new piece of stack.
const RED_ZONE: usize = 192 << 10;
const STACK: usize = 2 << 20;

/// Bytes of text that `print` keeps.
const MOST_PRINTED: usize = 64 << 10;

/// Runs a step of a recursion, on another piece of stack if the present one nears its end.
pub(crate) fn deeper<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, STACK, run)
}

/// Evaluator of one script.
#[derive(Debug)]
pub(crate) struct Machine<'p> {
    pub(crate) heap: Heap<'p>,
    script: &'p Script,
    /// Values of the predefined names.
    known: &'p [(&'static str, Value)],
    globals: Vec<Value>,
    /// Variables of all running functions; those of the innermost begin at `base`.
    stack: Vec<Value>,
    base: usize,
    /// Function that runs; `None` outside of functions.
    closure: Option<Id>,
    nested: usize,
    calls: usize,
    pub(crate) printed: String,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(heap: Heap<'p>, script: &'p Script, known: &'p [(&'static str, Value)]) -> Self {
        Self {
            heap,
            script,
            known,
            globals: vec![Value::Unset; script.globals.len()],
            stack: Vec::new(),
            base: 0,
            closure: None,
            nested: 0,
            calls: 0,
            printed: String::new(),
        }
    }

    /// Runs the whole script.
    pub(crate) fn run(&mut self) -> Result<(), Fault> {
        let main = &self.script.main;
        self.stack = vec![Value::Unset; main.locals.len()];
        self.share(&main.shared)?;
        self.block(&main.body).map(drop)
    }

    /// Adds a line to the printed text, which is cut at a limit.
    pub(crate) fn print(&mut self, line: &str) {
        let room = MOST_PRINTED.saturating_sub(self.printed.len());
        if room > 0 {
            let end = line.floor_char_boundary(room);
            self.printed.push_str(line.get(..end).unwrap_or_default());
            self.printed.push('\n');
        }
    }

    /// Puts variables that inner functions refer to into cells.
    fn share(&mut self, slots: &[usize]) -> Result<(), Fault> {
        for slot in slots {
            if let Some(variable) = self.stack.get_mut(self.base + slot) {
                let value = std::mem::replace(variable, Value::Unset);
                let cell = self.heap.new_cell(value)?;
                if let Some(variable) = self.stack.get_mut(self.base + slot) {
                    *variable = Value::Cell(cell);
                }
            }
        }
        Ok(())
    }

    /// Evaluates an expression. A fault gets its place, unless it has one from further inside.
    pub(crate) fn eval(&mut self, expr: &'p Expr) -> Answer {
        self.heap.spend(STEP)?;
        match &expr.kind {
            ExprKind::Constant(value) => Ok(value.clone()),
            ExprKind::Name(name) => self.load(name),
            _ => {
                if self.nested >= MOST_NESTED {
                    return Err(Fault::at(expr.at, "stack overflow: calls are nested too deeply"));
                }
                self.nested += 1;
                let value = deeper(|| self.inner(expr)).map_err(|fault| fault.within(expr.at))?;
                self.nested -= 1;
                Ok(value)
            }
        }
    }

    fn load(&self, name: &'p Name) -> Answer {
        let (value, kind) = match name.slot.get() {
            Slot::Local(slot) => (self.stack.get(self.base + slot), "local"),
            Slot::Free(slot) => {
                let cell = self.closure.and_then(|id| self.heap.closure(id).free.get(slot));
                (cell.map(|cell| self.heap.cell(*cell)), "local")
            }
            Slot::Global(slot) => (self.globals.get(slot), "global"),
            Slot::Known(slot) => (self.known.get(slot).map(|(_, value)| value), "predeclared"),
            Slot::Open => (None, "local"),
        };
        let value = match value {
            Some(Value::Cell(cell)) => Some(self.heap.cell(*cell)),
            other => other,
        };
        match value {
            Some(Value::Unset) | None => {
                Err(Fault::at(name.at, format!("{kind} variable {} referenced before assignment", name.text)))
            }
            Some(value) => Ok(value.clone()),
        }
    }

    fn store(&mut self, name: &'p Name, value: Value) {
        let variable = match name.slot.get() {
            Slot::Local(slot) => self.stack.get_mut(self.base + slot),
            Slot::Global(slot) => self.globals.get_mut(slot),
            // No statement sets a variable of an enclosing function or a predefined name.
            Slot::Free(_) | Slot::Known(_) | Slot::Open => None,
        };
        match variable {
            Some(Value::Cell(cell)) => {
                let cell = *cell;
                self.heap.set_cell(cell, value);
            }
            Some(variable) => *variable = value,
            None => {}
        }
    }

    /// Returns the elements of a value, or the message that it has none.
    pub(crate) fn elements(&self, value: &Value) -> Result<Vec<Value>, Fault> {
        let found = self.heap.elements(value)?;
        found.ok_or_else(|| Fault::new(format!("got {}, want iterable", value.kind())))
    }

    /// Creates a list of strings.
    pub(crate) fn texts<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) -> Answer {
        let items: Result<Vec<Value>, Fault> = texts.into_iter().map(|text| self.heap.text(text)).collect();
        self.heap.new_list(items?)
    }

    /// Returns a value as text, as `str` does.
    pub(crate) fn shown(&self, value: &Value) -> Result<Rc<str>, Fault> {
        self.heap.shown(value)
    }
}
