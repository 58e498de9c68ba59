//! CEL expressions of templates (`packagevariants.md` 4.4): five variables, texts as results, and
//! limits on everything.

use std::collections::{BTreeMap, HashMap};

pub(crate) use groundwork_cel::STACK;
use groundwork_cel::{
    Compiler, Declarations, Declared, EvalError, Host, Patterns, Program, Size, Sizes, Value, check_form,
};

use crate::attributes::Attributes;

/// Limit for a result, in bytes.
const LONGEST_RESULT: usize = 1024;
/// Cost units for one evaluation, and for all evaluations of a set.
const COST: u64 = 1_000_000;
const TOTAL_COST: u64 = 50_000_000;

const VARIABLES: [&str; 5] = ["repoDefault", "packageDefault", "upstream", "target", "repository"];
/// Fields of objects that expressions may read.
const FIELDS: [&str; 4] = ["labels", "annotations", "name", "namespace"];

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

impl Sizes for Scope {
    fn variable(&self, name: &str) -> Option<Size> {
        self.get(name).map(|shown| shown.sizes[0])
    }

    fn field(&self, variable: &str, field: &str) -> Option<Size> {
        let at = FIELDS.iter().position(|name| *name == field)?;
        // The two `…Default` variables are texts and have no fields.
        let shown = self.get(variable).filter(|_| !variable.ends_with("Default"))?;
        Some(shown.sizes[at + 1])
    }
}

/// Value in the form that expressions read, created once and shared by all targets that read it.
#[derive(Clone)]
pub(crate) struct Shown {
    value: Value,
    /// Sizes of the whole value, and of its [`FIELDS`].
    sizes: [Size; 1 + FIELDS.len()],
}

impl Shown {
    fn new(value: Value, sizes: [Size; 1 + FIELDS.len()]) -> Self {
        Self { value, sizes }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::new(text.into(), [Size::text(text.len()); 5])
    }

    /// Returns the visible part of an object: its metadata, as far as known.
    pub(crate) fn object(seen: &Attributes) -> Self {
        let texts = |entries: &BTreeMap<String, String>| {
            let shown =
                Value::object(entries.iter().map(|(key, value)| (key.as_str(), value.as_str().into())));
            let size = Size {
                bytes: entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64,
                elements: entries.len().max(1) as u64,
            };
            (shown, size)
        };
        let (labels, labels_size) = texts(&seen.labels);
        let (annotations, annotations_size) = texts(&seen.annotations);
        let (name, namespace) = (Size::text(seen.name.len()), Size::text(seen.namespace.len()));
        let parts = [labels_size, annotations_size, name, namespace];
        let whole = Size {
            bytes: parts.iter().map(|size| size.bytes).sum(),
            elements: parts.iter().map(|size| size.elements).sum(),
        };
        let members = [
            ("name", Value::from(seen.name.as_str())),
            ("namespace", Value::from(seen.namespace.as_str())),
            ("labels", labels),
            ("annotations", annotations),
        ];
        Self::new(Value::object(members), [whole, labels_size, annotations_size, name, namespace])
    }

    /// Returns the visible part of a list target: its repository and its package.
    pub(crate) fn pair(repository: &str, package: &str) -> Self {
        let members = [("repo", repository.into()), ("package", package.into())];
        Self::new(Value::object(members), [Size::text(repository.len() + package.len()); 5])
    }
}

/// Reader of variables for one evaluation.
struct Reader<'s> {
    scope: &'s Scope,
    patterns: &'s Patterns,
}

impl Host for Reader<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        self.scope.get(name).map(|shown| shown.value.clone())
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
    units: u64,
}

impl Expressions {
    pub(crate) fn new() -> Self {
        Self {
            compiler: Compiler::default(),
            programs: HashMap::new(),
            patterns: Patterns::new("this set"),
            units: 0,
        }
    }

    /// Evaluates an expression to a text. The error is a fragment for the caller's message.
    pub(crate) fn evaluate(&mut self, source: &str, scope: &Scope) -> Result<String, String> {
        let program = program(&mut self.programs, &self.compiler, &self.patterns, source);
        let program = program.as_ref().map_err(String::clone)?;
        let units = program.cost(scope);
        if units > COST {
            return Err(format!(
                "the expression may cost more than {COST} units: iterate over fewer entries, or build shorter strings"
            ));
        }
        self.units += units;
        if self.units > TOTAL_COST {
            return Err(format!(
                "the expressions of this set may cost more than {TOTAL_COST} units for all of its targets"
            ));
        }
        let value = program.evaluate(&Reader { scope, patterns: &self.patterns });
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
