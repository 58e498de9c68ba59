//! Functions that read the files that the host shows (`spiff.md` 11.5). They have no access to the
//! machine or the network.

use super::nested;
use super::{Eval, EvalError, Evaluated};
use crate::env::Env;
use crate::functions;
use crate::run::Run;
use crate::settings::Files;
use crate::value::Value;

type Function = fn(&mut Run<'_>, &[Value], &Env<'_>) -> Eval;

/// Returns the function `name`, if it is one of this module.
pub(super) fn find(name: &str) -> Option<Function> {
    let function: Function = match name {
        "read" | "read_uncached" => read,
        "lookup_file" => |run, arguments, _| look_up(run, arguments, "lookup_file", false),
        "lookup_dir" => |run, arguments, _| look_up(run, arguments, "lookup_dir", true),
        "list_files" => |run, arguments, _| list(run, arguments, "list_files", false),
        "list_dirs" => |run, arguments, _| list(run, arguments, "list_dirs", true),
        _ => return None,
    };
    Some(function)
}

/// Returns the files of the host. In a run without files, the caller refuses these functions
/// before.
fn files<'r>(run: &Run<'r>, name: &str) -> Result<&'r dyn Files, EvalError> {
    let shown = run.settings.files.as_deref();
    shown.ok_or_else(|| EvalError::issue(functions::denial(name)))
}

/// Runs `read(path [, mode])`. Without a mode, the ending of the name decides between YAML, JSON
/// and text.
fn read(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let (path, mode) = match arguments {
        [Value::String(path)] => (path, None),
        [Value::String(path), Value::String(mode)] => (path, Some(&**mode)),
        [_] | [_, _] => return Err(EvalError::issue("read requires string arguments")),
        _ => return Err(EvalError::issue("read takes one or two arguments")),
    };
    if path.starts_with("http:") || path.starts_with("https:") {
        return Err(EvalError::issue(functions::denial("read")));
    }
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let by_name = if matches!(ending, "yml" | "yaml" | "json") { "yaml" } else { "text" };
    let failed = |why: &str| EvalError::issue(format!("error reading [{path}]: {why}"));
    let bytes = files(run, "read")?.read(path).map_err(|why| failed(&why))?;
    match mode.unwrap_or(by_name) {
        "binary" => Evaluated::ok(Value::string(functions::base64_lines(&bytes, 60))),
        mode => {
            let text = String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8"))?;
            nested::content(run, &text, mode, env)
        }
    }
}

/// Runs `lookup_file(name, dirs…)`: returns the candidates that exist.
fn look_up(run: &Run<'_>, arguments: &[Value], function: &str, directories: bool) -> Eval {
    let Some((Value::String(name), places)) = arguments.split_first() else {
        return Err(EvalError::issue(format!("{function} requires a name as first argument")));
    };
    let mut candidates = Vec::new();
    for place in places.iter().flat_map(listed) {
        let Value::String(place) = place else {
            return Err(EvalError::issue(format!(
                "{function} requires directories as strings or lists of them"
            )));
        };
        candidates.push(if name.starts_with('/') { name.to_string() } else { format!("{place}/{name}") });
    }
    candidates.dedup();
    let files = files(run, function)?;
    let is_there = |path: &String| files.is_directory(path) == Some(directories);
    Evaluated::ok(Value::list(candidates.into_iter().filter(is_there).map(Value::string)))
}

fn listed(value: &Value) -> Vec<&Value> {
    match value {
        Value::List(list) => list.values().collect(),
        other => vec![other],
    }
}

/// Runs `list_files(dir)` and `list_dirs(dir)`: names in ascending order.
fn list(run: &Run<'_>, arguments: &[Value], function: &str, directories: bool) -> Eval {
    let [Value::String(path)] = arguments else {
        return Err(EvalError::issue(format!("{function} requires one directory as string")));
    };
    let files = files(run, function)?;
    let mut names =
        files.list(path).map_err(|why| EvalError::issue(format!("error reading [{path}]: {why}")))?;
    names.sort();
    let is_wanted = |name: &String| files.is_directory(&format!("{path}/{name}")) == Some(directories);
    Evaluated::ok(Value::list(names.into_iter().filter(is_wanted).map(Value::string)))
}
