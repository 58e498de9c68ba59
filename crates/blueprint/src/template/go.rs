//! Engine for Go templates (`blueprints.md` 5).

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use groundwork_budget::Budget;
use groundwork_gotemplate::{
    CallError, Context, Deadline, Element, Error, Functions, Grants, List, Map, Member, MissingKey,
    NumberMode, Object, Options, Signature, Template, Type, Value,
};
use groundwork_yaml as yaml;

use crate::bindings::Bindings;
use crate::capabilities::Capabilities;
use crate::filesystem::FileInfo;
use crate::functions::{
    Argument, ClusterFunction, HostFunctions, not_available, parse_oci_reference, repository_context,
};

/// Name of every template, as in Landscaper. Errors show it.
const TEMPLATE_NAME: &str = "execution";
/// Maximum number of active inclusions of one path. More count as an endless recursion.
const DEEPEST_INCLUSION: usize = 100;

type Outcome = Result<Value, CallError>;

/// Functions shared by all templates. Each render passes the data that they work on.
static FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(functions()));
static OPTIONS: LazyLock<Options> = LazyLock::new(|| Options {
    missing_key: MissingKey::Zero,
    numbers: NumberMode::Data,
    ..Options::default()
});

/// Cache of parsed templates by their source: executions, and included files.
#[derive(Debug, Default)]
pub(crate) struct Parsed(RwLock<HashMap<Box<[u8]>, Template>>);

impl Parsed {
    pub(super) fn get(&self, source: &[u8]) -> Result<Template, Error> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(source) {
            return Ok(known.clone());
        }
        let template = Template::parse(TEMPLATE_NAME, source, &FUNCTIONS, &OPTIONS)?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(source.into(), template.clone());
        Ok(template)
    }
}

/// Data for the functions of a running template.
struct Surroundings {
    functions: HostFunctions,
    parsed: Arc<Parsed>,
    /// First included file that could not be parsed.
    broken: Arc<OnceLock<BrokenInclude>>,
}

/// Included file that is not a valid template. Errors show its lines instead of those of the
/// including template.
#[derive(Debug)]
pub(super) struct BrokenInclude {
    pub(super) path: String,
    pub(super) source: String,
    /// Line of the parse error, from 1.
    pub(super) line: usize,
}

/// Error of a template.
pub(super) enum RenderError {
    /// Parse error. It contains no values, because the template was not run.
    Parse(Error),
    /// Execution error, whose message may contain values.
    Execute(Error, Option<BrokenInclude>),
}

/// Environment of a running template.
#[derive(Clone, Copy)]
pub(super) struct Host<'h> {
    pub(super) functions: &'h HostFunctions,
    pub(super) capabilities: &'h Capabilities,
    pub(super) budget: &'h Budget,
}

/// Runs a template on bindings.
pub(super) fn render(
    parsed: &Arc<Parsed>,
    source: &str,
    bindings: &Bindings<'_>,
    Host { functions, capabilities, budget }: Host<'_>,
) -> Result<Vec<u8>, RenderError> {
    let template = parsed.get(source.as_bytes()).map_err(RenderError::Parse)?;
    let broken = Arc::new(OnceLock::new());
    let surroundings = Surroundings {
        functions: functions.clone(),
        parsed: Arc::clone(parsed),
        broken: Arc::clone(&broken),
    };
    let host = groundwork_gotemplate::Host {
        data: Some(Arc::new(surroundings)),
        grants: Grants {
            clock: capabilities.clock.clone(),
            randomness: capabilities.randomness.clone(),
            ..Grants::default()
        },
        deadline: capabilities.deadline.map(|deadline| Deadline::new(move || Instant::now() >= deadline)),
        budget: Some(budget.clone()),
        limits: Some(capabilities.limits.into()),
    };
    template.render_on(host, bindings.to_go(OPTIONS.numbers)).map_err(|error| {
        // A failed inclusion ends the rendering, so the error of the rendering is that of the
        // inclusion.
        RenderError::Execute(error, Arc::into_inner(broken).and_then(OnceLock::into_inner))
    })
}

/// Returns all functions that a template may call.
fn functions() -> Functions {
    let mut functions = Functions::sprig();
    // Landscaper removes these two functions of sprig (`blueprints.md` 5.4).
    functions.remove("env").remove("expandenv");
    add_files(&mut functions);
    add_yaml(&mut functions);
    add_references(&mut functions);
    add_components(&mut functions);
    for function in ClusterFunction::ALL {
        functions.add(function.name(), Signature::variadic(&[], Type::Any), move |context, arguments| {
            let given = cluster_arguments(context, arguments)?;
            let answer = function.call(&given, &surroundings(context)?.functions.kubeconfigs)?;
            from_json(context, &answer)
        });
    }
    functions.add("getHostByName", Signature::variadic(&[], Type::Any), move |_, _| {
        Err(CallError::Message(not_available("getHostByName")))
    });
    functions
}

