//! CEL (`packagevariants.md` 4.4): five variables, texts as results, and limits on everything.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use cel::common::types::CelNull;
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::parser::Expression;
use cel::{Context, Env, Value, extensions};

use crate::attributes::Attributes;
use crate::check::{Type, check};
use crate::cost::{self, Size, Sizes};
use crate::patterns::Patterns;
use crate::problem::{not_a_text, problem};
use crate::rewrite::{add_helpers, rewritten};

/// Longest expression, in bytes.
const LONGEST_SOURCE: usize = 4096;
/// Longest result, in bytes.
const LONGEST_RESULT: usize = 1024;
/// Brackets inside each other, and operators in a row: the parser recurses for both.
const DEEPEST: usize = 60;
const MOST_OPERATORS: usize = 500;
/// Units for one evaluation, and for all of a set.
const COST: u64 = 1_000_000;
const TOTAL_COST: u64 = 50_000_000;
/// Stack for the parser and the evaluator, in bytes.
pub(crate) const STACK: usize = 64 << 20;

const VARIABLES: [&str; 5] = ["repoDefault", "packageDefault", "upstream", "target", "repository"];
/// What objects show.
const FIELDS: [&str; 4] = ["labels", "annotations", "name", "namespace"];

/// The variables of one target, ready to be read by expressions.
pub(crate) struct Scope {
    /// In the order of [`VARIABLES`].
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

/// Variables are read where they are: to hand them over would be to copy them for each expression.
impl VariableResolver for Scope {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        self.get(variable).map(|shown| CowVal::Borrowed(shown.value.as_ref().as_ref()))
    }
}

impl Sizes for Scope {
    fn variable(&self, name: &str) -> Option<Size> {
        self.get(name).map(|shown| shown.sizes[0])
    }

    fn field(&self, variable: &str, field: &str) -> Option<Size> {
        let at = FIELDS.iter().position(|name| *name == field)?;
        // The other two are texts.
        let shown = self.get(variable).filter(|_| !variable.ends_with("Default"))?;
        Some(shown.sizes[at + 1])
    }
}

/// A value in the form that expressions read, made once and shared by all that read it.
#[derive(Clone)]
pub(crate) struct Shown {
    value: Arc<Box<dyn Val>>,
    /// Of the whole, and of [`FIELDS`].
    sizes: [Size; 1 + FIELDS.len()],
}

impl Shown {
    fn new(value: Value, sizes: [Size; 1 + FIELDS.len()]) -> Self {
        // Only values that the interpreter itself has made have no such form.
        let value = <Box<dyn Val>>::try_from(value).unwrap_or_else(|_| Box::new(CelNull));
        Self { value: Arc::new(value), sizes }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::new(text.into(), [Size::text(text.len()); 5])
    }

    /// An object as expressions see it: what is known of its metadata.
    pub(crate) fn object(seen: &Attributes) -> Self {
        let texts = |entries: &BTreeMap<String, String>| {
            let pairs = entries.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
            let size = Size {
                bytes: entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64,
                elements: entries.len().max(1) as u64,
            };
            (Value::from(pairs.collect::<HashMap<_, _>>()), size)
        };
        let (labels, labels_size) = texts(&seen.labels);
        let (annotations, annotations_size) = texts(&seen.annotations);
        let (name, namespace) = (Size::text(seen.name.len()), Size::text(seen.namespace.len()));
        let parts = [labels_size, annotations_size, name, namespace];
        let whole = Size {
            bytes: parts.iter().map(|size| size.bytes).sum(),
            elements: parts.iter().map(|size| size.elements).sum(),
        };
        let members = HashMap::from([
            ("name".to_owned(), Value::from(seen.name.as_str())),
            ("namespace".to_owned(), Value::from(seen.namespace.as_str())),
            ("labels".to_owned(), labels),
            ("annotations".to_owned(), annotations),
        ]);
        Self::new(members.into(), [whole, labels_size, annotations_size, name, namespace])
    }

    /// What a list target shows: its repository and its package.
    pub(crate) fn pair(repository: &str, package: &str) -> Self {
        let members = HashMap::from([
            ("repo".to_owned(), Value::from(repository)),
            ("package".to_owned(), Value::from(package)),
        ]);
        Self::new(members.into(), [Size::text(repository.len() + package.len()); 5])
    }
}

struct Compiled {
    expression: Expression,
    /// Whether it calls functions of our own.
    needs_helpers: bool,
    /// The interpreter has texts for types.
    gives_a_type: bool,
    /// The variables that it names.
    reads: Vec<&'static str>,
}

