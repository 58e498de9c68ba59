//! The evaluator (`gotemplate.md` 5, 6 and 9). It walks the compiled tree and writes the output.

mod call;
mod control;
mod field;
mod pipeline;

use std::sync::Arc;

use groundwork_budget::live_bytes::Held;

use crate::budget::LimitError;
use crate::context::{Context, Run};
use crate::error::{Error, ErrorKind};
use crate::format::{self, Sink};
use crate::stack;
use crate::syntax::print::canonical;
use crate::syntax::tree::{Kind, NodeId, ROOT_SLOT};
use crate::template::{Body, Program, Unit};
use crate::value::{Element, MapValues, Str, Value};

/// Executes a body of the program under its name. Returns the output written so far also on
/// failure.
pub(crate) fn render(
    program: &Arc<Program>,
    body: &Body,
    name: &str,
    data: Value,
    run: &mut Run,
) -> (Vec<u8>, std::result::Result<(), Error>) {
    let output = format::sink(&run.budget);
    let mut evaluator = Evaluator {
        program,
        unit: &body.unit,
        context: Context { program, options: &program.options, run },
        executing: name.into(),
        node: body.definition.root,
        slots: Vec::new(),
        frame: 0,
        output,
        held: Held::default(),
    };
    let result = evaluator.body(body, &Reached::concrete(data));
    (evaluator.output.into_partial(), result.map_err(|error| *error))
}

/// A value together with its static type in Go, as far as templates notice it (`gotemplate.md`
/// 1.2).
#[derive(Clone, Debug)]
struct Reached {
    value: Value,
    /// Marks the static type `interface {}`: the value comes straight from a map or list, with no
    /// pipeline in between.
    boxed: bool,
}

impl Reached {
    fn concrete(value: Value) -> Reached {
        Reached { value: unboxed(value), boxed: false }
    }

    /// Returns an element of a list.
    fn element(element: Element, value: Value) -> Reached {
        Reached { value, boxed: element == Element::Any }
    }

    /// Returns an entry of a map.
    fn entry(values: MapValues, value: Value) -> Reached {
        Reached { value, boxed: values == MapValues::Any }
    }

    /// Unwraps the value as the end of each pipeline command does: a null becomes absent.
    fn unwrapped(self) -> Reached {
        Reached::concrete(self.value)
    }
}

fn unboxed(value: Value) -> Value {
    match value {
        Value::Nil => Value::Absent,
        other => other,
    }
}

/// The way in which the execution of a list of nodes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Done,
    Break,
    Continue,
}

type Result<T> = std::result::Result<T, Box<Error>>;

struct Evaluator<'r> {
    program: &'r Program,
    /// The source that is running. All node ids refer to its tree.
    unit: &'r Unit,
    context: Context<'r>,
    /// The name of the template being executed, for error messages.
    executing: Str,
    /// The node that errors show. Entering a node sets it, leaving does not restore it
    /// (`gotemplate.md` 9).
    node: NodeId,
    /// The variables of all running templates; `None` until declared.
    slots: Vec<Option<Reached>>,
    /// Index in `slots` of the current template's first variable.
    frame: usize,
    output: Sink,
    /// Account of the output written so far, which counts as memory while nested templates write
    /// theirs.
    held: Held,
}

impl<'r> Evaluator<'r> {
    /// Runs a named body with variables of its own.
    fn body(&mut self, Body { unit, definition }: &'r Body, data: &Reached) -> Result<()> {
        let calling = (std::mem::replace(&mut self.unit, unit), self.node);
        let caller = self.frame;
        self.frame = self.slots.len();
        self.slots.resize(self.frame + definition.slots as usize, None);
        self.slots[self.frame + ROOT_SLOT as usize] = Some(data.clone());
        // An error ends the whole evaluator, so the state of the caller is restored only on
        // success.
        self.walk(definition.root, data)?;
        self.slots.truncate(self.frame);
        self.frame = caller;
        (self.unit, self.node) = calling;
        Ok(())
    }

    fn at(&mut self, node: NodeId) {
        self.node = node;
    }

    /// Creates an execution error at the current node.
    fn fail(&self, message: impl Into<String>) -> Box<Error> {
        self.failure(ErrorKind::Execution, message.into())
    }

    fn failure(&self, kind: ErrorKind, message: String) -> Box<Error> {
        let Unit { name, source, tree } = self.unit;
        let before = &source[..tree.node(self.node).pos];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        let column = before.len() - before.iter().rposition(|&b| b == b'\n').map_or(0, |newline| newline + 1);
        let text = crate::text::lossy(&canonical(tree, source, self.node)).into_owned();
        let executing = self.executing.to_text().into_owned();
        Box::new(Error::execution(kind, name, (line, column), executing, text, message))
    }

    /// Accounts for one evaluated node.
    fn step(&mut self) -> Result<()> {
        self.spend(1)
    }

    fn spend(&mut self, amount: usize) -> Result<()> {
        let spent = self.context.budget().spend(amount);
        spent.map_err(|limit| self.limited(limit))
    }

    fn limited(&self, limit: LimitError) -> Box<Error> {
        self.failure(ErrorKind::Limit, limit.to_string())
    }

    fn check_output(&self) -> Result<()> {
        self.held.set(self.output.len());
        match self.output.error() {
            None => Ok(()),
            Some(error) => Err(self.limited(self.context.run.budget.refusal(error))),
        }
    }

    fn walk(&mut self, node: NodeId, dot: &Reached) -> Result<Flow> {
        let unit = self.unit;
        self.at(node);
        self.step()?;
        match unit.tree.kind(node) {
            Kind::List(items) => {
                for &item in items {
                    let flow = self.walk(item, dot)?;
                    if flow != Flow::Done {
                        return Ok(flow);
                    }
                }
            }
            Kind::Text { end } => {
                self.output.push(&unit.source[unit.tree.node(node).pos..*end]);
                self.check_output()?;
            }
            Kind::Action { pipe } => self.action(node, *pipe, dot)?,
            Kind::If(branch) | Kind::With(branch) => {
                let rebinds = matches!(unit.tree.kind(node), Kind::With(_));
                return stack::guarded(|| self.condition(branch, rebinds, dot));
            }
            Kind::Range(branch) => return stack::guarded(|| self.range(branch, dot)),
            Kind::Template { name, pipe } => stack::guarded(|| self.template(name, *pipe, dot))?,
            Kind::Break => return Ok(Flow::Break),
            Kind::Continue => return Ok(Flow::Continue),
            // The parser puts no other kinds into lists.
            _ => {}
        }
        Ok(Flow::Done)
    }

    /// Prints a pipeline's value, unless it declares or assigns.
    fn action(&mut self, node: NodeId, pipe: NodeId, dot: &Reached) -> Result<()> {
        let value = self.pipeline(pipe, dot)?.value;
        if self.pipe(pipe).is_some_and(|pipe| !pipe.variables.is_empty()) {
            return Ok(());
        }
        self.at(node);
        match value {
            Value::Absent | Value::Nil => self.output.push(b"<no value>"),
            Value::Object(object) if let Some(text) = object.text_in_place() => {
                self.output.push(text.as_bytes());
            }
            Value::Str(text) => self.output.push(&text),
            value => {
                // The sink counts pieces of everything written. The output so far is already paid
                // with a step for each text and action, so its pieces are taken out first.
                self.output.take_pieces();
                self.output.allow_pieces(self.context.run.budget.pieces());
                format::write_value(&mut self.output, &value);
                let spent = self.context.budget().spend_pieces(self.output.take_pieces());
                spent.map_err(|limit| self.limited(limit))?;
            }
        }
        self.check_output()
    }
}
