//! Go's `fmt.Sprintf` for every type that implements [`Argument`] (`gotemplate.md` 7.2).

mod argument;
mod printf;
pub mod scalar;
mod sink;
mod verb;

pub use argument::Scalar;
pub use printf::printf;
pub use sink::{FormatError, Sink};
pub use verb::{boolean, float, integer, string};

use crate::text;

/// Flags of a directive; all unset for the default format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spec {
    pub minus: bool,
    pub plus: bool,
    pub sharp: bool,
    pub space: bool,
    pub zero: bool,
    /// True for `%#v`. `sharp` does not cover it, because `#` means something else to other verbs.
    pub sharp_v: bool,
    pub width: Option<usize>,
    pub precision: Option<usize>,
}

impl Spec {
    /// Reports whether there is no flag, width or precision.
    fn is_plain(self) -> bool {
        let Spec { plus, sharp, space, width, precision, .. } = self;
        !plus && !sharp && !space && width.is_none() && precision.is_none()
    }

    /// Returns the padding byte. Zeros are used on the left only.
    fn padding(self) -> u8 {
        if self.zero && !self.minus { b'0' } else { b' ' }
    }
}

/// A value that a directive can print.
pub trait Argument {
    /// Reports whether this is Go's nil interface, which has no type.
    fn is_nil(&self) -> bool;

    /// Returns the name of the type, as `%T` and complaints such as `%!d(string=a)` show it.
    fn type_name(&self) -> &str;

    /// Returns the number, if this is an integer that can be used for a `*`.
    fn integer(&self) -> Option<i64>;

    /// Writes the value, which is not nil, under any verb except `T`. If the verb does not fit, it
    /// writes [`bad_verb`].
    fn write(&self, sink: &mut Sink, spec: Spec, verb: char);

    /// Writes the value inside a complaint, see [`bad_verb`].
    fn write_in_complaint(&self, sink: &mut Sink, spec: Spec) {
        self.write(sink, spec, 'v');
    }
}

/// Writes an argument of a directive.
pub fn write_argument<A: Argument>(sink: &mut Sink, spec: Spec, verb: char, argument: &A) {
    match verb {
        'T' | 'v' if argument.is_nil() => scalar::pad(sink, spec, b"<nil>"),
        _ if argument.is_nil() => bad_verb(sink, spec, verb, argument),
        'T' => scalar::string(sink, spec, argument.type_name().as_bytes()),
        _ => argument.write(sink, spec, verb),
    }
}

/// Writes Go's complaint about a verb that does not fit: `%!verb(type=value)`, the value with the
/// flags of the directive.
pub fn bad_verb<A: Argument>(sink: &mut Sink, spec: Spec, verb: char, argument: &A) {
    sink.push(format!("%!{verb}(").as_bytes());
    if argument.is_nil() {
        sink.push(b"<nil>");
    } else {
        sink.push(argument.type_name().as_bytes());
        sink.push(b"=");
        argument.write_in_complaint(sink, spec);
    }
    sink.push(b")");
}

/// Returns the formatted text, or `None` if it would have more than `limit` bytes.
pub fn sprintf<A: Argument>(format: &str, arguments: &[A], limit: usize) -> Option<String> {
    let mut sink = Sink::new(limit);
    printf(&mut sink, format.as_bytes(), arguments);
    let bytes = sink.into_bytes().ok()?;
    Some(String::from_utf8(bytes).unwrap_or_else(|error| text::lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests;
