//! Patterns of `.Files.Glob` (`helm.md` 6.4): shell patterns of paths, with `**` and alternatives.

/// A compiled pattern. As in Helm, a pattern that does not compile matches every path.
#[derive(Debug)]
pub(crate) struct Glob {
    parts: Option<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(char),
    /// Any character except a slash.
    One,
    /// Any characters except slashes.
    Star,
    /// Any characters.
    Stars,
    Class {
        negated: bool,
        members: Members,
    },
    /// An alternative: one of these sequences.
    Either(Vec<Vec<Part>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Members {
    List(Vec<char>),
    Range(char, char),
}

impl Glob {
    pub(crate) fn compile(pattern: &str) -> Glob {
        let chars: Vec<char> = pattern.chars().collect();
        let mut reader = Reader { chars: &chars, at: 0 };
        Glob { parts: reader.sequence(0) }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some(parts) = &self.parts else { return true };
        let name: Vec<char> = name.chars().collect();
        let ends = ends(parts, &name, &[0]);
        ends.contains(&name.len())
    }
}

/// Returns the positions at which a match of the parts may end that begins at one of the start
/// positions. Both are sorted and free of duplicates, so that the time is at most the length of the
/// pattern times that of the name, for each level of alternatives.
fn ends(parts: &[Part], name: &[char], starts: &[usize]) -> Vec<usize> {
    let mut places = starts.to_vec();
    for part in parts {
        let mut next: Vec<usize> = Vec::new();
        match part {
            Part::Either(alternatives) => {
                for alternative in alternatives {
                    next.extend(ends(alternative, name, &places));
                }
            }
            Part::Star | Part::Stars => {
                let mut reached = 0;
                for &place in &places {
                    let mut at = place.max(reached);
                    if place >= reached {
                        next.push(place);
                    }
                    while at < name.len() && (*part == Part::Stars || name[at] != '/') {
                        at += 1;
                        next.push(at);
                    }
                    reached = reached.max(at);
                }
            }
            one => {
                let fitting = places.iter().filter(|&&at| name.get(at).is_some_and(|&c| one.accepts(c)));
                next.extend(fitting.map(|at| at + 1));
            }
        }
        next.sort_unstable();
        next.dedup();
        places = next;
    }
    places
}

impl Part {
    /// Reports whether the part accepts this character.
    fn accepts(&self, c: char) -> bool {
        match self {
            Part::Literal(literal) => *literal == c,
            Part::One => c != '/',
            Part::Class { negated, members } => {
                *negated
                    != match members {
                        Members::List(list) => list.contains(&c),
                        Members::Range(low, high) => (*low..=*high).contains(&c),
                    }
            }
            Part::Star | Part::Stars | Part::Either(_) => false,
        }
    }
}

/// Maximum levels of nested alternatives that are accepted.
const DEEPEST: usize = 32;

struct Reader<'p> {
    chars: &'p [char],
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied()?;
        self.at += 1;
        Some(c)
    }

    fn takes(&mut self, wanted: char) -> bool {
        let is_next = self.chars.get(self.at) == Some(&wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Parses the parts up to the end, or inside braces up to a comma or the closing brace, which
    /// is not consumed.
    fn sequence(&mut self, depth: usize) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        loop {
            let inside = depth > 0 && matches!(self.chars.get(self.at), Some(',' | '}'));
            let Some(c) = (if inside { None } else { self.next() }) else { return Some(parts) };
            parts.push(match c {
                '*' if self.takes('*') => {
                    while self.takes('*') {}
                    Part::Stars
                }
                '*' => Part::Star,
                '?' => Part::One,
                '[' => self.class()?,
                '{' if depth < DEEPEST => self.alternatives(depth + 1)?,
                '{' => return None,
                // A backslash at the end escapes no character, and does not match itself either.
                '\\' => match self.next() {
                    Some(escaped) => Part::Literal(escaped),
                    None => return Some(parts),
                },
                c => Part::Literal(c),
            });
        }
    }

    /// Parses alternatives. A missing closing brace is assumed at the end.
    fn alternatives(&mut self, depth: usize) -> Option<Part> {
        let mut alternatives = vec![self.sequence(depth)?];
        while self.takes(',') {
            alternatives.push(self.sequence(depth)?);
        }
        self.takes('}');
        Some(Part::Either(alternatives))
    }

    /// Parses one range, or a list of characters, in brackets.
    fn class(&mut self) -> Option<Part> {
        let negated = self.takes('!');
        let mut list = Vec::new();
        let mut is_range = false;
        loop {
            match self.next()? {
                ']' if !list.is_empty() => break,
                '\\' => list.push(self.next()?),
                '-' if list.len() == 1 && !is_range => is_range = true,
                c => list.push(c),
            }
        }
        let members = match (is_range, list[..].len()) {
            (false, _) => Members::List(list),
            (true, 2) if list[0] <= list[1] => Members::Range(list[0], list[1]),
            (true, _) => return None,
        };
        Some(Part::Class { negated, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_helm() {
        let table = [
            ("d/*", "d/a", true),
            ("d/*", "d/a/b", false),
            ("d/**", "d/a/b", true),
            ("d/**", "d", false),
            ("**/a", "a", false),
            ("**/a", "x/y/a", true),
            ("**", "", true),
            ("", "a", false),
            ("", "", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("*.{json,yaml}", "x.yaml", true),
            ("*.{json,yaml}", "x.txt", false),
            ("{a,{b,c}}d", "cd", true),
            ("{a,}b", "b", true),
            ("{a,b", "b", true),
            ("[abc]x", "bx", true),
            ("[!abc]x", "bx", false),
            ("[!abc]", "/", true),
            ("[a-c]", "b", true),
            ("[^a]", "^", true),
            ("a,b", "a,b", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("[", "anything", true),
            ("[a-", "anything", true),
            ("*", ".hidden", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(Glob::compile(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = "*a".repeat(200) + &"**b".repeat(200) + &"{*,**}".repeat(20) + "c";
        assert!(!Glob::compile(&pattern).matches(&"ab".repeat(2_000)));
    }
}
