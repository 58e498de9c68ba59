//! The parts of a pattern, counted in its form before compiling: `\pL{100}` has eight bytes, and
//! five megabytes when it is compiled.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Parts of a range whose characters have several lengths in UTF-8, such as a negated character.
const WIDE: usize = 8;
/// Largest nesting of groups; the `regex` crate refuses more than 250 levels.
const DEEPEST: u32 = 250;

/// Parses a pattern in the syntax of the `regex` crate, or returns `None` if it does not compile.
pub(super) fn parse(pattern: &str) -> Option<Hir> {
    ParserBuilder::new().nest_limit(DEEPEST).build().parse(pattern).ok()
}

/// Reports whether a search may read to the end of a text although its match ends before: `x*y|x`
/// searches a `y` behind each `x`. A pattern in which only the end is unbounded does not, because
/// it reads only as far as the match goes.
pub(super) fn looks_far(hir: &Hir) -> bool {
    if hir.properties().maximum_len().is_some() {
        return false;
    }
    match hir.kind() {
        HirKind::Repetition(repetition) => repetition.sub.properties().maximum_len().is_none(),
        HirKind::Capture(capture) => looks_far(&capture.sub),
        HirKind::Concat(parts) => match parts.split_last() {
            Some((last, before)) => {
                before.iter().any(|part| part.properties().maximum_len().is_none()) || looks_far(last)
            }
            None => false,
        },
        HirKind::Alternation(parts) => parts.iter().any(looks_far),
        _ => false,
    }
}

/// Returns the number of parts of the compiled pattern: one for each byte, and for each range of a
/// class, times its repetitions.
pub(super) fn of(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.ranges().iter();
            let is_wide = |start: char, end: char| start.len_utf8() != end.len_utf8();
            ranges.map(|range| if is_wide(range.start(), range.end()) { WIDE } else { 1 }).sum()
        }
        HirKind::Repetition(repetition) => {
            let count = repetition.max.unwrap_or(repetition.min).max(repetition.min).max(1);
            of(&repetition.sub).saturating_mul(usize::try_from(count).unwrap_or(usize::MAX))
        }
        HirKind::Capture(capture) => 1 + of(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(of).fold(1, usize::saturating_add)
        }
    }
}
