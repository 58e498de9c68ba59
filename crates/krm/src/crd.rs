//! Schemas in the CustomResourceDefinitions of packages (`packagevariants.md` 7.5).

use std::collections::BTreeMap;

use groundwork_yaml::tree::Node;
use serde_json::Value;

use crate::value::to_json;

/// Schemas by apiVersion and kind.
pub(crate) type Schemas = BTreeMap<(String, String), Value>;

/// Adds the schemas of a document, if it is a CRD. A known schema of the same kind is replaced.
pub(crate) fn add(root: &Node, schemas: &mut Schemas) {
    let api_version = root.str_at(&["apiVersion"]).unwrap_or_default();
    let is_crd = root.str_at(&["kind"]) == Some("CustomResourceDefinition")
        && api_version.split('/').next() == Some("apiextensions.k8s.io");
    let (Some(group), Some(kind)) =
        (root.str_at(&["spec", "group"]), root.str_at(&["spec", "names", "kind"]))
    else {
        return;
    };
    if !is_crd {
        return;
    }
    let common = root.at(&["spec", "validation", "openAPIV3Schema"]);
    let mut insert = |version: &str, schema: &Node| {
        schemas.insert((format!("{group}/{version}"), kind.to_owned()), to_json(schema));
    };
    let versions = root.at(&["spec", "versions"]).and_then(Node::as_sequence);
    for version in versions.into_iter().flat_map(|versions| &versions.items) {
        let schema = version.at(&["schema", "openAPIV3Schema"]).or(common);
        if let (Some(name), Some(schema)) = (version.str_at(&["name"]), schema) {
            insert(name, schema);
        }
    }
    if let (Some(version), Some(schema)) = (root.str_at(&["spec", "version"]), common) {
        insert(version, schema);
    }
}
