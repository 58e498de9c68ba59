//! Functions of templates: descriptors and their registry (`gotemplate.md` 16).
//!
//! A descriptor names the parameter types. The evaluator checks arguments against them once for all
//! functions (`gotemplate.md` 5.3), so implementations get only values of the right types.

pub(crate) mod arguments;
mod builtin;
pub(crate) mod compare;
mod escape;
mod index;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::context::Context;
use crate::error::CallError;
use crate::value::{Element, IntKind, MapValues, Value};

/// Name of Go's type for durations.
pub(crate) const DURATION: &str = "time.Duration";

/// A Go parameter type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`: accepts every value; an absent value arrives as nil.
    Any,
    /// Go's `reflect.Value`: accepts every value and keeps absent and nil apart.
    Raw,
    Bool,
    Int,
    Int64,
    Float64,
    String,
    /// `map[string]interface {}`.
    Map,
    /// `[]interface {}`.
    List,
    Uint32,
    /// `time.Duration`; integer literals are accepted as nanoseconds.
    Duration,
    /// An object with this type name.
    Object(&'static str),
}

impl Type {
    /// Returns the Go name, as error messages show it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Any => "interface {}",
            Type::Raw => "reflect.Value",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Int64 => "int64",
            Type::Float64 => "float64",
            Type::String => "string",
            Type::Map => "map[string]interface {}",
            Type::List => "[]interface {}",
            Type::Uint32 => "uint32",
            Type::Duration => DURATION,
            Type::Object(name) => name,
        }
    }

    /// Reports whether a value other than nil is of this type.
    pub(crate) fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Type::Any | Type::Raw, _)
            | (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(IntKind::Int, _))
            | (Type::Int64, Value::Int(IntKind::Int64, _))
            | (Type::Float64, Value::Float(_) | Value::Number(_))
            | (Type::String, Value::Str(_)) => true,
            (Type::Map, Value::Map(map)) => map.values_type() == MapValues::Any,
            (Type::List, Value::List(list)) => list.element() == Element::Any,
            (Type::Duration, Value::Object(object)) => object.type_name() == DURATION,
            (Type::Object(name), Value::Object(object)) => object.type_name() == name,
            _ => false,
        }
    }
}

/// The parameter types of a function or method.
#[derive(Clone, Debug)]
pub struct Signature {
    pub(crate) parameters: Cow<'static, [Type]>,
    pub(crate) variadic: Option<Type>,
}

impl Signature {
    /// Creates a signature with exactly these parameters.
    pub fn fixed(parameters: &'static [Type]) -> Signature {
        Signature { parameters: Cow::Borrowed(parameters), variadic: None }
    }

    /// Creates a signature with these parameters, then any number of the last type.
    pub fn variadic(parameters: &'static [Type], rest: Type) -> Signature {
        Signature { parameters: Cow::Borrowed(parameters), variadic: Some(rest) }
    }
}

type Implementation = dyn Fn(&mut Context<'_>, &[Value]) -> Result<Value, CallError> + Send + Sync;

/// The implementation of a function, or the built-in that the evaluator runs itself.
#[derive(Clone)]
pub(crate) enum Body {
    /// The short-circuiting built-ins, which evaluate their arguments themselves.
    And,
    Or,
    /// The built-in `call`, whose message needs the source of its first operand.
    Call,
    Plain(Arc<Implementation>),
}

/// A function that templates can call.
#[derive(Clone)]
pub struct Function {
    pub(crate) name: Cow<'static, str>,
    pub(crate) signature: Signature,
    pub(crate) body: Body,
}

impl Function {
    /// Creates a function from a name and a closure. The closure gets as many arguments as its
    /// signature allows, each of its type.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        signature: Signature,
        implementation: impl Fn(&mut Context<'_>, &[Value]) -> Result<Value, CallError> + Send + Sync + 'static,
    ) -> Function {
        Function { name: name.into(), signature, body: Body::Plain(Arc::new(implementation)) }
    }

    /// Returns the name in templates.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).field("signature", &self.signature).finish()
    }
}

/// Index of a function in its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(usize);

/// The functions that a template may use. Build it once and share it.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    functions: Vec<Function>,
    by_name: HashMap<Cow<'static, str>, FunctionId, foldhash::fast::RandomState>,
}

impl Functions {
    /// Returns an empty registry.
    pub fn none() -> Functions {
        Functions::default()
    }

    /// Adds a function. A function of the same name is replaced.
    pub fn register(&mut self, function: Function) -> &mut Functions {
        match self.by_name.get(&function.name) {
            Some(&FunctionId(at)) => self.functions[at] = function,
            None => {
                self.by_name.insert(function.name.clone(), FunctionId(self.functions.len()));
                self.functions.push(function);
            }
        }
        self
    }

    /// Adds a function from its parts, see [`Function::new`].
    pub fn add(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        signature: Signature,
        implementation: impl Fn(&mut Context<'_>, &[Value]) -> Result<Value, CallError> + Send + Sync + 'static,
    ) -> &mut Functions {
        self.register(Function::new(name, signature, implementation))
    }

    /// Removes a function, so that templates which name it cannot be parsed.
    pub fn remove(&mut self, name: &str) -> &mut Functions {
        self.by_name.remove(name);
        self
    }

    /// Reports whether a function of this name exists.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns all names, in the order of their registration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let known = |id: usize, name: &str| self.find(name) == Some(FunctionId(id));
        self.functions
            .iter()
            .enumerate()
            .filter(move |(id, function)| known(*id, &function.name))
            .map(|(_, f)| f.name())
    }

    pub(crate) fn find(&self, name: &str) -> Option<FunctionId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, id: FunctionId) -> &Function {
        &self.functions[id.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_registration_replaces_an_earlier_one() {
        let mut functions = Functions::builtins();
        let before = functions.names().count();
        functions.add("len", Signature::fixed(&[Type::Any]), |_, _| Ok(Value::str("mine")));
        assert_eq!(functions.names().count(), before);
        functions.add("own", Signature::fixed(&[]), |_, _| Ok(Value::Nil));
        assert!(functions.contains("own") && !functions.contains("other"));
        functions.remove("own");
        assert!(!functions.contains("own") && functions.names().count() == before);
        functions.add("own", Signature::fixed(&[]), |_, _| Ok(Value::Nil));
        assert!(functions.contains("own") && functions.names().count() == before + 1);
    }
}
