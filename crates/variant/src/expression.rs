//! CEL (`packagevariants.md` 4.4): five variables, texts as results, and limits on everything.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr};
use cel::{Context, Env, ExecutionError, Program, Value, extensions};

use crate::attributes::Attributes;
use crate::cost::{self, Size, Sizes};

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
/// The standard library but for times, and the extensions that the chapter names. Operators and macros are not looked up by name.
const FUNCTIONS: [&str; 19] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "bytes",
    "int",
    "uint",
    "double",
    "bool",
    "type",
    "dyn",
    "lowerAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
];

/// The variables of one target, ready to be read by expressions.
pub(crate) struct Scope {
    values: BTreeMap<&'static str, Value>,
    sizes: Sizes<'static>,
}

impl Scope {
    pub(crate) fn new(repo_default: &str, package_default: &str) -> Self {
        let mut scope = Self { values: BTreeMap::new(), sizes: Sizes::new() };
        scope.set("repoDefault", &Shown::text(repo_default));
        scope.set("packageDefault", &Shown::text(package_default));
        scope
    }

    pub(crate) fn set(&mut self, variable: &'static str, shown: &Shown) {
        self.values.insert(variable, shown.value.clone());
        let paths = match variable {
            "upstream" => {
                ["upstream", "upstream.labels", "upstream.annotations", "upstream.name", "upstream.namespace"]
            }
            "target" => ["target", "target.labels", "target.annotations", "target.name", "target.namespace"],
            "repository" => [
                "repository",
                "repository.labels",
                "repository.annotations",
                "repository.name",
                "repository.namespace",
            ],
            plain => [plain; 5],
        };
        self.sizes.extend(paths.into_iter().zip(shown.sizes));
    }
}

/// A value in the form that expressions read, made once and shared by all that read it.
pub(crate) struct Shown {
    value: Value,
    /// Of the whole, its labels, its annotations, its name, its namespace.
    sizes: [Size; 5],
}

impl Shown {
    pub(crate) fn text(text: &str) -> Self {
        Self { value: text.into(), sizes: [Size::text(text.len()); 5] }
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
        Self { value: members.into(), sizes: [whole, labels_size, annotations_size, name, namespace] }
    }

    /// What a list target shows: its repository and its package.
    pub(crate) fn pair(repository: &str, package: &str) -> Self {
        let members = HashMap::from([
            ("repo".to_owned(), Value::from(repository)),
            ("package".to_owned(), Value::from(package)),
        ]);
        Self { value: members.into(), sizes: [Size::text(repository.len() + package.len()); 5] }
    }
}

struct Compiled {
    program: Program,
    /// The variables that it names.
    reads: Vec<&'static str>,
}

/// Compiles expressions once and evaluates them for many targets. To be used with [`STACK`] bytes of stack.
pub(crate) struct Expressions {
    environment: Arc<Env>,
    programs: HashMap<String, Result<Compiled, String>>,
    units: u64,
}

impl Expressions {
    pub(crate) fn new() -> Self {
        let mut environment = Env::stdlib().with_optional_support(false);
        // The one error is a clash with an earlier extension, and this is the first.
        let _ = environment.add_extension(extensions::strings);
        Self { environment: Arc::new(environment), programs: HashMap::new(), units: 0 }
    }

    /// The text that an expression gives; the error is a part of a sentence.
    pub(crate) fn evaluate(&mut self, source: &str, scope: &Scope) -> Result<String, String> {
        if !self.programs.contains_key(source) {
            self.programs.insert(source.to_owned(), compile(&self.environment, source));
        }
        let Compiled { program, reads } = match &self.programs[source] {
            Ok(compiled) => compiled,
            Err(error) => return Err(error.clone()),
        };
        let units = cost::bound(program.expression(), &scope.sizes);
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
        for name in reads {
            if let Some(value) = scope.values.get(name) {
                context.add_variable_from_value(*name, value.clone());
            }
        }
        match program.execute(&context) {
            Ok(Value::String(text)) if text.len() <= LONGEST_RESULT => Ok(text.to_string()),
            Ok(Value::String(_)) => Err(format!("the result is longer than {LONGEST_RESULT} bytes")),
            Ok(other) => Err(format!("expression returned non-string value: {}", shown(&other))),
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
            let _ = write!(text, "{separator}{} (at {}:{})", error.msg, error.pos.0, error.pos.1);
        }
        text
    })?;
    declared(&program.expression().expr, &mut Vec::new())?;
    let references = program.references();
    let reads = VARIABLES.into_iter().filter(|name| references.has_variable(name)).collect();
    Ok(Compiled { program, reads })
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

