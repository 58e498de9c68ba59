//! Layouts of times, which are examples of the reference time, and printing by them.

use super::instant::{Instant, Wall};
use super::{MONTHS, WEEKDAYS};

/// The notation of an offset from Greenwich.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// True if an offset of zero is written as `Z`.
    pub(super) zulu: bool,
    pub(super) colon: bool,
    /// Number of parts that are written, out of hour, minute, second.
    pub(super) parts: usize,
}

/// A part of a layout that is replaced by a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumericMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperHalf,
    LowerHalf,
    Abbreviation,
    Offset(Offset),
    /// A fixed number of digits behind the separator.
    Fraction {
        separator: u8,
        digits: usize,
    },
    /// Digits without trailing zeros, or no text for zero.
    TrimmedFraction {
        separator: u8,
        digits: usize,
    },
}

/// A layout split into its literal beginning, the first element with its text, and the rest.
pub(super) struct Chunk<'l> {
    pub(super) prefix: &'l [u8],
    pub(super) element: Option<(Element, &'l [u8])>,
    pub(super) rest: &'l [u8],
}

/// Notations of offsets, longer ones first.
const OFFSETS: [(&[u8], bool, usize); 5] = [
    (b"070000", false, 3),
    (b"07:00:00", true, 3),
    (b"0700", false, 2),
    (b"07:00", true, 2),
    (b"07", false, 1),
];

pub(super) fn next(layout: &[u8]) -> Chunk<'_> {
    for at in 0..layout.len() {
        if let Some((skip, element, length)) = element(&layout[at..]) {
            let (begin, end) = (at + skip, at + skip + length);
            return Chunk {
                prefix: &layout[..begin],
                element: Some((element, &layout[begin..end])),
                rest: &layout[end..],
            };
        }
    }
    Chunk { prefix: layout, element: None, rest: b"" }
}

/// Returns the element at the start of the text: the number of bytes before it that are literal in
/// any case, the element, and its length.
fn element(text: &[u8]) -> Option<(usize, Element, usize)> {
    use Element as E;
    let lower_follows = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
    let plain = |element, length| Some((0, element, length));
    match text {
        [b'J', b'a', b'n', b'u', b'a', b'r', b'y', ..] => plain(E::LongMonth, 7),
        [b'J', b'a', b'n', ..] if !lower_follows(3) => plain(E::Month, 3),
        [b'M', b'o', b'n', b'd', b'a', b'y', ..] => plain(E::LongWeekday, 6),
        [b'M', b'o', b'n', ..] if !lower_follows(3) => plain(E::Weekday, 3),
        [b'M', b'S', b'T', ..] => plain(E::Abbreviation, 3),
        [b'0', b'0', b'2', ..] => plain(E::ZeroYearDay, 3),
        [b'0', digit @ b'1'..=b'6', ..] => {
            let elements = [E::ZeroMonth, E::ZeroDay, E::ZeroHour12, E::ZeroMinute, E::ZeroSecond, E::Year];
            plain(elements[usize::from(digit - b'1')], 2)
        }
        [b'1', b'5', ..] => plain(E::Hour, 2),
        [b'1', ..] => plain(E::NumericMonth, 1),
        [b'2', b'0', b'0', b'6', ..] => plain(E::LongYear, 4),
        [b'2', ..] => plain(E::Day, 1),
        [b'_', b'2', b'0', b'0', b'6', ..] => Some((1, E::LongYear, 4)),
        [b'_', b'2', ..] => plain(E::UnderDay, 2),
        [b'_', b'_', b'2', ..] => plain(E::UnderYearDay, 3),
        [b'3', ..] => plain(E::Hour12, 1),
        [b'4', ..] => plain(E::Minute, 1),
        [b'5', ..] => plain(E::Second, 1),
        [b'P', b'M', ..] => plain(E::UpperHalf, 2),
        [b'p', b'm', ..] => plain(E::LowerHalf, 2),
        [first @ (b'-' | b'Z'), rest @ ..] => {
            let (spelling, colon, parts) =
                OFFSETS.iter().find(|(spelling, ..)| rest.starts_with(spelling))?;
            let offset = Offset { zulu: *first == b'Z', colon: *colon, parts: *parts };
            plain(E::Offset(offset), 1 + spelling.len())
        }
        [separator @ (b'.' | b','), digit @ (b'0' | b'9'), ..] => {
            let digits = text[1..].iter().take_while(|b| *b == digit).count();
            if text.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let separator = *separator;
            let element = if *digit == b'0' {
                E::Fraction { separator, digits }
            } else {
                E::TrimmedFraction { separator, digits }
            };
            plain(element, 1 + digits)
        }
        _ => None,
    }
}

