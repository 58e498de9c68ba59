//! The functions that templates have beside those of Go and sprig (`blueprints.md` 5.5).

use std::any::Any;
use std::sync::Arc;

use groundwork_component::{Descriptor, Leniency, SchemaVersion};
use groundwork_gotemplate::{
    CallError, Context, Element, Functions, List, Member, Object, Signature, Template, Type, Value,
};
use groundwork_yaml as yaml;
use serde_json::{Map, Value as Json};

use super::{TEMPLATE_NAME, oci, resource_key};
use crate::components::Components;
use crate::filesystem::{FileInfo, Filesystem};

/// Active inclusions of one path; more of them are taken for a circle.
const DEEPEST_INCLUSION: usize = 100;

/// Functions that fetch contents or credentials need a client, which rendering does not have. They are known
/// nevertheless, so that templates which call them in a branch not taken can be parsed.
const NEED_A_CLIENT: [&str; 7] = [
    "getHostByName",
    "getResourceContent",
    "getShootAdminKubeconfig",
    "getShootAdminKubeconfigWithExpirationTimestamp",
    "getServiceAccountKubeconfig",
    "getServiceAccountKubeconfigWithExpirationTimestamp",
    "getOidcKubeconfig",
];

type Outcome = Result<Value, CallError>;

/// Everything a template may call.
pub(super) fn all(files: &Arc<Filesystem>, components: &Arc<Components>) -> Functions {
    let mut functions = Functions::sprig();
    // The reference takes these two away from sprig (`blueprints.md` 5.4).
    functions.remove("env").remove("expandenv");
    add_files(&mut functions, files);
    add_yaml(&mut functions);
    add_references(&mut functions);
    add_components(&mut functions, components);
    for name in NEED_A_CLIENT {
        functions.add(name, Signature::variadic(&[], Type::Any), move |_, _| {
            Err(CallError::Message(format!("{name} is not available")))
        });
    }
    functions
}

fn add_files(functions: &mut Functions, files: &Arc<Filesystem>) {
    let source = Arc::clone(files);
    functions.add("include", Signature::fixed(&[Type::String, Type::Any]), move |context, arguments| {
        include(context, &source, &text(&arguments[0]), arguments[1].clone())
    });
    let source = Arc::clone(files);
    functions.add("readFile", Signature::fixed(&[Type::String]), move |_, arguments| {
        let content = source.read(&text(&arguments[0])).map_err(message)?;
        Ok(Value::Bytes(content.into()))
    });
    let source = Arc::clone(files);
    functions.add("readDir", Signature::fixed(&[Type::String]), move |_, arguments| {
        let entries = source.list(&text(&arguments[0])).map_err(message)?;
        let object = |info: FileInfo| Value::Object(std::rc::Rc::new(FileObject(info)));
        Ok(Value::list(entries.into_iter().map(object)))
    });
}

fn include(context: &mut Context<'_>, files: &Filesystem, path: &str, data: Value) -> Outcome {
    let source = files
        .read(path)
        .map_err(|error| CallError::Message(format!("unable to read include file {path:?}: {error}")))?;
    if context.active(path) > DEEPEST_INCLUSION {
        let problem =
            format!("rendering template has a nested reference name: {path}: unable to execute template");
        return Err(CallError::Message(problem));
    }
    let template = Template::parse(TEMPLATE_NAME, source, context.functions(), context.options())?;
    Ok(Value::Str(context.render(path, &template, data)?.into()))
}

fn add_yaml(functions: &mut Functions) {
    functions.add("toYaml", Signature::fixed(&[Type::Any]), |context, arguments| {
        let yaml = context
            .to_json(&arguments[0])?
            .and_then(|json| yaml::to_string_through_json(&json))
            .unwrap_or_default();
        context.check_text(yaml.len())?;
        Ok(Value::from(yaml.strip_suffix('\n').unwrap_or(&yaml)))
    });
    functions.add("fromYaml", Signature::fixed(&[Type::String]), |context, arguments| {
        let json = yaml::from_str(&text(&arguments[0])).map_err(message)?;
        Ok(Value::from_json(&json, context.options().numbers))
    });
}

fn add_references(functions: &mut Functions) {
    functions.add("parseOCIRef", Signature::fixed(&[Type::String]), |_, arguments| {
        let parts = oci::parse(&text(&arguments[0]))?;
        Ok(Value::List(List::typed(Element::String, parts.into_iter().map(Value::from).collect())))
    });
    for (name, part) in [("ociRefRepo", 0), ("ociRefVersion", 1)] {
        functions.add(name, Signature::fixed(&[Type::String]), move |_, arguments| {
            let parts = oci::parse(&text(&arguments[0]))?;
            Ok(Value::from(parts[part].as_str()))
        });
    }
}

