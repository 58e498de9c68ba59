//! Translator of Go's regular expressions to the syntax of the `regex` crate (`gotemplate.md` 12.10
//! and 14; `spiff.md` 11.2).
//!
//! Both descend from RE2. The differences: `\d \w \s \b` are ASCII in Go, an opening brace or
//! bracket may be literal there, some escapes and flags exist on one side only, and the error texts
//! are Go's own.

use std::collections::HashSet;

use super::parts;

/// A translated pattern with the names of its groups; group 0 is the whole match.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) pattern: String,
    pub(super) names: Vec<Option<String>>,
}

/// Largest repetition count that Go accepts.
const MAX_REPEAT: u32 = 1000;

/// The names between `[:` and `:]`.
const CLASS_NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Translates a pattern, or returns Go's message without the prefix `error parsing regexp: `.
pub(super) fn translate(pattern: &str) -> Result<Translated, String> {
    let mut translator = Translator {
        source: pattern,
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        names: vec![None],
        open: Vec::new(),
        repeats: Repeats::NONE,
        can_repeat: false,
        last_operator: None,
        known: HashSet::new(),
    };
    while !translator.rest.is_empty() {
        translator.item()?;
    }
    if !translator.open.is_empty() {
        return Err(format!("missing closing ): `{pattern}`"));
    }
    Ok(Translated { pattern: translator.out, names: translator.names })
}

struct Translator<'p> {
    source: &'p str,
    rest: &'p str,
    out: String,
    names: Vec<Option<String>>,
    /// Repetitions of the part before each open group.
    open: Vec<Repeats>,
    repeats: Repeats,
    /// True if the part before can be repeated.
    can_repeat: bool,
    /// The operator just read, with the text behind it.
    last_operator: Option<&'p str>,
    /// Names of Unicode classes that were found to exist.
    known: HashSet<&'p str>,
}

/// Repetition counts of parts of a group; nested counts are multiplied.
#[derive(Clone, Copy)]
struct Repeats {
    /// Count of the part just read.
    last: u32,
    /// Largest count of all parts.
    most: u32,
}

impl Repeats {
    const NONE: Self = Self { last: 1, most: 1 };

    fn part(&mut self, repeats: u32) {
        self.last = repeats;
        self.most = self.most.max(repeats);
    }
}

