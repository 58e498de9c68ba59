//! References to resources of the component: the key that deployers request a resource by, and its
//! content (`blueprints.md` 5.5).

use std::collections::BTreeMap;

use data_encoding::BASE64;
use groundwork_component::{CdUri, CdUriError, Content, Resource};
use groundwork_yaml as yaml;
use serde_json::{Value, json};

use crate::components::{Components, Member};

const SCHEME: &str = "cd://";
/// Maximum bytes of a resource's content. A text in a template cannot be longer.
const LONGEST: u64 = 64 << 20;

/// Name and extra identity of an element of a descriptor.
type Identity = BTreeMap<String, String>;

/// Path from the blueprint's component version to a resource.
#[derive(Debug, PartialEq, Eq)]
struct RelativeReference {
    /// Component references, outermost first.
    path: Vec<Identity>,
    resource: Identity,
}

/// Error for a reference in a blueprint without a component.
pub(super) const NO_COMPONENT: &str = "unable to use this function without ocm component version";

/// Returns the key of the resource that a `cd://` URI, or the YAML text of a relative reference,
/// leads to.
pub(super) fn key(components: &Components, reference: &str) -> Result<String, String> {
    let (owner, reference, _) = find(components, reference)?;
    let document = json!({
        "component": {"name": owner.descriptor().name(), "version": owner.descriptor().version()},
        "resource": reference.resource,
    });
    Ok(BASE64.encode(yaml::to_string(&document).as_bytes()))
}

/// Returns the content of the resource that `reference` leads to, from the repository that stores
/// its component.
pub(super) fn content(components: &Components, reference: &str) -> Result<Content, String> {
    let (owner, _, element) = find(components, reference)?;
    let text = |member: &str| element.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    let resource = Resource { name: text("name"), type_name: text("type"), element: element.clone() };
    owner.version.content_within(&resource, LONGEST).map_err(|error| error.to_string())
}

fn find<'a>(
    components: &'a Components,
    reference: &str,
) -> Result<(&'a Member, RelativeReference, Value), String> {
    let root = components.root_member().ok_or(NO_COMPONENT)?;
    let reference = RelativeReference::parse(reference)?;
    let (owner, element) = resolve(components, root, &reference)
        .ok_or("unable to resolve relative resource reference: not found")?;
    Ok((owner, reference, element))
}

impl RelativeReference {
    fn parse(text: &str) -> Result<Self, String> {
        let reference = if text.starts_with(SCHEME) {
            Self::from_uri(text)?
        } else {
            Self::from_yaml(text).map_err(|problem| {
                format!("failed to unmarshal argument into a relative resource reference: {problem}")
            })?
        };
        if reference.resource.is_empty() {
            return Err("unable to provide key for empty relative artifact reference".to_owned());
        }
        Ok(reference)
    }

    fn from_uri(text: &str) -> Result<Self, String> {
        let uri = CdUri::parse(text).map_err(|error| match error {
            CdUriError::Keyword(_) | CdUriError::AfterResource => error.to_string(),
            other => format!("failed to parse argument into URI: {other}"),
        })?;
        let identity = |name: &str| Identity::from([("name".to_owned(), name.to_owned())]);
        let resource = uri
            .resource_name()
            .ok_or("the selector seems to target a component but a resource is requested")?;
        let path = uri.reference_names().iter().map(|name| identity(name)).collect();
        Ok(Self { path, resource: identity(resource) })
    }

    fn from_yaml(text: &str) -> Result<Self, String> {
        let document = yaml::from_str(text).map_err(|error| error.to_string())?;
        let members = match &document {
            Value::Null => return Ok(Self { path: Vec::new(), resource: Identity::new() }),
            Value::Object(members) => members,
            _ => return Err("a map is expected".to_owned()),
        };
        let path = match members.get("referencePath") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(path)) => path.iter().map(identity).collect::<Result<_, _>>()?,
            Some(_) => return Err("referencePath: a list is expected".to_owned()),
        };
        Ok(Self { path, resource: identity(members.get("resource").unwrap_or(&Value::Null))? })
    }
}

fn identity(value: &Value) -> Result<Identity, String> {
    if value.is_null() {
        return Ok(Identity::new());
    }
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let members = value.as_object().and_then(|members| members.iter().map(text).collect());
    members.ok_or_else(|| "an identity is a map of texts".to_owned())
}

