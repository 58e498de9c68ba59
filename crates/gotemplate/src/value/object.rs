//! Host objects: opaque values with fields and methods.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use super::Value;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::{Signature, Type};

/// What a name means on an object (section 5.2).
#[derive(Debug)]
pub enum Member {
    /// A field, or anything that takes no arguments and is already at hand.
    Field(Value),
    /// A method, called through [`Object::call`] after its arguments were checked.
    Method(Signature),
    /// A method that templates cannot call, with Go's reason.
    Unusable(String),
}

/// A value whose type belongs to the host, such as a file information record.
pub trait Object: fmt::Debug {
    /// The Go type name, e.g. `time.Time`.
    fn type_name(&self) -> &str;

    /// The Go kind name; objects usually stand for structs.
    fn kind_name(&self) -> &str {
        "struct"
    }

    /// The field or method with this name.
    fn member(&self, name: &str) -> Option<Member>;

    /// Calls a method that [`Object::member`] announced.
    fn call(&self, context: &mut Context<'_>, method: &str, arguments: &[Value]) -> Result<Value, CallError>;

    /// The number behind a named integer type such as `time.Month`; others have none.
    fn integer(&self) -> Option<i64> {
        None
    }

    /// The text of `%v` and `%s`.
    fn text(&self) -> String;

    /// The text of `%#v`, of types that have one of their own.
    fn go_text(&self) -> Option<String> {
        None
    }

    /// What an action prints of a value that still is part of its owner, whose pointer has a text that the value has not.
    fn text_in_place(&self) -> Option<String> {
        None
    }

    /// What an argument becomes of a value that still is part of its owner: a copy, without the methods of its pointer.
    fn copied(&self) -> Option<Rc<dyn Object>> {
        None
    }

    /// Names and values of the fields, also those that templates cannot reach. Verbs that the text does not answer show
    /// them; the default is none, and a complaint about the verb.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Whether the type has no text of its own in Go, so that every verb goes to its fields.
    fn prints_fields(&self) -> bool {
        false
    }

    /// The value that JSON shows; by default the text.
    fn json(&self) -> Value {
        Value::from(self.text())
    }

    /// The members that JSON shows, in their order, of a type that has no JSON of its own in Go.
    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        None
    }

    /// Go's `==`, where `other` may be any object.
    fn equals(&self, other: &dyn Object) -> bool;

    /// Go's `reflect.DeepEqual`, which looks behind pointers.
    fn deep_equals(&self, other: &dyn Object) -> bool {
        self.equals(other)
    }

    /// For downcasts in functions and in [`Object::equals`].
    fn as_any(&self) -> &dyn Any;
}

impl Member {
    /// A method without parameters.
    pub fn getter() -> Member {
        Member::Method(Signature::fixed(&[]))
    }

    /// A method with the given parameters.
    pub fn method(parameters: &'static [Type]) -> Member {
        Member::Method(Signature::fixed(parameters))
    }
}
