//! Go's regular expressions: RE2 patterns as Go reads them, matched by the `regex` crate.
//!
//! Templates and spiff documents contain patterns that were written for Go.

mod syntax;
mod weight;

use regex::{Captures, Regex};

/// A compiled pattern with the names of its groups. The names are stored here and not in the
/// expression, because Go allows names that the crate refuses.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    names: Vec<Option<String>>,
    weight: usize,
    looks_far: bool,
}

/// Largest weight of a pattern that callers cache. A pattern of this weight takes half a megabyte,
/// and caches contain many.
const LIGHT: usize = 5_000;

/// Returns the cost of reading a pattern, in the parts of [`weight`], before it is compiled: a byte
/// of a class takes a third of a kilobyte, and a named Unicode class has hundreds of ranges.
pub fn reading_weight(pattern: &str) -> usize {
    const NAMED: usize = 700;
    let named = pattern.as_bytes().windows(2).filter(|pair| matches!(pair, [b'\\', b'p' | b'P'])).count();
    pattern.len().saturating_mul(3).saturating_add(named.saturating_mul(NAMED))
}

/// Returns the size of a pattern when it is compiled, in parts of a hundred bytes and half a
/// microsecond each; 0 if it does not compile. In the worst case a search takes this many steps for
/// each byte of the text.
pub fn weight(pattern: &str) -> usize {
    let translated = syntax::translate(pattern).ok();
    translated
        .and_then(|translated| weight::parse(&translated.pattern))
        .map_or(0, |parsed| weight::of(&parsed))
}

/// Reports whether a text is a pattern. It is read and not compiled, so the cost is only
/// [`reading_weight`].
pub fn is_valid(pattern: &str) -> bool {
    syntax::translate(pattern).is_ok_and(|translated| weight::parse(&translated.pattern).is_some())
}

/// Reports whether a pattern of this weight is small enough for a cache.
pub fn is_light(weight: usize) -> bool {
    weight <= LIGHT
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
        let parsed = weight::parse(&translated.pattern);
        let looks_far = parsed.as_ref().is_some_and(weight::looks_far);
        Ok(Self { regex, names: translated.names, weight: parsed.as_ref().map_or(0, weight::of), looks_far })
    }

    /// Returns the weight, see [`weight`].
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns how many of the `rest` bytes behind a match the search may have read.
    pub fn bytes_beyond(&self, rest: usize) -> usize {
        if self.looks_far { rest } else { 0 }
    }

    /// Reports whether the pattern is small enough for a cache.
    pub fn is_light(&self) -> bool {
        is_light(self.weight)
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
    fn patterns_are_weighed() {
        for (pattern, wanted) in [
            ("abc", 3),
            ("[a-z]", 1),
            ("[a-z0-9]{1,63}", 126),
            ("(a|b)*", 2),
            ("(?:ab){10}c", 22),
            ("[xxxxxx]", 1),
            ("a(", 0),
        ] {
            assert_eq!(weight(pattern), wanted, "{pattern}");
            assert_eq!(is_valid(pattern), wanted > 0, "{pattern}");
        }
        assert_eq!((reading_weight("abc"), reading_weight(r"\pL")), (9, 709));
        // The class has hundreds of ranges, repeated a hundred times.
        assert!((60_000..400_000).contains(&weight(r"\pL{100}")));
        assert_eq!(
            weight(&format!("{}a{}", "(".repeat(1_000), ")".repeat(1_000))),
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
                Pattern::compile(pattern).unwrap().bytes_beyond(7),
                if is_far { 7 } else { 0 },
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