/// Returns the owner of the resource, and the resource in the schema version v2.
fn resolve<'a>(
    components: &'a Components,
    root: &'a Member,
    reference: &RelativeReference,
) -> Option<(&'a Member, Value)> {
    let mut owner = root;
    for step in &reference.path {
        let element = element(owner, "/component/componentReferences", step)?;
        let text = |member: &str| element.get(member).and_then(Value::as_str);
        owner = components.follow_member(text("componentName")?, text("version")?)?;
    }
    Some((owner, element(owner, "/component/resources", &reference.resource)?))
}

/// Returns the only element with exactly this identity.
fn element(member: &Member, list: &str, wanted: &Identity) -> Option<Value> {
    let fits = |element: &&Value| {
        let extra = element.get("extraIdentity").and_then(Value::as_object).into_iter().flatten();
        let own = extra.chain(element.as_object()?.get_key_value("name"));
        let own: Option<Identity> =
            own.map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        Some(own.as_ref() == Some(wanted)).filter(|fits| *fits)
    };
    let elements = member.document().pointer(list)?.as_array()?.iter();
    let mut found = elements.filter(|element| fits(element).is_some());
    let first = found.next()?.clone();
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::components;

    const ROOT: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/root
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: []
  resources:
  - {name: chart, version: 1.0.0, type: helm, relation: external, access: {type: ociRegistry, imageReference: 'h/a:1'}}
  - {name: image, version: 1.0.0, type: x, relation: external, extraIdentity: {os: linux}, access: {type: ociRegistry, imageReference: 'h/b:1'}}
  componentReferences:
  - {name: child, componentName: example.org/child, version: 1.0.0}
";
    const CHILD: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/child
  version: 2.0.0
  provider: me
  sources: []
  repositoryContexts: []
  componentReferences: []
  resources:
  - {name: schema, version: 1.0.0, type: x, relation: external, access: {type: ociRegistry, imageReference: 'h/c:1'}}
";

    fn document(reference: &str) -> Result<String, String> {
        let components = components(&[ROOT, CHILD], &[("example.org/child", "1.0.0", "2.0.0")]);
        let bytes = BASE64.decode(key(&components, reference)?.as_bytes()).unwrap();
        Ok(String::from_utf8(bytes).unwrap())
    }

    /// Case B-19: overwrites apply to each component reference of the path.
    #[test]
    fn keys() {
        let root = "component:\n  name: example.org/root\n  version: 1.0.0\nresource:\n";
        let child = "component:\n  name: example.org/child\n  version: 2.0.0\nresource:\n";
        for (reference, expected) in [
            ("cd://resources/chart", format!("{root}  name: chart\n")),
            ("resource: {name: chart}", format!("{root}  name: chart\n")),
            (
                "{resource: {name: image, os: linux}, referencePath: []}",
                format!("{root}  name: image\n  os: linux\n"),
            ),
            ("cd://componentReferences/child/resources/schema", format!("{child}  name: schema\n")),
            (
                "resource: {name: schema}\nreferencePath: [{name: child}]\n",
                format!("{child}  name: schema\n"),
            ),
        ] {
            assert_eq!(document(reference), Ok(expected), "{reference}");
        }
    }

    #[test]
    fn failures() {
        let yaml = "failed to unmarshal argument into a relative resource reference:";
        let missing = "unable to resolve relative resource reference: not found";
        for (reference, expected) in [
            ("", "unable to provide key for empty relative artifact reference".to_owned()),
            (
                "referencePath: [{name: child}]",
                "unable to provide key for empty relative artifact reference".to_owned(),
            ),
            ("cd://resources/nope", missing.to_owned()),
            ("cd://resources/image", missing.to_owned()),
            ("cd://componentReferences/nope/resources/chart", missing.to_owned()),
            ("resource: {name: chart, os: linux}", missing.to_owned()),
            ("cd://things/chart", "unknown keyword things".to_owned()),
            (
                "cd://componentReferences/child",
                "the selector seems to target a component but a resource is requested".to_owned(),
            ),
            (
                "cd://resources/chart/resources/chart",
                "the selector seems to contain more path segments after a resource".to_owned(),
            ),
            (
                "cd://resources",
                "failed to parse argument into URI: even number of path arguments expected".to_owned(),
            ),
            ("text", format!("{yaml} a map is expected")),
            ("resource: chart", format!("{yaml} an identity is a map of texts")),
            ("resource: {name: 5}", format!("{yaml} an identity is a map of texts")),
            ("referencePath: {}", format!("{yaml} referencePath: a list is expected")),
        ] {
            assert_eq!(document(reference), Err(expected), "{reference}");
        }
        assert_eq!(
            key(&Components::default(), "cd://resources/chart").unwrap_err(),
            "unable to use this function without ocm component version"
        );
    }
}
