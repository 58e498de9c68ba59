//! Template functions that Helm adds to those of sprig, and those that it removes (`helm.md` 6.5).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use groundwork_go::text;
use groundwork_gotemplate::{
    CallError, Context, Functions, List, Map, NumberMode, Signature, Str, Type, Value,
};
use groundwork_yaml as yaml;
use serde_json::Value as Json;

use crate::decode::{document, kind, unexpected};
use crate::objects::to_yaml;
use crate::toml_text;

/// Access of a chart to a cluster (`helm.md` 6.6).
pub trait Lookup: Send + Sync {
    /// Returns the object, or the list if the name is empty. Returns an empty table if there is no
    /// such object.
    ///
    /// # Errors
    ///
    /// The error of the call, which becomes that of the template.
    fn look_up(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Json, String>;
}

/// Data of the render that functions use.
pub(crate) struct Surroundings {
    pub(crate) lookup: Option<Arc<dyn Lookup>>,
}

/// Mark before the message of `required` and `fail`, as in Helm, so that the message can be found
/// in the error of the outermost template.
const SAID_FROM: &str = "HELM_ERR_START";
const SAID_TO: &str = "HELM_ERR_END";
/// Text that Go prints for a missing value. Helm removes it from the output.
const NO_VALUE: &[u8] = b"<no value>";
/// Maximum nested includes of one name. As in Helm, one more is allowed.
const DEEPEST_INCLUDE: usize = 1_000;
const DEEPEST_TPL: usize = 1_000;
/// Name under which nested uses of `tpl` are counted. No template can have it.
const TPL: &str = "\0tpl";
/// Size in bytes above which the errors of nested renders are shortened, because each level repeats
/// those below it.
const LARGEST_ERROR: usize = 256 << 10;

type Outcome = Result<Value, CallError>;

pub(crate) static FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(functions()));

fn functions() -> Functions {
    let mut functions = Functions::sprig();
    functions.remove("env").remove("expandenv");
    add_templates(&mut functions);
    add_yaml(&mut functions);
    add_json(&mut functions);
    let text = Signature::fixed(&[Type::String]);
    functions.add("toToml", Signature::fixed(&[Type::Any]), |context, arguments| {
        let text = toml_text::encode(context, &arguments[0])?;
        Ok(Value::from(text))
    });
    functions.add("fromToml", text.clone(), |context, arguments| {
        context.spend(string(arguments, 0).len().saturating_mul(4))?;
        Ok(Value::Map(
            toml_text::decode(&string(arguments, 0).to_text()).unwrap_or_else(|error| complaint(&error)),
        ))
    });
    functions.add("getHostByName", text, |_, _| Ok(Value::from("")));
    let names = Signature::fixed(&[Type::String, Type::String, Type::String, Type::String]);
    functions.add("lookup", names, |context, arguments| {
        let lookup = context.host::<Surroundings>().and_then(|host| host.lookup.clone());
        let Some(lookup) = lookup else { return Ok(Value::Map(Map::default())) };
        let [version, kind, namespace, name] =
            [0, 1, 2, 3].map(|at| string(arguments, at).to_text().into_owned());
        let found = lookup.look_up(&version, &kind, &namespace, &name)?;
        // Helm's client of the cluster reads integers as `int64`, unlike values.
        Ok(Value::from_json(&found, NumberMode::Int64))
    });
    functions
}

fn string(arguments: &[Value], index: usize) -> Str {
    arguments[index].as_str().cloned().unwrap_or_default()
}

fn add_templates(functions: &mut Functions) {
    functions.add("include", Signature::fixed(&[Type::String, Type::Any]), |context, arguments| {
        include(context, &string(arguments, 0), arguments[1].clone())
    });
    functions.add("tpl", Signature::fixed(&[Type::String, Type::Any]), |context, arguments| {
        tpl(context, &string(arguments, 0), arguments[1].clone())
    });
    functions.add("required", Signature::fixed(&[Type::String, Type::Any]), |_, arguments| {
        let is_missing = match &arguments[1] {
            Value::Absent | Value::Nil => true,
            Value::Str(text) => text.is_empty(),
            _ => false,
        };
        if is_missing { Err(said(&string(arguments, 0))) } else { Ok(arguments[1].clone()) }
    });
    functions.add("fail", Signature::fixed(&[Type::String]), |_, arguments| Err(said(&string(arguments, 0))));
}

fn said(message: &Str) -> CallError {
    CallError::Message(format!("{SAID_FROM}{}{SAID_TO}", message.to_text()))
}

/// Returns the message of `required` or `fail`, if that is why a template failed.
pub(crate) fn what_was_said(message: &str) -> Option<&str> {
    let begin = message.find(SAID_FROM)? + SAID_FROM.len();
    let length = message[begin..].rfind(SAID_TO)?;
    Some(&message[begin..begin + length])
}

fn include(context: &mut Context<'_>, name: &Str, data: Value) -> Outcome {
    let shown = name.to_text();
    if context.active(&shown) > DEEPEST_INCLUDE {
        let problem =
            format!("rendering template has a nested reference name: {shown}: unable to execute template");
        return Err(CallError::Message(problem));
    }
    let rendered = context.include(name, data).map_err(shortened)?;
    Ok(rendered.into())
}

