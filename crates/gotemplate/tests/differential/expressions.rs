//! Generator of expressions of a wanted kind, from recipes, constants, variables and data.

use crate::data;
use crate::literals as text;
use crate::random::Random;
use crate::recipes::{ALL, Recipe};

/// Levels of nested calls.
const DEPTH: usize = 2;

pub(crate) struct Expressions {
    recipes: Vec<&'static Recipe>,
}

impl Expressions {
    pub(crate) fn new() -> Expressions {
        Expressions { recipes: ALL.iter().copied().flatten().collect() }
    }

    /// Returns the call that the case at this index tests. The recipes take turns, so that each is
    /// tested.
    pub(crate) fn turn(&self, random: &mut Random, at: usize) -> String {
        self.fill(random, self.recipes[at % self.recipes.len()].text, DEPTH)
    }

    /// Returns an expression of a kind (see the recipes) that fits as an operand.
    pub(crate) fn operand(&self, random: &mut Random, kind: char, depth: usize) -> String {
        // Two of a hundred operands are of any kind, to test errors. Times and maps always fit:
        // some functions take another value for the current time, whose result differs, and a map
        // that contains itself crashes the Go program.
        let kind = if !"tMx".contains(kind) && random.chance(2) { 'a' } else { kind };
        if depth > 0
            && random.chance(30)
            && let Some(call) = self.call(random, kind, depth - 1)
        {
            return format!("({call})");
        }
        match self.simple(random, kind) {
            Some(text) => text,
            None => self.call(random, kind, 0).map_or_else(|| "nil".to_owned(), |call| format!("({call})")),
        }
    }

    /// Returns a call whose result is of a kind, if a recipe has one.
    pub(crate) fn call(&self, random: &mut Random, kind: char, depth: usize) -> Option<String> {
        let fitting: Vec<&Recipe> = self
            .recipes
            .iter()
            .filter(|recipe| match kind {
                'a' => !recipe.text.starts_with("fail"),
                'n' => "ijf".contains(recipe.gives),
                _ => recipe.gives == kind,
            })
            .copied()
            .collect();
        (!fitting.is_empty()).then(|| {
            let recipe = random.pick(&fitting);
            self.fill(random, recipe.text, depth)
        })
    }

    /// Returns the recipe with its arguments filled in.
    fn fill(&self, random: &mut Random, recipe: &str, depth: usize) -> String {
        let mut parts = recipe.split('@');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (kind, rest) = part.split_at(1);
            filled.extend(kind.chars().map(|kind| self.operand(random, kind, depth)));
            filled.push_str(rest);
        }
        filled
    }

    /// Returns a constant, or a path to a value of the data.
    fn simple(&self, random: &mut Random, kind: char) -> Option<String> {
        let from_data = random.chance(50);
        let path = |random: &mut Random, names: &[&str]| format!("$.{}", random.pick(names));
        Some(match kind {
            's' if from_data => path(random, data::TEXTS),
            's' => random.pick(text::TEXTS).to_owned(),
            'k' => random.pick(text::SMALL).to_owned(),
            'i' if from_data => format!("(int {})", path(random, data::INTEGERS)),
            'i' => random.pick(text::INTEGERS).to_owned(),
            'j' => format!("(int64 {})", random.pick(text::INTEGERS)),
            'f' => random.pick(text::FLOATS).to_owned(),
            'n' if from_data => path(random, data::NUMBERS),
            'n' if random.chance(15) => random.pick(text::TEXTS).to_owned(),
            'n' => random.pick(&[text::INTEGERS, text::FLOATS].concat()).to_owned(),
            'b' if from_data => path(random, data::BOOLS),
            'b' => random.pick(&["true", "false"]).to_owned(),
            'l' if from_data => path(random, data::LISTS),
            'l' => random
                .pick(&[
                    "(list 1 2 3)",
                    "(list)",
                    r#"(list "b" "a" nil 1.5)"#,
                    "(until 4)",
                    r#"(splitList "," "x,y,z")"#,
                ])
                .to_owned(),
            'm' if from_data => path(random, data::MAPS),
            'm' => random.pick(&[r#"(dict "a" 1 "b" "x")"#, "(dict)", "."]).to_owned(),
            'M' => self.fresh_map(random),
            'x' => random
                .pick(&["1", r#""v""#, "true", "nil", "2.5", r#"(list 1 "a")"#, "$.s", "$.n"])
                .to_owned(),
            't' => random.pick(text::TIMES).to_owned(),
            'v' => format!("(semver {})", random.pick(text::VERSIONS)),
            'w' => random.pick(text::WORDS).to_owned(),
            'y' => random.pick(text::KEYS).to_owned(),
            'r' => random.pick(text::REGEXES).to_owned(),
            'R' => random.pick(text::REPLACEMENTS).to_owned(),
            'c' => random.pick(text::CONSTRAINTS).to_owned(),
            'V' if random.chance(10) => random.pick(text::BAD_VERSIONS).to_owned(),
            'V' => random.pick(text::VERSIONS).to_owned(),
            'L' => random.pick(text::LAYOUTS).to_owned(),
            'z' => random.pick(text::ZONES).to_owned(),
            'D' => random.pick(text::DURATIONS).to_owned(),
            'u' => random.pick(text::URLS).to_owned(),
            'p' => random.pick(text::PATHS).to_owned(),
            'J' => random.pick(text::JSON).to_owned(),
            'F' => {
                let verbs = 1 + random.below(3);
                text::format(random, verbs)
            }
            'a' => return self.anything(random),
            _ => return None,
        })
    }

    /// Returns a map that is not part of the data and contains no map of the data, so that merging
    /// and setting cannot make a map that contains itself.
    fn fresh_map(&self, random: &mut Random) -> String {
        match random.below(6) {
            0 => "(dict)".to_owned(),
            1 => "(deepCopy $.m)".to_owned(),
            2 => format!(
                r#"(dict "a" {} "m" (dict "x" 1 {} 2))"#,
                random.pick(text::SMALL),
                random.pick(text::KEYS)
            ),
            3 => r#"(dict "m" (dict "y" 0 "x" "") "l" (list))"#.to_owned(),
            4 => "(deepCopy $.ms)".to_owned(),
            _ => {
                let value = random.pick(&["0", r#""""#, "nil", "false", "(list 1)", "$.ls", "1.5", "$.n"]);
                format!("(dict {} {value} \"k\" $.i)", random.pick(text::KEYS))
            }
        }
    }

    fn anything(&self, random: &mut Random) -> Option<String> {
        if random.chance(8) {
            let name = random.pick(data::NOTHING);
            // Most paths through a missing value are errors, so they are made rare.
            let name = if name.contains("x") && random.chance(80) { "nope" } else { name };
            return Some(format!("$.{name}"));
        }
        let kind = ['s', 'n', 'b', 'l', 'm', 's', 'i', 'j', 'f', 't', 'v'][random.below(11)];
        if random.chance(4) {
            return Some("nil".to_owned());
        }
        self.simple(random, kind)
    }
}
