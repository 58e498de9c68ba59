//! Printing of values under a verb (`gotemplate.md` 7.2): scalars, and containers element by
//! element.

use groundwork_go::fmt::scalar::{self, Integer, Radix};
use groundwork_go::fmt::{self, Argument, FormatError, Sink, Spec, bad_verb, write_argument};
use groundwork_go::strconv::FloatVerb;

use crate::nesting::MAX_DEPTH;
use crate::stack;
use crate::value::{DataNumber, List, Map, Object, Value};

/// Writes a value in the default format, `%v`, without flags.
pub(crate) fn write_value(sink: &mut Sink, value: &Value) {
    match value {
        Value::Str(s) => sink.push(s),
        other => write_argument(sink, Spec::default(), 'v', other),
    }
}

impl Argument for Value {
    fn is_nil(&self) -> bool {
        Value::is_nil(self)
    }

    fn type_name(&self) -> &str {
        Value::type_name(self)
    }

    fn integer(&self) -> Option<i64> {
        self.as_integer().and_then(|number| i64::try_from(number).ok())
    }

    fn write(&self, sink: &mut Sink, spec: Spec, verb: char) {
        match (self, verb) {
            (_, 'p') | (Value::List(_) | Value::Map(_) | Value::Object(_), 'w') => {
                bad_verb(sink, spec, verb, self);
            }
            _ => write_at(sink, spec, verb, self, 0),
        }
    }

    fn write_in_complaint(&self, sink: &mut Sink, spec: Spec) {
        match self {
            // For a verb that does not fit, Go's complaint shows the number of a `time.Month`, not
            // its name.
            Value::Object(object) if object.integer().is_some() => {
                let number = object.integer().unwrap_or_default();
                write_at(sink, spec, 'v', &Value::int64(number), 0);
            }
            _ => write_at(sink, spec, 'v', self, 0),
        }
    }
}

fn write_at(sink: &mut Sink, spec: Spec, verb: char, value: &Value, depth: usize) {
    match value {
        Value::Absent | Value::Nil => sink.push(if spec.sharp_v { b"interface {}(nil)" } else { b"<nil>" }),
        Value::Bool(b) => {
            if !fmt::boolean(sink, spec, verb, *b) {
                bad_verb(sink, spec, verb, value);
            }
        }
        Value::Int(kind, bits) => {
            let signed = !kind.is_unsigned();
            write_integer(sink, spec, verb, Integer { bits: bits.cast_unsigned(), signed }, value);
        }
        Value::Float(f) => write_float(sink, spec, verb, *f, value),
        Value::Number(number) => write_number(sink, spec, verb, *number, value),
        Value::Complex(re, im) => write_complex(sink, spec, verb, (*re, *im), value),
        Value::Str(s) => write_string(sink, spec, verb, s, value),
        Value::Bytes(bytes) => write_bytes(sink, spec, verb, bytes, value, depth),
        Value::List(list) => nested(sink, depth, |sink| write_list(sink, spec, verb, list, depth)),
        Value::Map(map) => nested(sink, depth, |sink| write_map(sink, spec, verb, map, depth)),
        Value::Object(object) => match object.integer() {
            Some(number) if spec.sharp_v || !matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') => {
                let integer = Integer { bits: number.cast_unsigned(), signed: true };
                write_integer(sink, spec, verb, integer, value);
            }
            _ => write_object(sink, spec, verb, &**object, value, depth),
        },
    }
}

/// Writes an object by its text, or by its fields for the verbs with which Go ignores the text.
fn write_object(sink: &mut Sink, spec: Spec, verb: char, object: &dyn Object, value: &Value, depth: usize) {
    if spec.sharp_v
        && let Some(text) = object.go_text()
    {
        return scalar::string(sink, spec, text.as_bytes());
    }
    let is_pointer = object.kind_name() == "ptr";
    let fields = object.fields();
    let by_text = !spec.sharp_v && !object.prints_fields() && matches!(verb, 'v' | 's' | 'q' | 'x' | 'X');
    // Go prints a pointer inside a container as its address, which differs from run to run. The
    // text of the object is stable and more useful.
    if by_text || fields.is_empty() || (is_pointer && depth > 0) {
        return write_string(sink, spec, verb, object.text().as_bytes(), value);
    }
    if is_pointer {
        sink.push(b"&");
    }
    if spec.sharp_v {
        sink.push(object.type_name().trim_start_matches('*').as_bytes());
    }
    sink.push(b"{");
    for (index, (name, field)) in fields.iter().enumerate() {
        if index > 0 {
            sink.push(if spec.sharp_v { b", " } else { b" " });
        }
        if spec.sharp_v {
            sink.push(name.as_bytes());
            sink.push(b":");
        }
        write_at(sink, spec, verb, field, depth + 1);
    }
    sink.push(b"}");
}

