//! Discovery and OpenAPI of the kinds.

use serde_json::{Map, Value, json};

use crate::request::Verb;
use crate::storage::{Group, Storage};

/// Returns the groups of this server.
pub(crate) fn groups(group: Group) -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [about(group)]})
}

/// Returns the versions of the group.
pub(crate) fn group(group: Group) -> Value {
    let mut about = about(group);
    about["kind"] = json!("APIGroup");
    about["apiVersion"] = json!("v1");
    about
}

fn about(Group { name, version }: Group) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

/// Returns the resources of the version.
pub(crate) fn resources(storage: &dyn Storage) -> Value {
    let Group { name, version } = storage.group();
    let verbs = |verbs: &[Verb]| {
        let mut names: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        names.sort_unstable();
        names
    };
    let mut resources = Vec::new();
    for kind in storage.kinds() {
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": true, "kind": kind.kind,
            "verbs": verbs(kind.verbs),
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        resources.push(resource);
        for (subresource, allowed) in kind.subresources {
            resources.push(json!({
                "name": format!("{}/{subresource}", kind.plural), "singularName": "", "namespaced": true,
                "kind": kind.kind, "verbs": verbs(allowed),
            }));
        }
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{name}/{version}"), "resources": resources})
}

/// Returns the documents of OpenAPI version 3.
pub(crate) fn open_api_paths(Group { name, version }: Group) -> Value {
    let path = format!("apis/{name}/{version}");
    json!({"paths": {path.clone(): {"serverRelativeURL": format!("/openapi/v3/{path}")}}})
}

/// Returns the OpenAPI document of the version, with the schemas for `kubectl explain` and for
/// validation by clients.
pub(crate) fn open_api(storage: &dyn Storage) -> Value {
    let Group { name, version } = storage.group();
    let mut schemas = Map::new();
    let mut paths = Map::new();
    let reversed: Vec<&str> = name.split('.').rev().collect();
    for kind in storage.kinds() {
        let mut schema = storage.schema(kind);
        let identity = json!([{"group": name, "version": version, "kind": kind.kind}]);
        schema["x-kubernetes-group-version-kind"] = identity.clone();
        schema["properties"]["metadata"] =
            json!({"type": "object", "description": "Standard object metadata."});
        let reference = format!("{}.{version}.{}", reversed.join("."), kind.kind);
        let content =
            json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{reference}")}}});
        let get = json!({
            "get": {
                "description": format!("read {}", kind.kind), "x-kubernetes-action": "get",
                "x-kubernetes-group-version-kind": identity[0],
                "responses": {"200": {"description": "OK", "content": content}},
            },
        });
        paths
            .insert(format!("/apis/{name}/{version}/namespaces/{{namespace}}/{}/{{name}}", kind.plural), get);
        schemas.insert(reference, schema);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Groundwork", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths, "components": {"schemas": schemas},
    })
}
