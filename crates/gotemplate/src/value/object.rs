//! Host objects: opaque values with fields and methods.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use super::Value;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::{Signature, Type};

/// The meaning of a name on an object (`gotemplate.md` 5.2).
#[derive(Debug)]
pub enum Member {
    /// A field, or a method without parameters whose result is already known.
    Field(Value),
    /// A method, called through [`Object::call`] after its arguments were checked.
    Method(Signature),
    /// A method that templates cannot call, with Go's reason.
    Unusable(String),
}

/// A value whose type belongs to the host, such as a file information record.
pub trait Object: fmt::Debug {
    /// Returns the Go type name, such as `time.Time`.
    fn type_name(&self) -> &str;

    /// Returns the Go kind name. Most objects are structs in Go.
    fn kind_name(&self) -> &str {
        "struct"
    }

    /// Returns the field or method with this name.
    fn member(&self, name: &str) -> Option<Member>;

    /// Calls a method that [`Object::member`] returned.
    fn call(&self, context: &mut Context<'_>, method: &str, arguments: &[Value]) -> Result<Value, CallError>;

    /// Returns the number of a named integer type such as `time.Month`; other objects have none.
    fn integer(&self) -> Option<i64> {
        None
    }

    /// Returns the text of `%v` and `%s`.
    fn text(&self) -> String;

    /// Returns the text of `%#v`, if the type has one of its own.
    fn go_text(&self) -> Option<String> {
        None
    }

    /// Returns the text that an action prints for a struct value inside its owner. Go takes the
    /// address of the struct there, so it prints the text of the pointer's `String` method, which
    /// the value alone does not have.
    fn text_in_place(&self) -> Option<String> {
        None
    }

    /// Returns the copy that a function gets of a struct value inside its owner: it lacks the
    /// methods of its pointer.
    fn copied(&self) -> Option<Rc<dyn Object>> {
        None
    }

    /// Returns names and values of the fields, also of those that templates cannot reach. Verbs
    /// without a text show the fields. By default there are no fields, and those verbs print Go's
    /// complaint `%!verb(type=value)`.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Reports whether the type has no text of its own in Go, so that every verb prints its fields.
    fn prints_fields(&self) -> bool {
        false
    }

    /// Returns the value in JSON, by default the text.
    fn json(&self) -> Value {
        Value::from(self.text())
    }

    /// Returns the members in JSON, in their order, if the type has no JSON of its own in Go.
    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        None
    }

    /// Compares as Go's `==`; `other` may be any object.
    fn equals(&self, other: &dyn Object) -> bool;

    /// Compares as Go's `reflect.DeepEqual`, which follows pointers.
    fn deep_equals(&self, other: &dyn Object) -> bool {
        self.equals(other)
    }

    /// Returns the object for downcasts, in functions and in [`Object::equals`].
    fn as_any(&self) -> &dyn Any;
}

impl Member {
    /// Creates a method without parameters.
    pub fn getter() -> Member {
        Member::Method(Signature::fixed(&[]))
    }

    /// Creates a method with the given parameters.
    pub fn method(parameters: &'static [Type]) -> Member {
        Member::Method(Signature::fixed(parameters))
    }
}