/// The library looks names up when it meets them; a name that nothing declares is an error wherever it stands.
fn declared<'a>(expr: &'a Expr, locals: &mut Vec<&'a str>) -> Result<(), String> {
    match expr {
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
        Expr::Ident(name) => {
            let is_known = name.starts_with('@')
                || VARIABLES.contains(&name.as_str())
                || locals.contains(&name.as_str());
            let is_type = matches!(
                name.as_str(),
                "string"
                    | "bytes"
                    | "int"
                    | "uint"
                    | "double"
                    | "bool"
                    | "list"
                    | "map"
                    | "null_type"
                    | "type"
            );
            if is_known || is_type { Ok(()) } else { Err(format!("undeclared reference to '{name}'")) }
        }
        Expr::Select(select) => declared(&select.operand.expr, locals),
        Expr::List(list) => list.elements.iter().try_for_each(|element| declared(&element.expr, locals)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| declared_entry(&entry.expr, locals)),
        Expr::Struct(made) => Err(format!("undeclared reference to '{}'", made.type_name)),
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let is_operator = name.starts_with(['_', '!', '-', '@']);
            if !is_operator && !FUNCTIONS.contains(&name) {
                return Err(format!("undeclared reference to '{name}'"));
            }
            let target = call.target.iter().map(AsRef::as_ref);
            target.chain(&call.args).try_for_each(|argument| declared(&argument.expr, locals))
        }
        Expr::Comprehension(made) => {
            declared(&made.iter_range.expr, locals)?;
            declared(&made.accu_init.expr, locals)?;
            let depth = locals.len();
            locals.push(&made.iter_var);
            locals.extend(made.iter_var2.as_deref());
            locals.push(&made.accu_var);
            for part in [&made.loop_cond, &made.loop_step, &made.result] {
                declared(&part.expr, locals)?;
            }
            locals.truncate(depth);
            Ok(())
        }
    }
}

fn declared_entry<'a>(entry: &'a EntryExpr, locals: &mut Vec<&'a str>) -> Result<(), String> {
    match entry {
        EntryExpr::StructField(field) => declared(&field.value.expr, locals),
        EntryExpr::MapEntry(entry) => {
            declared(&entry.key.expr, locals)?;
            declared(&entry.value.expr, locals)
        }
    }
}

/// Numbers and truth values as they are; of everything else only its type, since objects may be large.
fn shown(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Null => "null".to_owned(),
        other => format!("a {}", other.type_of()).to_lowercase(),
    }
}

/// The library's errors print the values that they are about.
fn problem(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) if VARIABLES.contains(&name.as_str()) => {
            format!("no such attribute(s): {name}")
        }
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::NoSuchOverload(error) => error.to_string(),
        ExecutionError::UnsupportedBinaryOperator(operator, ..) => {
            format!("found no matching overload for '{operator}'")
        }
        ExecutionError::InvalidArgumentCount { expected, actual } => {
            format!("a function takes {expected} arguments and not {actual}")
        }
        ExecutionError::UnexpectedType { got, want } => format!("unexpected type {got}, expected {want}"),
        ExecutionError::FunctionError { function, .. } => {
            format!("the function {function} cannot be applied to its arguments")
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(operator, ..) => format!("overflow in {operator}"),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::DuplicateKey(_) => "a map has the same key twice".to_owned(),
        ExecutionError::NotSupportedAsMethod { method, .. } => format!("no such method: {method}"),
        _ => "its operands do not fit its operators".to_owned(),
    }
}

#[cfg(test)]
mod tests;
