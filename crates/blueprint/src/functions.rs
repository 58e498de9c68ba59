//! The functions that templates of both languages have beside their own (`blueprints.md` 5.5, 6.3), on plain values: the engines only
//! translate arguments and answers.

mod oci;
mod resource_reference;

use std::sync::Arc;

use data_encoding::BASE64;
use groundwork_component::{Descriptor, Leniency, SchemaVersion};
use serde_json::{Map, Value};

use crate::components::Components;
use crate::filesystem::Filesystem;

pub(crate) use oci::parse as parse_oci_reference;

/// Functions that ask a cluster. They are known nevertheless, so that templates which call them in a branch not taken can be used.
pub(crate) const CLUSTER_FUNCTIONS: [&str; 5] = [
    "getShootAdminKubeconfig",
    "getShootAdminKubeconfigWithExpirationTimestamp",
    "getServiceAccountKubeconfig",
    "getServiceAccountKubeconfigWithExpirationTimestamp",
    "getOidcKubeconfig",
];

/// What the functions of one rendering work on.
#[derive(Debug, Clone)]
pub(crate) struct HostFunctions {
    pub(crate) files: Arc<Filesystem>,
    pub(crate) components: Components,
}

/// An argument as both languages have it.
#[derive(Debug)]
pub(crate) enum Argument {
    Text(String),
    Map(Map<String, Value>),
    Other,
}

/// The answer, or the message of the call.
type Answer<T> = Result<T, String>;

/// The message of a call of one of the [`CLUSTER_FUNCTIONS`].
pub(crate) fn not_available(function: &str) -> String {
    format!("{function} is not available")
}

impl HostFunctions {
    /// `getResource`: the first resource that fits.
    pub(crate) fn resource(&self, arguments: Vec<Argument>) -> Answer<Value> {
        self.resources(arguments).map(|mut found| found.swap_remove(0))
    }

    /// `getResources`: all resources that fit, at least one.
    pub(crate) fn resources(&self, arguments: Vec<Argument>) -> Answer<Vec<Value>> {
        let selection = self.selection(arguments, "a resource")?;
        let found = selection.matching("/component/resources", "name");
        if found.is_empty() { Err("NotFound".to_owned()) } else { Ok(found) }
    }

    /// `getComponent`: the descriptor that the first component reference that fits leads to.
    pub(crate) fn component(&self, arguments: Vec<Argument>) -> Answer<Value> {
        const LIST: &str = "/component/componentReferences";
        let selection = self.selection(arguments, "a component")?;
        let mut found = selection.matching(LIST, "name");
        if found.is_empty() && selection.pairs.contains_key("name") {
            // The document shows the name of the component where the name of the reference is meant.
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

    /// `getResourceKey`: what deployers ask for a resource by.
    pub(crate) fn resource_key(&self, arguments: Vec<Argument>) -> Answer<String> {
        let reference = only_reference(arguments, |count| {
            format!("this function requires 1 argument, but {count} were provided")
        })?;
        if self.components.root().is_none() {
            return Err(resource_reference::NO_COMPONENT.to_owned());
        }
        resource_reference::key(&self.components, &reference()?)
    }

    /// `getResourceContent`: bytes as base64, everything else as text.
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
            Argument::Map(_) | Argument::Other => Err(format!("expect argument {index} to be a string")),
        };
        let texts: Vec<String> = arguments.into_iter().enumerate().map(text).collect::<Answer<_>>()?;
        let pair = |pair: &[String]| (pair[0].clone(), Value::from(pair[1].as_str()));
        Ok(Selection { descriptor, pairs: texts.chunks_exact(2).map(pair).collect() })
    }
}

/// `getRepositoryContext`: the last of the contexts of a descriptor; absent without any, or for a map that is no descriptor.
pub(crate) fn repository_context(descriptor: Value) -> Option<Value> {
    let document = as_v2(descriptor).ok()?;
    document.pointer("/component/repositoryContexts")?.as_array()?.last().cloned()
}

/// The one argument that the functions about a resource have. Its type is looked at after the component.
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
        Argument::Map(_) | Argument::Other => Err("unable to assert the first argument as string".to_owned()),
    })
}

/// The descriptor that a selector function looks at, and the pairs it looks for.
struct Selection {
    descriptor: Value,
    pairs: Map<String, Value>,
}

impl Selection {
    /// The elements whose identity (extra identity and name) holds all pairs; `name_member` stands for the name.
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

/// Templates may hold descriptors of either format; the answers are always in that of v2.
///
/// A map that says of itself which format it has is looked at as it is, even where a descriptor must not be like that.
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
