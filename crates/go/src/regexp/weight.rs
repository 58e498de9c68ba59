//! What a pattern takes, worked out from its form: `\pL{100}` is eight bytes, and five megabytes when it is compiled.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Parts of a range whose characters are of several lengths in UTF-8, such as all but one.
const WIDE: usize = 8;
/// Groups inside each other that are followed; the `regex` crate refuses more than 250.
const DEEPEST: u32 = 250;

/// A pattern in the syntax of the `regex` crate. `None`: it does not compile.
pub(super) fn parse(pattern: &str) -> Option<Hir> {
    ParserBuilder::new().nest_limit(DEEPEST).build().parse(pattern).ok()
}

/// Whether a search may go on to the end of a text although it ends in a match before: `x*y|x` looks for a `y` behind each `x`.
/// Not so if only the end of the pattern has no limit, which goes on as long as the match does.
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

/// Parts of the compiled pattern: one for each byte, and for each range of a class, as often as it is repeated. A part takes about a hundred
/// bytes and half a microsecond.
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
