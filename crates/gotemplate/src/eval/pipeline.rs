//! Evaluation of pipelines, commands and operands (`gotemplate.md` 5.1 and 5.3).

use super::{Evaluator, Reached, Result};
use crate::stack;
use crate::syntax::literal::NumberLiteral;
use crate::syntax::tree::{Kind, NodeId, Pipe, Slot, Target};
use crate::value::{Str, Value};

impl<'r> Evaluator<'r> {
    /// Returns the pipeline of a node, if the node is a pipeline.
    pub(super) fn pipe(&self, node: NodeId) -> Option<&'r Pipe> {
        match self.unit.tree.kind(node) {
            Kind::Pipe(pipe) => Some(pipe),
            _ => None,
        }
    }

    pub(super) fn pipeline(&mut self, node: NodeId, dot: &Reached) -> Result<Reached> {
        self.at(node);
        let Some(pipe) = self.pipe(node) else { return Ok(Reached::concrete(Value::Absent)) };
        let mut piped = None;
        for &command in &pipe.commands {
            piped = Some(self.command(command, dot, piped)?.unwrapped());
        }
        let value = piped.unwrap_or_else(|| Reached::concrete(Value::Absent));
        for target in &pipe.variables {
            self.set(target, value.clone())?;
        }
        Ok(value)
    }

    fn command(&mut self, node: NodeId, dot: &Reached, piped: Option<Reached>) -> Result<Reached> {
        self.step()?;
        let Kind::Command(operands) = self.unit.tree.kind(node) else {
            return Ok(Reached::concrete(Value::Absent));
        };
        let Some((&first, arguments)) = operands.split_first() else {
            return Ok(Reached::concrete(Value::Absent));
        };
        let has_arguments = !arguments.is_empty() || piped.is_some();
        match self.unit.tree.kind(first) {
            Kind::Field(path) => {
                self.at(first);
                self.field_chain(dot.clone(), path, first, dot, (arguments, piped))
            }
            Kind::Chain { operand, path } => {
                self.at(first);
                let receiver = self.bare_operand(*operand, dot)?;
                self.field_chain(receiver, path, first, dot, (arguments, piped))
            }
            Kind::Function { id, .. } => {
                self.at(first);
                self.function(*id, node, first, dot, (arguments, piped))
            }
            Kind::Pipe(_) => {
                self.no_arguments(first, has_arguments)?;
                stack::guarded(|| self.pipeline(first, dot))
            }
            Kind::Variable { name, slot, path } => {
                self.at(first);
                let value = self.variable(name, *slot)?;
                if path.is_empty() {
                    self.no_arguments(first, has_arguments)?;
                    return Ok(value);
                }
                self.field_chain(value, path, first, dot, (arguments, piped))
            }
            _ => {
                self.at(first);
                self.no_arguments(first, has_arguments)?;
                self.constant(first, dot)
            }
        }
    }

    fn no_arguments(&self, operand: NodeId, has_arguments: bool) -> Result<()> {
        if !has_arguments {
            return Ok(());
        }
        let source = self.source_of(operand);
        Err(self.fail(format!("can't give argument to non-function {source}")))
    }

    /// Returns the canonical source of a node, as error messages show it.
    pub(super) fn source_of(&self, node: NodeId) -> String {
        let source = crate::syntax::print::canonical(&self.unit.tree, &self.unit.source, node);
        crate::text::lossy(&source).into_owned()
    }

    /// Evaluates an operand that has no arguments and no wanted type.
    pub(super) fn bare_operand(&mut self, node: NodeId, dot: &Reached) -> Result<Reached> {
        self.at(node);
        match self.unit.tree.kind(node) {
            Kind::Field(path) => self.field_chain(dot.clone(), path, node, dot, (&[], None)),
            Kind::Variable { name, slot, path } => {
                let value = self.variable(name, *slot)?;
                if path.is_empty() {
                    Ok(value)
                } else {
                    self.field_chain(value, path, node, dot, (&[], None))
                }
            }
            Kind::Pipe(_) => stack::guarded(|| self.pipeline(node, dot)),
            Kind::Function { id, .. } => self.function(*id, node, node, dot, (&[], None)),
            Kind::Chain { operand, path } => {
                let receiver = self.bare_operand(*operand, dot)?;
                self.field_chain(receiver, path, node, dot, (&[], None))
            }
            _ => self.constant(node, dot),
        }
    }

    /// Evaluates a literal in its natural type, or dot.
    pub(super) fn constant(&mut self, node: NodeId, dot: &Reached) -> Result<Reached> {
        Ok(Reached::concrete(match self.unit.tree.kind(node) {
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Dot => return Ok(dot.clone()),
            Kind::String { value, .. } => Value::Str(value.clone()),
            Kind::Number { literal, .. } => self.number(node, literal)?,
            _ => return Err(self.fail("nil is not a command")),
        }))
    }

    /// Returns a number in the type that it has where no type is wanted (`gotemplate.md` 2.4).
    fn number(&self, node: NodeId, literal: &NumberLiteral) -> Result<Value> {
        match *literal {
            NumberLiteral { complex: Some((re, im)), .. } => Ok(Value::Complex(re, im)),
            NumberLiteral { prefers_float: true, float: Some(f), .. } => Ok(self.context.float(f)),
            NumberLiteral { int: Some(i), .. } => Ok(Value::int(i)),
            _ => Err(self.fail(format!("{} overflows int", self.source_of(node)))),
        }
    }

    fn variable(&self, name: &Str, slot: Slot) -> Result<Reached> {
        let value = slot.and_then(|slot| self.slots.get(self.frame + slot as usize)).cloned().flatten();
        value.ok_or_else(|| self.undefined(name))
    }

    pub(super) fn set(&mut self, target: &Target, value: Reached) -> Result<()> {
        let place = target.slot.and_then(|slot| self.slots.get_mut(self.frame + slot as usize));
        match place {
            Some(place) => {
                *place = Some(value);
                Ok(())
            }
            None => Err(self.undefined(&target.name)),
        }
    }

    fn undefined(&self, name: &Str) -> Box<crate::error::Error> {
        self.fail(format!("undefined variable: {}", name.to_text()))
    }
}
