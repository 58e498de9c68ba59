//! CEL expressions of templates (`packagevariants.md` 4.4): five variables, texts as results, and
//! limits on everything.

use std::collections::{BTreeMap, HashMap};

pub(crate) use groundwork_cel::STACK;
use groundwork_cel::{
    Compiler, Declarations, Declared, EvalError, Host, Patterns, Program, Steps, Value, check_form,
};

use crate::attributes::Attributes;

/// Limit for a result, in bytes.
const LONGEST_RESULT: usize = 1024;
/// Steps of one evaluation, and of all evaluations of a set.
const STEPS: u64 = 1_000_000;
const ALL_STEPS: u64 = groundwork_budget::DEFAULT_STEPS;

const VARIABLES: [&str; 5] = ["repoDefault", "packageDefault", "upstream", "target", "repository"];

/// Variables of one target, ready for expressions.
pub(crate) struct Scope {
    /// Values in the order of [`VARIABLES`].
    values: [Option<Shown>; VARIABLES.len()],
}

impl Scope {
    pub(crate) fn new(repo_default: &str, package_default: &str) -> Self {
        let mut scope = Self { values: Default::default() };
        scope.set("repoDefault", &Shown::text(repo_default));
        scope.set("packageDefault", &Shown::text(package_default));
        scope
    }

    pub(crate) fn set(&mut self, variable: &'static str, shown: &Shown) {
        for (name, value) in VARIABLES.iter().zip(&mut self.values) {
            if *name == variable {
                *value = Some(shown.clone());
            }
        }
    }

    fn get(&self, variable: &str) -> Option<&Shown> {
        let found = VARIABLES.iter().position(|name| *name == variable);
        self.values[found?].as_ref()
    }
}

/// Value in the form that expressions read, created once and shared by all targets that read it.
#[derive(Clone)]
pub(crate) struct Shown(Value);

impl Shown {
    pub(crate) fn text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the visible part of an object: its metadata, as far as known.
    pub(crate) fn object(seen: &Attributes) -> Self {
        let texts = |entries: &BTreeMap<String, String>| {
            Value::object(entries.iter().map(|(key, value)| (key.as_str(), value.as_str().into())))
        };
        let members = [
            ("name", Value::from(seen.name.as_str())),
            ("namespace", Value::from(seen.namespace.as_str())),
            ("labels", texts(&seen.labels)),
            ("annotations", texts(&seen.annotations)),
        ];
        Self(Value::object(members))
    }

    /// Returns the visible part of a list target: its repository and its package.
    pub(crate) fn pair(repository: &str, package: &str) -> Self {
        Self(Value::object([("repo", repository.into()), ("package", package.into())]))
    }
}

/// Reader of variables for one evaluation.
struct Reader<'s> {
    scope: &'s Scope,
    patterns: &'s Patterns,
}

impl Host for Reader<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        self.scope.get(name).map(|shown| shown.0.clone())
    }

    fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError> {
        self.patterns.matches(text, pattern)
    }
}

/// Compiled expressions, which are evaluated for many targets. The caller needs [`STACK`] bytes of
/// stack.
pub(crate) struct Expressions {
    compiler: Compiler,
    programs: HashMap<String, Result<Program, String>>,
    patterns: Patterns,
    /// Steps of all evaluations so far.
    spent: u64,
}

impl Expressions {
    pub(crate) fn new() -> Self {
        Self {
            compiler: Compiler::default(),
            programs: HashMap::new(),
            patterns: Patterns::new("this set"),
            spent: 0,
        }
    }

    /// Evaluates an expression to a text. The error is a fragment for the caller's message.
    pub(crate) fn evaluate(&mut self, source: &str, scope: &Scope) -> Result<String, String> {
        let program = program(&mut self.programs, &self.compiler, &self.patterns, source);
        let program = program.as_ref().map_err(String::clone)?;
        let left = ALL_STEPS.saturating_sub(self.spent);
        let steps = Steps::new(STEPS.min(left));
        let value = program.evaluate(&Reader { scope, patterns: &self.patterns }, &steps);
        self.spent = self.spent.saturating_add(steps.spent());
        if steps.is_exceeded() {
            return Err(if left < STEPS {
                format!("the expressions of this set take more than {ALL_STEPS} steps for all of its targets")
            } else {
                format!(
                    "the expression takes more than {STEPS} steps: iterate over fewer entries, or build shorter strings"
                )
            });
        }
        let value = value.map_err(|error| error.to_string())?;
        let text = value.text().map_err(|error| error.to_string())?;
        if text.len() > LONGEST_RESULT {
            return Err(format!("the result is longer than {LONGEST_RESULT} bytes"));
        }
        Ok(text.to_owned())
    }

    /// Reports whether an expression reads a variable; false for one that cannot be compiled.
    pub(crate) fn reads(&mut self, source: &str, variable: &str) -> bool {
        let program = program(&mut self.programs, &self.compiler, &self.patterns, source);
        program.as_ref().is_ok_and(|program| program.names(variable))
    }
}

/// Returns the compiled expression, and compiles it at its first use.
fn program<'p>(
    known: &'p mut HashMap<String, Result<Program, String>>,
    compiler: &Compiler,
    patterns: &Patterns,
    source: &str,
) -> &'p Result<Program, String> {
    if !known.contains_key(source) {
        known.insert(source.to_owned(), compile(compiler, patterns, source));
    }
    &known[source]
}

fn compile(compiler: &Compiler, patterns: &Patterns, source: &str) -> Result<Program, String> {
    check_form(source)?;
    compiler.compile(source, &Declaring(patterns))
}

/// Declarations of the variables of all sets, and of the patterns of this set.
struct Declaring<'p>(&'p Patterns);

impl Declarations for Declaring<'_> {
    fn variable(&self, name: &str) -> Option<Declared> {
        match name {
            "repoDefault" | "packageDefault" => Some(Declared::String),
            _ => VARIABLES.contains(&name).then_some(Declared::Dyn),
        }
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), EvalError> {
        self.0.matches("", pattern).map(drop)
    }
}

#[cfg(test)]
mod tests;
