//! Go's regular expressions: RE2 patterns as Go reads them, matched by the `regex` crate.
//!
//! Templates and spiff documents contain patterns that were written for Go.

mod parts;
mod syntax;

use regex::{Captures, Regex};

/// A compiled pattern with the names of its groups. The names are stored here and not in the
/// expression, because Go allows names that the crate refuses.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    names: Vec<Option<String>>,
    parts: usize,
    looks_far: bool,
}

/// Parts of the largest pattern that callers cache: half a megabyte, and caches contain many.
const LIGHT: usize = 5_000;

/// Steps (`crates/budget`) for compiling a pattern, besides those for its parts.
const COMPILING: usize = 1_000;
/// Steps for reading or compiling a part. The number is higher than the time alone requires, so
/// that the patterns that a program keeps fit into memory.
///
/// Only patterns have a price in steps, because a few bytes of them compile to megabytes:
/// `\pL{100}`. Needed by the hostile input `sp2_regex_each`, a million patterns of one map.
const STEPS_PER_PART: usize = 40;
/// Bytes that are searched for one part in the time of a step.
const SEARCHED_PER_STEP: usize = 16;

/// Accounts for compiling a pattern, each step before it is made, and returns the number of its
/// parts.
///
/// # Errors
///
/// Error of `spend`, which gets the steps.
pub fn account<E>(pattern: &str, mut spend: impl FnMut(usize) -> Result<(), E>) -> Result<usize, E> {
    spend(reading_parts(pattern).saturating_mul(STEPS_PER_PART).saturating_add(COMPILING))?;
    let parts = parts(pattern);
    spend(parts.saturating_mul(STEPS_PER_PART))?;
    Ok(parts)
}

/// Returns the parts that a pattern has while it is read: a byte of a class takes a third of a
/// kilobyte, and a named Unicode class has hundreds of ranges.
pub fn reading_parts(pattern: &str) -> usize {
    const NAMED: usize = 700;
    let named = pattern.as_bytes().windows(2).filter(|pair| matches!(pair, [b'\\', b'p' | b'P'])).count();
    pattern.len().saturating_mul(3).saturating_add(named.saturating_mul(NAMED))
}

/// Returns the number of parts of a compiled pattern: its bytes, and the ranges of its classes,
/// times their repetitions; 0 if it does not compile. A part takes about a hundred bytes.
pub fn parts(pattern: &str) -> usize {
    let translated = syntax::translate(pattern).ok();
    translated.and_then(|translated| parts::parse(&translated.pattern)).map_or(0, |parsed| parts::of(&parsed))
}

/// Returns the steps for searching a pattern of this many parts in this many bytes. In the worst
/// case a search tries the whole pattern at each byte.
pub fn searching_steps(parts: usize, bytes: usize) -> usize {
    bytes.saturating_mul(parts.saturating_add(4)) / SEARCHED_PER_STEP
}

/// Reports whether a text is a pattern. It is read and not compiled, so it takes only
/// [`reading_parts`].
pub fn is_valid(pattern: &str) -> bool {
    syntax::translate(pattern).is_ok_and(|translated| parts::parse(&translated.pattern).is_some())
}

/// Reports whether a pattern of this many parts is small enough for a cache.
pub fn is_light(parts: usize) -> bool {
    parts <= LIGHT
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// Go's message, without its prefix `error parsing regexp: `.
    pub fn compile(pattern: &str) -> Result<Self, String> {
        let translated = syntax::translate(pattern)?;
        let regex = Regex::new(&translated.pattern)
            .map_err(|_| format!("expression nests too deeply: `{pattern}`"))?;
        let parsed = parts::parse(&translated.pattern);
        let looks_far = parsed.as_ref().is_some_and(parts::looks_far);
        Ok(Self { regex, names: translated.names, parts: parsed.as_ref().map_or(0, parts::of), looks_far })
    }

    /// Returns the steps of [`searching_steps`].
    pub fn searching_steps(&self, bytes: usize) -> usize {
        searching_steps(self.parts, bytes)
    }

    /// Returns the steps for what a search may have read of the `rest` bytes behind its match.
    pub fn steps_beyond(&self, rest: usize) -> usize {
        if self.looks_far { rest / SEARCHED_PER_STEP } else { 0 }
    }

    /// Reports whether the pattern is small enough for a cache.
    pub fn is_light(&self) -> bool {
        is_light(self.parts)
    }

    /// Returns the expression. Its groups have numbers only.
    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Returns the number of a group, given by number or name. Of groups with the same name it is
    /// the first.
    pub fn group(&self, name: &str) -> Option<usize> {
        let is_number = name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        if is_number {
            return name.parse().ok();
        }
        self.names.iter().position(|known| known.as_deref() == Some(name))
    }

    /// Writes a replacement with `$1`, `${1}`, `$name`, `${name}` and `$$` expanded.
    pub fn expand(&self, template: &str, captures: &Captures<'_>, out: &mut String) {
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('$') {
            out.push_str(before);
            rest = behind;
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some((name, after)) = reference(rest) {
                let group = self.group(name).and_then(|group| captures.get(group));
                out.push_str(group.map_or("", |group| group.as_str()));
                rest = after;
            } else {
                out.push('$');
            }
        }
        out.push_str(rest);
    }
}

