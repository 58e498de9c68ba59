//! Fields with a list, or with a single object in place of a list of one (`packagevariants.md`
//! 1.3.1).

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::json::{Absent, AnyJson};

/// Entry whose members are all texts.
pub trait TextMembers {
    /// Names of the members.
    const MEMBERS: &'static [&'static str];

    /// Creates the entry from the text of each member.
    fn from_members(text: impl Fn(&str) -> Option<String>) -> Self;
}

/// List of `T`, or one `T`, kept as written. The schema accepts any value, so reading the entries
/// can fail.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrMany<T> {
    written: AnyJson,
    entry: PhantomData<T>,
}

/// Reason that [`OneOrMany`] cannot read a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The value is neither a list nor an object.
    #[error("{field} must be a list of objects or a single object")]
    NotAList {
        /// Path of the field.
        field: String,
    },
    /// An entry is not an object.
    #[error("{field}[{index}] must be an object")]
    NotAnObject {
        /// Path of the field.
        field: String,
        /// Position of the entry.
        index: usize,
    },
    /// An entry has an unknown member.
    #[error("{field}[{index}].{name}: unknown field")]
    UnknownField {
        /// Path of the field.
        field: String,
        /// Position of the entry.
        index: usize,
        /// Name of the member.
        name: String,
    },
    /// A member is not a text.
    #[error("{field}[{index}].{name} must be a string")]
    NotAString {
        /// Path of the field.
        field: String,
        /// Position of the entry.
        index: usize,
        /// Name of the member.
        name: String,
    },
}

impl<T> OneOrMany<T> {
    /// Returns the value as written.
    pub fn as_written(&self) -> Option<&Value> {
        self.written.as_written()
    }
}

impl<T: TextMembers> OneOrMany<T> {
    /// Returns the entries; absent, `null` and `[]` have none. `field` is the path in error
    /// messages.
    ///
    /// # Errors
    /// All parts of the written value that do not fit.
    pub fn entries(&self, field: &str) -> Result<Vec<T>, Vec<ShapeError>> {
        let entries = match self.written.get() {
            None => &[],
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(single @ Value::Object(_)) => std::slice::from_ref(single),
            Some(_) => return Err(vec![ShapeError::NotAList { field: field.to_owned() }]),
        };
        let mut read = Vec::with_capacity(entries.len());
        let mut errors = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            match entry {
                Value::Object(members) => {
                    errors
                        .extend(members.iter().filter_map(|member| member_error::<T>(field, index, member)));
                    read.push(T::from_members(|name| members.get(name)?.as_str().map(str::to_owned)));
                }
                _ => errors.push(ShapeError::NotAnObject { field: field.to_owned(), index }),
            }
        }
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    }
}

fn member_error<T: TextMembers>(
    field: &str,
    index: usize,
    (name, value): (&String, &Value),
) -> Option<ShapeError> {
    let (field, name) = (field.to_owned(), name.clone());
    if !T::MEMBERS.contains(&name.as_str()) {
        return Some(ShapeError::UnknownField { field, index, name });
    }
    let fits = value.is_string() || value.is_null();
    (!fits).then_some(ShapeError::NotAString { field, index, name })
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self { written: AnyJson::default(), entry: PhantomData }
    }
}

impl<T: Serialize> From<Vec<T>> for OneOrMany<T> {
    fn from(entries: Vec<T>) -> Self {
        let written = serde_json::to_value(entries).unwrap_or_default();
        Self { written: written.into(), entry: PhantomData }
    }
}

impl<T> From<Value> for OneOrMany<T> {
    fn from(written: Value) -> Self {
        Self { written: written.into(), entry: PhantomData }
    }
}

impl<T> Absent for OneOrMany<T> {
    fn is_absent(&self) -> bool {
        self.written.is_absent()
    }
}

impl<T> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnyJson::deserialize(deserializer).map(|written| Self { written, entry: PhantomData })
    }
}

impl<T> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        AnyJson::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        AnyJson::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InjectionSelector, MapExpr, PackageVariantTemplate};

    fn check(written: &str, expected: &str) {
        let field: OneOrMany<InjectionSelector> = serde_json::from_str(written).unwrap();
        let outcome = match field.entries("spec.injectors") {
            Ok(entries) => serde_json::to_string(&entries).unwrap(),
            Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        };
        assert_eq!(outcome, expected, "{written}");
        assert_eq!(serde_json::to_value(&field).unwrap(), serde_json::from_str::<Value>(written).unwrap());
    }

    #[test]
    fn a_list_or_a_single_object() {
        check(r#"[{"name": "a"}, {"group": "", "name": "b"}]"#, r#"[{"name":"a"},{"group":"","name":"b"}]"#);
        check(r#"{"name": "a"}"#, r#"[{"name":"a"}]"#);
        check("null", "[]");
        check("[]", "[]");
        check("{}", r#"[{"name":""}]"#);
        check(r#"{"name": "a", "kind": null}"#, r#"[{"name":"a"}]"#);
    }

    #[test]
    fn everything_that_does_not_fit_is_named() {
        check("5", "spec.injectors must be a list of objects or a single object");
        check(r#"[{"name": "a"}, "b"]"#, "spec.injectors[1] must be an object");
        check(
            r#"[{"name": 5, "namespace": "x"}, null]"#,
            "spec.injectors[0].name must be a string; spec.injectors[0].namespace: unknown field; \
             spec.injectors[1] must be an object",
        );
    }

    #[test]
    fn absent_stays_absent() {
        let template = PackageVariantTemplate::default();
        assert_eq!(serde_json::to_string(&template).unwrap(), "{}");
        assert_eq!(template.label_exprs.entries("x"), Ok(Vec::new()));
        let list = OneOrMany::from(vec![MapExpr { key: Some("a".to_owned()), ..MapExpr::default() }]);
        assert_eq!(serde_json::to_string(&list).unwrap(), r#"[{"key":"a"}]"#);
    }

    #[test]
    fn entries_of_the_second_name_follow_under_their_own_path() {
        let template: PackageVariantTemplate = serde_json::from_str(
            r#"{"injectorExprs": {"nameExpr": "x"}, "injectors": [{"name": "a"}, {"name": "b"}]}"#,
        )
        .unwrap();
        let entries = template.injectors("spec.targets[0].template").unwrap();
        let paths: Vec<_> = entries.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "spec.targets[0].template.injectors[0]",
                "spec.targets[0].template.injectors[1]",
                "spec.targets[0].template.injectorExprs[0]",
            ]
        );
        assert_eq!(entries[2].1.name_expr.as_deref(), Some("x"));
    }
}
