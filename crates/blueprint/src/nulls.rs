//! Replacement of nulls as in Go's decoder: a null in a list of objects is an empty object, and a
//! null text is empty.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Members of a blueprint file that are lists of objects, except imports and nested Installations,
/// which have lists of their own.
const OBJECT_LISTS: [&str; 5] =
    ["exports", "importExecutions", "deployExecutions", "exportExecutions", "subinstallationExecutions"];

/// Replaces nulls in a blueprint file.
pub(crate) fn fill_blueprint(document: &mut Value) {
    let Value::Object(members) = document else { return };
    for name in OBJECT_LISTS {
        objects(members, name).for_each(drop);
    }
    fill_imports(members);
    objects(members, "subinstallations").for_each(fill_members);
    texts(members, "annotations");
}

/// Returns an installation template without nulls.
pub(crate) fn filled_template(document: &Value) -> Cow<'_, Value> {
    if !has_null(document) {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    if let Value::Object(members) = &mut document {
        fill_members(members);
    }
    Cow::Owned(document)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Replaces nulls in imports, recursively, because imports can be nested.
fn fill_imports(members: &mut Map<String, Value>) {
    objects(members, "imports").for_each(fill_imports);
}

/// Replaces nulls in the members of an installation template.
fn fill_members(template: &mut Map<String, Value>) {
    for side in ["imports", "exports"] {
        let Some(Value::Object(lists)) = template.get_mut(side) else { continue };
        objects(lists, "data").for_each(drop);
        for target in objects(lists, "targets") {
            for several in ["targets", "targetMap", "targetMaps"] {
                texts(target, several);
            }
        }
    }
}

/// Returns the objects of a list, with nulls replaced by empty objects.
fn objects<'a>(
    members: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = members.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(|item| {
        if item.is_null() {
            *item = json!({});
        }
        item.as_object_mut()
    })
}

/// Replaces nulls among the texts of a list or a map.
fn texts(members: &mut Map<String, Value>, several: &str) {
    let fill = |text: &mut Value| {
        if text.is_null() {
            *text = json!("");
        }
    };
    match members.get_mut(several) {
        Some(Value::Array(items)) => items.iter_mut().for_each(fill),
        Some(Value::Object(members)) => members.values_mut().for_each(fill),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::yaml;

    #[test]
    fn what_null_stands_for() {
        for (text, expected) in [
            ("imports: [~, {imports: [~]}]", "imports: [{}, {imports: [{}]}]"),
            ("deployExecutions: [~]\nexports: [~]", "deployExecutions: [{}]\nexports: [{}]"),
            ("annotations: {a: ~}", "annotations: {a: ''}"),
            (
                "subinstallations: [~, {imports: {data: [~], targets: [~, {targets: [~]}, {targetMap: {a: ~}}]}, exports: {data: [~]}}]",
                "subinstallations: [{}, {imports: {data: [{}], targets: [{}, {targets: ['']}, {targetMap: {a: ''}}]}, exports: {data: [{}]}}]",
            ),
            // A null that is a value stays null.
            (
                "subinstallations: [{importDataMappings: {a: ~}}]",
                "subinstallations: [{importDataMappings: {a: ~}}]",
            ),
            ("imports: [{default: {value: ~}}]", "imports: [{default: {value: ~}}]"),
            ("imports: ~", "imports: ~"),
            ("imports: {a: ~}", "imports: {a: ~}"),
            ("~", "~"),
        ] {
            let mut document = yaml(text);
            fill_blueprint(&mut document);
            assert_eq!(document, yaml(expected), "{text}");
        }
    }
}