/// Guards one level of nesting. A sink that has failed skips deeper levels.
fn nested(sink: &mut Sink, depth: usize, write: impl FnOnce(&mut Sink)) {
    if depth > MAX_DEPTH {
        sink.fail(FormatError::Depth);
    }
    if sink.error().is_none() {
        stack::guarded(|| write(sink));
    }
}

fn write_integer(sink: &mut Sink, spec: Spec, verb: char, integer: Integer, value: &Value) {
    if !fmt::integer(sink, spec, verb, integer) {
        bad_verb(sink, spec, verb, value);
    }
}

fn write_float(sink: &mut Sink, spec: Spec, verb: char, f: f64, value: &Value) {
    if !fmt::float(sink, spec, verb, f) {
        bad_verb(sink, spec, verb, value);
    }
}

/// Writes a data number (`blueprints.md` 5.2): integer verbs format its integer, `%v` and `%s`
/// print it in decimal.
fn write_number(sink: &mut Sink, spec: Spec, verb: char, number: DataNumber, value: &Value) {
    let is_negative_zero = number.as_f64() == 0.0 && number.as_f64().is_sign_negative();
    let integer = number.integral().filter(|_| !is_negative_zero).map(|i| Integer {
        // An integral data number fits either an i64 or a u64, so the cast keeps its bits.
        bits: i as u64,
        signed: i < 0 || i64::try_from(i).is_ok(),
    });
    match (verb, integer) {
        ('v' | 's', Some(integer)) => scalar::integer(sink, spec, integer, Radix::DECIMAL),
        ('v' | 's', None) => {
            let layout = FloatVerb::General { exponent_from: 21 };
            scalar::float(sink, spec, number.as_f64(), layout, None, false);
        }
        ('d' | 'x' | 'X' | 'o' | 'O' | 'b' | 'c' | 'U' | 'q', Some(integer)) => {
            write_integer(sink, spec, verb, integer, value);
        }
        _ => write_float(sink, spec, verb, number.as_f64(), value),
    }
}

fn write_complex(sink: &mut Sink, spec: Spec, verb: char, (re, im): (f64, f64), value: &Value) {
    if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
        return bad_verb(sink, spec, verb, value);
    }
    sink.push(b"(");
    write_float(sink, spec, verb, re, value);
    write_float(sink, Spec { plus: true, ..spec }, verb, im, value);
    sink.push(b"i)");
}

fn write_string(sink: &mut Sink, spec: Spec, verb: char, bytes: &[u8], value: &Value) {
    if !fmt::string(sink, spec, verb, bytes) {
        bad_verb(sink, spec, verb, value);
    }
}

fn write_bytes(sink: &mut Sink, spec: Spec, verb: char, bytes: &[u8], value: &Value, depth: usize) {
    if matches!(verb, 's' | 'x' | 'X' | 'q') {
        return write_string(sink, spec, verb, bytes, value);
    }
    let items: Vec<Value> =
        bytes.iter().map(|&b| Value::Int(crate::value::IntKind::Uint8, i64::from(b))).collect();
    // Go prints the alias `[]byte` at the top level only, and `[]uint8` inside containers.
    let type_name = if depth == 0 { "[]byte" } else { "[]uint8" };
    write_items(sink, spec, verb, type_name, &items, depth);
}

fn write_list(sink: &mut Sink, spec: Spec, verb: char, list: &List, depth: usize) {
    let type_name = list.type_name();
    if spec.sharp_v && list.is_nil() {
        sink.push(type_name.as_bytes());
        return sink.push(b"(nil)");
    }
    write_items(sink, spec, verb, type_name, list.items(), depth);
}

fn write_items(sink: &mut Sink, spec: Spec, verb: char, type_name: &str, items: &[Value], depth: usize) {
    let (open, separator, close): (&[u8], &[u8], &[u8]) =
        if spec.sharp_v { (b"{", b", ", b"}") } else { (b"[", b" ", b"]") };
    if spec.sharp_v {
        sink.push(type_name.as_bytes());
    }
    sink.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            sink.push(separator);
        }
        write_at(sink, spec, verb, item, depth + 1);
    }
    sink.push(close);
}

fn write_map(sink: &mut Sink, spec: Spec, verb: char, map: &Map, depth: usize) {
    if spec.sharp_v {
        sink.push(map.type_name().as_bytes());
        if map.is_nil() {
            return sink.push(b"(nil)");
        }
    }
    sink.push(if spec.sharp_v { b"{" } else { b"map[" });
    for (index, (key, value)) in map.entries().into_iter().enumerate() {
        if index > 0 {
            sink.push(if spec.sharp_v { b", " } else { b" " });
        }
        write_at(sink, spec, verb, &Value::Str(key), depth + 1);
        sink.push(b":");
        write_at(sink, spec, verb, &value, depth + 1);
    }
    sink.push(if spec.sharp_v { b"}" } else { b"]" });
}
