//! Generated inputs, mutated from real ones. Every run generates the same ones, so a failure can be
//! repeated.

/// Pieces with a meaning in a template language, YAML or JSON, or that are very large or not text.
pub const PIECES: [&str; 28] = [
    "(( ",
    " ))",
    "{{ ",
    " }}",
    "&state",
    "\n",
    "\0",
    "99999999999999999999",
    "- ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "name",
    "null",
    "*a",
    "&a ",
    "<<: ",
    "!!binary ",
    "\t",
    "\u{fffe}",
    ".nan",
    "imports",
    "(( merge ))",
    "$ref: 'local://t'",
    "fail .imports.a",
];

/// Returns the number of inputs that a test generates: the value of a variable, or else a small
/// number.
pub fn cases(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// Random number generator with the same sequence everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below a bound; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // Constants of Knuth's linear congruential generator MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound.max(1) as u64).unwrap_or_default()
    }

    /// Returns one of several values.
    ///
    /// # Panics
    /// The slice is empty.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Returns the text with a few changes: parts removed, cut off, inserted or repeated.
    pub fn changed(&mut self, text: &str) -> String {
        let mut text: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(3) {
            let at = self.below(text.len());
            match self.below(8) {
                0 | 1 => drop(text.splice(at..(at + 1).min(text.len()), [])),
                2 => text.truncate(at),
                3 | 4 => drop(text.splice(at..at, PIECES[self.below(PIECES.len())].chars())),
                _ => {
                    let end = (at + self.below(30)).min(text.len());
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = self.below(text.len());
                    drop(text.splice(to..to, copy));
                }
            }
        }
        text.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_the_same() {
        let make = || {
            let mut random = Random::new(1);
            (0..50).map(|_| random.changed("a: [b, c]")).collect::<Vec<_>>()
        };
        assert_eq!(make(), make());
        assert!(make().iter().any(|text| text != "a: [b, c]"));
        let mut random = Random::new(1);
        assert_eq!((random.below(0), random.changed("").len() < 100), (0, true));
        assert_eq!(cases("GROUNDWORK_NO_SUCH_VARIABLE", 3), 3);
    }
}
