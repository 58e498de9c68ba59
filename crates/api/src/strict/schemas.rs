//! Checks manifests against the schemas of the CRDs: reports unknown fields, wrong types and
//! missing fields, all at once.
//!
//! This covers the structural part of an API server's strict validation. Lengths, patterns and CEL
//! rules are not checked here.

use std::collections::HashMap;
use std::sync::LazyLock;

use groundwork_yaml::{Content, Node, Position};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

/// Fields that every object may have beside those of its schema.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// Fields of the Kubernetes kinds that may be imported. The code that reads them checks their
/// content.
const CORE: [(&str, &[&str]); 2] = [
    ("Secret", &["type", "data", "stringData", "immutable"]),
    ("ConfigMap", &["data", "binaryData", "immutable"]),
];

/// Schemas of all kinds, by `apiVersion` and `kind`.
#[derive(Debug)]
pub struct Schemas(HashMap<(String, String), Value>);

/// Position and message of a violation.
pub type Finding = (Position, String);

impl Default for Schemas {
    fn default() -> Self {
        Self::new()
    }
}

impl Schemas {
    /// Returns the schemas that all callers share, since building them takes a moment.
    pub fn shared() -> &'static Self {
        static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::new);
        &SCHEMAS
    }

    /// Builds the schemas of our CRDs, and those of the Kubernetes kinds that may be imported.
    pub fn new() -> Self {
        let Self(mut schemas) = Self::of(crate::crds());
        let free = json!({"x-kubernetes-preserve-unknown-fields": true});
        for (kind, fields) in CORE {
            let properties: Map<String, Value> =
                fields.iter().map(|field| ((*field).to_owned(), free.clone())).collect();
            schemas.insert(("v1".to_owned(), kind.to_owned()), json!({"properties": properties}));
        }
        Self(schemas)
    }

    /// Builds the schemas of definitions.
    pub fn of(definitions: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        let mut schemas = HashMap::new();
        for crd in definitions {
            for version in crd.spec.versions {
                let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
                let schema = serde_json::to_value(schema).unwrap_or(Value::Null);
                let api_version = format!("{}/{}", crd.spec.group, version.name);
                schemas.insert((api_version, crd.spec.names.kind.clone()), schema);
            }
        }
        Self(schemas)
    }

    /// Returns every violation of the schema; `None` if the kind has none.
    pub fn check(&self, api_version: &str, kind: &str, object: &Node) -> Option<Vec<Finding>> {
        let schema = self.0.get(&(api_version.to_owned(), kind.to_owned()))?;
        let mut findings = Vec::new();
        walk(schema, object, "", &mut findings);
        if let Some(metadata) = object.get("metadata") {
            check_metadata(metadata, &mut findings);
        }
        Some(findings)
    }

    /// Returns the group and version of a kind, for a hint about a wrong one.
    pub fn api_version_of(&self, kind: &str) -> Option<&str> {
        self.0.keys().find(|(_, known)| known == kind).map(|(api_version, _)| api_version.as_str())
    }
}

fn check_metadata(metadata: &Node, findings: &mut Vec<Finding>) {
    let Content::Mapping(members) = &metadata.content else {
        findings.push((metadata.position, "metadata: expected object".to_owned()));
        return;
    };
    for member in members {
        let path = format!("metadata.{}", member.key);
        match member.key.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" => {
                expect("string", &member.value, &path, findings);
            }
            "labels" | "annotations" => {
                expect("object", &member.value, &path, findings);
                let Content::Mapping(entries) = &member.value.content else { continue };
                for entry in entries {
                    expect("string", &entry.value, &format!("{path}.{}", entry.key), findings);
                }
            }
            key if METADATA.contains(&key) => {}
            _ => findings.push((member.key_position, format!("unknown field {path:?}"))),
        }
    }
}

fn expect(expected: &str, node: &Node, path: &str, findings: &mut Vec<Finding>) {
    if !node.is_null() && !fits(expected, &node.content) {
        let found = type_name(&node.content);
        let hint = if expected == "string" { "; put it in quotes" } else { "" };
        findings.push((node.position, format!("{path}: expected {expected}, found {found}{hint}")));
    }
}

fn walk(schema: &Value, node: &Node, path: &str, findings: &mut Vec<Finding>) {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
    let expected = schema.get("type").and_then(Value::as_str);
    if node.is_null() && (flag("nullable") || expected.is_none()) {
        return;
    }
    if let Some(expected) = expected
        && !flag("x-kubernetes-int-or-string")
        && !fits(expected, &node.content)
    {
        let found = type_name(&node.content);
        findings.push((node.position, format!("{}: expected {expected}, found {found}", shown(path))));
        return;
    }
    match &node.content {
        Content::Mapping(_) => walk_map(schema, node, path, findings),
        Content::Sequence(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                walk(schema, item, &format!("{path}[{index}]"), findings);
            }
        }
        _ => {}
    }
}

fn walk_map(schema: &Value, node: &Node, path: &str, findings: &mut Vec<Finding>) {
    let Content::Mapping(members) = &node.content else { return };
    let nothing = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    let free =
        schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool).unwrap_or_default();
    let additional = schema.get("additionalProperties");
    for member in members {
        let path = if path.is_empty() { member.key.clone() } else { format!("{path}.{}", member.key) };
        if let Some(schema) = properties.get(&member.key) {
            if path != "metadata" {
                walk(schema, &member.value, &path, findings);
            }
        } else if let Some(schema) = additional.filter(|schema| schema.is_object()) {
            walk(schema, &member.value, &path, findings);
        } else if !free && additional.is_none() && !(path == member.key && COMMON.contains(&path.as_str())) {
            findings.push((member.key_position, format!("unknown field {path:?}")));
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if node.get(name).is_none() {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            findings.push((node.position, format!("missing required field {path:?}")));
        }
    }
}

fn fits(expected: &str, content: &Content) -> bool {
    match (expected, content) {
        ("string", Content::String(_))
        | ("boolean", Content::Bool(_))
        | ("object", Content::Mapping(_))
        | ("array", Content::Sequence(_))
        | ("number", Content::Number(_)) => true,
        ("integer", Content::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn type_name(content: &Content) -> &'static str {
    match content {
        Content::Null => "null",
        Content::Bool(_) => "boolean",
        Content::Number(_) => "number",
        Content::String(_) => "string",
        Content::Sequence(_) => "list",
        Content::Mapping(_) => "map",
    }
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "the object" } else { path }
}
