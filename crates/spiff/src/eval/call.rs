//! Calls of functions by name (`spiff.md` 8.2 and 11).

use std::sync::Arc;
use std::time::SystemTime;

use groundwork_budget::BYTES_PER_STEP;

use super::{
    Eval, EvalError, Evaluated, Info, Readiness, arguments, files, intrinsic, lambda, nested, static_ips,
};
use crate::env::Env;
use crate::functions::{self, Caller, Function, Guarded, Source};
use crate::issue::Issue;
use crate::limits::Limits;
use crate::run::Run;
use crate::settings::{Clock, Randomness};
use crate::syntax::ast::{Arguments, Expr, Item, LambdaExpr, Link, Parameter, Reference, Step};
use crate::tags;
use crate::value::{Lambda, Value};

/// Evaluates the arguments of the function `name`, and calls it.
pub(super) fn function(
    run: &mut Run<'_>,
    name: &str,
    arguments: &Arguments,
    curry: bool,
    env: &Env<'_>,
) -> Eval {
    if let Some(function) = intrinsic::find(name) {
        return intrinsic::call(run, function, name, arguments, curry, env);
    }
    let given = match arguments::evaluated(run, arguments, env)? {
        Readiness::Ready(given) => given,
        Readiness::Pending(waiting) => return Ok(lambda::waiting(waiting, field(name), curry)),
    };
    if !arguments.named.is_empty() {
        return Err(EvalError::issue(format!("no named arguments for builtin function ({name})")));
    }
    let info = given.info;
    let values: Vec<Value> = given.positional.into_iter().map(|node| node.value).collect();
    if curry {
        return Evaluated::ok(curried(name, values, env));
    }
    if name == "type" {
        return intrinsic::type_of(&values, info);
    }
    let mut result = if name == "list_to_map" {
        let key = info.notes().and_then(|notes| notes.key_name.as_deref()).unwrap_or("name");
        Evaluated { value: Some(functions::list_to_map(&values, key)?), info: Info::default() }
    } else {
        let Some(callee) = find(run, name) else {
            return Err(EvalError::issue(format!("unknown function '{name}'")));
        };
        run.spend(callee.reads(&values))?;
        let result = callee.call(run, &values, env)?;
        run.spend(result.value.as_ref().map_or(0, super::operator::made))?;
        result
    };
    // The result keeps the annotations of the arguments: a function of a merged value is merged,
    // too.
    result.info.join(info);
    Ok(result)
}

/// The function that a name refers to.
enum Callee {
    Core(fn(&mut Run<'_>, &[Value], &Env<'_>) -> Eval),
    Library(Function),
    Guarded(Guarded, Randomness),
    Host(crate::settings::HostFunction),
    Denied(&'static str),
}

fn find(run: &Run<'_>, name: &str) -> Option<Callee> {
    let core: fn(&mut Run<'_>, &[Value], &Env<'_>) -> Eval = match name {
        "merge" => nested::merge,
        "static_ips" => static_ips::static_ips,
        "eval" => nested::eval,
        "parse" => nested::parse,
        "features" => features,
        "tagdef" => tags::define,
        "decrypt" if !run.settings.functions.contains_key(name) => nested::decrypt,
        _ => return find_library(run, name),
    };
    Some(Callee::Core(core))
}

/// Finds a function of the host. Host functions may replace the extensions of spiff++ and add new
/// names (`spiff.md` 17).
fn find_library(run: &Run<'_>, name: &str) -> Option<Callee> {
    let host = || run.settings.functions.get(name).cloned().map(Callee::Host);
    let own = functions::find(name).map(Callee::Library);
    let guarded = || {
        let randomness = run.settings.randomness.clone()?;
        functions::find_guarded(name).map(|function| Callee::Guarded(function, randomness))
    };
    let shown = || {
        run.settings.files.as_ref()?;
        files::find(name).map(Callee::Core)
    };
    if functions::is_extension(name) { host().or(own) } else { own.or_else(host) }
        .or_else(guarded)
        .or_else(shown)
        .or_else(|| functions::denied(name).map(Callee::Denied))
}

impl Callee {
    /// Returns the steps for reading the arguments: one for each node, and for each sixteen bytes
    /// of a text. Functions themselves account for what they do beyond that.
    fn reads(&self, arguments: &[Value]) -> u64 {
        let bytes: usize = arguments.iter().filter_map(Value::as_str).map(str::len).sum();
        let nodes = match self {
            Self::Library(Function::Head(_)) => 0,
            _ => arguments.iter().map(|argument| u64::from(argument.size())).sum(),
        };
        nodes + (bytes / BYTES_PER_STEP) as u64
    }

    fn call(self, run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
        match self {
            Self::Core(function) => function(run, arguments, env),
            Self::Library(Function::Plain(function) | Function::Head(function)) => {
                Evaluated::ok(function(arguments)?)
            }
            Self::Library(Function::Calling(function)) => {
                let result = function(&mut FromFunction { run, env }, arguments);
                if run.abort.is_some() {
                    return Err(EvalError::Abort);
                }
                Ok(Evaluated { value: result?, ..Evaluated::default() })
            }
            Self::Guarded(function, randomness) => {
                // A random function has another value in the next pass.
                run.volatile = true;
                let result = function(&mut FromHost { randomness: &randomness, run }, arguments);
                if run.abort.is_some() {
                    return Err(EvalError::Abort);
                }
                Evaluated::ok(result?)
            }
            Self::Host(function) => Evaluated::ok(function.call(arguments)?),
            Self::Denied(name) => Err(EvalError::issue(functions::denial(name))),
        }
    }
}

/// Access of functions to the evaluator, for calls of lambdas.
struct FromFunction<'a, 'e, 's> {
    run: &'a mut Run<'e>,
    env: &'a Env<'s>,
}