fn tpl(context: &mut Context<'_>, source: &Str, data: Value) -> Outcome {
    // Most values contain no action, so parsing them is skipped.
    if memchr::memmem::find(source, b"{{").is_none() {
        return Ok(match without_missing(source) {
            Cow::Borrowed(_) => Value::Str(source.clone()),
            Cow::Owned(text) => text.into(),
        });
    }
    if context.active(TPL) >= DEEPEST_TPL {
        return Err(CallError::Message(format!("tpl is nested deeper than {DEEPEST_TPL} levels")));
    }
    let template = context.parse_nested(source).map_err(|error| match error.kind() {
        groundwork_gotemplate::ErrorKind::Parse => {
            CallError::Message(format!("cannot parse template {}: {error}", text::quote(source)))
        }
        _ => CallError::Template(Box::new(error)),
    })?;
    match context.render(TPL, &template, data) {
        Ok(text) => Ok(match without_missing(&text) {
            Cow::Borrowed(_) => text.into(),
            Cow::Owned(text) => text.into(),
        }),
        Err(CallError::Template(error)) => {
            let prefix = format!("error during tpl function execution for {}: ", text::quote(source));
            Err(shortened(CallError::Wrapped { prefix, error }))
        }
        Err(other) => Err(other),
    }
}

/// Removes Go's text for missing values.
pub(crate) fn without_missing(text: &[u8]) -> Cow<'_, [u8]> {
    let finder = memchr::memmem::Finder::new(NO_VALUE);
    let Some(first) = finder.find(text) else { return Cow::Borrowed(text) };
    let mut kept = Vec::with_capacity(text.len());
    let (mut from, mut found) = (0, Some(first));
    while let Some(at) = found {
        kept.extend_from_slice(&text[from..at]);
        from = at + NO_VALUE.len();
        found = finder.find(&text[from..]).map(|next| from + next);
    }
    kept.extend_from_slice(&text[from..]);
    Cow::Owned(kept)
}

/// Shortens the text of an error, which would otherwise grow with each level. The message of
/// `required` or `fail` stays.
fn shortened(error: CallError) -> CallError {
    match error {
        CallError::Template(error) if error.message().len() > LARGEST_ERROR => {
            CallError::Template(Box::new(error.shortened(LARGEST_ERROR / 4)))
        }
        CallError::Wrapped { prefix, error } if error.message().len() > LARGEST_ERROR => {
            CallError::Wrapped { prefix, error: Box::new(error.shortened(LARGEST_ERROR / 4)) }
        }
        other => other,
    }
}

fn add_yaml(functions: &mut Functions) {
    let any = Signature::fixed(&[Type::Any]);
    let text = Signature::fixed(&[Type::String]);
    functions.add("toYaml", any.clone(), |context, arguments| {
        let text = to_yaml(context, &arguments[0])?.unwrap_or_default();
        Ok(Value::from(text.strip_suffix('\n').unwrap_or(&text)))
    });
    functions.add("toYamlPretty", any, |context, arguments| {
        let text =
            context.to_json(&arguments[0])?.map(|json| yaml::to_string_pretty(&json)).unwrap_or_default();
        context.spend(text.len())?;
        context.check_text(text.len())?;
        Ok(Value::from(text.strip_suffix('\n').unwrap_or(&text)))
    });
    functions.add("fromYaml", text.clone(), |context, arguments| {
        Ok(match read_yaml(context, &string(arguments, 0)) {
            Ok(Json::Null) => Value::Map(Map::default()),
            Ok(json @ Json::Object(_)) => Value::from_json(&json, NumberMode::Float64),
            Ok(other) => {
                Value::Map(complaint(&unexpected(kind(&other), "value of type map[string]interface {}")))
            }
            Err(CallError::Message(error)) => Value::Map(complaint(&error)),
            Err(other) => return Err(other),
        })
    });
    functions.add("fromYamlArray", text, |context, arguments| {
        Ok(match read_yaml(context, &string(arguments, 0)) {
            Ok(Json::Null) => Value::list([]),
            Ok(json @ Json::Array(_)) => Value::from_json(&json, NumberMode::Float64),
            Ok(other) => Value::list([Value::from(unexpected(kind(&other), "value of type []interface {}"))]),
            Err(CallError::Message(error)) => Value::list([Value::from(error)]),
            Err(other) => return Err(other),
        })
    });
}

fn read_yaml(context: &mut Context<'_>, source: &Str) -> Result<Json, CallError> {
    context.spend(source.len().saturating_mul(4))?;
    document(source).map_err(CallError::Message)
}

fn add_json(functions: &mut Functions) {
    let text = Signature::fixed(&[Type::String]);
    let wrong = |value: &Value, wanted: &str| {
        let kind = match value {
            Value::Bool(_) => "bool",
            Value::Str(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
            _ => "number",
        };
        format!("json: cannot unmarshal {kind} into Go value of type {wanted}")
    };
    functions.add("fromJson", text.clone(), move |context, arguments| {
        Ok(match context.from_json(&string(arguments, 0)) {
            Ok(value @ Value::Map(_)) => value,
            Ok(Value::Absent | Value::Nil) => Value::Map(Map::nil()),
            Ok(other) => Value::Map(complaint(&wrong(&other, "map[string]interface {}"))),
            Err(CallError::Message(error)) => Value::Map(complaint(&error)),
            Err(other) => return Err(other),
        })
    });
    functions.add("fromJsonArray", text, move |context, arguments| {
        let list = |text: String| Value::list([Value::from(text)]);
        Ok(match context.from_json(&string(arguments, 0)) {
            Ok(value @ Value::List(_)) => value,
            Ok(Value::Absent | Value::Nil) => Value::List(List::nil(groundwork_gotemplate::Element::Any)),
            Ok(other) => list(wrong(&other, "[]interface {}")),
            Err(CallError::Message(error)) => list(error),
            Err(other) => return Err(other),
        })
    });
}

/// Returns the table that `fromYaml` and its relatives return instead of failing, with the error in
/// it.
fn complaint(error: &str) -> Map {
    Map::from_iter([("Error".into(), Value::from(error))])
}
