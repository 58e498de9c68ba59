//! The formatting by `printf`: directives, arguments, and complaints in the output (`gotemplate.md`
//! 7.2).

use super::{Argument, Sink, Spec, write_argument};
use crate::text;

/// Largest width or precision that Go accepts (`gotemplate.md` 7.2).
const MAX_NUMBER: i64 = 1_000_000;

/// Formats the arguments.
pub fn printf<A: Argument>(sink: &mut Sink, format: &[u8], arguments: &[A]) {
    let mut printer = Printer {
        format,
        arguments,
        at: 0,
        next_argument: 0,
        reordered: false,
        index_ok: true,
        spec: Spec::default(),
    };
    while printer.at < format.len() {
        let rest = &format[printer.at..];
        let Some(percent) = rest.iter().position(|&b| b == b'%') else {
            sink.push(rest);
            break;
        };
        sink.push(&rest[..percent]);
        printer.at += percent + 1;
        printer.directive(sink);
    }
    printer.extra_arguments(sink);
}

struct Printer<'p, A> {
    format: &'p [u8],
    arguments: &'p [A],
    at: usize,
    next_argument: usize,
    /// True if an explicit index was used somewhere; then unused arguments are not a mistake.
    reordered: bool,
    /// True if the explicit indexes of this directive are valid.
    index_ok: bool,
    spec: Spec,
}

impl<A: Argument> Printer<'_, A> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    fn directive(&mut self, sink: &mut Sink) {
        self.spec = Spec::default();
        self.index_ok = true;
        self.flags();
        let mut after_index = self.argument_index();
        self.width(sink, &mut after_index);
        if self.at + 1 < self.format.len() && self.peek() == Some(b'.') {
            self.at += 1;
            self.precision(sink, &mut after_index);
        }
        if !after_index {
            self.argument_index();
        }
        self.verb(sink);
    }

    fn flags(&mut self) {
        while let Some(flag) = self.peek() {
            match flag {
                b'#' => self.spec.sharp = true,
                b'0' => self.spec.zero = true,
                b'+' => self.spec.plus = true,
                b'-' => self.spec.minus = true,
                b' ' => self.spec.space = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    fn width(&mut self, sink: &mut Sink, after_index: &mut bool) {
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.integer_argument() {
                Some(width) => {
                    self.spec.width = usize::try_from(width.unsigned_abs()).ok();
                    if width < 0 {
                        self.spec.minus = true;
                        self.spec.zero = false;
                    }
                }
                None => sink.push(b"%!(BADWIDTH)"),
            }
            *after_index = false;
            return;
        }
        self.spec.width = self.number();
        if *after_index && self.spec.width.is_some() {
            self.index_ok = false;
        }
    }

    fn precision(&mut self, sink: &mut Sink, after_index: &mut bool) {
        if *after_index {
            self.index_ok = false;
        }
        *after_index = self.argument_index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            self.spec.precision =
                self.integer_argument().and_then(|precision| usize::try_from(precision).ok());
            if self.spec.precision.is_none() {
                sink.push(b"%!(BADPREC)");
            }
            *after_index = false;
        } else {
            self.spec.precision = Some(self.number().unwrap_or(0));
        }
    }

    /// Reads digits. A number that is too large ends the whole format.
    fn number(&mut self) -> Option<usize> {
        let mut number: Option<i64> = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            let value = number.unwrap_or(0);
            if value > MAX_NUMBER {
                self.at = self.format.len();
                return None;
            }
            number = Some(value * 10 + i64::from(digit - b'0'));
            self.at += 1;
        }
        number.and_then(|value| usize::try_from(value).ok())
    }

    /// Returns the value of `*`.
    fn integer_argument(&mut self) -> Option<i64> {
        let argument = self.arguments.get(self.next_argument)?;
        self.next_argument += 1;
        let number = argument.integer()?;
        (number.unsigned_abs() <= MAX_NUMBER.unsigned_abs()).then_some(number)
    }

    /// Reads `[n]`. Returns whether there was a well-formed index.
    fn argument_index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.at..];
        let close = if rest.len() < 3 { None } else { rest[1..].iter().position(|&b| b == b']') };
        let Some(close) = close else {
            self.at += 1;
            self.index_ok = false;
            return false;
        };
        let index = std::str::from_utf8(&rest[1..=close]).ok().and_then(parse_index);
        self.at += close + 2;
        match index {
            Some(index) if (1..=self.arguments.len()).contains(&index) => self.next_argument = index - 1,
            Some(_) => self.index_ok = false,
            None => {
                self.index_ok = false;
                return false;
            }
        }
        true
    }

    fn verb(&mut self, sink: &mut Sink) {
        let Some((verb, width)) = text::decode(&self.format[self.at..]) else {
            return sink.push(b"%!(NOVERB)");
        };
        self.at += width;
        let verb = verb.unwrap_or(char::REPLACEMENT_CHARACTER);
        if verb == '%' {
            return sink.push(b"%");
        }
        if !self.index_ok {
            return sink.push(format!("%!{verb}(BADINDEX)").as_bytes());
        }
        let Some(argument) = self.arguments.get(self.next_argument) else {
            return sink.push(format!("%!{verb}(MISSING)").as_bytes());
        };
        if matches!(verb, 'v' | 'w') {
            self.spec.sharp_v = self.spec.sharp;
            self.spec.sharp = false;
            self.spec.plus = false;
        }
        write_argument(sink, self.spec, verb, argument);
        self.next_argument += 1;
    }

    fn extra_arguments(&mut self, sink: &mut Sink) {
        if self.reordered || self.next_argument >= self.arguments.len() {
            return;
        }
        sink.push(b"%!(EXTRA ");
        for (index, argument) in self.arguments[self.next_argument..].iter().enumerate() {
            if index > 0 {
                sink.push(b", ");
            }
            sink.push(argument.type_name().as_bytes());
            if !argument.is_nil() {
                sink.push(b"=");
                write_argument(sink, Spec::default(), 'v', argument);
            }
        }
        sink.push(b")");
    }
}

/// Reads an index. Only digits make an index; a number that is too large does not.
fn parse_index(digits: &str) -> Option<usize> {
    let valid = !digits.is_empty() && digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if valid { digits.parse().ok() } else { None }
}
