use super::scalar::Integer;
use super::{Argument, Sink, Spec, bad_verb, boolean, float, integer, string};

/// An argument of one of the kinds that JSON has, too.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Argument for Scalar {
    fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    fn type_name(&self) -> &str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int64",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
        }
    }

    fn integer(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    fn write(&self, sink: &mut Sink, spec: Spec, verb: char) {
        let fits = match self {
            Self::Nil => false,
            Self::Bool(flag) => boolean(sink, spec, verb, *flag),
            Self::Int(number) => {
                integer(sink, spec, verb, Integer { bits: number.cast_unsigned(), signed: true })
            }
            Self::Float(number) => float(sink, spec, verb, *number),
            Self::Text(text) => string(sink, spec, verb, text.as_bytes()),
        };
        if !fits {
            bad_verb(sink, spec, verb, self);
        }
    }
}
