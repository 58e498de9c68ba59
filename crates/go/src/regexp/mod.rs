//! Go's regular expressions: patterns of RE2 as Go reads them, matched by the `regex` crate.
//!
//! Templates and spiff documents bring patterns that were written for Go.

mod syntax;
mod weight;

use regex::{Captures, Regex};

/// A compiled pattern with the names of its groups: Go allows names that the crate refuses, so the expression has none.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    names: Vec<Option<String>>,
    weight: usize,
    looks_far: bool,
}

/// Heavier patterns are not worth keeping: those that are kept are many, and these take half a megabyte each.
const LIGHT: usize = 5_000;

/// What reading a pattern takes, in the parts of [`weight`], before anything else is done with it: a byte of a class takes a third of a
/// kilobyte, and a class of Unicode that is named has hundreds of ranges.
pub fn reading_weight(pattern: &str) -> usize {
    const NAMED: usize = 700;
    let named = pattern.as_bytes().windows(2).filter(|pair| matches!(pair, [b'\\', b'p' | b'P'])).count();
    pattern.len().saturating_mul(3).saturating_add(named.saturating_mul(NAMED))
}

/// How large a pattern becomes when it is compiled, in parts of a hundred bytes and half a microsecond each; 0 for one that does not compile.
/// Searching a text takes, at worst, so many steps for each of its bytes.
pub fn weight(pattern: &str) -> usize {
    let translated = syntax::translate(pattern).ok();
    translated
        .and_then(|translated| weight::parse(&translated.pattern))
        .map_or(0, |parsed| weight::of(&parsed))
}

/// Whether a text is a pattern; it is read and not compiled, which takes [`reading_weight`] and no more.
pub fn is_valid(pattern: &str) -> bool {
    syntax::translate(pattern).is_ok_and(|translated| weight::parse(&translated.pattern).is_some())
}

/// Whether a pattern of this weight is small enough to be kept among many.
pub fn is_light(weight: usize) -> bool {
    weight <= LIGHT
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// Go's complaint, without the `error parsing regexp: ` in front.
    pub fn compile(pattern: &str) -> Result<Self, String> {
        let translated = syntax::translate(pattern)?;
        let regex = Regex::new(&translated.pattern)
            .map_err(|_| format!("expression nests too deeply: `{pattern}`"))?;
        let parsed = weight::parse(&translated.pattern);
        let looks_far = parsed.as_ref().is_some_and(weight::looks_far);
        Ok(Self { regex, names: translated.names, weight: parsed.as_ref().map_or(0, weight::of), looks_far })
    }

    /// As [`weight`] has it.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Of so many bytes behind a match, those that the search may have looked at.
    pub fn bytes_beyond(&self, rest: usize) -> usize {
        if self.looks_far { rest } else { 0 }
    }

    /// Whether it is small enough to be kept among many.
    pub fn is_light(&self) -> bool {
        is_light(self.weight)
    }

    /// What matches. Its groups have numbers only.
    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// The number of a group that is named by its number or its name; of groups with the same name, the first.
    pub fn group(&self, name: &str) -> Option<usize> {
        let is_number = name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        if is_number {
            return name.parse().ok();
        }
        self.names.iter().position(|known| known.as_deref() == Some(name))
    }

    /// Writes a replacement with `$1`, `${1}`, `$name`, `${name}` and `$$` filled in.
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

/// The group name behind a `$`, and what follows it.
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

    /// Counts inside of counts are multiplied, and the product has a limit of its own.
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
        // Hundreds of ranges, a hundred times.
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
