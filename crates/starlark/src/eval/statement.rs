//! Statements.

use super::{Machine, STEP};
use crate::fault::Fault;
use crate::library;
use crate::syntax::{Binary, Block, Expr, ExprKind, Statement, StatementKind};
use crate::values::{Answer, Value};

/// Continuation after a statement.
pub(super) enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

impl Machine<'_> {
    pub(super) fn block(&mut self, statements: &Block) -> Result<Flow, Fault> {
        for statement in statements {
            match self.statement(statement)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow, Fault> {
        self.heap.spend(STEP)?;
        match &statement.kind {
            StatementKind::Expr(value) => drop(self.eval(value)?),
            StatementKind::Assign { target, value } => {
                let value = self.eval(value)?;
                self.assign(target, value).map_err(|fault| fault.within(statement.at))?;
            }
            StatementKind::Change { target, operation, value } => {
                let changed = self.change(target, *operation, value);
                changed.map_err(|fault| fault.within(statement.at))?;
            }
            StatementKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    let condition = self.eval(condition)?;
                    if self.heap.is_true(&condition) {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            StatementKind::For { target, over, body } => {
                let over = self.eval(over)?;
                let flow = self.each(over, |machine, value| {
                    machine.assign(target, value)?;
                    machine.block(body)
                });
                return flow.map_err(|fault| fault.within(statement.at));
            }
            StatementKind::While { condition, body } => return self.repeat(condition, body),
            StatementKind::Def { name, function } => {
                let closure = self.closure(function)?;
                self.store(name, closure);
            }
            StatementKind::Load { module, names } => {
                for (member, name) in names {
                    let found = library::member(module, member);
                    let value = found.map_err(|fault| fault.within(statement.at))?;
                    self.store(name, value);
                }
            }
            StatementKind::Return(value) => {
                return Ok(Flow::Return(match value {
                    Some(value) => self.eval(value)?,
                    None => Value::None,
                }));
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::Pass => {}
        }
        Ok(Flow::Next)
    }

    fn repeat(&mut self, condition: &Expr, body: &Block) -> Result<Flow, Fault> {
        loop {
            let value = self.eval(condition)?;
            if !self.heap.is_true(&value) {
                return Ok(Flow::Next);
            }
            match self.block(body)? {
                Flow::Break => return Ok(Flow::Next),
                Flow::Return(value) => return Ok(Flow::Return(value)),
                Flow::Next | Flow::Continue => {}
            }
        }
    }

    /// Calls a function with each element of a value.
    pub(super) fn each(
        &mut self,
        over: Value,
        mut body: impl FnMut(&mut Self, Value) -> Result<Flow, Fault>,
    ) -> Result<Flow, Fault> {
        let over = match over {
            Value::View(_) => {
                let elements = self.heap.iterate(&over)?;
                self.heap.new_tuple(elements)?
            }
            Value::List(_) | Value::Tuple(_) | Value::Dict(_) | Value::Set(_) | Value::Range(_) => over,
            _ => return Err(Fault::new(format!("{} value is not iterable", over.kind()))),
        };
        self.heap.count_loop(&over, true);
        let mut at = 0;
        let mut flow = Flow::Next;
        while let Some(value) = self.element(&over, &mut at)? {
            match body(self, value)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                Flow::Return(value) => {
                    flow = Flow::Return(value);
                    break;
                }
            }
        }
        // Only here the count of loops has to be restored: after a fault, the script has ended.
        self.heap.count_loop(&over, false);
        Ok(flow)
    }

    /// Returns the element at a place, and moves the place.
    fn element(&self, over: &Value, at: &mut usize) -> Result<Option<Value>, Fault> {
        self.heap.spend(STEP)?;
        let found = match over {
            Value::List(id) => self.heap.list(*id).get(*at).cloned(),
            Value::Tuple(id) => self.heap.tuple(*id).get(*at).cloned(),
            Value::Range(range) => (*at < range.len()).then(|| range.get(*at)),
            Value::Dict(id) | Value::Set(id) => {
                let Some((name, behind)) = self.heap.table(*id).next(*at) else { return Ok(None) };
                self.heap.spend(behind - *at)?;
                *at = behind;
                return Ok(Some(name.clone()));
            }
            _ => None,
        };
        *at += 1;
        Ok(found)
    }

    pub(super) fn assign(&mut self, target: &Expr, value: Value) -> Result<(), Fault> {
        match &target.kind {
            ExprKind::Name(name) => self.store(name, value),
            ExprKind::Index(of, index) => {
                let of = self.eval(of)?;
                let index = self.eval(index)?;
                self.set_index(&of, &index, value).map_err(|fault| fault.within(target.at))?;
            }
            ExprKind::Field(of, name) => {
                let of = self.eval(of)?;
                let kind = of.kind();
                return Err(Fault::at(target.at, format!("can't assign to .{name} field of {kind}")));
            }
            ExprKind::List(targets) | ExprKind::Tuple(targets) => {
                self.unpack(targets, &value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn unpack(&mut self, targets: &[Expr], value: &Value) -> Result<(), Fault> {
        let found = self.heap.elements(value)?;
        let Some(values) = found else {
            return Err(Fault::new(format!("got {} in sequence assignment", value.kind())));
        };
        let (got, want) = (values.len(), targets.len());
        if got != want {
            let many = if got > want { "many" } else { "few" };
            return Err(Fault::new(format!("too {many} values to unpack (got {got}, want {want})")));
        }
        targets.iter().zip(values).try_for_each(|(target, value)| self.assign(target, value))
    }

    /// Runs an assignment such as `x += y`.
    fn change(&mut self, target: &Expr, operation: Binary, value: &Expr) -> Result<(), Fault> {
        match &target.kind {
            ExprKind::Name(name) => {
                let old = self.load(name)?;
                let value = self.eval(value)?;
                let new = self.combine(operation, &old, &value)?;
                self.store(name, new);
            }
            ExprKind::Index(of, index) => {
                let of = self.eval(of)?;
                let index = self.eval(index)?;
                let at = |fault: Fault| fault.within(target.at);
                let old = self.index(&of, &index).map_err(at)?;
                let value = self.eval(value)?;
                let new = self.combine(operation, &old, &value)?;
                self.set_index(&of, &index, new).map_err(at)?;
            }
            ExprKind::Field(of, name) => {
                let kind = self.eval(of)?.kind();
                return Err(Fault::at(target.at, format!("can't assign to .{name} field of {kind}")));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the new value of a variable. Lists and dicts change in place.
    fn combine(&mut self, operation: Binary, old: &Value, value: &Value) -> Answer {
        match (operation, old, value) {
            (Binary::Add, Value::List(id), _) => {
                if let Some(items) = self.heap.elements(value)? {
                    self.heap.allocate_items(items.len())?;
                    self.heap.list_mut(*id, "apply += to")?.extend(items);
                    return Ok(old.clone());
                }
            }
            (Binary::Or, Value::Dict(id), Value::Dict(other)) => {
                self.heap.table_mut(*id, "apply |= to")?;
                self.heap.update(*id, *other)?;
                return Ok(old.clone());
            }
            _ => {}
        }
        self.binary(operation, old, value)
    }
}
