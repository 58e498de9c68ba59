//! Functions that Landscaper adds to the templates of both languages (`blueprints.md` 5.5, 6.3), on
//! plain values. The engines only convert arguments and results.

mod clusters;
mod kubeconfigs;
mod oci;
mod resource_reference;

use std::sync::Arc;

use data_encoding::BASE64;
use groundwork_component::{Descriptor, Leniency, SchemaVersion};
use serde_json::{Map, Value};

use crate::components::Components;
use crate::filesystem::Filesystem;

pub(crate) use clusters::ClusterFunction;
pub(crate) use kubeconfigs::{Kubeconfigs, STATE_KEY as KUBECONFIGS};
pub(crate) use oci::parse as parse_oci_reference;

/// Data of one rendering that the functions work on.
#[derive(Debug, Clone)]
pub(crate) struct HostFunctions {
    pub(crate) files: Arc<Filesystem>,
    pub(crate) components: Components,
    pub(crate) kubeconfigs: Kubeconfigs,
}

/// Argument in the common form of both languages.
#[derive(Debug)]
pub(crate) enum Argument {
    Text(String),
    Map(Map<String, Value>),
    Number(i64),
    /// Name of another type, for messages.
    Other(String),
}

impl Argument {
    /// Returns the name of the type as Go prints it.
    fn type_name(&self) -> &str {
        match self {
            Self::Text(_) => "string",
            Self::Map(_) => "map[string]interface {}",
            Self::Number(_) => "int64",
            Self::Other(name) => name,
        }
    }
}

/// Result of a function, or its error message.
type Answer<T> = Result<T, String>;

/// Returns the error message for a call of a function that needs a cluster. The function stays
/// registered, so a template may contain it in a branch that does not run.
pub(crate) fn not_available(function: &str) -> String {
    format!("{function} is not available")
}

impl HostFunctions {
    /// Returns the same functions for a repetition with other values, which asks no cluster.
    pub(crate) fn repeated(&self) -> Self {
        Self { kubeconfigs: self.kubeconfigs.repeated(), ..self.clone() }
    }

    /// `getResource`: returns the first matching resource.
    pub(crate) fn resource(&self, arguments: Vec<Argument>) -> Answer<Value> {
        self.resources(arguments).map(|mut found| found.swap_remove(0))
    }

    /// `getResources`: returns all matching resources, at least one.
    pub(crate) fn resources(&self, arguments: Vec<Argument>) -> Answer<Vec<Value>> {
        let selection = self.selection(arguments, "a resource")?;
        let found = selection.matching("/component/resources", "name");
        if found.is_empty() { Err("NotFound".to_owned()) } else { Ok(found) }
    }

    /// `getComponent`: returns the descriptor that the first matching component reference leads to.
    pub(crate) fn component(&self, arguments: Vec<Argument>) -> Answer<Value> {
        const LIST: &str = "/component/componentReferences";
        let selection = self.selection(arguments, "a component")?;
        let mut found = selection.matching(LIST, "name");
        if found.is_empty() && selection.pairs.contains_key("name") {
            // Landscaper's documentation passes the name of the component where the function
            // expects that of the reference.
            found = selection.matching(LIST, "componentName");
        }
        let reference = found.first().ok_or("NotFound")?;
        let text = |member: &str| reference.get(member).and_then(Value::as_str).unwrap_or_default();
        let (component, version) = (text("componentName"), text("version"));
        let member = self
            .components
            .follow_member(component, version)
            .ok_or_else(|| format!("unable to resolve component {}:{version}", text("name")))?;
        Ok(member.document().clone())
    }

    /// `getResourceKey`: returns the key that deployers request a resource by.
    pub(crate) fn resource_key(&self, arguments: Vec<Argument>) -> Answer<String> {
        let reference = only_reference(arguments, |count| {
            format!("this function requires 1 argument, but {count} were provided")
        })?;
        if self.components.root().is_none() {
            return Err(resource_reference::NO_COMPONENT.to_owned());
        }
        resource_reference::key(&self.components, &reference()?)
    }

