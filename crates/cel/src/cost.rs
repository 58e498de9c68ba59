//! Upper bound on the cost of an expression, computed from its form and the sizes of its inputs,
//! because the interpreter does not count its work.
//!
//! The bound shows texts that double (`[x].map(y, y + y)`) and nested loops long before they run.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use cel::parser::Expression;

/// Bytes that one unit pays for, besides the step itself.
const BYTES_A_UNIT: u64 = 10;

/// Maximum depth of nested loops for which a close bound is computed; deeper loops get a coarse
/// bound.
const DEEPEST_LOOP: usize = 5;

/// An upper bound on the size of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of all texts in the value.
    pub bytes: u64,
    /// Elements, nested ones included.
    pub elements: u64,
}

impl Size {
    /// Returns the size of a text of this many bytes.
    pub fn text(bytes: usize) -> Self {
        Self { bytes: bytes as u64, elements: 1 }
    }

    /// Size of an empty text, or of an empty list as an element.
    const NOTHING: Self = Self { bytes: 0, elements: 1 };

    /// Size of a number or boolean.
    pub const SMALL: Self = Self { bytes: 8, elements: 1 };

    /// Returns the sum of both sizes.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            elements: self.elements.saturating_add(other.elements),
        }
    }

    fn times(self, count: u64) -> Self {
        Self { bytes: self.bytes.saturating_mul(count), elements: self.elements.saturating_mul(count) }
    }

    fn max(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), elements: self.elements.max(other.elements) }
    }
}

/// Sizes of the inputs of an expression.
pub trait Sizes {
    /// Returns the size of a variable: `target`.
    fn variable(&self, name: &str) -> Option<Size>;

    /// Returns the size of a field of a variable: `target.labels`.
    fn field(&self, variable: &str, field: &str) -> Option<Size>;
}

/// Returns the largest number of units that an evaluation may cost.
pub(crate) fn bound(expression: &Expression, sizes: &dyn Sizes) -> u64 {
    let mut meter = Meter { sizes, locals: Vec::new(), loops: 0, units: 0 };
    meter.walk(&expression.expr, 1);
    meter.units
}

struct Meter<'a> {
    sizes: &'a dyn Sizes,
    /// Variables of the enclosing loops, innermost last.
    locals: Vec<(&'a str, Size)>,
    /// Number of enclosing loops.
    loops: usize,
    units: u64,
}

