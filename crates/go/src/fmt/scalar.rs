//! Formatting of scalars under the flags of a directive (`gotemplate.md` 7.2).

use super::{Sink, Spec};
use crate::strconv::{FloatVerb, append_float};
use crate::text;

/// Writes a text padded to the width, counted in characters.
pub(super) fn pad(sink: &mut Sink, spec: Spec, bytes: &[u8]) {
    let width = spec.width.unwrap_or(0);
    let missing = if width == 0 { 0 } else { width.saturating_sub(text::rune_count(bytes)) };
    if spec.minus {
        sink.push(bytes);
        sink.pad(b' ', missing);
    } else {
        sink.pad(spec.padding(), missing);
        sink.push(bytes);
    }
}

fn truncate(spec: Spec, bytes: &[u8]) -> &[u8] {
    match spec.precision {
        None => bytes,
        Some(limit) => &bytes[..text::runes(bytes).take(limit).map(|(_, raw)| raw.len()).sum::<usize>()],
    }
}

/// Writes a string, cut to the precision.
pub fn string(sink: &mut Sink, spec: Spec, bytes: &[u8]) {
    pad(sink, spec, truncate(spec, bytes));
}

pub(super) fn quoted(sink: &mut Sink, spec: Spec, bytes: &[u8]) {
    let bytes = truncate(spec, bytes);
    if spec.sharp && text::can_backquote(bytes) {
        return pad(sink, spec, &[b"`", bytes, b"`"].concat());
    }
    let mut out = Vec::with_capacity(bytes.len() + 2);
    text::quote_into(&mut out, bytes, spec.plus);
    pad(sink, spec, &out);
}

/// Writes `%x` and `%X` of a string: its bytes in hexadecimal.
pub(super) fn hex_bytes(sink: &mut Sink, spec: Spec, bytes: &[u8], upper: bool) {
    let bytes = &bytes[..spec.precision.unwrap_or(bytes.len()).min(bytes.len())];
    if !sink.fits(bytes.len()) {
        return;
    }
    let prefix: &[u8] = match (spec.sharp, upper) {
        (false, _) => b"",
        (true, false) => b"0x",
        (true, true) => b"0X",
    };
    let symbols = symbols(upper);
    let mut out = Vec::with_capacity(2 * bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        if spec.space && index > 0 {
            out.push(b' ');
        }
        if spec.space || index == 0 {
            out.extend_from_slice(prefix);
        }
        out.extend([byte >> 4, byte & 15].map(|digit| symbols[usize::from(digit)]));
    }
    pad(sink, spec, &out);
}

/// Returns the hexadecimal digits, in lower or upper case.
fn symbols(upper: bool) -> &'static [u8; 16] {
    if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" }
}

/// The number base and letters of an integer verb.
#[derive(Clone, Copy, Debug)]
pub struct Radix {
    pub base: u32,
    pub upper: bool,
    /// True for `%O`, which always writes `0o`.
    pub octal_prefix: bool,
}

impl Radix {
    /// The base of `%d` and `%v`.
    pub const DECIMAL: Radix = Radix { base: 10, upper: false, octal_prefix: false };
}

/// An integer as 64 bits, signed or not.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    pub bits: u64,
    pub signed: bool,
}

/// Writes an integer in the digits of a radix.
pub fn integer(sink: &mut Sink, spec: Spec, value: Integer, radix: Radix) {
    let negative = value.signed && value.bits.cast_signed() < 0;
    let magnitude = if negative { value.bits.wrapping_neg() } else { value.bits };
    let mut buffer = [0; 64];
    let digits = write_digits(&mut buffer, magnitude, radix);
    if spec.is_plain() && !radix.octal_prefix {
        sink.push(if negative { b"-" } else { b"" });
        return sink.push(digits);
    }
    let mut min_digits = 0;
    match (spec.precision, spec.width) {
        (Some(0), width) if magnitude == 0 => return sink.pad(b' ', width.unwrap_or(0)),
        (Some(precision), _) => min_digits = precision,
        (None, Some(width)) if spec.zero && !spec.minus => {
            min_digits = width.saturating_sub(usize::from(negative || spec.plus || spec.space));
        }
        (None, _) => {}
    }
    if !sink.fits(min_digits) {
        return;
    }
    let zeros = min_digits.saturating_sub(digits.len());
    let mut out = Vec::with_capacity(zeros + digits.len() + 4);
    match (negative, spec.plus, spec.space) {
        (true, ..) => out.push(b'-'),
        (_, true, _) => out.push(b'+'),
        (_, _, true) => out.push(b' '),
        _ => {}
    }
    if radix.octal_prefix {
        out.extend_from_slice(b"0o");
    }
    match radix.base {
        2 if spec.sharp => out.extend_from_slice(b"0b"),
        8 if spec.sharp && zeros == 0 && !digits.starts_with(b"0") => out.push(b'0'),
        16 if spec.sharp => out.extend_from_slice(if radix.upper { b"0X" } else { b"0x" }),
        _ => {}
    }
    out.resize(out.len() + zeros, b'0');
    out.extend_from_slice(digits);
    pad(sink, Spec { zero: false, ..spec }, &out);
}

