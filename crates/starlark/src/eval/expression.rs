//! Expressions.

use std::rc::Rc;

use super::Machine;
use super::statement::Flow;
use crate::fault::Fault;
use crate::methods;
use crate::stack::deeper;
use crate::syntax::{Argument, Clause, Expr, ExprKind, Function, Slot, Unary};
use crate::values::{
    Answer, Caller, Closure, Given, Id, Int, Range, Value, bounds, place, reversed, signed, small_index,
};

impl Machine<'_> {
    pub(super) fn inner(&mut self, expr: &Expr) -> Answer {
        match &expr.kind {
            ExprKind::Constant(_) | ExprKind::Name(_) => Ok(Value::None),
            ExprKind::List(items) => {
                let items = self.all(items)?;
                self.heap.new_list(items)
            }
            ExprKind::Tuple(items) => {
                let items = self.all(items)?;
                self.heap.new_tuple(items)
            }
            ExprKind::Dict(pairs) => self.dict(pairs),
            ExprKind::Unary(operation, operand) => {
                let operand = self.eval(operand)?;
                self.unary(*operation, &operand)
            }
            ExprKind::Binary(operation, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                self.binary(*operation, &left, &right)
            }
            ExprKind::Both(left, right) => {
                let left = self.eval(left)?;
                if self.heap.is_true(&left) { self.eval(right) } else { Ok(left) }
            }
            ExprKind::Either(left, right) => {
                let left = self.eval(left)?;
                if self.heap.is_true(&left) { Ok(left) } else { self.eval(right) }
            }
            ExprKind::Choice { condition, yes, no } => {
                let condition = self.eval(condition)?;
                self.eval(if self.heap.is_true(&condition) { yes } else { no })
            }
            ExprKind::Field(of, name) => {
                let of = self.eval(of)?;
                methods::field(&self.heap, &of, name)
            }
            ExprKind::Index(of, index) => {
                let of = self.eval(of)?;
                let index = self.eval(index)?;
                self.index(&of, &index)
            }
            ExprKind::Slice(of, parts) => {
                let of = self.eval(of)?;
                let mut values = [Value::None, Value::None, Value::None];
                for (value, part) in values.iter_mut().zip(parts.iter()) {
                    if let Some(part) = part {
                        *value = self.eval(part)?;
                    }
                }
                self.slice(&of, &values)
            }
            ExprKind::Call(function, arguments) => self.call_expression(function, arguments),
            ExprKind::Lambda(function) => self.closure(function),
            ExprKind::ListOf(item, clauses) => {
                let Value::List(id) = self.heap.new_list(Vec::new())? else { return Ok(Value::None) };
                self.clauses(clauses, &mut |machine| {
                    let value = machine.eval(item)?;
                    machine.heap.allocate_items(1)?;
                    machine.heap.list_mut(id, "append to")?.push(value);
                    Ok(())
                })?;
                Ok(Value::List(id))
            }
            ExprKind::DictOf(pair, clauses) => {
                let id = self.heap.new_dict()?;
                self.clauses(clauses, &mut |machine| {
                    let name = machine.eval(&pair.0)?;
                    let value = machine.eval(&pair.1)?;
                    let inserted = machine.heap.insert(id, &name, value);
                    inserted.map(drop).map_err(|fault| fault.within(pair.0.at))
                })?;
                Ok(Value::Dict(id))
            }
        }
    }

    fn all(&mut self, items: &[Expr]) -> Result<Vec<Value>, Fault> {
        items.iter().map(|item| self.eval(item)).collect()
    }

    fn dict(&mut self, pairs: &[(Expr, Expr)]) -> Answer {
        let id = self.heap.new_dict()?;
        for (name, value) in pairs {
            let at = name.at;
            let name = self.eval(name)?;
            let value = self.eval(value)?;
            let is_new = self.heap.insert(id, &name, value).map_err(|fault| fault.within(at))?;
            if !is_new {
                return Err(Fault::at(at, format!("duplicate key: {}", self.heap.repr(&name)?)));
            }
        }
        Ok(Value::Dict(id))
    }

    /// Runs the clauses of a comprehension, and a function for each result.
    fn clauses(
        &mut self,
        clauses: &[Clause],
        result: &mut dyn FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some((first, rest)) = clauses.split_first() else { return result(self) };
        match first {
            Clause::If(condition) => {
                let condition = self.eval(condition)?;
                if self.heap.is_true(&condition) { self.clauses(rest, result) } else { Ok(()) }
            }
            Clause::For { target, over } => {
                let at = over.at;
                let over = self.eval(over)?;
                let flow = self.each(over, |machine, value| {
                    machine.assign(target, value)?;
                    deeper(|| machine.clauses(rest, result))?;
                    Ok(Flow::Next)
                });
                flow.map(drop).map_err(|fault| fault.within(at))
            }
        }
    }

    fn call_expression(&mut self, function: &Expr, arguments: &[Argument]) -> Answer {
        // Call the method directly, without creating a method value first.
        if let ExprKind::Field(of, name) = &function.kind {
            let of = self.eval(of)?;
            let place = |fault: Fault| fault.within(function.at);
            if let Some(method) = methods::find(&of, name) {
                let given = self.arguments(arguments)?;
                return (method.run)(&mut self.heap, &of, &given).map_err(|fault| fault.of(method.name));
            }
            let value = methods::field(&self.heap, &of, name).map_err(place)?;
            let given = self.arguments(arguments)?;
            return self.call(&value, given);
        }
        let value = self.eval(function)?;
        let given = self.arguments(arguments)?;
        self.call(&value, given)
    }

    fn arguments(&mut self, arguments: &[Argument]) -> Result<Given, Fault> {
        let mut given = Given::default();
        for argument in arguments {
            match argument {
                Argument::Positional(value) => given.positional.push(self.eval(value)?),
                Argument::Named(name, value) => given.named.push((name.clone(), self.eval(value)?)),
                Argument::List(values) => {
                    let values = self.eval(values)?;
                    let Some(items) = self.heap.elements(&values)? else {
                        let kind = values.kind();
                        return Err(Fault::new(format!("argument after * must be iterable, not {kind}")));
                    };
                    given.positional.extend(items);
                }
                Argument::Dict(values) => {
                    let values = self.eval(values)?;
                    self.named_arguments(&values, &mut given)?;
                }
            }
        }
        Ok(given)
    }

    fn named_arguments(&self, values: &Value, given: &mut Given) -> Result<(), Fault> {
        let Value::Dict(id) = values else {
            let kind = values.kind();
            return Err(Fault::new(format!("argument after ** must be a mapping, not {kind}")));
        };
        let table = self.heap.table(*id);
        self.heap.allocate_items(table.len().saturating_mul(2))?;
        for (name, value) in table.iter() {
            let Value::Text(name) = name else {
                return Err(Fault::new(format!("keywords must be strings, not {}", name.kind())));
            };
            given.named.push((name.clone(), value.clone()));
        }
        Ok(())
    }

    fn unary(&mut self, operation: Unary, operand: &Value) -> Answer {
        let sign = match operation {
            Unary::Not => return Ok(Value::Bool(!self.heap.is_true(operand))),
            Unary::Plus => '+',
            Unary::Minus => '-',
            Unary::Invert => '~',
        };
        Ok(match (operation, operand) {
            (Unary::Plus, Value::Int(_) | Value::Float(_)) => operand.clone(),
            (Unary::Minus, Value::Int(value)) => {
                self.heap.allocate(value.words().saturating_mul(8))?;
                Value::Int(value.negate())
            }
            (Unary::Minus, Value::Float(value)) => Value::Float(-value),
            (Unary::Invert, Value::Int(value)) => {
                self.heap.allocate(value.words().saturating_mul(8))?;
                Value::Int(Int::Small(-1).subtract(value))
            }
            _ => return Err(Fault::new(format!("unknown unary op: {sign}{}", operand.kind()))),
        })
    }

    /// Returns an element of a list or string, or the value of a key.
    pub(super) fn index(&mut self, of: &Value, index: &Value) -> Answer {
        if let Value::Dict(id) = of {
            let key = self.heap.key(index)?;
            let found = self.heap.table(*id).get(&key).cloned();
            let missing =
                || Ok::<_, Fault>(Fault::new(format!("key {} not in dict", self.heap.repr(index)?)));
            return match found {
                Some(value) => Ok(value),
                None => Err(missing()?),
            };
        }
        let Some(length) = self.heap.len(of).filter(|_| !matches!(of, Value::Set(_))) else {
            let (of, index) = (of.kind(), index.kind());
            return Err(Fault::new(format!("unhandled index operation {of}[{index}]")));
        };
        let at = small_index(index).map_err(|fault| fault.of(&format!("{} index", of.kind())))?;
        let at = place(at, length, of)?;
        Ok(match of {
            Value::List(id) => self.heap.list(*id).get(at).cloned().unwrap_or(Value::None),
            Value::Tuple(id) => self.heap.tuple(*id).get(at).cloned().unwrap_or(Value::None),
            Value::Range(range) => range.get(at),
            Value::View(view) => view.get(at),
            Value::Bytes(bytes) => self.heap.bytes(bytes.get(at..=at).unwrap_or_default().to_vec())?,
            Value::Text(text) => self.heap.text(piece(text.as_bytes(), at, at + 1))?,
            _ => Value::None,
        })
    }

    pub(super) fn set_index(&mut self, of: &Value, index: &Value, value: Value) -> Result<(), Fault> {
        match of {
            Value::Dict(id) => self.heap.insert(*id, index, value).map(drop),
            Value::List(id) => {
                let length = self.heap.list(*id).len();
                let at = place(small_index(index)?, length, of)?;
                if let Some(slot) = self.heap.list_mut(*id, "assign to element of")?.get_mut(at) {
                    *slot = value;
                }
                Ok(())
            }
            _ => Err(Fault::new(format!("{} value does not support item assignment", of.kind()))),
        }
    }

    fn slice(&mut self, of: &Value, [low, high, step]: &[Value; 3]) -> Answer {
        let length = match of {
            Value::Set(_) | Value::Dict(_) | Value::View(_) => None,
            _ => self.heap.len(of),
        };
        let Some(length) = length else {
            return Err(Fault::new(format!("invalid slice operand {}", of.kind())));
        };
        let step = match step {
            Value::None => 1,
            _ => small_index(step).map_err(|fault| fault.of("invalid slice step"))?,
        };
        if step == 0 {
            return Err(Fault::new("zero is not a valid slice step"));
        }
        let (start, end) = bounds(low, high, step > 0, length)?;
        if let (1, Value::Text(text)) = (step, of) {
            return self.heap.text(piece(text.as_bytes(), start, end));
        }
        let numbers = Range { start: signed(start), stop: signed(end), step };
        let numbers = if step > 0 { numbers } else { reversed(low, high, step, length)? };
        let count = numbers.len();
        self.heap.allocate_items(count)?;
        let places = (0..count).filter_map(|at| match numbers.get(at) {
            Value::Int(Int::Small(at)) => usize::try_from(at).ok(),
            _ => None,
        });
        self.pick(of, places, numbers)
    }

    /// Returns the elements at these places, as a value of the same type.
    fn pick(&mut self, of: &Value, places: impl Iterator<Item = usize>, numbers: Range) -> Answer {
        match of {
            Value::List(id) => {
                let list = self.heap.list(*id);
                let items = places.filter_map(|at| list.get(at).cloned()).collect();
                self.heap.new_list(items)
            }
            Value::Tuple(id) => {
                let tuple = self.heap.tuple(*id);
                let items = places.filter_map(|at| tuple.get(at).cloned()).collect();
                self.heap.new_tuple(items)
            }
            Value::Bytes(bytes) => self.heap.bytes(places.filter_map(|at| bytes.get(at).copied()).collect()),
            Value::Text(text) => {
                let bytes: Vec<u8> = places.filter_map(|at| text.as_bytes().get(at).copied()).collect();
                self.heap.text(String::from_utf8_lossy(&bytes))
            }
            Value::Range(range) => {
                let at = |place: i64| range.start.saturating_add(range.step.saturating_mul(place));
                let step = range.step.saturating_mul(numbers.step);
                let range = Range { start: at(numbers.start), stop: at(numbers.stop), step };
                Ok(Value::Range(Rc::new(range)))
            }
            _ => Ok(Value::None),
        }
    }

    /// Creates the value of a function.
    pub(super) fn closure(&mut self, function: &Rc<Function>) -> Answer {
        let mut defaults = Vec::with_capacity(function.parameters.len());
        for parameter in &function.parameters {
            let default = match &parameter.default {
                Some(default) => Some(self.eval(default)?),
                None => None,
            };
            defaults.push(default);
        }
        let free: Vec<Id> = function.free.iter().filter_map(|origin| self.cell(*origin)).collect();
        self.heap.new_closure(Closure { function: Rc::clone(function), defaults, free })
    }

    /// Returns the cell of a variable of the function that runs.
    fn cell(&self, origin: Slot) -> Option<Id> {
        match origin {
            Slot::Local(slot) => match self.stack.get(self.base + slot)? {
                Value::Cell(cell) => Some(*cell),
                _ => None,
            },
            Slot::Free(slot) => self.heap.closure(self.closure?).free.get(slot).copied(),
            _ => None,
        }
    }
}

/// Returns a part of a string. A part of a character becomes U+FFFD.
fn piece(bytes: &[u8], start: usize, end: usize) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes.get(start..end.max(start)).unwrap_or_default())
}