fn surroundings<'c>(context: &'c Context<'_>) -> Result<&'c Surroundings, CallError> {
    context.host().ok_or_else(|| "this function works only in a template of a blueprint".into())
}

fn add_files(functions: &mut Functions) {
    functions.add("include", Signature::fixed(&[Type::String, Type::Any]), |context, arguments| {
        let path = path(context, &arguments[0])?;
        include(context, &path, arguments[1].clone())
    });
    functions.add("readFile", Signature::fixed(&[Type::String]), |context, arguments| {
        let path = path(context, &arguments[0])?;
        let files = Arc::clone(&surroundings(context)?.functions.files);
        let content = files.read(&path).map_err(message)?;
        context.check_text(content.len())?;
        Ok(Value::Bytes(content.into()))
    });
    functions.add("readDir", Signature::fixed(&[Type::String]), |context, arguments| {
        let path = path(context, &arguments[0])?;
        let files = Arc::clone(&surroundings(context)?.functions.files);
        let entries = files.list(&path).map_err(message)?;
        context.reserve(entries.len().saturating_mul(256))?;
        context.spend(entries.len())?;
        let object = |info: FileInfo| Value::Object(Rc::new(FileObject(info)));
        Ok(Value::list(entries.into_iter().map(object)))
    });
}

fn include(context: &mut Context<'_>, path: &str, data: Value) -> Outcome {
    let Surroundings { functions, parsed, broken } = surroundings(context)?;
    let (files, parsed, broken) = (Arc::clone(&functions.files), Arc::clone(parsed), Arc::clone(broken));
    let source = files
        .read(path)
        .map_err(|error| CallError::Message(format!("unable to read include file {path:?}: {error}")))?;
    if context.active(path) > DEEPEST_INCLUSION {
        let problem =
            format!("rendering template has a nested reference name: {path}: unable to execute template");
        return Err(CallError::Message(problem));
    }
    // The template is parsed once per source. The cost is charged each time, so that a limit does
    // not depend on earlier renderings.
    context.spend(source.len() / 8)?;
    let template = parsed.get(source).inspect_err(|error| {
        let source = String::from_utf8_lossy(source).into_owned();
        // Only the first broken file is kept.
        let _ = broken.set(BrokenInclude { path: path.to_owned(), source, line: error.line() });
    })?;
    Ok(Value::Str(context.render(path, &template, data)?.into()))
}

fn add_yaml(functions: &mut Functions) {
    functions.add("toYaml", Signature::fixed(&[Type::Any]), |context, arguments| {
        let yaml = context
            .to_json(&arguments[0])?
            .and_then(|json| yaml::to_string_through_json(&json))
            .unwrap_or_default();
        context.spend(yaml.len())?;
        context.check_text(yaml.len())?;
        Ok(Value::from(yaml.strip_suffix('\n').unwrap_or(&yaml)))
    });
    functions.add("fromYaml", Signature::fixed(&[Type::String]), |context, arguments| {
        let text = text(&arguments[0]);
        context.spend(text.len().saturating_mul(4))?;
        let json = yaml::parse_first(&text, super::YAML).map_err(message)?.into_value();
        from_json(context, &json)
    });
}

fn add_references(functions: &mut Functions) {
    functions.add("parseOCIRef", Signature::fixed(&[Type::String]), |_, arguments| {
        let parts = parse_oci_reference(&text(&arguments[0]))?;
        Ok(Value::List(List::typed(Element::String, parts.into_iter().map(Value::from).collect())))
    });
    for (name, part) in [("ociRefRepo", 0), ("ociRefVersion", 1)] {
        functions.add(name, Signature::fixed(&[Type::String]), move |_, arguments| {
            let parts = parse_oci_reference(&text(&arguments[0]))?;
            Ok(Value::from(parts[part].as_str()))
        });
    }
}

fn add_components(functions: &mut Functions) {
    let any = || Signature::variadic(&[], Type::Any);
    functions.add("getResource", any(), |context, arguments| {
        let arguments = selectors(context, arguments)?;
        let found = surroundings(context)?.functions.resource(arguments)?;
        from_json(context, &found)
    });
    functions.add("getResources", any(), |context, arguments| {
        let arguments = selectors(context, arguments)?;
        let found = surroundings(context)?.functions.resources(arguments)?;
        let items: Result<Vec<Value>, CallError> =
            found.iter().map(|resource| from_json(context, resource)).collect();
        Ok(Value::List(List::typed(Element::Map, items?)))
    });
    functions.add("getComponent", any(), |context, arguments| {
        let arguments = selectors(context, arguments)?;
        let found = surroundings(context)?.functions.component(arguments)?;
        from_json(context, &found)
    });
    functions.add("getResourceKey", any(), |context, arguments| {
        let key = surroundings(context)?.functions.resource_key(texts(arguments))?;
        Ok(Value::from(key))
    });
    functions.add("getResourceContent", any(), |context, arguments| {
        let content = surroundings(context)?.functions.resource_content(texts(arguments))?;
        context.check_text(content.len())?;
        Ok(Value::from(content))
    });
    functions.add("getRepositoryContext", Signature::fixed(&[Type::Any]), |context, arguments| {
        let found = match &arguments[0] {
            Value::Absent | Value::Nil => {
                let problem =
                    "Unable to get effective component descriptor as no ComponentDescriptor is defined.";
                return Err(problem.into());
            }
            Value::Map(_) => repository_context(context.to_json(&arguments[0])?.unwrap_or_default()),
            _ => return Err("invalid component descriptor".into()),
        };
        found.map_or_else(|| Ok(Value::Map(Map::nil())), |found| from_json(context, &found))
    });
}

