//! Built-in functions, methods and modules, and the arguments of calls.

use std::rc::Rc;

use super::{Heap, Value};
use crate::fault::Fault;

/// Result of an evaluation.
pub(crate) type Answer = Result<Value, Fault>;

/// Built-in function.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Plain(fn(&mut Heap, &Given) -> Answer),
    /// Function that calls functions of the script.
    Calling(fn(&mut dyn Caller, &Given) -> Answer),
}

/// Evaluator, as built-in functions see it.
pub(crate) trait Caller {
    fn heap(&mut self) -> &mut Heap;

    /// Calls a value.
    fn call(&mut self, function: &Value, given: Given) -> Answer;
}

/// Method of a built-in type.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&mut Heap, &Value, &Given) -> Answer,
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

/// Module, which a script gets under its name.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: &'static str,
    pub(crate) members: &'static [(&'static str, Member)],
}

#[derive(Debug)]
pub(crate) enum Member {
    Function(&'static Native),
    Float(f64),
    /// Duration in nanoseconds.
    Duration(i64),
}

impl Module {
    pub(crate) fn member(&self, name: &str) -> Option<Value> {
        let (_, member) = self.members.iter().find(|(known, _)| *known == name)?;
        Some(match member {
            Member::Function(native) => Value::Native(native),
            Member::Float(value) => Value::Float(*value),
            Member::Duration(nanoseconds) => Value::Duration(*nanoseconds),
        })
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.members.iter().map(|(name, _)| *name).collect()
    }
}
