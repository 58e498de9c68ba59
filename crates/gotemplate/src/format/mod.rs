//! Printing values (section 7): the default format, `print`, `println` and `printf`.

pub(crate) mod float;
mod printf;
mod scalar;
mod sink;
mod value;

pub(crate) use float::{FloatVerb, append_float};
pub(crate) use printf::printf;
pub(crate) use sink::Sink;
pub(crate) use value::write_value;

use crate::budget::{Budget, LimitError};
use crate::value::Value;

/// Flags of a directive; all unset for the default format.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spec {
    pub(crate) minus: bool,
    pub(crate) plus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// `%#v`, which `sharp` does not cover because it means something else to other verbs.
    pub(crate) sharp_v: bool,
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
}

impl Spec {
    /// No flag, width or precision.
    fn is_plain(self) -> bool {
        let Spec { plus, sharp, space, width, precision, .. } = self;
        !plus && !sharp && !space && width.is_none() && precision.is_none()
    }

    /// The padding byte: zeros go to the left only.
    fn padding(self) -> u8 {
        if self.zero && !self.minus { b'0' } else { b' ' }
    }
}

/// The value in its default format, as one text.
pub(crate) fn to_bytes(value: &Value, budget: &mut Budget) -> Result<Vec<u8>, LimitError> {
    let mut sink = Sink::new(budget);
    write_value(&mut sink, value);
    finish(sink, budget)
}

/// Ends a text that a function built and accounts for it.
pub(crate) fn finish(sink: Sink, budget: &mut Budget) -> Result<Vec<u8>, LimitError> {
    let bytes = sink.into_bytes()?;
    budget.text(bytes.len())?;
    Ok(bytes)
}

/// Go's `Sprint`: a space between two neighbours that are both no strings.
pub(crate) fn print(sink: &mut Sink, arguments: &[Value]) {
    let mut after_string = true;
    for argument in arguments {
        let is_string = matches!(argument, Value::Str(_));
        if !is_string && !after_string {
            sink.push(b" ");
        }
        write_value(sink, argument);
        after_string = is_string;
    }
}

/// Go's `Sprintln`: a space between all, a newline at the end.
pub(crate) fn println(sink: &mut Sink, arguments: &[Value]) {
    for (index, argument) in arguments.iter().enumerate() {
        if index > 0 {
            sink.push(b" ");
        }
        write_value(sink, argument);
    }
    sink.push(b"\n");
}