/// Returns the arguments of a function for kubeconfigs: texts, a number, and a Target.
fn cluster_arguments(context: &mut Context<'_>, arguments: &[Value]) -> Result<Vec<Argument>, CallError> {
    let mut converted = texts(arguments);
    for (argument, value) in converted.iter_mut().zip(arguments) {
        if let Value::Map(_) = value
            && let Some(serde_json::Value::Object(members)) = context.to_json(value)?
        {
            *argument = Argument::Map(members);
        } else if let Some(number) = number(value) {
            *argument = Argument::Number(number);
        }
    }
    Ok(converted)
}

/// Returns a signed integer, or a float without its fraction, as Landscaper takes them.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(kind, number) => (!kind.is_unsigned()).then_some(*number),
        _ => value.as_integer().map_or_else(
            || value.as_float().map(|number| number as i64),
            |number| i64::try_from(number).ok(),
        ),
    }
}

/// Returns the optional descriptor and the pairs of texts.
fn selectors(context: &mut Context<'_>, arguments: &[Value]) -> Result<Vec<Argument>, CallError> {
    let mut converted = texts(arguments);
    if let Some(Value::Map(_)) = arguments.first()
        && let Some(serde_json::Value::Object(members)) = context.to_json(&arguments[0])?
    {
        converted[0] = Argument::Map(members);
    }
    Ok(converted)
}

fn texts(arguments: &[Value]) -> Vec<Argument> {
    let text = |argument: &Value| match argument.as_str() {
        Some(text) => Argument::Text(text.to_text().into_owned()),
        None => Argument::Other(argument.type_name().to_owned()),
    };
    arguments.iter().map(text).collect()
}

/// Entry of a directory listing.
#[derive(Debug)]
struct FileObject(FileInfo);

impl Object for FileObject {
    fn type_name(&self) -> &str {
        "*vfs.FileInfo"
    }

    fn member(&self, name: &str) -> Option<Member> {
        ["Name", "Size", "IsDir", "Mode", "ModTime"].contains(&name).then(Member::getter)
    }

    fn call(&self, _: &mut Context<'_>, method: &str, _: &[Value]) -> Outcome {
        Ok(match method {
            "Name" => Value::from(self.0.name.as_str()),
            "Size" => Value::int64(i64::try_from(self.0.size).unwrap_or(i64::MAX)),
            "IsDir" => Value::Bool(self.0.is_directory),
            "Mode" => Value::from(if self.0.is_directory { "drwxr-xr-x" } else { "-rw-r--r--" }),
            _ => Value::from("0001-01-01 00:00:00 +0000 UTC"),
        })
    }

    fn text(&self) -> String {
        self.0.name.clone()
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Steps for a byte of a path, which is cut into segments that are looked up one after the other.
/// Needed by the hostile input `r_t_include_fan2`.
const STEPS_PER_BYTE_OF_PATH: usize = 8;

/// Returns a path in the blueprint, and charges the cost of its lookup to the template's budget.
fn path(context: &mut Context<'_>, argument: &Value) -> Result<String, CallError> {
    let path = text(argument);
    context.reserve(path.len().saturating_mul(4 * size_of::<String>()))?;
    context.spend(path.len().saturating_mul(STEPS_PER_BYTE_OF_PATH))?;
    Ok(path)
}

/// Converts a JSON value and charges its size to the template's budget.
fn from_json(context: &mut Context<'_>, json: &serde_json::Value) -> Outcome {
    let nodes = nodes(json);
    context.reserve(nodes.saturating_mul(2 * size_of::<Value>()))?;
    context.spend(nodes)?;
    let value = Value::from_json(json, context.options().numbers);
    context.reserve(0)?;
    Ok(value)
}

fn nodes(json: &serde_json::Value) -> usize {
    match json {
        serde_json::Value::Array(items) => 1 + items.iter().map(nodes).sum::<usize>(),
        serde_json::Value::Object(members) => {
            1 + members.values().map(|value| 2 + nodes(value)).sum::<usize>()
        }
        _ => 1,
    }
}

fn text(argument: &Value) -> String {
    argument.as_str().map(|text| text.to_text().into_owned()).unwrap_or_default()
}

fn message(error: impl std::fmt::Display) -> CallError {
    CallError::Message(error.to_string())
}

#[cfg(test)]
pub(super) mod tests;