fn add_components(functions: &mut Functions, components: &Arc<Components>) {
    let known = Arc::clone(components);
    functions.add("getResource", Signature::variadic(&[], Type::Any), move |context, arguments| {
        let found = find_resources(context, &known, arguments)?;
        let first = found.first().ok_or("NotFound")?;
        Ok(Value::from_json(first, context.options().numbers))
    });
    let known = Arc::clone(components);
    functions.add("getResources", Signature::variadic(&[], Type::Any), move |context, arguments| {
        let found = find_resources(context, &known, arguments)?;
        if found.is_empty() {
            return Err("NotFound".into());
        }
        let numbers = context.options().numbers;
        let items = found.iter().map(|resource| Value::from_json(resource, numbers)).collect();
        Ok(Value::List(List::typed(Element::Map, items)))
    });
    let known = Arc::clone(components);
    functions.add("getComponent", Signature::variadic(&[], Type::Any), move |context, arguments| {
        let component = find_component(context, &known, arguments)?;
        Ok(Value::from_json(&component, context.options().numbers))
    });
    let known = Arc::clone(components);
    functions.add("getResourceKey", Signature::variadic(&[], Type::Any), move |_, arguments| {
        let [reference] = arguments else {
            let count = arguments.len();
            return Err(CallError::Message(format!(
                "this function requires 1 argument, but {count} were provided"
            )));
        };
        let reference = reference.as_str().ok_or("unable to assert the first argument as string")?;
        Ok(Value::from(resource_key::key(&known, &reference.to_text())?))
    });
    functions.add("getRepositoryContext", Signature::fixed(&[Type::Map]), |context, arguments| {
        let document = context.to_json(&arguments[0])?.unwrap_or_default();
        let list =
            document.pointer("/component/repositoryContexts").or_else(|| document.get("repositoryContexts"));
        let last = list.and_then(Json::as_array).and_then(|list| list.last()).unwrap_or(&Json::Null);
        Ok(Value::from_json(last, context.options().numbers))
    });
}

/// The descriptor that a selector function looks at, and the pairs it looks for.
struct Selection {
    descriptor: Json,
    pairs: Map<String, Json>,
}

fn selection(
    context: &mut Context<'_>,
    components: &Components,
    arguments: &[Value],
    what: &str,
) -> Result<Selection, CallError> {
    if arguments.len() < 2 {
        return Err("at least 2 arguments are expected".into());
    }
    let (descriptor, selectors, offset) = match arguments.split_first() {
        Some((Value::Map(_), rest)) => (context.to_json(&arguments[0])?, rest, 1),
        _ => (components.root().map(|root| root.to_schema(SchemaVersion::V2)), arguments, 0),
    };
    let descriptor = descriptor.ok_or_else(|| {
        CallError::Message(format!("Unable to search for {what} as no ComponentDescriptor is defined."))
    })?;
    if !selectors.len().is_multiple_of(2) {
        return Err("odd number of key value pairs".into());
    }
    let mut texts = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        let problem = || CallError::Message(format!("expect argument {} to be a string", index + offset));
        texts.push(selector.as_str().ok_or_else(problem)?.to_text().into_owned());
    }
    let pairs = texts.chunks_exact(2).map(|pair| (pair[0].clone(), Json::from(pair[1].as_str()))).collect();
    Ok(Selection { descriptor: as_v2(descriptor), pairs })
}

/// Templates may hold descriptors of either format; the answers are always in that of v2.
fn as_v2(document: Json) -> Json {
    match Descriptor::from_document(document.clone(), Leniency::Inline) {
        Ok(descriptor) => descriptor.to_schema(SchemaVersion::V2),
        Err(_) => document,
    }
}

fn find_resources(
    context: &mut Context<'_>,
    components: &Components,
    arguments: &[Value],
) -> Result<Vec<Json>, CallError> {
    let selection = selection(context, components, arguments, "a resource")?;
    Ok(matching(&selection.descriptor, "/component/resources", &selection.pairs))
}

fn find_component(
    context: &mut Context<'_>,
    components: &Components,
    arguments: &[Value],
) -> Result<Json, CallError> {
    let selection = selection(context, components, arguments, "a component")?;
    let list = "/component/componentReferences";
    let mut found = matching(&selection.descriptor, list, &selection.pairs);
    if found.is_empty() && selection.pairs.contains_key("name") {
        // The document shows the name of the component where the name of the reference is meant.
        found = matching_component_name(&selection.descriptor, list, &selection.pairs);
    }
    let reference = found.first().ok_or("NotFound")?;
    let text = |member: &str| reference.get(member).and_then(Json::as_str).unwrap_or_default();
    let descriptor = components.follow(text("componentName"), text("version")).ok_or_else(|| {
        CallError::Message(format!("unable to resolve component {}:{}", text("name"), text("version")))
    })?;
    Ok(descriptor.to_schema(SchemaVersion::V2))
}

/// The elements whose identity (extra identity and name) holds all pairs.
fn matching(descriptor: &Json, list: &str, pairs: &Map<String, Json>) -> Vec<Json> {
    elements(descriptor, list).filter(|element| has_identity(element, "name", pairs)).cloned().collect()
}

fn matching_component_name(descriptor: &Json, list: &str, pairs: &Map<String, Json>) -> Vec<Json> {
    elements(descriptor, list)
        .filter(|element| has_identity(element, "componentName", pairs))
        .cloned()
        .collect()
}

fn has_identity(element: &Json, name_member: &str, pairs: &Map<String, Json>) -> bool {
    let own = |key: &str| match key {
        "name" => element.get(name_member),
        key => element.get("extraIdentity")?.get(key),
    };
    pairs.iter().all(|(key, value)| own(key) == Some(value))
}

fn elements<'a>(descriptor: &'a Json, list: &str) -> impl Iterator<Item = &'a Json> {
    descriptor.pointer(list).and_then(Json::as_array).into_iter().flatten()
}

/// An entry of a directory listing.
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

fn text(argument: &Value) -> String {
    argument.as_str().map(|text| text.to_text().into_owned()).unwrap_or_default()
}

fn message(error: impl std::fmt::Display) -> CallError {
    CallError::Message(error.to_string())
}

#[cfg(test)]
pub(super) mod tests;