impl Instant {
    /// Formats the instant by a layout, in its zone.
    pub fn format(&self, layout: &[u8]) -> Vec<u8> {
        let wall = self.wall();
        let mut out = Vec::with_capacity(layout.len() + 10);
        let mut layout = layout;
        loop {
            let chunk = next(layout);
            out.extend(chunk.prefix);
            let Some((element, _)) = chunk.element else { return out };
            self.write(&mut out, element, &wall);
            layout = chunk.rest;
        }
    }

    /// Formats the time as Go prints it.
    pub fn text(&self) -> String {
        let text = self.format(b"2006-01-02 15:04:05.999999999 -0700 MST");
        let text = crate::text::lossy(&text).into_owned();
        // Go prints the reading of the monotonic clock. Its value is meaningless to users, so a
        // constant takes its place.
        if self.monotonic { text + " m=+0.000000001" } else { text }
    }

    fn write(&self, out: &mut Vec<u8>, element: Element, wall: &Wall) {
        use Element as E;
        let date = wall.date;
        let month = MONTHS[usize::try_from(date.month - 1).unwrap_or(0) % 12];
        let weekday = WEEKDAYS[usize::try_from(wall.weekday).unwrap_or(0) % 7];
        let hour12 = if wall.hour % 12 == 0 { 12 } else { wall.hour % 12 };
        let text = match element {
            E::LongMonth => month.to_owned(),
            E::Month => month[..3].to_owned(),
            E::NumericMonth => date.month.to_string(),
            E::ZeroMonth => format!("{:02}", date.month),
            E::LongWeekday => weekday.to_owned(),
            E::Weekday => weekday[..3].to_owned(),
            E::Day => date.day.to_string(),
            E::UnderDay => format!("{:2}", date.day),
            E::ZeroDay => format!("{:02}", date.day),
            E::UnderYearDay => format!("{:3}", wall.year_day),
            E::ZeroYearDay => format!("{:03}", wall.year_day),
            E::Hour => format!("{:02}", wall.hour),
            E::Hour12 => hour12.to_string(),
            E::ZeroHour12 => format!("{hour12:02}"),
            E::Minute => wall.minute.to_string(),
            E::ZeroMinute => format!("{:02}", wall.minute),
            E::Second => wall.second.to_string(),
            E::ZeroSecond => format!("{:02}", wall.second),
            E::LongYear if date.year < 0 => format!("-{:04}", date.year.unsigned_abs()),
            E::LongYear => format!("{:04}", date.year),
            E::Year => format!("{:02}", date.year.unsigned_abs() % 100),
            E::UpperHalf => if wall.hour >= 12 { "PM" } else { "AM" }.to_owned(),
            E::LowerHalf => if wall.hour >= 12 { "pm" } else { "am" }.to_owned(),
            E::Abbreviation if wall.abbreviation.is_empty() => {
                offset(Offset { zulu: false, colon: false, parts: 2 }, wall.offset)
            }
            E::Abbreviation => wall.abbreviation.clone(),
            E::Offset(style) => offset(style, wall.offset),
            E::Fraction { separator, digits } => self.fraction(separator, digits),
            E::TrimmedFraction { separator, digits } => {
                let text = self.fraction(separator, digits);
                text.trim_end_matches('0').trim_end_matches(char::from(separator)).to_owned()
            }
        };
        out.extend(text.into_bytes());
    }

    fn fraction(&self, separator: u8, digits: usize) -> String {
        let all = format!("{:09}", self.nanoseconds);
        format!("{}{}", char::from(separator), &all[..digits.min(9)])
    }
}

fn offset(style: Offset, offset: i64) -> String {
    if style.zulu && offset == 0 {
        return "Z".to_owned();
    }
    // As in Go, the sign is that of whole minutes.
    let sign = if offset / 60 < 0 { '-' } else { '+' };
    let seconds = offset.unsigned_abs();
    let parts = [seconds / 3_600, seconds / 60 % 60, seconds % 60];
    let parts: Vec<String> = parts.iter().take(style.parts).map(|part| format!("{part:02}")).collect();
    format!("{sign}{}", parts.join(if style.colon { ":" } else { "" }))
}
