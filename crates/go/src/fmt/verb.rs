//! Formatting of scalars by verb (`gotemplate.md` 7.2). Each function returns whether the verb
//! fits; if it does not, the function writes no output.

use super::scalar::{self, Integer, Radix};
use super::{Sink, Spec};
use crate::strconv::FloatVerb;

/// Writes a bool. Returns false if the verb is not for bools.
pub fn boolean(sink: &mut Sink, spec: Spec, verb: char, value: bool) -> bool {
    let fits = matches!(verb, 't' | 'v');
    if fits {
        scalar::pad(sink, spec, if value { b"true" } else { b"false" });
    }
    fits
}

/// Writes an integer. Returns false if the verb is not for integers.
pub fn integer(sink: &mut Sink, spec: Spec, verb: char, integer: Integer) -> bool {
    let radix = |base, upper| Radix { base, upper, octal_prefix: verb == 'O' };
    match verb {
        'v' if spec.sharp_v && !integer.signed => {
            scalar::integer(sink, Spec { sharp: true, ..spec }, integer, radix(16, false));
        }
        'v' | 'd' => scalar::integer(sink, spec, integer, Radix::DECIMAL),
        'b' => scalar::integer(sink, spec, integer, radix(2, false)),
        'o' | 'O' => scalar::integer(sink, spec, integer, radix(8, false)),
        'x' => scalar::integer(sink, spec, integer, radix(16, false)),
        'X' => scalar::integer(sink, spec, integer, radix(16, true)),
        'c' => scalar::char_of(sink, spec, integer.bits),
        'q' => scalar::quoted_char(sink, spec, integer.bits),
        'U' => scalar::unicode(sink, spec, integer.bits),
        _ => return false,
    }
    true
}

/// Writes a float. Returns false if the verb is not for floats.
pub fn float(sink: &mut Sink, spec: Spec, verb: char, f: f64) -> bool {
    let (layout, precision) = match verb {
        'v' | 'g' | 'G' => (FloatVerb::GENERAL, None),
        'b' => (FloatVerb::Binary, None),
        'x' | 'X' => (FloatVerb::Hexadecimal, None),
        'e' | 'E' => (FloatVerb::Exponent, Some(6)),
        'f' | 'F' => (FloatVerb::Decimal, Some(6)),
        _ => return false,
    };
    scalar::float(sink, spec, f, layout, precision, matches!(verb, 'E' | 'G' | 'X'));
    true
}

/// Writes a string of bytes. Returns false if the verb is not for strings.
pub fn string(sink: &mut Sink, spec: Spec, verb: char, bytes: &[u8]) -> bool {
    match verb {
        'v' if spec.sharp_v => scalar::quoted(sink, spec, bytes),
        'v' | 's' => scalar::string(sink, spec, bytes),
        'x' | 'X' => scalar::hex_bytes(sink, spec, bytes, verb == 'X'),
        'q' => scalar::quoted(sink, spec, bytes),
        _ => return false,
    }
    true
}
