//! Calls of functions, and their arguments.

use std::rc::Rc;

use super::statement::Flow;
use super::{MOST_VARIABLES, Machine};
use crate::fault::Fault;
use crate::stack::deeper;
use crate::syntax::Function;
use crate::values::{Answer, Caller, Given, Heap, Id, Run, Value};

/// Calls of functions within one another.
const MOST_CALLS: usize = 1_000;

impl Caller for Machine<'_> {
    fn heap(&mut self) -> &mut Heap {
        &mut self.heap
    }

    fn call(&mut self, function: &Value, given: Given) -> Answer {
        match function {
            Value::Function(id) => self.call_closure(*id, given),
            Value::Native(native) => match native.run {
                Run::Plain(run) => run(&mut self.heap, &given),
                Run::Calling(run) => run(self, &given),
            }
            .map_err(|fault| fault.of(native.name)),
            Value::Bound(bound) => {
                let (of, method) = &**bound;
                (method.run)(&mut self.heap, of, &given).map_err(|fault| fault.of(method.name))
            }
            _ => Err(Fault::new(format!("invalid call of non-function ({})", function.kind()))),
        }
    }
}

impl Machine<'_> {
    fn call_closure(&mut self, id: Id, given: Given) -> Answer {
        let function = Rc::clone(&self.heap.closure(id).function);
        let slots = function.locals.len();
        self.heap.spend(slots)?;
        if self.calls >= MOST_CALLS || self.stack.len() + slots > MOST_VARIABLES {
            return Err(Fault::new("stack overflow: calls are nested too deeply"));
        }
        let base = self.stack.len();
        self.stack.resize(base + slots, Value::Unset);
        self.fill(id, &function, base, given)?;
        let outer = (std::mem::replace(&mut self.base, base), self.closure.replace(id));
        self.calls += 1;
        self.share(&function.shared)?;
        let flow = deeper(|| self.block(&function.body))?;
        self.calls -= 1;
        (self.base, self.closure) = outer;
        self.stack.truncate(base);
        Ok(match flow {
            Flow::Return(value) => value,
            Flow::Next | Flow::Break | Flow::Continue => Value::None,
        })
    }

    /// Puts arguments into the variables of a function.
    fn fill(&mut self, id: Id, function: &Function, base: usize, given: Given) -> Result<(), Fault> {
        let name = &function.name;
        let wrong = |problem: String| Err(Fault::new(format!("function {name} {problem}")));
        let count = function.parameters.len();
        let got = given.positional.len();
        self.heap.spend(count.saturating_mul(given.named.len()))?;
        let takes_none = count == 0 && function.rest.is_none() && function.named_rest.is_none();
        if takes_none && got + given.named.len() > 0 {
            return wrong(format!("accepts no arguments ({} given)", got + given.named.len()));
        }
        let positional = function.positional;
        if got > positional && function.rest.is_none() {
            let has_optional =
                function.parameters.iter().take(positional).any(|parameter| parameter.default.is_some());
            let most = if has_optional { "at most " } else { "" };
            let plural = if positional == 1 { "" } else { "s" };
            return wrong(format!("accepts {most}{positional} positional argument{plural} ({got} given)"));
        }
        let mut arguments = given.positional.into_iter();
        for (slot, value) in arguments.by_ref().take(positional).enumerate() {
            self.stack[base + slot] = value;
        }
        if function.rest.is_some() {
            let rest = self.heap.new_tuple(arguments.collect())?;
            self.stack[base + count] = rest;
        }
        let named_rest = match function.named_rest {
            Some(_) => {
                let dict = self.heap.new_dict()?;
                self.stack[base + count + usize::from(function.rest.is_some())] = Value::Dict(dict);
                Some(dict)
            }
            None => None,
        };
        for (key, value) in given.named {
            let found = function.parameters.iter().position(|parameter| parameter.name.text == key);
            match (found, named_rest) {
                (Some(slot), _) if matches!(self.stack[base + slot], Value::Unset) => {
                    self.stack[base + slot] = value;
                }
                (None, Some(dict)) => {
                    if !self.heap.insert(dict, &Value::Text(key.clone()), value)? {
                        return wrong(format!("got multiple values for parameter \"{key}\""));
                    }
                }
                (Some(_), _) => return wrong(format!("got multiple values for parameter \"{key}\"")),
                (None, None) => return wrong(format!("got an unexpected keyword argument \"{key}\"")),
            }
        }
        self.fill_defaults(id, function, base)
    }

    fn fill_defaults(&mut self, id: Id, function: &Function, base: usize) -> Result<(), Fault> {
        let mut missing = Vec::new();
        for (slot, parameter) in function.parameters.iter().enumerate() {
            if !matches!(self.stack[base + slot], Value::Unset) {
                continue;
            }
            match self.heap.closure(id).defaults.get(slot) {
                Some(Some(default)) => self.stack[base + slot] = default.clone(),
                _ => missing.push(&*parameter.name.text),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (count, plural) = (missing.len(), if missing.len() == 1 { "" } else { "s" });
        let (name, missing) = (&function.name, missing.join(", "));
        Err(Fault::new(format!("function {name} missing {count} argument{plural} ({missing})")))
    }
}