impl<'p> Translator<'p> {
    fn open_group(&mut self) {
        self.open.push(std::mem::replace(&mut self.repeats, Repeats::NONE));
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// Returns the source from an earlier position up to here.
    fn since(&self, start: &'p str) -> &'p str {
        &start[..start.len() - self.rest.len()]
    }

    fn item(&mut self) -> Result<(), String> {
        let start = self.rest;
        let operator_before = self.last_operator.take();
        let Some(c) = self.take() else { return Ok(()) };
        match c {
            '(' => return self.group(start),
            ')' => {
                let Some(before) = self.open.pop() else {
                    return Err(format!("unexpected ): `{}`", self.source));
                };
                let inside = std::mem::replace(&mut self.repeats, before).most;
                self.repeats.part(inside);
                self.out.push(')');
                self.can_repeat = true;
                return Ok(());
            }
            '|' => {
                self.out.push('|');
                self.can_repeat = false;
                return Ok(());
            }
            '*' | '+' | '?' => {
                self.out.push(c);
                return self.repeated(start, operator_before);
            }
            '{' => match self.count(start)? {
                true => return self.repeated(start, operator_before),
                false => self.out.push_str("\\{"),
            },
            '[' => self.class(start)?,
            '\\' => self.escape(start)?,
            '.' | '^' | '$' => self.out.push(c),
            c => push_literal(&mut self.out, c),
        }
        self.repeats.part(1);
        self.can_repeat = true;
        Ok(())
    }

    /// Checks that the operator that begins at `start` has a part to repeat.
    fn repeated(&mut self, start: &'p str, before: Option<&'p str>) -> Result<(), String> {
        if self.rest.starts_with('?') {
            self.take();
            self.out.push('?');
        }
        if !self.can_repeat {
            return Err(format!("missing argument to repetition operator: `{}`", self.since(start)));
        }
        if let Some(before) = before {
            return Err(format!("invalid nested repetition operator: `{}`", self.since(before)));
        }
        self.last_operator = Some(start);
        Ok(())
    }

    /// Reads `{n}`, `{n,}` or `{n,m}` behind the brace. Any other text makes the brace literal.
    fn count(&mut self, start: &'p str) -> Result<bool, String> {
        let Some((body, rest)) = self.rest.split_once('}') else { return Ok(false) };
        let (low, high) = body
            .split_once(',')
            .map_or((body, Some(body)), |(low, high)| (low, Some(high).filter(|high| !high.is_empty())));
        let is_number = |text: &str| {
            let canonical = text == "0" || !text.starts_with('0');
            !text.is_empty() && canonical && text.bytes().all(|b| b.is_ascii_digit())
        };
        if !is_number(low) || !high.is_none_or(is_number) {
            return Ok(false);
        }
        self.rest = rest;
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let (minimum, maximum) = (number(low), high.map(number));
        if minimum > MAX_REPEAT || maximum.is_some_and(|maximum| maximum > MAX_REPEAT || maximum < minimum) {
            return Err(format!("invalid repeat count: `{}`", self.since(start)));
        }
        let repeats = self.repeats.last.saturating_mul(maximum.unwrap_or(minimum));
        if self.can_repeat && repeats > MAX_REPEAT {
            return Err(format!("invalid repeat count: `{}`", self.since(start)));
        }
        self.repeats.part(repeats);
        self.out.push('{');
        self.out.push_str(body);
        self.out.push('}');
        Ok(true)
    }

    fn group(&mut self, start: &'p str) -> Result<(), String> {
        self.can_repeat = false;
        let Some(extension) = self.rest.strip_prefix('?') else {
            self.open_group();
            self.names.push(None);
            self.out.push('(');
            return Ok(());
        };
        let named = extension.strip_prefix("P<").or(extension.strip_prefix('<'));
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            return self.named_group(start, named);
        }
        self.rest = extension;
        self.flags(start)
    }

    /// Reads flags behind `(?`, up to the colon of a group or the parenthesis that ends them.
    fn flags(&mut self, start: &'p str) -> Result<(), String> {
        let (mut set, mut cleared) = (String::new(), None::<String>);
        loop {
            match self.take() {
                Some(flag @ ('i' | 'm' | 's' | 'U')) => {
                    let flags = cleared.as_mut().unwrap_or(&mut set);
                    // The crate refuses a flag that is named twice; Go accepts it.
                    if !flags.contains(flag) {
                        flags.push(flag);
                    }
                }
                Some('-') if cleared.is_none() => cleared = Some(String::new()),
                Some(end @ (':' | ')')) if cleared.as_deref() != Some("") => {
                    if end == ':' {
                        self.open_group();
                    }
                    let cleared = cleared.unwrap_or_default();
                    set.retain(|flag| !cleared.contains(flag));
                    let minus = if cleared.is_empty() { "" } else { "-" };
                    // The crate refuses `(?)` without any flag; Go accepts it.
                    if end == ':' || !(set.is_empty() && cleared.is_empty()) {
                        self.out.push_str(&format!("(?{set}{minus}{cleared}{end}"));
                    }
                    return Ok(());
                }
                _ => return Err(format!("invalid or unsupported Perl syntax: `{}`", self.since(start))),
            }
        }
    }

    /// Reads a named group. Its name is stored separately, because Go allows names that the crate
    /// refuses.
    fn named_group(&mut self, start: &'p str, named: &'p str) -> Result<(), String> {
        let Some((name, rest)) = named.split_once('>') else {
            return Err(format!("invalid named capture: `{start}`"));
        };
        self.rest = rest;
        if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
            return Err(format!("invalid named capture: `{}`", self.since(start)));
        }
        self.names.push(Some(name.to_string()));
        self.open_group();
        self.out.push('(');
        Ok(())
    }

    /// Reads an escape outside a class.
    fn escape(&mut self, start: &'p str) -> Result<(), String> {
        let translated = match self.rest.chars().next() {
            Some('A') => "\\A",
            Some('z') => "\\z",
            Some('b') => "(?-u:\\b)",
            Some('B') => "\\B",
            Some('Q') => {
                let body = &self.rest[1..];
                let (literal, rest) = body.split_once("\\E").unwrap_or((body, ""));
                self.rest = rest;
                literal.chars().for_each(|c| push_literal(&mut self.out, c));
                return Ok(());
            }
            _ => {
                let class = self.class_escape(start)?;
                self.out.push_str(&match class {
                    Escape::Set(set) => format!("[{set}]"),
                    Escape::Literal(c) => format!("\\x{{{:x}}}", u32::from(c)),
                });
                return Ok(());
            }
        };
        self.take();
        self.out.push_str(translated);
        Ok(())
    }