impl<'a> Meter<'a> {
    /// Returns the size of a value that is computed `times` times, and charges its cost.
    fn walk(&mut self, expr: &'a Expr, times: u64) -> Size {
        self.charge(1, times);
        match expr {
            Expr::Unspecified => Size::default(),
            Expr::Literal(LiteralValue::String(text)) => Size::text(text.inner().len()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Size::text(bytes.inner().len()),
            Expr::Literal(_) => Size::SMALL,
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let known = match &select.operand.expr {
                    Expr::Ident(name) if self.local(name).is_none() => self.sizes.field(name, &select.field),
                    _ => None,
                };
                let operand = self.walk(&select.operand.expr, times);
                if select.test { Size::SMALL } else { known.unwrap_or(operand) }
            }
            Expr::List(list) => list.elements.iter().fold(Size::default(), |sum, element| {
                // Each element counts as one, even if it is empty.
                sum.plus(self.walk(&element.expr, times).max(Size::NOTHING))
            }),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr), times),
            Expr::Struct(made) => self.entries(made.entries.iter().map(|entry| &entry.expr), times),
            Expr::Call(call) => {
                let target = call.target.iter().map(AsRef::as_ref);
                let arguments: Vec<Size> =
                    target.chain(&call.args).map(|argument| self.walk(&argument.expr, times)).collect();
                self.call(&call.func_name, &arguments, times)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, times),
        }
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'a EntryExpr>, times: u64) -> Size {
        let mut sum = Size::default();
        for entry in entries {
            let (key, value) = match entry {
                EntryExpr::StructField(field) => (Size::SMALL, self.walk(&field.value.expr, times)),
                EntryExpr::MapEntry(entry) => {
                    (self.walk(&entry.key.expr, times), self.walk(&entry.value.expr, times))
                }
            };
            sum = sum.plus(key).plus(value);
        }
        sum
    }

    fn call(&mut self, function: &str, arguments: &[Size], times: u64) -> Size {
        let sum = arguments.iter().fold(Size::default(), |sum, argument| sum.plus(*argument));
        let first = arguments.first().copied().unwrap_or_default();
        let last = arguments.last().copied().unwrap_or_default();
        let (size, work) = match function {
            "_[_]" => (first, 1),
            // The condition does not belong to the result.
            "_?_:_" => {
                // In a loop, some elements may take one branch and others the other, so both count.
                let either = if self.loops > 0 { Size::plus } else { Size::max };
                (arguments.iter().skip(1).fold(Size::default(), |most, size| either(most, *size)), 1)
            }
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in" | "contains" | "startsWith"
            | "endsWith" => (Size::SMALL, sum.bytes.saturating_add(sum.elements) / BYTES_A_UNIT),
            "_&&_" | "_||_" | "!_" | "@not_strictly_false" | "size" | "type" => (Size::SMALL, 1),
            "matches" => (Size::SMALL, first.bytes.saturating_mul(last.bytes) / BYTES_A_UNIT),
            // The replacement may be inserted at each byte.
            "replace" => paid(Size { bytes: (first.bytes + 1).saturating_mul(last.bytes + 1), elements: 1 }),
            "join" => {
                let between = first.elements.saturating_mul(last.bytes);
                paid(Size { bytes: first.bytes.saturating_add(between), elements: 1 })
            }
            "split" => paid(Size { bytes: first.bytes, elements: first.bytes + 1 }),
            _ => paid(sum),
        };
        self.charge(work, times);
        size
    }

    /// Returns the size of a loop's result. In all macros of the standard library the accumulated
    /// value grows with each iteration.
    fn comprehension(&mut self, made: &'a ComprehensionExpr, times: u64) -> Size {
        let range = self.walk(&made.iter_range.expr, times);
        let start = self.walk(&made.accu_init.expr, times);
        let turns = range.elements.max(1);
        self.loops += 1;
        // All elements together are as large as the range. The cost of a step grows at least in
        // proportion to its element. So the worst case is one iteration with the whole range as its
        // element, and nearly empty elements in the others. Computing that walks through each loop
        // twice, so in deeply nested loops every iteration counts with the whole range instead.
        let steps = if self.loops > DEEPEST_LOOP {
            self.turn(made, range, times.saturating_mul(turns)).times(turns)
        } else {
            let whole = self.turn(made, range, times);
            let others = times.saturating_mul(turns - 1);
            whole.plus(self.turn(made, Size::NOTHING, others).times(turns - 1))
        };
        self.loops -= 1;
        let gathered = start.plus(steps);
        self.charge(gathered.bytes.saturating_add(gathered.elements) / BYTES_A_UNIT, times);
        self.locals.push((&made.accu_var, gathered));
        let result = self.walk(&made.result.expr, times);
        self.locals.pop();
        result
    }

    /// Returns the growth of the accumulated value in an iteration with an element of this size.
    fn turn(&mut self, made: &'a ComprehensionExpr, element: Size, times: u64) -> Size {
        let depth = self.locals.len();
        self.locals.push((&made.iter_var, element));
        if let Some(second) = &made.iter_var2 {
            self.locals.push((second, element));
        }
        self.locals.push((&made.accu_var, Size::default()));
        self.walk(&made.loop_cond.expr, times);
        let step = self.walk(&made.loop_step.expr, times);
        self.locals.truncate(depth);
        step
    }

    fn variable(&self, name: &str) -> Size {
        self.local(name).or_else(|| self.sizes.variable(name)).unwrap_or(Size::SMALL)
    }

    fn local(&self, name: &str) -> Option<Size> {
        self.locals.iter().rev().find(|(local, _)| *local == name).map(|(_, size)| *size)
    }

    fn charge(&mut self, units: u64, times: u64) {
        self.units = self.units.saturating_add(units.saturating_mul(times));
    }
}

/// Returns the size of a newly created value, and the units for its bytes.
fn paid(size: Size) -> (Size, u64) {
    (size, size.bytes.saturating_add(size.elements) / BYTES_A_UNIT)
}
