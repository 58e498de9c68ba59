//! Evaluation of a script.

mod call;
mod expression;
mod operator;
mod statement;

use crate::fault::Fault;
use crate::stack::deeper;
use crate::syntax::{Expr, ExprKind, Literal, Name, Script, Slot};
use crate::values::{Answer, Heap, Id, Value};

/// Steps that a statement or a part of an expression costs: about one for each nanosecond.
const STEP: usize = 25;

/// Levels of expressions and calls within one another. Each takes up to four kilobytes of stack.
const MOST_NESTED: usize = 10_000;

/// Variables of all running functions.
const MOST_VARIABLES: usize = 1_000_000;

/// Evaluator of one script.
#[derive(Debug)]
pub(crate) struct Machine<'s> {
    pub(crate) heap: Heap,
    script: &'s Script,
    /// Values of the predefined names.
    known: &'s [(&'static str, Value)],
    globals: Vec<Value>,
    /// Variables of all running functions; those of the innermost begin at `base`.
    stack: Vec<Value>,
    base: usize,
    /// Function that runs; `None` outside of functions.
    closure: Option<Id>,
    nested: usize,
    calls: usize,
}

impl<'s> Machine<'s> {
    pub(crate) fn new(heap: Heap, script: &'s Script, known: &'s [(&'static str, Value)]) -> Self {
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
        }
    }

    /// Runs the whole script.
    pub(crate) fn run(&mut self) -> Result<(), Fault> {
        let main = &self.script.main;
        self.stack = vec![Value::Unset; main.locals.len()];
        self.share(&main.shared)?;
        self.block(&main.body).map(drop)
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
    pub(crate) fn eval(&mut self, expr: &Expr) -> Answer {
        self.heap.spend(STEP)?;
        match &expr.kind {
            ExprKind::Constant(literal) => Ok(match literal {
                Literal::Text(text) => Value::Text(text.clone()),
                Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
                Literal::Int(value) => Value::Int(value.clone()),
                Literal::Float(value) => Value::Float(*value),
            }),
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

    fn load(&self, name: &Name) -> Answer {
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

    fn store(&mut self, name: &Name, value: Value) {
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
}
