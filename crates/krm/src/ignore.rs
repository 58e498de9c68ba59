//! `.krmignore` files (`packagevariants.md` 7.3): patterns in the notation of `.gitignore`, for a
//! directory and those below.

use crate::package::Package;

const FILE: &str = ".krmignore";

/// All patterns of a package, those of deeper directories later.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// Directory of the pattern, with a slash at the end unless it is the root.
    base: String,
    pattern: Vec<char>,
    /// True if the pattern must match from `base` on; otherwise it may match from any directory
    /// below.
    is_anchored: bool,
    directories_only: bool,
    is_negated: bool,
}

impl Ignored {
    pub(crate) fn of(files: &Package) -> Self {
        let mut found: Vec<(&str, &str)> = files
            .iter()
            .filter_map(|(path, text)| {
                let base = path.strip_suffix(FILE)?;
                (base.is_empty() || base.ends_with('/')).then_some((base, text.as_str()))
            })
            .collect();
        found.sort_by_key(|(base, _)| base.matches('/').count());
        let rules =
            found.iter().flat_map(|(base, text)| text.lines().filter_map(|line| Rule::read(base, line)));
        Self { rules: rules.collect() }
    }

    /// Reports whether a file, or a directory that contains it, is ignored.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let directories = path.match_indices('/').map(|(at, _)| (&path[..at], true));
        directories.chain([(path, false)]).any(|(path, is_directory)| self.names(path, is_directory))
    }

    /// Reports whether the last matching rule ignores the path.
    fn names(&self, path: &str, is_directory: bool) -> bool {
        let rule = self.rules.iter().rev().find(|rule| rule.fits(path, is_directory));
        rule.is_some_and(|rule| !rule.is_negated)
    }
}

impl Rule {
    fn read(base: &str, line: &str) -> Option<Self> {
        let line = line.trim_end_matches(['\r', '\n']);
        let line = if line.ends_with("\\ ") { line } else { line.trim_end_matches(' ') };
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (is_negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let is_anchored = line.contains('/');
        let pattern = line.strip_prefix('/').unwrap_or(line).chars().collect();
        Some(Self { base: base.to_owned(), pattern, is_anchored, directories_only, is_negated })
    }

    fn fits(&self, path: &str, is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let Some(path) = path.strip_prefix(&self.base) else { return false };
        let path = if self.is_anchored { path } else { path.rsplit('/').next().unwrap_or(path) };
        let path: Vec<char> = path.chars().collect();
        // A pattern with many stars could take exponential time, so the steps are limited.
        let mut steps = 100_000;
        glob(&self.pattern, &path, &mut steps)
    }
}

/// Matches a glob. `*` and `?` do not cross a slash, `**` does.
pub(crate) fn glob(pattern: &[char], text: &[char], steps: &mut usize) -> bool {
    if *steps == 0 {
        return false;
    }
    *steps -= 1;
    match pattern {
        [] => text.is_empty(),
        ['*', '*', '/', rest @ ..] => {
            glob(rest, text, steps)
                || (0..text.len()).any(|at| text[at] == '/' && glob(rest, &text[at + 1..], steps))
        }
        ['*', '*'] => !text.is_empty(),
        ['*', rest @ ..] => {
            let end = text.iter().position(|c| *c == '/').unwrap_or(text.len());
            (0..=end).any(|at| glob(rest, &text[at..], steps))
        }
        ['?', rest @ ..] => text.first().is_some_and(|c| *c != '/') && glob(rest, &text[1..], steps),
        ['[', rest @ ..] => match (class(rest, text.first().copied()), text) {
            (Some((true, after)), [_, text @ ..]) => glob(after, text, steps),
            (None, ['[', text @ ..]) => glob(rest, text, steps),
            _ => false,
        },
        ['\\', literal, rest @ ..] => text.first() == Some(literal) && glob(rest, &text[1..], steps),
        [literal, rest @ ..] => text.first() == Some(literal) && glob(rest, &text[1..], steps),
    }
}

/// Matches a character class. Returns the result and the rest of the pattern; `None` if the class
/// has no end.
fn class(pattern: &[char], found: Option<char>) -> Option<(bool, &[char])> {
    let (is_negated, mut rest) = match pattern {
        ['!' | '^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let (mut is_in, mut is_first) = (false, true);
    loop {
        match rest {
            [] => return None,
            [']', after @ ..] if !is_first => {
                let fits = found.is_some_and(|c| c != '/') && is_in != is_negated;
                return Some((fits, after));
            }
            [low, '-', high, after @ ..] if *high != ']' => {
                is_in |= found.is_some_and(|c| (*low..=*high).contains(&c));
                rest = after;
            }
            [literal, after @ ..] => {
                is_in |= found == Some(*literal);
                rest = after;
            }
        }
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &str, held: &[&str], free: &[&str]) {
        let ignored = Ignored::of(&[(FILE.to_owned(), rules.to_owned())].into());
        for path in held {
            assert!(ignored.holds(path), "{rules:?} {path}");
        }
        for path in free {
            assert!(!ignored.holds(path), "{rules:?} {path}");
        }
    }

    #[test]
    fn patterns_of_gitignore() {
        check("*.tmpl.yaml\n", &["a.tmpl.yaml", "d/b.tmpl.yaml"], &["a.yaml"]);
        check("/a.yaml\n", &["a.yaml"], &["d/a.yaml"]);
        check("d/\n", &["d/a.yaml", "x/d/b.yaml"], &["d", "dd/a.yaml"]);
        check("d/*.yaml\n!d/keep.yaml\n", &["d/a.yaml"], &["d/keep.yaml", "d/e/a.yaml"]);
        check("**/t/*.yaml\n# c\n\n", &["t/a.yaml", "x/y/t/a.yaml"], &["t/u/a.yaml"]);
        check("a[0-9].yaml\nb?.yaml\n", &["a1.yaml", "bx.yaml"], &["ax.yaml", "b.yaml"]);
        check("x/**\n", &["x/a", "x/y/z"], &["y/x2"]);
    }

    #[test]
    fn a_file_is_for_its_own_directory() {
        let files = [("d/.krmignore".to_owned(), "*.yaml".to_owned())].into();
        let ignored = Ignored::of(&files);
        assert!(ignored.holds("d/a.yaml") && ignored.holds("d/e/a.yaml") && !ignored.holds("a.yaml"));
    }
}
