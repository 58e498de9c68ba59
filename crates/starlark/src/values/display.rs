//! Texts of values, as `str` and `repr` return them.

use std::fmt::Write as _;
use std::rc::Rc;

use groundwork_go::text::quote;

use super::{Heap, MOST_LEVELS, Value, ViewKind};
use crate::fault::Fault;

/// Returns the text of a float, which always shows that it is one.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+inf" } else { "-inf" }.to_owned();
    }
    let text = groundwork_go::strconv::format_g(value);
    if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
}

impl Heap {
    /// Returns the text that `str` makes of a value.
    pub(crate) fn shown(&self, value: &Value) -> Result<Rc<str>, Fault> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            Value::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into()),
            _ => Ok(self.repr(value)?.into()),
        }
    }

    /// Returns the text that `repr` makes of a value.
    pub(crate) fn repr(&self, value: &Value) -> Result<String, Fault> {
        let mut writer = Writer { heap: self, out: String::new(), counted: 0, open: Vec::new() };
        writer.push(value)?;
        Ok(writer.out)
    }
}

struct Writer<'a> {
    heap: &'a Heap,
    out: String,
    /// Bytes of `out` that are counted.
    counted: usize,
    /// Lists and dicts around the value that is written.
    open: Vec<(&'static str, usize)>,
}

impl Writer<'_> {
    fn push(&mut self, value: &Value) -> Result<(), Fault> {
        self.heap.allocate(self.out.len() - self.counted)?;
        self.counted = self.out.len();
        let heap = self.heap;
        match value {
            Value::None => self.out.push_str("None"),
            Value::Bool(truth) => self.out.push_str(if *truth { "True" } else { "False" }),
            Value::Int(value) => {
                heap.spend(value.words().saturating_mul(value.words()))?;
                self.write(format_args!("{value}"));
            }
            Value::Float(value) => self.out.push_str(&float_text(*value)),
            Value::Text(text) => {
                heap.allocate(text.len())?;
                self.out.push_str(&quote(text.as_bytes()));
            }
            Value::Bytes(bytes) => {
                heap.allocate(bytes.len())?;
                self.out.push('b');
                self.out.push_str(&quote(bytes));
            }
            Value::Tuple(id) => {
                let items = heap.tuple(*id);
                let close = if items.len() == 1 { ",)" } else { ")" };
                self.nested(value, *id, ["(", close], |writer| writer.items(items))?;
            }
            Value::List(id) => self.nested(value, *id, ["[", "]"], |writer| writer.items(heap.list(*id)))?,
            Value::Dict(id) => self.nested(value, *id, ["{", "}"], |writer| {
                for (at, (name, value)) in heap.table(*id).iter().enumerate() {
                    writer.out.push_str(if at > 0 { ", " } else { "" });
                    writer.push(name)?;
                    writer.out.push_str(": ");
                    writer.push(value)?;
                }
                Ok(())
            })?,
            Value::Set(id) => self.nested(value, *id, ["set([", "])"], |writer| {
                for (at, name) in heap.table(*id).keys().enumerate() {
                    writer.out.push_str(if at > 0 { ", " } else { "" });
                    writer.push(name)?;
                }
                Ok(())
            })?,
            _ => self.fixed(value)?,
        }
        Ok(())
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(text);
    }

    /// Writes a value without inner values, or with few.
    fn fixed(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Range(range) if range.step != 1 => {
                self.write(format_args!("range({}, {}, {})", range.start, range.stop, range.step));
            }
            Value::Range(range) if range.start != 0 => {
                self.write(format_args!("range({}, {})", range.start, range.stop));
            }
            Value::Range(range) => self.write(format_args!("range({})", range.stop)),
            Value::View(view) => {
                self.push(&view.of)?;
                let name =
                    if matches!(view.of, Value::Bytes(_)) { ViewKind::Elems } else { view.kind }.name();
                self.write(format_args!(".{name}()"));
            }
            Value::Function(id) => {
                let name = self.heap.closure(*id).function.name.clone();
                self.write(format_args!("<function {name}>"));
            }
            Value::Native(native) => self.write(format_args!("<built-in function {}>", native.name)),
            Value::Bound(bound) => {
                let (of, method) = (bound.0.kind(), bound.1.name);
                self.write(format_args!("<built-in method {method} of {of} value>"));
            }
            Value::Module(module) => self.write(format_args!("<module \"{}\">", module.name)),
            Value::Struct(of) => {
                self.out.push_str("struct(");
                for (at, (name, value)) in of.fields.iter().enumerate() {
                    self.write(format_args!("{}{name} = ", if at > 0 { ", " } else { "" }));
                    self.push(value)?;
                }
                self.out.push(')');
            }
            Value::Pattern(pattern) => self.out.push_str(pattern.regex().as_str()),
            Value::Time(time) => self.out.push_str(&time.text()),
            Value::Duration(duration) => self.out.push_str(&groundwork_go::duration::text(*duration)),
            _ => {}
        }
        Ok(())
    }

    fn items(&mut self, items: &[Value]) -> Result<(), Fault> {
        for (at, item) in items.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            self.push(item)?;
        }
        Ok(())
    }

    /// Writes a value that contains others; one that contains itself is cut short.
    fn nested(
        &mut self,
        value: &Value,
        id: usize,
        [open, close]: [&str; 2],
        inner: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let place = (value.kind(), id);
        if self.open.contains(&place) {
            self.out.push_str(match value {
                Value::Dict(_) => "{...}",
                Value::Set(_) => "set([...])",
                Value::Tuple(_) => "(...)",
                _ => "[...]",
            });
            return Ok(());
        }
        if self.open.len() >= MOST_LEVELS {
            return Err(Heap::too_deep());
        }
        self.open.push(place);
        self.out.push_str(open);
        crate::stack::deeper(|| inner(self))?;
        self.out.push_str(close);
        self.open.pop();
        Ok(())
    }
}
