//! Named types of a host, such as Go's `type Values map[string]any` with methods.

use std::fmt;

use super::Value;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::Signature;

/// A Go type with a name and methods of its own, whose values are maps or lists. As in Go, the name
/// belongs to the reference: a template can reach the same map as a value of this type, or plain.
pub struct NamedType {
    /// The name as `%T` prints it.
    pub name: &'static str,
    /// Returns the parameters of a method. Methods come before keys of the same name.
    pub method: fn(&str) -> Option<Signature>,
    /// Calls a method on a value of this type, after its arguments were checked.
    pub call: fn(&mut Context<'_>, &Value, &str, &[Value]) -> Result<Value, CallError>,
}

impl fmt::Debug for NamedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Reports whether both are the same type; `None` is the plain type.
pub(crate) fn same_type(a: Option<&'static NamedType>, b: Option<&'static NamedType>) -> bool {
    a.map(|named| named.name) == b.map(|named| named.name)
}
