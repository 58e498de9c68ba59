//! Conversion between the descriptor formats v2 and v3 (`components.md` 5.4).

use serde_json::{Map, Value, json};

use super::{Descriptor, SchemaVersion};

/// Paths of each part in v2 and v3. Parts that need more than a move are converted separately.
const MOVES: [(&str, &str); 8] = [
    ("/component/name", "/metadata/name"),
    ("/component/version", "/metadata/version"),
    ("/component/labels", "/metadata/labels"),
    ("/component/creationTime", "/metadata/creationTime"),
    ("/component/repositoryContexts", "/repositoryContexts"),
    ("/component/sources", "/spec/sources"),
    ("/component/componentReferences", "/spec/references"),
    ("/component/resources", "/spec/resources"),
];

pub(super) fn convert(descriptor: &Descriptor, schema: SchemaVersion) -> Value {
    let mut document = if descriptor.schema == schema {
        descriptor.document().clone()
    } else {
        match schema {
            SchemaVersion::V2 => to_v2(&descriptor.document),
            SchemaVersion::V3 => to_v3(&descriptor.document),
        }
    };
    if schema == SchemaVersion::V2 {
        complete_v2(&mut document);
    }
    document
}

fn to_v2(source: &Value) -> Value {
    let mut target = json!({"meta": {"schemaVersion": SchemaVersion::V2.as_str()}, "component": {}});
    for (v2, v3) in MOVES {
        copy(source, v3, &mut target, v2);
    }
    set(&mut target, "/component/provider", provider_to_v2(source.pointer("/metadata/provider")));
    copy_signatures(source, &mut target);
    target
}

fn to_v3(source: &Value) -> Value {
    let mut target = json!({
        "apiVersion": SchemaVersion::V3.as_str(), "kind": "ComponentVersion", "metadata": {}, "spec": {},
    });
    for (v2, v3) in MOVES {
        copy(source, v2, &mut target, v3);
    }
    set(&mut target, "/metadata/provider", provider_to_v3(source.pointer("/component/provider")));
    copy_signatures(source, &mut target);
    for resource in resources_of(&mut target, "/spec/resources") {
        if let Some(old_spelling) = resource.remove("srcRef") {
            resource.entry("srcRefs").or_insert(old_spelling);
        }
    }
    target
}

fn copy_signatures(source: &Value, target: &mut Value) {
    for member in ["/signatures", "/nestedDigests"] {
        copy(source, member, target, member);
    }
}

/// Converts a provider: without labels to its name, with labels to the compact JSON of the object.
fn provider_to_v2(provider: Option<&Value>) -> Value {
    let Some(provider) = provider.filter(|value| value.is_object()) else {
        return provider.cloned().unwrap_or_else(|| Value::from(""));
    };
    let has_more = provider.as_object().is_some_and(|object| object.keys().any(|key| key != "name"));
    if has_more {
        Value::from(provider.to_string())
    } else {
        provider.get("name").cloned().unwrap_or_default()
    }
}

fn provider_to_v3(provider: Option<&Value>) -> Value {
    let text = provider.and_then(Value::as_str).unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ => json!({"name": text}),
    }
}

/// Completes a v2 document, whose readers rely on all lists and on both spellings of the source
/// references.
fn complete_v2(document: &mut Value) {
    let Some(component) = document.get_mut("component").and_then(Value::as_object_mut) else { return };
    for list in ["repositoryContexts", "sources", "componentReferences", "resources"] {
        let value = component.entry(list).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Array(Vec::new());
        }
    }
    component.entry("provider").or_insert_with(|| Value::from(""));
    for resource in resources_of(document, "/component/resources") {
        // The old spelling counts only if the new one is absent.
        let sources = resource.get("srcRefs").or_else(|| resource.get("srcRef")).cloned();
        if let Some(sources) = sources {
            resource.insert("srcRef".to_owned(), sources.clone());
            resource.insert("srcRefs".to_owned(), sources);
        }
    }
}

fn resources_of<'a>(document: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let resources = document.pointer_mut(list).and_then(Value::as_array_mut);
    resources.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn copy(source: &Value, from: &str, target: &mut Value, to: &str) {
    if let Some(value) = source.pointer(from) {
        set(target, to, value.clone());
    }
}

fn set(target: &mut Value, pointer: &str, value: Value) {
    let (holder, member) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    if let Some(Value::Object(holder)) = target.pointer_mut(holder) {
        holder.insert(member.to_owned(), value);
    }
}
