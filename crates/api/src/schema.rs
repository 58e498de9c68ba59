//! Schemas of fields whose Rust type says less, or more, than the API should.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A point in time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// An object whose members are not prescribed, or `null`.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// Any value; an API server drops a `null`, so that rules about the presence of the field do not meet it.
pub(crate) fn any_but_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"nullable": false, "x-kubernetes-preserve-unknown-fields": true})
}

/// An object whose members are not prescribed; an API server drops a `null` in its place.
pub(crate) fn any_object_but_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Any object that says its own `apiVersion` and `kind`.
pub(crate) fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-embedded-resource": true,
    })
}

/// Bytes, written in base64.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// A condition as defined by Kubernetes.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "description": "What is observed."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
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

/// Requirements of a label selector besides the labels named in `matchLabels`.
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