impl Caller for FromFunction<'_, '_, '_> {
    fn call(&mut self, lambda: &Arc<Lambda>, arguments: &[Value]) -> Result<Option<Value>, Issue> {
        match lambda::call_whole(self.run, lambda, arguments.to_vec(), self.env) {
            Ok(evaluated) => Ok(evaluated.value),
            Err(EvalError::Issue(issue)) => Err(*issue),
            // The run has recorded the limit. The caller checks for it when the function returns.
            Err(EvalError::Abort) => Err(Issue::default()),
        }
    }

    fn limits(&self) -> &Limits {
        &self.run.settings.limits
    }

    fn spend(&mut self, steps: usize) -> Result<(), Issue> {
        spend(self.run, steps)
    }

    fn pattern(&mut self, pattern: &str, bytes: usize) -> Result<(), Issue> {
        self.run.pattern(pattern, bytes).map_err(|_| Issue::default())
    }

    fn now(&self) -> Option<SystemTime> {
        self.run.settings.clock.as_ref().map(Clock::now)
    }
}

/// Accounts for steps of a function.
fn spend(run: &mut Run<'_>, steps: usize) -> Result<(), Issue> {
    // The run has recorded the limit. The caller checks for it when the function returns.
    run.spend(steps as u64).map_err(|_| Issue::default())
}

/// Access of guarded functions to the host.
struct FromHost<'a, 'e> {
    randomness: &'a Randomness,
    run: &'a mut Run<'e>,
}

impl Source for FromHost<'_, '_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue> {
        self.randomness.fill(bytes)
    }

    fn limits(&self) -> &Limits {
        &self.run.settings.limits
    }

    fn spend(&mut self, steps: usize) -> Result<(), Issue> {
        spend(self.run, steps)
    }

    fn pattern(&mut self, pattern: &str, characters: usize) -> Result<(), Issue> {
        self.run.pattern(pattern, characters).map_err(|_| Issue::default())
    }

    fn now(&self) -> Option<SystemTime> {
        self.run.settings.clock.as_ref().map(Clock::now)
    }
}

fn field(name: &str) -> Expr {
    Expr::Reference(Reference { tag: None, absolute: false, steps: vec![Step::Field(Arc::from(name))] })
}

/// Returns a lambda that calls `name` with the given arguments and its own.
fn curried(name: &str, given: Vec<Value>, env: &Env<'_>) -> Value {
    let mut statics = Vec::new();
    let mut positional = Vec::with_capacity(given.len() + 1);
    for (position, value) in given.into_iter().enumerate() {
        let expression = literal(&value).unwrap_or_else(|| {
            let fixed = format!("__{position}");
            let reference = field(&fixed);
            statics.push((Arc::from(fixed), value));
            reference
        });
        positional.push(Item { expression, expand: false });
    }
    positional.push(Item { expression: field("__args"), expand: true });
    let call = Link::Call { arguments: Arguments { named: Vec::new(), positional }, curry: false };
    let body = Expr::Chain(Box::new(field(name)), vec![call]);
    let parameters = vec![Parameter { name: Arc::from("__args"), default: None }];
    let expression = Arc::new(LambdaExpr { parameters, variadic: true, body });
    Value::Lambda(Arc::new(Lambda { expression, defaults: vec![None], statics, scope: env.scope.clone() }))
}

/// Returns the expression that is written like a value, or `None` if the value has no such
/// expression.
pub(super) fn literal(value: &Value) -> Option<Expr> {
    Some(match value {
        Value::Nil => Expr::Nil,
        Value::Bool(flag) => Expr::Bool(*flag),
        Value::Int(number) => Expr::Int(*number),
        Value::Float(number) if number.is_finite() => Expr::Float(*number),
        Value::String(text) => Expr::String(Arc::clone(text)),
        Value::List(list) if list.len() <= LONGEST && value.nesting() <= DEEPEST => {
            let entries: Option<Vec<_>> = list.values().map(literal).collect();
            Expr::List(entries?.into_iter().map(|expression| Item { expression, expand: false }).collect())
        }
        Value::Map(map) if map.len() <= LONGEST && value.nesting() <= DEEPEST => {
            let fields =
                map.iter().map(|(key, node)| Some((Expr::String(Arc::clone(key)), literal(&node.value)?)));
            Expr::Map(fields.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// Largest value, in nodes, that is written as an expression.
const LONGEST: usize = 64;
const DEEPEST: u32 = 4;

/// Runs `features()` and `features(name)`.
fn features(run: &mut Run<'_>, arguments: &[Value], _: &Env<'_>) -> Eval {
    let names = run.settings.features.names();
    match arguments {
        [] => Evaluated::ok(Value::list(names.into_iter().map(Value::string))),
        [Value::String(name)] => Evaluated::ok(Value::Bool(names.contains(&&**name))),
        [_] => Err(EvalError::issue("features requires a string argument")),
        _ => Err(EvalError::issue("features requires no or one argument")),
    }
}