/// Compiles expressions once and evaluates them for many targets. To be used with [`STACK`] bytes of stack.
pub(crate) struct Expressions {
    environment: Arc<Env>,
    programs: HashMap<String, Result<Compiled, String>>,
    patterns: Arc<Patterns>,
    units: u64,
}

impl Expressions {
    pub(crate) fn new() -> Self {
        let mut environment = Env::stdlib().with_optional_support(false);
        // The one error is a clash with an earlier extension, and this is the first.
        let _ = environment.add_extension(extensions::strings);
        Self {
            environment: Arc::new(environment),
            programs: HashMap::new(),
            patterns: Arc::default(),
            units: 0,
        }
    }

    /// The text that an expression gives; the error is a part of a sentence.
    pub(crate) fn evaluate(&mut self, source: &str, scope: &Scope) -> Result<String, String> {
        if !self.programs.contains_key(source) {
            self.programs.insert(source.to_owned(), compile(&self.environment, source));
        }
        let Compiled { expression, needs_helpers, gives_a_type, .. } = match &self.programs[source] {
            Ok(compiled) => compiled,
            Err(error) => return Err(error.clone()),
        };
        let units = cost::bound(expression, scope);
        if units > COST {
            return Err(format!(
                "the expression may cost more than {COST} units: loop over less, or build shorter texts"
            ));
        }
        self.units += units;
        if self.units > TOTAL_COST {
            return Err(format!(
                "the expressions of this set may cost more than {TOTAL_COST} units for all of its targets"
            ));
        }
        let mut context = Context::with_env(Arc::clone(&self.environment));
        if *needs_helpers {
            add_helpers(&mut context, &self.patterns);
        }
        context.set_variable_resolver(scope);
        match Value::resolve(expression, &context) {
            Ok(_) if *gives_a_type => Err("type conversion not supported for 'type'".to_owned()),
            Ok(Value::String(text)) if text.len() <= LONGEST_RESULT => Ok(text.to_string()),
            Ok(Value::String(_)) => Err(format!("the result is longer than {LONGEST_RESULT} bytes")),
            Ok(other) => Err(not_a_text(&other)),
            Err(error) => Err(problem(&error)),
        }
    }

    /// Whether an expression names a variable; one that cannot be compiled names none.
    pub(crate) fn reads(&mut self, source: &str, variable: &str) -> bool {
        let environment = &self.environment;
        let compiled = self.programs.entry(source.to_owned()).or_insert_with(|| compile(environment, source));
        compiled.as_ref().is_ok_and(|compiled| compiled.reads.contains(&variable))
    }
}

fn compile(environment: &Env, source: &str) -> Result<Compiled, String> {
    if source.len() > LONGEST_SOURCE {
        return Err(format!("the expression is longer than {LONGEST_SOURCE} bytes"));
    }
    within_limits(source)?;
    let program = environment.compile(source).map_err(|errors| {
        let mut text = String::new();
        for error in errors.errors.iter().take(3) {
            let separator = if text.is_empty() { "" } else { "; " };
            let kind = if is_named(&error.msg) { "" } else { "Syntax error: " };
            let _ = write!(text, "{separator}{kind}{} (at {}:{})", error.msg, error.pos.0, error.pos.1);
        }
        text
    })?;
    let gives_a_type = matches!(check(&program.expression().expr)?, Type::Named(_));
    let references = program.references();
    let reads = VARIABLES.into_iter().filter(|name| references.has_variable(name)).collect();
    let (expression, needs_helpers) = rewritten(program.expression());
    Ok(Compiled { expression, needs_helpers, gives_a_type, reads })
}

/// Whether the parser's message says itself what is wrong.
fn is_named(message: &str) -> bool {
    ["Syntax error", "reserved identifier", "unsupported syntax", "invalid argument to has()"]
        .iter()
        .any(|known| message.contains(known))
}

/// What would exhaust the stack is refused before anything is parsed. Counts in texts count as well, which is no loss:
/// people write neither.
fn within_limits(source: &str) -> Result<(), String> {
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'?' | b':'
            | b'.' | b',' => {
                operators += 1;
            }
            _ => {}
        }
    }
    if deepest > DEEPEST {
        return Err(format!("the expression has more than {DEEPEST} brackets inside each other"));
    }
    if operators > MOST_OPERATORS {
        return Err(format!("the expression has more than {MOST_OPERATORS} operators"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