/// Returns the group name behind a `$`, and the rest of the text.
fn reference(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix('{');
    let name = body.unwrap_or(text);
    let end = name.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    if name.is_empty() {
        return None;
    }
    if body.is_some() { rest.strip_prefix('}').map(|rest| (name, rest)) } else { Some((name, rest)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        for (pattern, text, matches) in [
            (r"^\d$", "٣", false),
            (r"^\d$", "3", true),
            (r"^\w$", "é", false),
            (r"^\s$", "\u{a0}", false),
            (r"^\s$", "\u{b}", false),
            (r"\bé", "aé", true),
            (r"^[\w]$", "_", true),
            (r"^(?P<1x>a)$", "a", true),
            ("a{", "a{", true),
        ] {
            assert_eq!(
                Pattern::compile(pattern).unwrap().regex().is_match(text),
                matches,
                "{pattern} {text}"
            );
        }
        assert_eq!(Pattern::compile("a(").unwrap_err(), "missing closing ): `a(`");
    }

    /// Case: nested repetition counts are multiplied, and the product has a limit of its own.
    #[test]
    fn repetitions_are_counted_together() {
        let refused = |count: &str| Some(format!("invalid repeat count: `{count}`"));
        for (pattern, wanted) in [
            ("(a{10}){100}", None),
            ("(a{10}){101}", refused("{101}")),
            ("((a{2}b{500}){2})", None),
            ("(a{501,}){2}", refused("{2}")),
            ("(?:a{100}|b){11}", refused("{11}")),
            ("(a{1000}){1}(a{999}){0}b{1000}", None),
            ("(a{1000}?){2}", refused("{2}")),
            ("(((a{1,100}){1,100}){1,100}){1,100}", refused("{1,100}")),
        ] {
            assert_eq!(Pattern::compile(pattern).err(), wanted, "{pattern}");
        }
    }

    #[test]
    fn patterns_have_parts() {
        for (pattern, wanted) in [
            ("abc", 3),
            ("[a-z]", 1),
            ("[a-z0-9]{1,63}", 126),
            ("(a|b)*", 2),
            ("(?:ab){10}c", 22),
            ("[xxxxxx]", 1),
            ("a(", 0),
        ] {
            assert_eq!(parts(pattern), wanted, "{pattern}");
            assert_eq!(is_valid(pattern), wanted > 0, "{pattern}");
        }
        assert_eq!((reading_parts("abc"), reading_parts(r"\pL")), (9, 709));
        let mut spent = Vec::new();
        let counted = account("abc", |steps| {
            spent.push(steps);
            Ok::<(), ()>(())
        });
        assert_eq!((counted, spent), (Ok(3), vec![1_360, 120]));
        assert_eq!(account("abc", |_| Err("none left")), Err("none left"));
        // The class has hundreds of ranges, repeated a hundred times.
        assert!((60_000..400_000).contains(&parts(r"\pL{100}")));
        assert_eq!(
            parts(&format!("{}a{}", "(".repeat(1_000), ")".repeat(1_000))),
            0,
            "nobody follows it so deep"
        );
    }

    #[test]
    fn searches_look_beyond_their_match() {
        for (pattern, is_far) in [
            ("x*y|x", true),
            (r"\s*,\s*", true),
            ("(a+b)?", true),
            ("((ab)*)*", true),
            ("[a-z]+", false),
            ("a{1,900}b", false),
            ("x(y|z+)", false),
            ("(ab)*", false),
            ("a.{0,9}$", false),
        ] {
            assert_eq!(
                Pattern::compile(pattern).unwrap().steps_beyond(160),
                if is_far { 10 } else { 0 },
                "{pattern}"
            );
        }
    }

    #[test]
    fn replacements_name_groups() {
        let pattern = Pattern::compile("(?P<first>a)(b)?").unwrap();
        let captures = pattern.regex().captures("a").unwrap();
        for (template, wanted) in [
            ("<$1>", "<a>"),
            ("${first}x", "ax"),
            ("$firstx", ""),
            ("$2|$3|$$|$", "||$|$"),
            ("${first", "${first"),
            ("$01", ""),
        ] {
            let mut out = String::new();
            pattern.expand(template, &captures, &mut out);
            assert_eq!(out, wanted, "{template}");
        }
    }
}
