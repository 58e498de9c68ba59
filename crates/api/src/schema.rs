//! Schemas of fields that differ from their Rust types.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Returns the schema of a time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// Returns the schema of any object, or `null`.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the schema of any value. The API server drops a `null`, so that rules about the presence
/// of the field do not see it.
pub(crate) fn any_but_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"nullable": false, "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the schema of any object. The API server drops a `null` in its place.
pub(crate) fn any_object_but_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the schema of any object with `apiVersion` and `kind`.
pub(crate) fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-embedded-resource": true,
    })
}

/// Returns the schema of owner references as Kubernetes defines them.
pub(crate) fn owner_references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["apiVersion", "kind", "name", "uid"],
            "properties": {
                "apiVersion": {"type": "string", "description": "Group and version of the owner."},
                "kind": {"type": "string", "description": "Kind of the owner."},
                "name": {"type": "string", "description": "Name of the owner."},
                "uid": {"type": "string", "description": "UID of the owner."},
                "controller": {"type": "boolean", "description": "True if the owner is the managing controller."},
                "blockOwnerDeletion": {
                    "type": "boolean",
                    "description": "True if the owner cannot be deleted in the foreground before this object.",
                },
            },
        },
    })
}

/// Returns the schema of bytes in base64.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// Returns the schema of a condition as Kubernetes defines it.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "description": "Aspect of the object that the condition is about."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "`True` if the aspect holds, `False` if not, `Unknown` if the service cannot tell."},
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "Generation of the object that the observation was made on.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When `status` changed last.",
                },
                "reason": {"type": "string", "description": "Short cause in one word, for programs."},
                "message": {"type": "string", "description": "Cause and details, for people."},
            },
        },
    })
}

/// Returns the schema of the requirements of a label selector besides `matchLabels`.
pub(crate) fn match_expressions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key", "operator"],
            "properties": {
                "key": {"type": "string", "description": "Key of the label."},
                "operator": {"type": "string", "description": "`In`, `NotIn`, `Exists` or `DoesNotExist`."},
                "values": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Values that `In` and `NotIn` compare with.",
                },
            },
        },
    })
}