    /// `getResourceContent`: returns bytes as base64, any other content as text.
    pub(crate) fn resource_content(&self, arguments: Vec<Argument>) -> Answer<String> {
        let reference = only_reference(arguments, |_| {
            "this function only requires a single argument, but multiple were provided".to_owned()
        })?;
        if self.components.root().is_none() {
            return Err(resource_reference::NO_COMPONENT.to_owned());
        }
        let content = resource_reference::content(&self.components, &reference()?)?;
        Ok(match content.media_type.as_str() {
            "application/octet-stream" => BASE64.encode(&content.bytes),
            _ => String::from_utf8(content.bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        })
    }

    fn selection(&self, mut arguments: Vec<Argument>, what: &str) -> Answer<Selection> {
        let given = match arguments.first_mut() {
            Some(Argument::Map(members)) => Some(Value::Object(std::mem::take(members))),
            _ => None,
        };
        let own = self.components.root_member();
        if given.is_none() && own.is_none() {
            return Err(format!("Unable to search for {what} as no ComponentDescriptor is defined."));
        }
        if arguments.len() < 2 {
            return Err("at least 2 arguments are expected".to_owned());
        }
        let descriptor = match given {
            Some(document) => {
                arguments.remove(0);
                as_v2(document)?
            }
            None => own.map(|own| own.document().clone()).unwrap_or_default(),
        };
        if !arguments.len().is_multiple_of(2) {
            return Err("odd number of key value pairs".to_owned());
        }
        let text = |(index, argument)| match argument {
            Argument::Text(text) => Ok(text),
            _ => Err(format!("expect argument {index} to be a string")),
        };
        let texts: Vec<String> = arguments.into_iter().enumerate().map(text).collect::<Answer<_>>()?;
        let pair = |pair: &[String]| (pair[0].clone(), Value::from(pair[1].as_str()));
        Ok(Selection { descriptor, pairs: texts.chunks_exact(2).map(pair).collect() })
    }
}

/// `getRepositoryContext`: returns the last context of a descriptor; `None` if the map has none or
/// is not a descriptor.
pub(crate) fn repository_context(descriptor: Value) -> Option<Value> {
    let document = as_v2(descriptor).ok()?;
    document.pointer("/component/repositoryContexts")?.as_array()?.last().cloned()
}

/// Returns the only argument of the functions about a resource. The component is checked before the
/// type of the argument.
fn only_reference(
    arguments: Vec<Argument>,
    several: impl Fn(usize) -> String,
) -> Answer<impl Fn() -> Answer<String>> {
    let count = arguments.len();
    if count == 0 {
        return Err("this function requires 1 argument, but 0 were provided".to_owned());
    }
    let mut arguments = arguments.into_iter();
    let (Some(argument), None) = (arguments.next(), arguments.next()) else { return Err(several(count)) };
    Ok(move || match &argument {
        Argument::Text(text) => Ok(text.clone()),
        _ => Err("unable to assert the first argument as string".to_owned()),
    })
}

/// Descriptor that a selector function searches, with the wanted pairs.
struct Selection {
    descriptor: Value,
    pairs: Map<String, Value>,
}

impl Selection {
    /// Returns the elements whose identity (extra identity and name) contains all pairs.
    /// `name_member` is the member with the name.
    fn matching(&self, list: &str, name_member: &str) -> Vec<Value> {
        let elements = self.descriptor.pointer(list).and_then(Value::as_array).into_iter().flatten();
        let fits = |element: &&Value| {
            let own = |key: &str| match key {
                "name" => element.get(name_member),
                key => element.get("extraIdentity")?.get(key),
            };
            self.pairs.iter().all(|(key, value)| own(key) == Some(value))
        };
        elements.filter(fits).cloned().collect()
    }
}

/// Converts a descriptor of either format to v2, the format of all results.
///
/// A map that names its format is used as it is, even if it is not a valid descriptor.
fn as_v2(document: Value) -> Answer<Value> {
    let v3 = document.get("apiVersion").and_then(Value::as_str);
    let schema = v3.or_else(|| document.pointer("/meta/schemaVersion").and_then(Value::as_str));
    let schema = schema.ok_or("unable to determine component descriptor schema version")?;
    if SchemaVersion::parse(schema).is_none() {
        return Err("unknown schema version".to_owned());
    }
    Ok(match Descriptor::from_document(document.clone(), Leniency::Inline) {
        Ok(descriptor) => descriptor.to_schema(SchemaVersion::V2),
        Err(_) => document,
    })
}