    /// Reads an escape that is also allowed in a class; the backslash has been read.
    fn class_escape(&mut self, start: &'p str) -> Result<Escape, String> {
        let Some(c) = self.take() else {
            return Err("trailing backslash at end of expression: ``".to_string());
        };
        let set = |set: &str| Ok(Escape::Set(set.to_string()));
        match c {
            'd' => set("0-9"),
            'D' => set("[^0-9]"),
            's' => set("\\t\\n\\f\\r\\x20"),
            'S' => set("[^\\t\\n\\f\\r\\x20]"),
            'w' => set("0-9A-Za-z_"),
            'W' => set("[^0-9A-Za-z_]"),
            'p' | 'P' => self.property(start),
            'a' => Ok(Escape::Literal('\u{7}')),
            'f' => Ok(Escape::Literal('\u{c}')),
            'n' => Ok(Escape::Literal('\n')),
            'r' => Ok(Escape::Literal('\r')),
            't' => Ok(Escape::Literal('\t')),
            'v' => Ok(Escape::Literal('\u{b}')),
            'x' => self.hexadecimal(start),
            '0' => Ok(Escape::Literal(self.octal(0, 2))),
            '1'..='7' if self.rest.starts_with(|next| matches!(next, '0'..='7')) => {
                Ok(Escape::Literal(self.octal(c.to_digit(8).unwrap_or(0), 2)))
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(Escape::Literal(c)),
            _ => Err(self.bad_escape(start)),
        }
    }

    fn bad_escape(&self, start: &'p str) -> String {
        format!("invalid escape sequence: `{}`", self.since(start))
    }

    fn octal(&mut self, first: u32, more: usize) -> char {
        let mut code = first;
        for _ in 0..more {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            self.take();
            code = code * 8 + digit;
        }
        char::from_u32(code).unwrap_or_default()
    }

    /// Reads `\xHH` or `\x{H…}`; the `x` has been read.
    fn hexadecimal(&mut self, start: &'p str) -> Result<Escape, String> {
        let braced = self.rest.strip_prefix('{');
        let digits = braced.unwrap_or(self.rest);
        let digits: String = digits
            .chars()
            .take_while(char::is_ascii_hexdigit)
            .take(if braced.is_some() { 9 } else { 2 })
            .collect();
        let (closes, read) = match braced {
            Some(body) => (body[digits.len()..].starts_with('}'), 1 + digits.len() + 1),
            None => (digits.len() == 2, 2),
        };
        for _ in 0..read {
            self.take();
        }
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| closes);
        code.and_then(char::from_u32).map(Escape::Literal).ok_or_else(|| self.bad_escape(start))
    }

    fn property(&mut self, start: &'p str) -> Result<Escape, String> {
        match self.take() {
            Some('{') => match self.rest.split_once('}') {
                Some((_, rest)) => self.rest = rest,
                None => return Err(format!("invalid character class range: `{start}`")),
            },
            Some(_) => {}
            None => return Err(format!("invalid character class range: `{start}`")),
        }
        let class = self.since(start);
        let name = class[2..].trim_matches(['{', '}']);
        let (negated, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        let mark = if class.starts_with("\\P") == negated { 'p' } else { 'P' };
        let translated = format!("\\{mark}{{{name}}}");
        // Each class name is checked only once, because the check parses a pattern.
        if is_name && (self.known.contains(name) || parts::parse(&translated).is_some()) {
            self.known.insert(name);
            return Ok(Escape::Set(translated));
        }
        Err(format!("invalid character class range: `{class}`"))
    }

    /// Reads a class in brackets; the opening bracket has been read.
    fn class(&mut self, start: &'p str) -> Result<(), String> {
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.take();
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let item = self.rest;
            if item.is_empty() {
                return Err(format!("missing closing ]: `{start}`"));
            }
            if item.starts_with(']') && !first {
                self.take();
                self.out.push(']');
                return Ok(());
            }
            first = false;
            if let Some((name, rest)) = item.strip_prefix("[:").and_then(|named| named.split_once(":]")) {
                self.rest = rest;
                let class = format!("[:{name}:]");
                if !CLASS_NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(format!("invalid character class range: `{class}`"));
                }
                self.out.push_str(&class);
                continue;
            }
            let low = match self.class_item(start)? {
                Escape::Set(set) => {
                    self.out.push_str(&set);
                    continue;
                }
                Escape::Literal(low) => low,
            };
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.take();
                let bound = self.rest;
                high = match self.class_item(start)? {
                    Escape::Literal(high) => high,
                    Escape::Set(_) => return Err(self.bad_escape(bound)),
                };
                if high < low {
                    return Err(format!("invalid character class range: `{}`", self.since(item)));
                }
            }
            self.out.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high)));
        }
    }

    fn class_item(&mut self, start: &'p str) -> Result<Escape, String> {
        let item = self.rest;
        match self.take() {
            Some('\\') => self.class_escape(item),
            Some(c) => Ok(Escape::Literal(c)),
            None => Err(format!("missing closing ]: `{start}`")),
        }
    }
}

/// The meaning of an escape.
enum Escape {
    Literal(char),
    /// The inside of a class.
    Set(String),
}

fn push_literal(out: &mut String, c: char) {
    out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}
