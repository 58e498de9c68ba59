//! Calls of functions, and their arguments.

use std::rc::Rc;

use super::statement::Flow;
use super::{Answer, MOST_VARIABLES, Machine};
use crate::fault::Fault;
use crate::syntax::Function;
use crate::values::{Id, Value};

/// Calls of functions within one another.
const MOST_CALLS: usize = 1_000;

/// Built-in function.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&mut Machine<'_>, &Given) -> Answer,
}

/// Method of a built-in type.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&mut Machine<'_>, &Value, &Given) -> Answer,
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Vec<(Rc<str>, Value)>,
}

impl Given {
    pub(crate) fn of(positional: Vec<Value>) -> Self {
        Self { positional, named: Vec::new() }
    }

    pub(crate) fn unnamed(&self) -> Result<(), Fault> {
        if self.named.is_empty() { Ok(()) } else { Err(Fault::new("unexpected keyword arguments")) }
    }

    /// Checks that there are only positional arguments, and how many.
    pub(crate) fn count(&self, least: usize, most: usize) -> Result<(), Fault> {
        self.unnamed()?;
        let got = self.positional.len();
        let wanted = match (got < least, got > most, least == most) {
            (true, _, true) | (_, true, true) => format!("{least}"),
            (true, ..) => format!("at least {least}"),
            (_, true, _) => format!("at most {most}"),
            _ => return Ok(()),
        };
        Err(Fault::new(format!("got {got} arguments, want {wanted}")))
    }

    /// Returns a positional argument. The caller has checked their number.
    pub(crate) fn at(&self, at: usize) -> &Value {
        self.positional.get(at).unwrap_or(&Value::None)
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Value> {
        self.positional.get(at)
    }

    pub(crate) fn text(&self, at: usize) -> Result<&Rc<str>, Fault> {
        self.at(at).as_text().ok_or_else(|| mismatch(&(at + 1).to_string(), self.at(at), "string"))
    }

    pub(crate) fn int(&self, at: usize) -> Result<i64, Fault> {
        match self.at(at) {
            Value::Int(value) => value.small().ok_or_else(|| Fault::new(format!("{value} out of range"))),
            other => Err(mismatch(&(at + 1).to_string(), other, "int")),
        }
    }

    /// Assigns the arguments to named parameters; those behind `least` may be missing.
    pub(crate) fn bind<const N: usize>(
        &self,
        names: [&str; N],
        least: usize,
    ) -> Result<[Option<Value>; N], Fault> {
        let got = self.positional.len();
        if got > N {
            return Err(Fault::new(format!("got {got} arguments, want at most {N}")));
        }
        let mut values: [Option<Value>; N] = std::array::from_fn(|at| self.positional.get(at).cloned());
        for (name, value) in &self.named {
            let found = names.iter().position(|known| *known == &**name);
            match found.and_then(|at| values.get_mut(at)) {
                None => return Err(Fault::new(format!("unexpected keyword argument \"{name}\""))),
                Some(Some(_)) => {
                    return Err(Fault::new(format!("got multiple values for keyword argument \"{name}\"")));
                }
                Some(slot) => *slot = Some(value.clone()),
            }
        }
        let missing = names.iter().zip(&values).take(least).find(|(_, value)| value.is_none());
        match missing {
            Some((name, _)) => Err(Fault::new(format!("missing argument for {name}"))),
            None => Ok(values),
        }
    }
}

/// Returns the fault of an argument with the wrong type.
pub(crate) fn mismatch(parameter: &str, value: &Value, wanted: &str) -> Fault {
    Fault::new(format!("for parameter {parameter}: got {}, want {wanted}", value.kind()))
}

impl Machine<'_> {
    /// Calls a value.
    pub(crate) fn call(&mut self, function: &Value, given: Given) -> Answer {
        match function {
            Value::Function(id) => self.call_closure(*id, given),
            Value::Native(native) => (native.run)(self, &given).map_err(|fault| fault.of(native.name)),
            Value::Bound(bound) => {
                let (of, method) = &**bound;
                (method.run)(self, of, &given).map_err(|fault| fault.of(method.name))
            }
            _ => Err(Fault::new(format!("invalid call of non-function ({})", function.kind()))),
        }
    }

    fn call_closure(&mut self, id: Id, given: Given) -> Answer {
        let function = self.heap.closure(id).function;
        let slots = function.locals.len();
        self.heap.spend(slots)?;
        if self.calls >= MOST_CALLS || self.stack.len() + slots > MOST_VARIABLES {
            return Err(Fault::new("stack overflow: calls are nested too deeply"));
        }
        let base = self.stack.len();
        self.stack.resize(base + slots, Value::Unset);
        self.fill(id, function, base, given)?;
        let outer = (std::mem::replace(&mut self.base, base), self.closure.replace(id));
        self.calls += 1;
        self.share(&function.shared)?;
        let flow = super::deeper(|| self.block(&function.body))?;
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