/// Writes the digits of a number to the end of the buffer. 64 bytes are enough for base 2.
fn write_digits(buffer: &mut [u8; 64], number: u64, radix: Radix) -> &[u8] {
    let symbols = symbols(radix.upper);
    let base = u64::from(radix.base);
    let (mut rest, mut start) = (number, buffer.len());
    loop {
        start -= 1;
        buffer[start] = symbols[(rest % base) as usize];
        rest /= base;
        if rest == 0 {
            return &buffer[start..];
        }
    }
}

/// Returns the character with this code point, or U+FFFD if there is none.
fn character(bits: u64) -> char {
    u32::try_from(bits).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Writes `%c`: the character with this code point.
pub(super) fn char_of(sink: &mut Sink, spec: Spec, bits: u64) {
    pad(sink, spec, character(bits).encode_utf8(&mut [0; 4]).as_bytes());
}

/// Writes `%q` of an integer.
pub(super) fn quoted_char(sink: &mut Sink, spec: Spec, bits: u64) {
    let mut out = Vec::new();
    text::quote_char_into(&mut out, character(bits), spec.plus);
    pad(sink, spec, &out);
}

/// Writes `%U`: a code point in hexadecimal, such as `U+0041`.
pub(super) fn unicode(sink: &mut Sink, spec: Spec, bits: u64) {
    let digits = spec.precision.unwrap_or(4).max(4);
    if !sink.fits(digits) {
        return;
    }
    let hex = format!("{bits:X}");
    let zeros = "0".repeat(digits.saturating_sub(hex.len()));
    let mut out = format!("U+{zeros}{hex}");
    if spec.sharp
        && let Some(c) = u32::try_from(bits).ok().and_then(char::from_u32)
        && text::is_print(c)
    {
        out.push_str(&format!(" '{c}'"));
    }
    pad(sink, Spec { zero: false, ..spec }, out.as_bytes());
}

/// Pieces (see [`Sink::take_pieces`]) charged for the shortest form of a float, one for each usual
/// digit.
const SHORTEST_DIGITS: usize = 8;
/// Largest number of significant digits of a float; all further ones are zeros, so they cost no
/// work.
const MOST_DIGITS: usize = 1_100;

/// Writes a float. `upper` turns the letters of the layout into capitals.
pub fn float(sink: &mut Sink, spec: Spec, f: f64, verb: FloatVerb, precision: Option<usize>, upper: bool) {
    let precision = spec.precision.or(precision);
    sink.work(precision.map_or(SHORTEST_DIGITS, |digits| digits.min(MOST_DIGITS)));
    if !sink.fits(precision.unwrap_or(0)) {
        return;
    }
    let mut number = Vec::with_capacity(24);
    append_float(&mut number, f, verb, precision);
    if upper && f.is_finite() {
        number.make_ascii_uppercase();
    }
    if !matches!(number.first(), Some(b'-' | b'+')) {
        number.insert(0, b'+');
    }
    if spec.space && number[0] == b'+' && !spec.plus {
        number[0] = b' ';
    }
    if !f.is_finite() {
        let hides_sign = if f.is_nan() { !spec.space && !spec.plus } else { false };
        let shown = if hides_sign { &number[1..] } else { &number[..] };
        return pad(sink, Spec { zero: false, ..spec }, shown);
    }
    if spec.sharp && verb != FloatVerb::Binary {
        keep_point_and_zeros(&mut number, verb, precision, upper);
    }
    if !spec.plus && number[0] == b'+' {
        return pad(sink, spec, &number[1..]);
    }
    match spec.width {
        Some(width) if spec.zero && !spec.minus && width > number.len() => {
            sink.push(&number[..1]);
            sink.pad(b'0', width - number.len());
            sink.push(&number[1..]);
        }
        _ => pad(sink, spec, &number),
    }
}

/// Applies the `#` flag to floats: always a point, and for `%g` the zeros up to the precision.
fn keep_point_and_zeros(number: &mut Vec<u8>, verb: FloatVerb, precision: Option<usize>, upper: bool) {
    let hexadecimal = verb == FloatVerb::Hexadecimal;
    let mut missing = match verb {
        // Go leaves `%X` out of this rule.
        FloatVerb::Hexadecimal if upper => 0,
        FloatVerb::General { .. } | FloatVerb::Hexadecimal => precision.unwrap_or(6),
        _ => 0,
    };
    let is_mark = |b: &u8| matches!(b, b'p' | b'P') || (!hexadecimal && matches!(b, b'e' | b'E'));
    let mark = number.iter().position(is_mark).unwrap_or(number.len());
    let tail = number.split_off(mark);
    let significant =
        number[1..].iter().skip_while(|b| matches!(b, b'0' | b'.')).filter(|&&b| b != b'.').count();
    missing = missing.saturating_sub(significant);
    if !number.contains(&b'.') {
        if number.len() == 2 && number[1] == b'0' {
            missing = missing.saturating_sub(1);
        }
        number.push(b'.');
    }
    number.resize(number.len() + missing, b'0');
    number.extend(tail);
}
